"""The runs of a plan on the same text, in one process or several: each is trained, measured, and leaves its evidence record.

    plan --run_plan--> jobs --workers--> run_job: train (go on, or skip what is done), measure, write the record

What is there already stays: a finished record is not made again, and a run goes on from its newest checkpoint.
"""

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import torch

from rltok.benchmarks.task_items import TaskItems
from rltok.config import Config
from rltok.data import Corpus, Rows
from rltok.device import resolve_device
from rltok.errors import RltokError, TrainingFailed
from rltok.evidence.export import evidence_of, failure_of
from rltok.evidence.plan import MissingRun, Plan, Planned
from rltok.evidence.record_file import Record, write_record
from rltok.kernels import backends
from rltok.runs.results import device_name, repository_commit, versions
from rltok.runs.sessions import sessions_of
from rltok.runs.training import train
from rltok.system.files import room
from rltok.system.workers import end_with_parent, stopping

Job = tuple[Planned, Config]
Made = tuple[Planned, Record]
Mapper = Callable[[Sequence[Job]], Iterator[Made]]


@dataclass(frozen=True)
class Setting:
    """What all runs of a plan share, besides their settings."""

    sweep: str
    corpus: Corpus
    scored: dict[str, Rows]  # of "validation", and of "test" where that is wanted
    device: str
    full: bool
    runs: Path  # folder of the runs
    records: Path  # folder of their records
    tasks: dict[str, TaskItems] = field(default_factory=dict)
    max_items: int | None = None
    draws: int | None = 0  # seed of the boundaries drawn in measuring; None: that of each run
    any_commit: bool = False  # whether records may be of code that nobody can look up
    keep_failures: bool = False  # whether training that fails leaves a record, instead of ending everything
    progress: bool = False


def stored(run: Planned, config: Config, setting: Setting, records: dict[str, Record]) -> Record | None:
    """The record of a finished run, if it has all scores that are wanted; None without one, and of a run that failed.

    Benchmarks that are left out now may be there or not; those that are scored must be of these items.

    Raises:
        RltokError: it is of other settings, or scored on other text or items.
    """
    kept = records.get(run.stem)
    if kept is None or kept.get("failed"):
        return None
    scores = {place: kept["scores"].get(place) for place in setting.scored}
    same = kept["config_hash"] == config.digest() and kept["data"]["train"] == setting.corpus.description["train"]
    same = same and all(score is None or score["hash"] == setting.scored[place].hash for place, score in scores.items())
    for task, items in setting.tasks.items():
        score, count = kept["scores"].get(task), min(len(items), setting.max_items or len(items))
        same = same and score is not None and (score["fingerprint"], score["items"]) == (items.fingerprint, count)
    if not same:
        path = run.record(setting.records)
        raise RltokError(f"{path} is of other settings, text or benchmarks. Name another place for records, or remove it.")
    return None if None in scores.values() else kept


def run_job(job: Job, setting: Setting) -> Made:
    """Train and measure one run, and write its record; what its folder holds already is not done again."""
    run, config = job
    folder, named = setting.runs / run.stem, {"sweep": setting.sweep, "name": run.name}
    try:
        train(config, setting.corpus, folder, resume=True, device=setting.device, full=setting.full, progress=setting.progress)
        seed = config.train.seed if setting.draws is None else setting.draws
        made = evidence_of(
            folder, **named, rows=setting.scored, tasks=setting.tasks, device=setting.device, seed=seed,
            max_items=setting.max_items, rate_of=run.rate_of,
        )  # fmt: skip
    except TrainingFailed as error:
        if not setting.keep_failures:
            raise
        device = device_name(resolve_device(setting.device))
        made = failure_of(
            config, **named, why=str(error), commit=repository_commit(), device=device, versions=versions(),
            data=setting.corpus.description, full=setting.full,
        )  # fmt: skip
    path = run.record(setting.records)
    with room(path.parent):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_record(path, made, any_commit=setting.any_commit)
    return run, made


@dataclass(frozen=True)
class Outcome:
    """What became of a run of a plan: a record, made now or before, or why it was left out."""

    run: Planned
    record: Record | None
    fresh: bool = False
    left_out: str = ""


def run_plan(
    plan: Plan, runs: Sequence[Planned], setting: Setting, records: dict[str, Record], count: int = 1
) -> Iterator[Outcome]:  # fmt: skip
    """Each run as it is done, `count` at a time; those that take a number from another one's record come last.

    Args:
        plan: gives the settings.
        runs: of the plan, that are wanted.
        setting: what they share.
        records: those that are there, by name of the run; new ones are added.
        count: runs at a time; with 1 each begins when it is asked for.
    """
    with workers(count, setting) as work:
        for wave in (False, True):
            jobs: list[Job] = []
            for run in (run for run in runs if run.waits == wave):
                try:
                    config = plan.config(run, records)
                except MissingRun as error:
                    yield Outcome(run, None, left_out=str(error))
                    continue
                if (kept := stored(run, config, setting, records)) is not None:
                    yield Outcome(run, kept)
                else:
                    jobs.append((run, config))
            for run, record in work(jobs):
                records[run.stem] = record
                yield Outcome(run, record, fresh=True)


_shared: list[Setting] = []  # of a worker process


def _start_worker(setting: Setting, threads: int, backend: str) -> None:
    end_with_parent()
    os.environ["RLTOK_BACKEND"] = backend  # a new process knows nothing of `backends.use`
    torch.set_num_threads(threads)
    _shared.append(setting)


def _run_in_worker(job: Job) -> Made:
    return run_job(job, _shared[0])


@contextmanager
def workers(count: int, setting: Setting) -> Iterator[Mapper]:
    """A function that runs jobs, in this process or in `count` others, and gives the records as they come."""
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


def begun_elsewhere(runs: Iterable[Planned], setting: Setting, count: int) -> list[str]:
    """Runs without a record that were begun on another device, or with another number of threads."""
    here = device_name(resolve_device(setting.device), threads_each(count))
    waiting = [run for run in runs if not run.record(setting.records).exists()]
    return [run.stem for run in waiting if any(each["device"] != here for each in sessions_of(setting.runs / run.stem)[-1:])]


def default_workers(device: torch.device, runs: int) -> int:
    """One on a card; on the CPU as many as torch has threads, which at these sizes is faster than threads in one run."""
    return 1 if device.type == "cuda" else max(1, min(torch.get_num_threads(), runs))
