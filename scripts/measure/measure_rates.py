"""How near the learned rules come to the rate they are asked for: the preset tiny at target rates from 1/2 to 1/8.

    python scripts/measure/measure_rates.py --seeds 0 1 2 --out notebooks/results/rates.json

For every rule, target and seed one run on the bundled sample; the rate reached is the mean over the updates of its last
fifth, each of which is logged. Runs that the file holds already, of the same settings and text, stay in it and are not made
again; each says with which code and where it was made. `--jobs` runs at a time (default: as many as torch has threads),
`--training-bytes` for shorter runs.
"""

import argparse
import itertools
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rltok.config import Config, with_settings
from rltok.data import load_corpus
from rltok.device import resolve_device
from rltok.errors import RltokError
from rltok.evidence.measuring import at_least, run, stored_record
from rltok.evidence.plan import Planned
from rltok.evidence.ranking import last_fifth
from rltok.evidence.record_file import Record
from rltok.evidence.runner import Job, Setting, default_workers, workers
from rltok.presets import preset
from rltok.runs.folder import metrics_of
from rltok.runs.results import thin, versions
from rltok.system.files import write_json

RULES = ("learned", "dynamic_pooling", "dynamic_pooling_port", "hnet", "hnet_port")
TARGETS = (2, 3, 4, 5, 6, 8)  # bytes a token
WITHIN = 0.01
CURVE_POINTS = 60
WHAT = "rates reached over the last fifth of a run, preset tiny on the bundled sample"


def jobs_of(rules: Sequence[str], targets: Sequence[int], seeds: Sequence[int], settings: dict[str, Any]) -> list[Job]:
    """One run a rule, target and seed."""
    made = []
    for rule, n, seed in itertools.product(rules, targets, seeds):
        changes = {"model.rule.target_rate": 1 / n, "train.seed": seed} | settings
        made.append((Planned(f"{rule}-1_{n}", seed), preset("tiny" if rule == "learned" else f"tiny_{rule}", changes)))
    return made


def rate_of(record: Record, lines: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What is kept of one run: of its record, and of its lines of training."""
    target, score = record["config"]["model"]["rule"]["target_rate"], record["scores"]["validation"]
    reached, curve = last_fifth(lines, "rate"), thin(list(lines), CURVE_POINTS)
    return {
        "rule": record["name"].split("-")[0],
        "target": target,
        "rate": reached,
        "off": reached - target,
        "highest": max(point["rate"] for point in curve),
        "held_out_rate": score["rate"],
        **{key: score[key] for key in ("bits_per_byte", "standard_error")},
        **{key: record[key] for key in ("config_hash", "commit", "device", "seed", "updates")},
        "seconds": round(record["seconds"], 1),
        "curve": [{"step": point["step"], "rate": round(point["rate"], 4)} for point in curve],
    }


def stored_runs(path: Path, data: dict[str, Any], settings: dict[str, Any]) -> list[dict[str, Any]]:
    """The runs of a record of the same text and settings; none if there is no such file."""
    record = stored_record(path, WHAT)
    if record is None:
        return []
    if record["data"] != data:
        raise RltokError(f"--out {path} holds rates on other text, so it stays. Name another file.")
    for one in record["runs"]:
        ((_, config),) = jobs_of([one["rule"]], [round(1 / one["target"])], [one["seed"]], settings)
        if config.digest() != one["config_hash"]:
            raise RltokError(f"--out {path} holds runs of other settings, so it stays. Name another file.")
    return record["runs"]


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All runs; the record is written after each of them, so that an interruption loses only what is under way."""
    base, device = preset("tiny"), resolve_device(options.device)
    settings = {"train.log_every": 1, "train.evaluate_every": 10_000}
    if options.training_bytes is not None:
        settings["train.training_bytes"] = options.training_bytes
    corpus = load_corpus("sample", base.data)
    runs = stored_runs(options.out, corpus.description, settings)
    have = {(entry["rule"], entry["config_hash"]) for entry in runs}
    jobs = jobs_of(options.rules, options.targets, options.seeds, settings)
    jobs = [(run, config) for run, config in jobs if (run.name.split("-")[0], config.digest()) not in have]
    with tempfile.TemporaryDirectory() as folder:
        setting = Setting(
            "rates", corpus, {"validation": corpus.validation}, str(device), options.training_bytes is None,
            runs=Path(folder), records=Path(folder, "records"), draws=None, any_commit=True,
        )  # fmt: skip
        with workers(options.jobs or default_workers(device, len(jobs)), setting) as work:
            for number, (run, record) in enumerate(work(jobs), start=1):
                lines = [line for line in metrics_of(Path(folder, run.stem)) if line["split"] == "train"]
                entry = rate_of(record, lines)
                runs.append(entry)
                write_json(options.out, record_of(runs, with_settings(base, settings), setting))
                line = f"{entry['rule']} at 1/{round(1 / entry['target'])}, seed {entry['seed']}: {entry['rate']:.4f}"
                print(f"{number}/{len(jobs)}  {line}, off by {entry['off']:+.4f}", file=sys.stderr, flush=True)
    return record_of(runs, with_settings(base, settings), setting)


def record_of(runs: list[dict[str, Any]], shared: Config, setting: Setting) -> dict[str, Any]:
    """The runs in order, with everything that names the measurement."""
    runs = sorted(runs, key=lambda one: (RULES.index(one["rule"]), -one["target"], one["seed"]))
    off = {rule: [abs(one["off"]) for one in runs if one["rule"] == rule] for rule in RULES}
    off = {rule: distances for rule, distances in off.items() if distances}
    return {
        "schema": 1,
        "what": WHAT,
        "full": setting.full,
        "within": WITHIN,
        "largest_distance": {rule: max(distances) for rule, distances in off.items()},
        "mean_distance": {rule: statistics.fmean(distances) for rule, distances in off.items()},
        "runs_within": {rule: [sum(d <= WITHIN for d in distances), len(distances)] for rule, distances in off.items()},
        "config": shared.to_dict(),  # of all runs, but for rule, target rate and seed
        "config_hash": shared.digest(),
        "data": setting.corpus.description,
        "versions": versions(),
        "runs": runs,
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--rules", nargs="+", choices=RULES, default=RULES)
    parser.add_argument("--targets", nargs="+", type=int, default=TARGETS, metavar="N", help="bytes a token: 5 for the rate 1/5")
    parser.add_argument("--training-bytes", type=int, help="shorter runs, marked as not full")
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    at_least(1, jobs=options.jobs, training_bytes=options.training_bytes)
    at_least(2, targets=min(options.targets))
    options.seeds, options.targets = list(dict.fromkeys(options.seeds)), list(dict.fromkeys(options.targets))
    stored_record(options.out, WHAT)  # before anything is run
    record = measure(options)
    write_json(options.out, record)
    for rule, distance in record["largest_distance"].items():
        within, of = record["runs_within"][rule]
        print(f"{rule:24s} within {WITHIN} in {within} of {of} runs, at most {distance:.4f} off")


if __name__ == "__main__":
    run(main)
