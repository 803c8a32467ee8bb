"""`rltok compare`: options to a plan, the plan to records, records to a table and a figure."""

import argparse
import json
import os
import time
from collections.abc import Sequence
from contextlib import nullcontext, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rltok.cli.options import parse_settings, say
from rltok.data import Corpus, Rows, load_corpus
from rltok.data.sources import is_hub, text_bytes
from rltok.device import backend_of, resolve_device
from rltok.errors import RltokError
from rltok.evidence.methods import SMOKE_ROWS, base_config, comparison, named_methods
from rltok.evidence.packed import read_folder
from rltok.evidence.plan import Plan, check_packages
from rltok.evidence.ranking import figure, ranked, table
from rltok.evidence.record_file import Record
from rltok.evidence.records import Sweep
from rltok.evidence.runner import Outcome, Setting, begun_elsewhere, default_workers, run_plan, stored
from rltok.presets import check_batch_fits
from rltok.runs.folder import check_begun
from rltok.statistics import Difference
from rltok.system.files import MISSING, cannot_write, check_name, new_folder, quoted, read_file, require_own, room, write_json
from rltok.system.stopwatch import duration

SUMMARY, FIGURE, RECORDS = "compare.json", "compare.png", "records"
WHAT = "rltok compare"  # how every summary's `what` begins


def compare(options: argparse.Namespace) -> None:
    """`rltok compare`."""
    if options.out is not None:
        check_name(options.out, "folder")
    with new_folder(None, "compare") if options.out is None else nullcontext(Path(options.out)) as out:
        _compare(options, out)


def _compare(options: argparse.Namespace, out: Path) -> None:
    plan, setting, records = _prepare(options, out)
    count = min(options.jobs or default_workers(resolve_device(setting.device), len(plan.runs)), len(plan.runs))
    base = plan.base(plan.runs[0])
    say(options, setting.corpus.summary)
    size = f"{base.num_updates} updates, {base.num_updates * base.bytes_per_update / 1e6:.2f} MB each"
    say(options, f"{len(plan.runs)} runs of {size}, {count} at a time")
    if begun := begun_elsewhere(plan.runs, setting, count):
        warning = "digits may differ from where they go on: begun on another device or with another number of threads"
        say(options, f"{', '.join(begun)}: {warning}")
    say(options, f"everything goes to {out}; after an interruption: the same with --out {quoted(out)} --resume")
    with room(out):
        out.mkdir(parents=True, exist_ok=True)
        _claim(out, options.resume)
    line_of = _Lines(len(plan.runs), count)
    for done in run_plan(plan, plan.runs, setting, records, count):
        say(options, line_of(done, options.split))
    runs: dict[str, dict[int, Record]] = {}
    for run in plan.runs:
        runs.setdefault(run.name, {})[run.seed] = records[run.stem]
    lines = ranked(Sweep(plan.name, runs, []), options.split)
    summary = _summary(options, plan, lines)
    with room(out):
        write_json(out / SUMMARY, summary)
        figure(lines).savefig(out / FIGURE)
    if options.json:
        print(json.dumps(summary, indent=1, allow_nan=False))
        return
    print("\n".join(["", *table(lines), *notes(plan, options.split, [records[run.stem] for run in plan.runs])]))
    look = f"rltok show {quoted(out / plan.runs[0].stem)} 'any text'"
    print(f"records: {out / RECORDS}, figure: {out / FIGURE}, look: {look}")


class _Lines:
    """A line for each run that is done, with the time so far and, once runs of each process are over, the time left."""

    def __init__(self, runs: int, count: int) -> None:
        self.runs, self.count, self.done, self.fresh, self.start = runs, count, 0, 0, time.perf_counter()

    def __call__(self, outcome: Outcome, split: str) -> str:
        score, spent = outcome.record["scores"][split], time.perf_counter() - self.start
        self.done, self.fresh = self.done + 1, self.fresh + outcome.fresh
        run = f"{outcome.run.name}, seed {outcome.run.seed}"
        line = f"{self.done}/{self.runs}  {run}: {score['bits_per_byte']:.3f} bits per byte"
        if not outcome.fresh:
            return line + ", was finished"
        line += f", rate {score['rate']:.3f}; {duration(spent)} so far"
        if self.fresh <= self.count or self.done == self.runs:  # too early to say, or over
            return line
        return line + f", about {duration(spent / self.fresh * (self.runs - self.done))} left"


def _summary(options: argparse.Namespace, plan: Plan, lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The table as plain values, with what the comparison was of."""
    plain = [{key: asdict(value) if isinstance(value, Difference) else value for key, value in line.items()} for line in lines]
    return {
        "what": f"{WHAT}: ways of drawing boundaries on one network, one data order, one budget of bytes",
        "full": plan.full,
        "split": options.split,
        "standings": plain,
        "records": [f"{RECORDS}/{run.stem}.json" for run in plan.runs],
    }


def _claim(out: Path, resume: bool) -> None:
    """Make the summary of a new comparison, still empty. Raises `RltokError` where another process did so first."""
    try:
        (out / SUMMARY).open("a" if resume else "x").close()
    except FileExistsError:
        raise RltokError(f"another process has begun a comparison in {out}. Choose another --out.") from None


def _prepare(options: argparse.Namespace, out: Path) -> tuple[Plan, Setting, dict[str, Record]]:
    """Everything that can be wrong, before anything is trained or written."""
    names, settings, device = named_methods(options.rules), parse_settings(options.set), resolve_device(options.device)
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
    base, full = bases[0], options.budget == "full"
    backend_of(base, device)
    if is_hub(options.data) and options.max_bytes is None:
        reading["max_bytes"] = round(base.train.training_bytes / (1 - base.data.held_out_fraction))
    corpus = load_corpus(options.data, base.data, **reading)
    check_batch_fits(base, len(corpus.train), corpus.train.total_bytes)
    plan = comparison(out.resolve().name, names, bases, size=options.preset, settings=settings, full=full, split=options.split)
    check_packages(plan, plan.runs)
    scored = {split: _rows(corpus, split, full) for split in dict.fromkeys(("validation", options.split))}
    setting = Setting(
        plan.name, corpus, scored, str(device), full, runs=out, records=out / RECORDS, draws=None, any_commit=True
    )  # fmt: skip
    records = {Path(name).stem: record for name, record in read_folder(setting.records, any_commit=True).items()}
    for run in (run for run in plan.runs if not run.waits):
        config = plan.config(run, {})
        check_begun(out / run.stem, config, corpus.description)
        stored(run, config, setting, records)
    return plan, setting, records


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
    for name in (SUMMARY, FIGURE):
        require_own(out / name)
    try:
        summary = read_file(out / SUMMARY)
    except MISSING as error:
        raise RltokError(
            f"{out} holds no comparison ({SUMMARY} is missing), so there is nothing to resume. Choose another --out."
        ) from error
    if summary and f'"what": "{WHAT}'.encode() not in summary:  # an empty one was just begun
        raise RltokError(f"{out / SUMMARY} is no summary of {WHAT}, so it stays as it is. Choose another --out.")


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


def _rows(corpus: Corpus, split: str, full: bool) -> Rows:
    rows = corpus.test if split == "test" else corpus.validation
    if rows is None:
        raise RltokError(f"{corpus.description['name']} has no test split. Leave --split out to score the validation rows.")
    return rows if full else rows.subset(slice(0, SMOKE_ROWS))


def notes(plan: Plan, split: str, records: Sequence[Record]) -> list[str]:
    """What a reader of the table must know besides: the size, the target, and vocabularies that the text did not support."""
    rate = plan.base(plan.runs[0]).model.rule.target_rate
    lines = [
        f"target rate {rate:.3f}, {split} split of {records[0]['data']['name']}"
        + ("" if plan.full else "; a smoke run: these numbers say that everything runs, not which rule is better")
    ]
    for record in records:
        reached, wanted = record["fitted"].get("reached_vocabulary"), record["config"]["model"]["rule"]["vocabulary"]
        if reached is not None and reached < wanted:
            lines.append(f"{record['name']}, seed {record['seed']}: the text supports {reached:.0f} of {wanted} ids")
    return lines
