"""`rltok compare`: options to runs, runs to a table, a record and a figure."""

import argparse
import json
import os
from contextlib import nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rltok.cli.options import parse_settings, say
from rltok.data import Corpus, Rows, load_corpus
from rltok.data.sources import is_hub, text_bytes
from rltok.device import backend_of, resolve_device
from rltok.errors import RltokError
from rltok.evidence.compare import RECORD, Comparison, check_agrees, record_of, run_all, stored_record
from rltok.evidence.methods import SMOKE_ROWS, base_config, contenders
from rltok.evidence.ranking import figure, table
from rltok.evidence.runner import Setting, begun_elsewhere, default_workers, estimated_seconds
from rltok.presets import check_batch_fits
from rltok.system.files import cannot_write, check_name, new_folder, quoted, require_own, room, write_json
from rltok.system.stopwatch import duration

FIGURE = "compare.png"


def compare(options: argparse.Namespace) -> None:
    """`rltok compare`."""
    if options.out is not None:
        check_name(options.out, "folder")
    with new_folder(None, "compare") if options.out is None else nullcontext(Path(options.out)) as out:
        _compare(options, out)


def _compare(options: argparse.Namespace, out: Path) -> None:
    comparison, setting = _prepare(options, out)
    jobs = comparison.expected_jobs(setting)
    count = min(options.jobs or default_workers(resolve_device(setting.device), len(jobs)), len(jobs))
    base = comparison.bases[0]
    say(options, setting.corpus.summary)
    say(options, f"{len(jobs)} runs of {base.num_updates} updates, {base.num_updates * base.bytes_per_update / 1e6:.2f} MB each")
    seconds = estimated_seconds(jobs, setting, count)
    say(options, f"expected time: about {duration(seconds)} with {count} at a time, from an update of each kind timed just now")
    if begun := begun_elsewhere(jobs, setting, count):
        told = "digits may differ from where they go on: begun on another device or with another number of threads"
        say(options, f"{', '.join(begun)}: {told}")
    say(options, f"everything goes to {out}; after an interruption: the same with --out {quoted(out)} --resume")
    with room(out):
        out.mkdir(parents=True, exist_ok=True)
        before = stored_record(out) if options.resume else _claim(out)
        if before is None or not before["finished"]:  # a finished record stays until there is a newer one
            write_json(out / RECORD, record_of(comparison, setting, options.split, []))
    results = run_all(comparison, setting, count, lambda line: say(options, line))
    record = record_of(comparison, setting, options.split, results)
    with room(out):
        write_json(out / RECORD, record)
    _draw(record, out / FIGURE)
    if options.json:
        print(json.dumps(record, indent=1, allow_nan=False))
        return
    print("\n".join(["", *table(record["standings"]), *notes(record)]))
    print(f"record: {out / RECORD}, figure: {out / FIGURE}, look: rltok show {quoted(jobs[0][2])} 'any text'")


def _claim(out: Path) -> None:
    """Begin the record of a new comparison. Raises `RltokError` where another process did so first."""
    try:
        (out / RECORD).open("x").close()
    except FileExistsError:
        raise RltokError(f"another process has begun a comparison in {out}. Choose another --out.") from None


def _prepare(options: argparse.Namespace, out: Path) -> tuple[Comparison, Setting]:
    """Everything that can be wrong, before anything is timed, trained or written."""
    names, settings, device = contenders(options.rules), parse_settings(options.set), resolve_device(options.device)
    if options.jobs is not None and options.jobs < 1:
        raise RltokError(f"--jobs must be at least 1; got {options.jobs}. Leave it out for one run a thread.")
    if options.resume and options.out is None:
        raise RltokError("--resume needs the folder of the comparison. Name it with --out.")
    check_out(out, options.resume)
    reading = {"max_bytes": options.max_bytes, "allow_binary": options.allow_binary, "force": options.force}
    shared = {"budget": options.budget, "names": names}
    bases = [base_config(options.preset, settings, seed=seed, **shared) for seed in dict.fromkeys(options.seeds)]
    if options.preset is None and options.data != "sample" and not is_hub(options.data):
        size = text_bytes(options.data, **reading)
        bases = [base_config(None, settings, seed=base.train.seed, text_bytes=size, **shared) for base in bases]
    base = bases[0]
    backend_of(base, device)
    if is_hub(options.data) and options.max_bytes is None:
        reading["max_bytes"] = round(base.train.training_bytes / (1 - base.data.held_out_fraction))
    corpus = load_corpus(options.data, base.data, **reading)
    check_batch_fits(base, len(corpus.train), corpus.train.total_bytes)
    full = options.budget == "full"
    setting = Setting(corpus, _rows(corpus, options.split, None if full else SMOKE_ROWS), str(device), full)
    comparison = Comparison(names, bases, options.preset, settings, out)
    check_agrees(comparison, setting, options.split)
    return comparison, setting


def check_out(out: Path, resume: bool) -> None:
    """Raise `RltokError` when the folder is taken, is none, or, with `resume`, holds something else than a comparison."""
    for place in (out, *out.parents):
        if os.path.lexists(place) and not place.is_dir():
            raise RltokError(f"{place} is a file; --out needs a folder.")
    _check_writable(out)
    if not out.exists() or not any(out.iterdir()):
        return
    if not resume:
        raise RltokError(f"{out} is not empty. Add --resume to go on with the comparison in it, or choose another --out.")
    for name in (RECORD, FIGURE):
        require_own(out / name)
    stored_record(out)


def _check_writable(out: Path) -> None:
    """Raise `RltokError` unless the folder can be made and written to; leaves nothing behind."""
    missing = [place for place in (out, *out.parents) if not os.path.lexists(place)]
    try:
        with room(out):
            out.mkdir(parents=True, exist_ok=True)
            with TemporaryDirectory(dir=out):
                pass
            list(out.iterdir())
    except OSError as error:
        raise cannot_write(out, error) from error
    finally:
        for place in missing:
            with suppress(OSError):
                place.rmdir()


def _rows(corpus: Corpus, split: str, most: int | None) -> Rows:
    rows = corpus.test if split == "test" else corpus.validation
    if rows is None:
        raise RltokError(f"{corpus.description['name']} has no test split. Leave --split out to score the validation rows.")
    return rows if most is None else rows.subset(slice(0, most))


def notes(record: dict[str, Any]) -> list[str]:
    """What a reader of the table must know besides: the size, the target, and vocabularies that the text did not support."""
    rule = record["config"]["model"]["rule"]
    told = [
        f"target rate {rule['target_rate']:.3f}, {record['split']} split of {record['data']['name']}"
        + ("" if record["full"] else "; a smoke run: these numbers say that everything runs, not which rule is better")
    ]
    for run in record["runs"]:
        reached, wanted = run["fitted"].get("reached_vocabulary"), run["rule"]["vocabulary"]
        if reached is not None and reached < wanted:
            told.append(f"{run['name']}, seed {run['seed']}: the text supports {reached:.0f} of {wanted} ids")
    return told


def _draw(record: dict[str, Any], path: Path) -> None:
    drawn = figure(record["standings"])
    with room(path.parent):
        drawn.savefig(path)
