"""From a finished run to its evidence: everything that tables, figures and verdicts need, in one file of plain values.

    run folder --evidence_of--> record (validation, benchmark sets, curves, samples) --add_test--> the same, scored on test

The record is made on the machine that holds the weights; after that nothing needs them.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rltok.benchmarks.task_items import TaskItems
from rltok.benchmarks.tasks import TaskScore, score_items
from rltok.config import Config, from_dict
from rltok.data.rows import Rows
from rltok.device import autocast, resolve_device
from rltok.errors import RltokError
from rltok.evaluation import Evaluation, evaluate
from rltok.evidence.partial_runs import check_start
from rltok.evidence.positions import by_position
from rltok.evidence.record_checks import demanding
from rltok.evidence.schema import SCHEMA, START, WHAT
from rltok.flops import training_flops
from rltok.runs.folder import metrics_of
from rltok.runs.loading import load, load_config
from rltok.runs.results import thin
from rltok.runs.sessions import sessions_of
from rltok.runs.snapshots import boundary_view
from rltok.system.digest import with_digest
from rltok.system.files import MISSING, read_file
from rltok.unet import AutoregressiveUNet

LEAST_DOCUMENTS = 20  # with fewer, rows stand in for documents in standard errors
SAMPLES, SAMPLE_BYTES = 4, 512  # held-out passages whose boundaries are kept
POSITION_ROWS = 256
TASK_BATCH = 16  # rows of benchmark items, which are short, in place of one of a micro-batch, on a card
CURVE = (
    "step", "bytes", "tokens", "nll", "early_nll", "rate", "tokens_per_byte", "policy_entropy", "whitespace_share",
    "advantage_rms", "grad_norm", "grad_norm_rule",
)  # fmt: skip
CURVE_DIGITS = 7
HELD_OUT = ("step", "bytes", "tokens", "bits_per_byte", "standard_error", "rate", "policy_entropy", "whitespace_share")
RATES = (0.333333, 0.2, 0.125)  # at which a model with a range of target rates is scored, beside the models with one each
DIGITS = 4  # significant, of scores of single items: far below their error, and less than half the space


def today() -> str:
    """The date, in UTC: with the commit it says which came first, a rule or a run."""
    return datetime.now(UTC).date().isoformat()


def rounded(values: Sequence[float], digits: int = DIGITS) -> list[float]:
    """To so many significant digits."""
    return [float(f"{value:.{digits}g}") for value in values]


def with_flops(line: dict[str, Any], config: Config, keys: Sequence[str]) -> dict[str, Any]:
    """Some entries of a line of metrics, with the FLOPs of training up to it."""
    flops, attention = training_flops(config, line["bytes"], line["tokens"])
    entries = {key: line[key] for key in keys} | {"flops": flops, "attention_flops": attention}
    return {key: rounded([value], CURVE_DIGITS)[0] if isinstance(value, float) else value for key, value in entries.items()}


def split_score(score: Evaluation, rows: Rows) -> dict[str, Any]:
    """An evaluation with the bits and bytes of its units: documents, or rows where there are fewer than LEAST_DOCUMENTS."""
    if score.documents >= LEAST_DOCUMENTS:
        unit, bits, sizes = "documents", score.document_bits, score.document_bytes
    else:
        unit, sizes = "rows", rows.scored.tolist()
        bits = [per_byte * size for per_byte, size in zip(score.row_bits_per_byte, sizes, strict=True)]
    return score.to_dict() | {
        "hash": rows.hash,
        "unit": unit,
        "unit_bits": rounded(bits, CURVE_DIGITS),
        "unit_bytes": list(sizes),
    }


def at_rates(model: AutoregressiveUNet, rows: Rows, *, seed: int, batch: int) -> list[dict[str, Any]]:
    """Evaluations at each of RATES in the range that a model was trained for, without their units."""
    (lowest, highest), scores = model.rule.rates, []
    for rate in (rate for rate in RATES if lowest <= rate <= highest):
        with model.rule.at_rate(rate):
            scores.append({"target_rate": rate} | evaluate(model, rows, seed=seed, batch=batch).to_dict() | {"hash": rows.hash})
    return scores


def task_score(score: TaskScore) -> dict[str, Any]:
    """A benchmark's score with the bits per byte of every item."""
    return score.to_dict() | {"item_bits_per_byte": rounded(score.item_bits_per_byte)}


def samples(model: AutoregressiveUNet, rows: Rows, seed: int) -> list[dict[str, Any]]:
    """Boundaries on the first bytes of a few held-out rows, evenly spread: text (bytes as Latin-1), bits, probabilities."""
    chosen = sorted({round(i * (len(rows) - 1) / (SAMPLES - 1)) for i in range(SAMPLES)})
    texts = [first_bytes(rows, row) for row in chosen]
    return [{"row": row} | compact(boundary_view(model, text, seed), text) for row, text in zip(chosen, texts, strict=True)]


def first_bytes(rows: Rows, row: int) -> bytes:
    """The first SAMPLE_BYTES of a row, or all that it has."""
    return bytes(rows.bytes_[row][: min(SAMPLE_BYTES, int(rows.lengths[row]))])


def compact(view: dict[str, Any], text: bytes) -> dict[str, Any]:
    """A view of a text in few letters: bytes as Latin-1, boundaries as "0010", probabilities as two digits, at most 99 %."""
    percent = view["probabilities"] and "".join(f"{min(99, round(100 * p)):02d}" for p in view["probabilities"])
    return {"text": text.decode("latin-1"), "boundaries": "".join(map(str, view["boundaries"])), "percent": percent}


def snapshots_of(folder: Path, with_text: bool) -> list[dict[str, Any]]:
    """Boundaries of the fixed texts over training, in few letters; of most runs without texts and probabilities."""
    lines = [json.loads(line) for line in read_file(folder / "snapshots.jsonl").splitlines()]
    return compacted(lines, with_text)


def compacted(lines: Sequence[dict[str, Any]], with_text: bool) -> list[dict[str, Any]]:
    """Parsed lines of snapshots.jsonl in few letters."""
    kept = ("text", "boundaries", "percent") if with_text else ("boundaries",)

    def shot(texts: dict[str, Any]) -> dict[str, Any]:
        views = {name: compact(view, view["text"].encode()) for name, view in texts.items()}
        return {name: {key: view[key] for key in kept} for name, view in views.items()}

    return [{"step": line["step"]} | shot(line["texts"]) for line in lines]


def evidence_of(
    folder: Path, *, sweep: str, name: str, rows: dict[str, Rows], tasks: dict[str, TaskItems], device: str,
    seed: int = 0, max_items: int | None = None, rate_of: str | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Everything about a finished run.

    Args:
        folder: of the run.
        sweep, name: of the sweep it belongs to, and of the method.
        rows: scored, of "validation", and of "test" where the run is not to be scored on it later, by `add_test`.
        tasks: items of each benchmark.
        device: "auto", "cpu" or "cuda".
        seed: of the boundary draws.
        max_items: of each benchmark, fewer than all.
        rate_of: the method of this seed whose rate is its target, which then differs from seed to seed.
    """
    record = json.loads(read_file(folder / "record.json"))
    config, chosen = load_config(folder), resolve_device(device)
    model, batch, lines = load(folder).to(chosen), config.train.micro_batch, metrics_of(folder)
    train = [line for line in lines if line["split"] == "train"]
    with autocast(config, chosen):
        splits = {split: split_score(evaluate(model, each, seed=seed, batch=batch), each) for split, each in rows.items()}
        positions = by_position(
            model, rows["validation"], gamma=config.objective.gamma, seed=seed, batch=batch, max_rows=POSITION_ROWS
        )  # fmt: skip
        many = batch * TASK_BATCH if chosen.type == "cuda" else batch
        scored = {
            task: task_score(score_items(model, items, seed=seed, batch=many, max_items=max_items))
            for task, items in tasks.items()
        }
        shown = samples(model, rows["validation"], seed)
        ranged = rows if model.rule.rates else {}
        rates = {split: at_rates(model, each, seed=seed, batch=batch) for split, each in ranged.items()}
    own = {key: value for key, value in record.items() if key not in ("curve", "evaluation", "schema", "name")}
    return with_digest(
        {"schema": SCHEMA, "what": WHAT, "sweep": sweep, "name": name, "date": today()}
        | own
        | ({"rate_of": rate_of} if rate_of else {})
        | ({"rates": {"test": None} | rates} if rates else {})
        | {
            "scores": {"test": None} | splits | scored,
            "curve": [with_flops(line, config, CURVE) for line in thin(train, 200)],
            "held_out": [with_flops(line, config, HELD_OUT) for line in lines if line["split"] == "validation"],
            "positions": positions | {"gamma": config.objective.gamma},
            "samples": shown,
            "snapshots": snapshots_of(folder, with_text=config.train.seed == 0),
        }
    )


def failure_of(config: Config, *, sweep: str, name: str, why: str, **named: Any) -> dict[str, Any]:
    """The record of a run that did not finish; `named` has commit, device, versions, data."""
    plain = {"config": config.to_dict(), "config_hash": config.digest(), "seed": config.train.seed}
    return with_digest(
        {"schema": SCHEMA, "what": WHAT, "sweep": sweep, "name": name, "date": today(), **plain, **named, "failed": why}
    )


def _table(path: Path) -> dict[str, Any]:
    """A file of a run's folder that holds a table."""
    content = json.loads(read_file(path))
    if not isinstance(content, dict):
        raise ValueError("it holds no table")
    return content


def _lines(path: Path) -> list[dict[str, Any]]:
    """The finished lines of a log; one without its end is what a kill left, and resuming drops it, too."""
    return [json.loads(line) for line in read_file(path).splitlines(keepends=True) if line.endswith(b"\n")]


def start_of(folder: Path, *, sweep: str, name: str, why: str) -> dict[str, Any]:
    """What an unfinished run has logged so far: its curves, and the last boundaries of the fixed texts. It has no score.

    Args:
        folder: of the run, of which the checkpoints are not needed.
        sweep, name: as of `evidence_of`.
        why: it was not gone on with.

    Raises:
        RltokError: no run's folder, or a finished run; a file is missing or damaged; no line of training, snapshot or session
            yet; code that cannot be looked up, or another rule than the name says.
    """
    if not (folder / "config.json").exists():
        raise RltokError(f"{folder} is no run's folder: it holds no config.json.")
    if (folder / "record.json").exists():
        raise RltokError(f"{folder} holds a finished run. Make its record with scripts/measure/run_sweep.py.")
    try:
        record = _start(folder, sweep, name, why)
    except RltokError:
        raise
    except (*MISSING, ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError) as error:
        raise RltokError(f"{folder}: a file is missing or damaged ({error!r}), so the start cannot be kept.") from error
    check_start(record, demanding(str(folder), "The start of this run cannot be kept."))
    return record


def _start(folder: Path, sweep: str, name: str, why: str) -> dict[str, Any]:
    config, lines, sessions = from_dict(_table(folder / "config.json")), _lines(folder / "metrics.jsonl"), sessions_of(folder)
    train = [line for line in lines if line["split"] == "train"]
    for stored, what in ((train, "line of training"), (sessions, "session")):
        if not stored:
            raise RltokError(f"{folder} has no {what} yet, so there is nothing to keep.")
    return with_digest(
        {"schema": SCHEMA, "what": START, "sweep": sweep, "name": name, "date": today(), "note": why}
        | {"config": config.to_dict(), "config_hash": config.digest(), "seed": config.train.seed}
        | {"data": _table(folder / "data.json")}
        | {key: sessions[-1][key] for key in ("commit", "device")}
        | {key: train[-1][key] for key in ("bytes", "seconds")}
        | {
            "updates": train[-1]["step"],
            "sessions": sessions,
            "curve": [with_flops(line, config, CURVE) for line in thin(train, 200)],
            "held_out": [with_flops(line, config, HELD_OUT) for line in lines if line["split"] == "validation"],
            "snapshots": compacted(_lines(folder / "snapshots.jsonl")[-1:], with_text=True),
        }
    )


def add_test(record: dict[str, Any], folder: Path, test: Rows, *, device: str) -> dict[str, Any]:
    """The record with its score on test rows, which it may get once.

    Raises:
        RltokError: it has one already, or the folder holds another run.
    """
    if record["scores"]["test"] is not None:
        raise RltokError(f"{record['name']}, seed {record['seed']}, was scored on the test split before. Once is enough.")
    config, chosen = load_config(folder), resolve_device(device)
    run = json.loads(read_file(folder / "record.json"))
    same = all(run[key] == record[key] for key in ("data", "commit", "seconds"))  # no two runs take the same time
    if config.digest() != record["config_hash"] or not same:
        raise RltokError(f"{folder} holds another run than the record of {record['name']}, seed {record['seed']}.")
    model, how = load(folder).to(chosen), {"seed": 0, "batch": config.train.micro_batch}
    with autocast(config, chosen):
        scores = record["scores"] | {"test": split_score(evaluate(model, test, **how), test)}
        rates = {"rates": record["rates"] | {"test": at_rates(model, test, **how)}} if "rates" in record else {}
    return with_digest(record | rates | {"scores": scores})
