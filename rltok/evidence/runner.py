"""Many runs on the same text, scored on the same rows, in one process or several: the engine behind `rltok compare`.

    jobs --workers--> run_job: train (go on, or skip what is done), score --> results

A run's folder is an ordinary one, with `score.json` beside the rest: the evaluation, row by row, that others are paired with.
"""

import json
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from rltok.config import Config
from rltok.data import Corpus, Rows
from rltok.data.batches import micro_batches
from rltok.data.fixed_texts import FIXED_TEXTS
from rltok.device import resolve_device
from rltok.errors import RltokError
from rltok.evaluation import Evaluation, evaluate
from rltok.flops import fit_flops, flops_per_byte
from rltok.kernels import backends
from rltok.optim import make_optimizer
from rltok.runs.checkpoint import checkpoints, read_state
from rltok.runs.folder import metrics_of
from rltok.runs.loading import load
from rltok.runs.memory import with_oom_advice
from rltok.runs.models import new_model
from rltok.runs.results import device_name, thin
from rltok.runs.sessions import sessions_of
from rltok.runs.snapshots import drawn_texts
from rltok.runs.training import train
from rltok.step import train_step
from rltok.system.files import MISSING, read_file, room, write_json
from rltok.system.workers import end_with_parent, stopping

CURVE_POINTS = 60
SCORE = "score.json"
START_SECONDS = 4.0  # of a worker process, which imports torch
RUN_SECONDS = 1.0  # of a run before and after its updates
PROBE_ROWS, PROBE_BYTES = 256, 65_536
BPE_SECONDS = 1e-6  # of fitting, a byte
NUMBERS = ("last_fifth_rate", "flops_per_byte", "seconds", "micro_batch", "updates", "bytes")  # of a score
CURVE = ("step", "nll", "rate", "whitespace_share")

Job = tuple[str, Config, Path]  # contender, settings, folder of the run
Result = dict[str, Any]
Mapper = Callable[[Sequence[Job]], Iterator[Result]]


@dataclass(frozen=True)
class Setting:
    """What all runs share, besides their base configuration."""

    corpus: Corpus
    rows: Rows  # scored at the end
    device: str
    full: bool


def _hashes(config: Config, setting: Setting) -> dict[str, str]:
    """What a score is of."""
    return {"config_hash": config.digest(), "train_hash": setting.corpus.train.hash, "rows_hash": setting.rows.hash}


def stored_result(job: Job, setting: Setting) -> Result | None:
    """The score that a finished run left, if it is of these settings and texts; a damaged or other one counts as none."""
    name, config, folder = job
    wanted = {"name": name, "seed": config.train.seed, "folder": folder.name, **_hashes(config, setting)}
    try:
        found = json.loads(read_file(folder / SCORE))
        json.dumps(found, allow_nan=False)  # raises ValueError for numbers that are not finite
        same = {key: found[key] for key in wanted} == wanted
        return found if same and _is_whole(found, len(setting.rows)) else None
    except RltokError:  # not to be read at all, such as a folder
        raise
    except (*MISSING, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _is_whole(found: Result, rows: int) -> bool:
    """Whether a score holds all that a comparison reads; what is missing or of another type may raise instead."""
    scores = dict(found["evaluation"])
    Evaluation(**scores, row_bits_per_byte=())  # raises TypeError for a missing or a foreign entry
    draws, rates = scores.pop("draws"), scores.pop("class_rates")
    perhaps = [*rates.values(), *(scores.pop(key) for key in ("standard_error", "policy_entropy", "whitespace_share"))]
    perhaps.append(scores.pop("standard_error_documents", None))  # older scores lack this and the counts
    numbers = [value for value in perhaps if value is not None]
    numbers += [
        *scores.pop("class_counts", {}).values(),
        *scores.values(),
        *found["row_bits_per_byte"],
        *found["fitted"].values(),
        found["rule"]["vocabulary"],
    ]
    numbers += [found[key] for key in NUMBERS]
    return (
        all(type(number) in (int, float) and abs(number) < 1e300 for number in numbers)
        and len(found["row_bits_per_byte"]) == scores["rows"] == rows
        and scores["tokens_per_byte"] > 0
        and isinstance(draws, str)
        and isinstance(found["curve"], list) and all(point.keys() >= set(CURVE) for point in found["curve"])
        and all(set(found["texts"][text]) >= {"boundaries", "probabilities"} for text in FIXED_TEXTS)
    )  # fmt: skip


def training_lines(folder: Path) -> list[dict[str, Any]]:
    """The training lines of a run's metrics.jsonl."""
    return [line for line in metrics_of(folder) if line["split"] == "train"]


def mean_of_last_fifth(lines: Sequence[dict[str, Any]], key: str) -> float:
    """Mean of a metric over the logged updates of the last fifth of a run, its last update at least."""
    last = [line[key] for line in lines if line["step"] > 0.8 * lines[-1]["step"]]
    return sum(last) / len(last)


def fit_flops_per_byte(config: Config) -> float:
    """FLOPs of fitting the rule, spread over the training bytes."""
    return fit_flops(config.model) / (config.num_updates * config.bytes_per_update)


def run_job(job: Job, setting: Setting) -> Result:
    """Train a contender and score it; what its folder holds already is not done again."""
    name, config, folder = job
    found = stored_result(job, setting)
    if found is not None:
        return found
    record = train(config, setting.corpus, folder, resume=True, device=setting.device, full=setting.full)
    model = load(folder).to(resolve_device(setting.device))
    scored = evaluate(model, setting.rows, seed=config.train.seed, batch=config.train.micro_batch)
    lines = training_lines(folder)
    tokens = sum(line["tokens_per_byte"] for line in lines) / len(lines)
    result = {
        "name": name,
        "seed": config.train.seed,
        "folder": folder.name,
        "rule": config.to_dict()["model"]["rule"],
        "micro_batch": config.train.micro_batch,
        **_hashes(config, setting),
        "evaluation": scored.to_dict(),
        "last_fifth_rate": mean_of_last_fifth(lines, "rate"),
        "flops_per_byte": flops_per_byte(config.model, tokens) + fit_flops_per_byte(config),
        "seconds": record.seconds,
        "updates": record.updates,
        "bytes": record.bytes,
        "fitted": record.fitted,
        "curve": [{key: line[key] for key in CURVE} for line in thin(lines, CURVE_POINTS)],
        "texts": drawn_texts(model, config.train.seed),
        "row_bits_per_byte": scored.row_bits_per_byte,
    }
    with room(folder):
        write_json(folder / SCORE, result)
    return json.loads(json.dumps(result))  # as a stored one reads


_shared: list[Setting] = []  # of a worker process


def _start_worker(setting: Setting, threads: int, backend: str) -> None:
    end_with_parent()
    os.environ["RLTOK_BACKEND"] = backend  # a new process knows nothing of `backends.use`
    torch.set_num_threads(threads)
    _shared.append(setting)


def _run_in_worker(job: Job) -> Result:
    return run_job(job, _shared[0])


@contextmanager
def workers(count: int, setting: Setting) -> Iterator[Mapper]:
    """A function that runs jobs, in this process or in `count` others, and gives the results as they come."""
    if count == 1:
        yield lambda jobs: (run_job(job, setting) for job in jobs)
        return
    context = multiprocessing.get_context("spawn")
    start = (setting, threads_each(count), backends.requested())
    with (
        ProcessPoolExecutor(count, mp_context=context, initializer=_start_worker, initargs=start) as pool,
        stopping(pool, count, "Go on with --resume --jobs 1."),
    ):
        yield lambda jobs: (done.result() for done in as_completed([pool.submit(_run_in_worker, job) for job in jobs]))


def threads_each(count: int) -> int:
    """Threads of each of so many runs at a time."""
    return max(1, torch.get_num_threads() // count)


def begun_elsewhere(jobs: Sequence[Job], setting: Setting, count: int) -> list[str]:
    """Runs that were begun on another device, or with another number of threads, and that are not finished."""
    here = device_name(resolve_device(setting.device), threads_each(count))
    waiting = [folder for job in jobs if stored_result(job, setting) is None for folder in job[2:]]
    return [folder.name for folder in waiting if any(each["device"] != here for each in sessions_of(folder)[-1:])]


def default_workers(device: torch.device, runs: int) -> int:
    """One on a card; on the CPU as many as torch has threads, which at these sizes is faster than threads in one run."""
    return 1 if device.type == "cuda" else max(1, min(torch.get_num_threads(), runs))


def _update_seconds(config: Config, setting: Setting, threads: int) -> float:
    """Of one update of a throwaway model: the second of two micro-batches, times their number."""
    fit_bytes = config.model.rule.fit_bytes
    rule = replace(config.model.rule, fit_bytes=min(fit_bytes, PROBE_BYTES))
    config, device = replace(config, model=replace(config.model, rule=rule)), resolve_device(setting.device)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        model = new_model(config, device)
        try:
            model.rule.fit(setting.corpus.train.subset(slice(0, PROBE_ROWS)), config.train.seed)
        except RltokError:  # BPE: too few of these rows are UTF-8. As the run will do it, then
            model.rule.fit_bytes = fit_bytes
            model.rule.fit(setting.corpus.train, config.train.seed)
        optimizer = make_optimizer(model, config.train)
        for step in (1, 2):
            start = time.perf_counter()
            with_oom_advice(train_step, model, optimizer, micro_batches(setting.corpus, config, step, device)[:1], config, step)
        return (time.perf_counter() - start) * config.train.sequences_per_update / config.train.micro_batch
    finally:
        torch.set_num_threads(before)


def estimated_seconds(jobs: Sequence[Job], setting: Setting, count: int) -> float:
    """Expected time of the runs: an update of each kind of rule is timed now, everything else follows a rough model.

    Evaluations, snapshots and checkpoints add a tenth. A byte of scoring takes a third of a trained one, a byte that the
    entropy rule is fitted on as long as a trained one, and of BPE's a microsecond. Finished updates of a run cost nothing.
    """
    updates: dict[str, float] = {}
    total = 0.0
    threads = threads_each(count)
    for job in jobs:
        _, config, folder = job
        if stored_result(job, setting) is not None:
            continue
        rule, train_rows = config.model.rule, setting.corpus.train
        if rule.name not in updates:
            updates[rule.name] = _update_seconds(config, setting, threads)
        found = checkpoints(folder)
        done = read_state(found[-1])["step"] if found else 0
        a_byte = updates[rule.name] / config.bytes_per_update
        seconds = 1.1 * updates[rule.name] * (config.num_updates - done) + a_byte * setting.rows.total_bytes / 3
        fitted = 0 if done else rule.fit_bytes
        seconds += {"entropy": a_byte * fitted, "bpe": BPE_SECONDS * min(fitted, train_rows.total_bytes)}.get(rule.name, 0)
        total += (RUN_SECONDS + seconds) / count
    return total + (START_SECONDS if total and count > 1 else 0.0)
