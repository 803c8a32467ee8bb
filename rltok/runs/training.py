"""The loop around the step: log, evaluate, snapshot, save, resume."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from rltok.config import Config
from rltok.data import Corpus, load_corpus
from rltok.data.batches import Prefetcher
from rltok.device import PRECISIONS, autocast, backend_of, gradient_scaler, precision_of
from rltok.errors import RltokError, TrainingFailed, not_finite
from rltok.evaluation import evaluate
from rltok.flops import parameter_counts, training_flops
from rltok.optim import make_optimizer
from rltok.presets import check_batch_fits, travel_advice
from rltok.ranks import ALONE, Ranks
from rltok.registry import RULES
from rltok.runs.checkpoint import restore, save_checkpoint
from rltok.runs.folder import RESTORE, Entry, RunFolder
from rltok.runs.memory import peak_bytes, with_oom_advice
from rltok.runs.models import new_model
from rltok.runs.progress import Progress
from rltok.runs.results import RunRecord, device_name, read_run_record, repository_commit, thin, versions
from rltok.runs.sessions import Session, announce, furthest, made_on, sessions_of, settle
from rltok.runs.snapshots import snapshot, snapshot_steps
from rltok.runs.together import check_newest, check_processes, joined, own_device, same_state
from rltok.step import train_step
from rltok.system.files import room
from rltok.system.place import place
from rltok.system.signals import act_on, held_back
from rltok.system.streams import lasting
from rltok.unet import AutoregressiveUNet

CURVE_POINTS = 200
ON_A_CPU = "Sooner on a card (rltok doctor), with a smaller --preset such as tiny, or with fewer train.training_bytes."


@dataclass
class Run:
    """The state of a run: everything the loop needs, and its progress."""

    config: Config
    corpus: Corpus
    folder: RunFolder | None  # of the first of several processes; the others have none
    model: AutoregressiveUNet
    optimizer: torch.optim.Optimizer
    device: torch.device
    batches: Prefetcher
    scaler: torch.amp.GradScaler
    ranks: Ranks = ALONE
    step: int = 0  # finished updates
    bytes: int = 0  # scored in them
    tokens: int = 0  # drawn in them, forced ones too
    skipped: int = 0  # of them, because the gradient overflowed in fp16
    seconds: float = 0.0  # spent in them, earlier sessions of a resumed run included
    sessions: list[Session] = field(default_factory=list)
    trains: bool = True  # False where all updates were done before this process

    @property
    def devices(self) -> str:
        """`device_name`, with the number of processes where there are several."""
        return f"{self.ranks.count} x {device_name(self.device)}" if self.ranks.count > 1 else device_name(self.device)

    def resume(self, checkpoint: Path) -> None:
        """Go back to a checkpoint: weights, optimizer, scale of the loss, and how far the run had come."""
        state = restore(checkpoint, self.model, self.optimizer, self.config)
        self.skipped = state.get("skipped", 0)
        if self.scaler.is_enabled() and "scaler" in state:  # not where another card, with bf16, made it
            self.scaler.load_state_dict(state["scaler"])
        self.step, self.bytes, self.tokens, self.seconds = (state[key] for key in ("step", "bytes", "tokens", "seconds"))

    def begin_session(self, kept: int | None) -> None:
        """Drop what was logged after update `kept` (None: all), open the logs, and note that a session begins.

        A run that is done keeps its list of sessions: nothing is trained in this one.
        """
        reached = furthest(self.folder.path / "metrics.jsonl")
        self.sessions = sessions_of(self.folder.path)
        self.trains = self.step < self.config.num_updates
        begin = self._announce(reached) if self.trains else lambda: None
        self.folder.rewind(kept, _lines_until(self.step, self.config), first=begin)
        if self.trains:
            settle(self.folder.path)

    def _announce(self, reached: tuple[int, float]) -> Callable[[], None]:
        """A function that writes this session to the disk; what takes time is done before it is called."""
        now = {"device": self.devices, "commit": repository_commit()}

        def write() -> None:
            self.sessions = announce(self.folder.path, after=self.step, seconds=self.seconds, reached=reached, **now)

        return write

    def together(self) -> None:
        """Give all processes the state that the first one has restored or begun with."""
        scaled = self.scaler.state_dict() if self.scaler.is_enabled() else {}
        state = self.ranks.same((self.step, self.bytes, self.tokens, self.seconds, self.skipped, self.trains, scaled))
        self.step, self.bytes, self.tokens, self.seconds, self.skipped, self.trains, scaled = state
        if scaled:
            self.scaler.load_state_dict(scaled)
        self.ranks = same_state(self.ranks, self.model, self.optimizer)

    def update(self) -> dict[str, Any]:
        """One update; its line for metrics.jsonl."""
        start = time.perf_counter()
        batches = self.batches(self.step + 1)
        step = partial(train_step, after_backward=self.batches.prepare, scaler=self.scaler, ranks=self.ranks)
        metrics = with_oom_advice(step, self.model, self.optimizer, batches, self.config, self.step + 1, self.ranks)
        seconds = time.perf_counter() - start
        self.step, self.seconds, self.bytes = self.step + 1, self.seconds + seconds, self.bytes + metrics.scored_bytes
        self.tokens += metrics.tokens
        self.skipped += metrics.skipped
        times = {"seconds": round(self.seconds, 3), "bytes_per_second": round(metrics.scored_bytes / seconds)}
        done = {"step": self.step, "split": "train", "bytes": self.bytes, "tokens": self.tokens, **self._skipped()}
        return {**done, **metrics.to_dict(), **times}

    def _skipped(self) -> dict[str, int]:
        """Updates skipped so far, for a line and a checkpoint; nothing of a run that never was in fp16."""
        return {"skipped": self.skipped} if self.scaler.is_enabled() or self.skipped else {}

    def validate(self) -> dict[str, Any]:
        """Score held-out rows; its line for metrics.jsonl. The boundary draws are the same at every evaluation of a run."""
        train = self.config.train
        try:
            with autocast(self.config, self.device):
                score = evaluate(
                    self.model, self.corpus.validation, seed=train.seed, batch=train.micro_batch, max_rows=train.evaluate_rows
                )
        except TrainingFailed as error:
            raise not_finite(self.step, "held-out bits per byte", done=self.step) from error
        return {"step": self.step, "split": "validation", "bytes": self.bytes, "tokens": self.tokens, **score.to_dict()}

    def save(self) -> None:
        """Checkpoint; the logs go to the disk first, so that no checkpoint is ahead of them."""
        if not all(bool(weights.isfinite().all()) for weights in self.model.parameters()):
            raise not_finite(self.step, "weights after it", done=self.step)
        if self.folder is not None:
            self.folder.sync()
            progress = {"step": self.step, "bytes": self.bytes, "tokens": self.tokens, "seconds": self.seconds, **self._skipped()}
            if self.scaler.is_enabled():
                progress["scaler"] = self.scaler.state_dict()
            save_checkpoint(self.folder.path, progress, self.model, self.optimizer, self.config)
        self.ranks.wait()


def _due(step: int, every: int, total: int) -> bool:
    return step % every == 0 or step == total


def _lines_until(step: int, config: Config) -> dict[str, list[Entry]]:
    """Step and split of every line that `_loop` has logged after `step` updates, in order."""
    train, total = config.train, config.num_updates
    metrics: list[Entry] = []
    for done in range(step + 1):
        if done and _due(done, train.log_every, total):
            metrics.append((done, "train"))
        if _due(done, train.evaluate_every, total):
            metrics.append((done, "validation"))
    pictured = sorted(done for done in snapshot_steps(total) if done <= step)
    return {"metrics.jsonl": metrics, "snapshots.jsonl": [(done, None) for done in pictured]}


def _loop(run: Run, tensorboard: Any, progress: Progress, came: list[int]) -> None:
    """Train to the end, or to the end of the update during which a signal `came`, and save."""
    train, total = run.config.train, run.config.num_updates
    pictured = snapshot_steps(total)

    def log(values: dict[str, Any]) -> None:
        run.folder.log("metrics.jsonl", values)
        for key, value in values.items():
            if tensorboard is not None and isinstance(value, float):
                tensorboard.add_scalar(f"{values['split']}/{key}", value, run.step)

    def look() -> None:
        scores, pictures = _due(run.step, train.evaluate_every, total), run.step in pictured
        if run.folder is not None and scores:
            log(run.validate())
        if run.folder is not None and pictures:
            run.folder.log("snapshots.jsonl", snapshot(run.model, run.step, train.seed))
        if scores or pictures:
            run.ranks.wait()  # here, where there is no limit of time as in an exchange of gradients

    if run.step == 0:
        look()
    while run.step < total:
        before, line = run.bytes, run.update()
        progress.update(run.bytes - before, f"nll {line['nll']:.3f} rate {line['rate']:.3f}")
        if run.folder is not None and _due(run.step, train.log_every, total):
            log(line)
        look()
        ends = run.ranks.agree(came)
        if ends or _due(run.step, train.checkpoint_every, total):
            run.save()
        if ends:
            return


def _summary_writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise RltokError("TensorBoard is not installed. Run: pip install 'rltok[board]', or leave --tensorboard out.") from error
    return SummaryWriter


def _finish(run: Run, note: str, full: bool) -> RunRecord:
    """Write the record of a run that is done, and give it. One that was done before keeps the record it has."""
    path, record = run.folder.path / "record.json", _record(run, note, full)  # which finds the log to be whole
    if not run.trains and (stored := read_run_record(path, run.config)) is not None:
        return stored
    with room(path.parent):
        record.save(path)
    return record


def _made_by(run: Run, note: str) -> tuple[str, str | None, str]:
    """Device and commit of the session that trained last, and the note; it says where another process writes the record."""
    here = run.devices, repository_commit()
    if run.trains or not run.sessions:
        return *here, note
    last = run.sessions[-1]["device"], run.sessions[-1]["commit"]
    later = f"backend, precision and versions are of the process that wrote this record later: {here[0]}, commit {here[1]}"
    return *last, note if last == here else f"{note}; {later}" if note else later


def _record(run: Run, note: str, full: bool) -> RunRecord:
    config, lines = run.config, run.folder.metrics()
    measures = run.trains and run.device.type == "cuda"  # else this process has used no memory for training
    try:
        curve = [line for line in lines if line["split"] == "train"]
        validation = [line for line in lines if line["split"] == "validation"][-1]
        if lacking := {"bits_per_byte", "tokens_per_byte"} - validation.keys():
            raise KeyError(*lacking)
    except (LookupError, TypeError) as error:
        raise RltokError(f"{run.folder.path / 'metrics.jsonl'} lacks a whole line of validation. {RESTORE}") from error
    flops, attention = training_flops(config, run.bytes, run.tokens)
    device, commit, note = _made_by(run, note)
    return RunRecord(
        name=config.name,
        config=config.to_dict(),
        config_hash=config.digest(),
        data=run.corpus.description,
        commit=commit,
        device=device,
        precision=PRECISIONS[precision_of(config, run.device)],
        backend=backend_of(config, run.device)[0],
        versions=versions(),
        seed=config.train.seed,
        updates=run.step,
        bytes=run.bytes,
        passes=run.step * config.train.sequences_per_update / len(run.corpus.train),
        seconds=run.seconds,
        bytes_per_second=run.bytes / max(run.seconds, 1e-9),
        peak_memory_bytes=peak_bytes(run.model, run.device) if measures else None,
        matrix_parameters=sum(parameter_counts(config.model).values()),
        tokens=run.tokens,
        skipped=run._skipped().get("skipped"),
        flops=flops,
        attention_flops=attention,
        curve=thin(curve, CURVE_POINTS),
        evaluation=validation,
        fitted=run.model.rule.facts(),
        full=full,
        note=note,
        sessions=run.sessions,
    )


def _open(config: Config, corpus: Corpus, folder: RunFolder | None, device: torch.device, ranks: Ranks) -> Run:
    """The run at its newest checkpoint, which holds a fitted rule, or at its start, where the rule is fitted."""
    checkpoint = None if folder is None else folder.newest_checkpoint()
    # A model that does not fit into memory, or a rule that cannot be fitted, leaves no run.
    with nullcontext() if folder is None else folder.tentative():
        model = new_model(config, device)
        if ranks.first and checkpoint is None and RULES[config.model.rule.name].fitted:
            model.rule.fit(corpus.train, config.train.seed)
    batches = Prefetcher(corpus, config, device, config.num_updates, ranks)
    optimizer, scaler = make_optimizer(model, config.train), gradient_scaler(config, device)
    run = Run(config, corpus, folder, model, optimizer, device, batches, scaler, ranks)
    if checkpoint is not None:
        run.resume(checkpoint)
    if folder is not None:
        run.begin_session(None if checkpoint is None else run.step)
    run.together()
    return run


def _beginning(run: Run, resume: bool) -> Iterator[str]:
    """What a user should know of a run that begins or goes on."""
    if resume:
        after = f"going on after update {run.step}" if run.trains else f"all {run.step} updates were done before"
        yield after if run.step else "no checkpoint yet: starting over"
    here = run.devices
    if run.trains and (before := made_on(run.sessions, run.step)) not in (None, here):
        yield f"digits may differ from update {run.step + 1} on: computed on {here}, until now on {before}"
    if run.scaler.is_enabled():
        yield "fp16 with a gradient scaler: an update whose gradient overflows is skipped, and counted"
    for name, value in run.model.rule.facts().items():
        yield f"the rule {run.config.model.rule.name} was fitted: {name} {value:.6g}"


def _corpus(data: Corpus | str | Path, config: Config) -> Corpus:
    """The text in rows of the configured length, enough of them for an update. Raises `RltokError` where they are not."""
    corpus = data if isinstance(data, Corpus) else load_corpus(data, config.data)
    if corpus.train.sequence_length != config.data.sequence_length:
        raise RltokError(
            f"the corpus has rows of {corpus.train.sequence_length} bytes, data.sequence_length is"
            f" {config.data.sequence_length}. Make it with load_corpus(..., config.data)."
        )
    check_batch_fits(config, len(corpus.train), corpus.train.total_bytes)
    return corpus


@contextmanager
def _claimed(out: str | Path, config: Config, corpus: Corpus, resume: bool, ranks: Ranks) -> Iterator[RunFolder | None]:
    """The folder of the run, for the first process; None for the others. An interruption notes the newest checkpoint."""
    if resume:
        check_newest(out, ranks)
    if not ranks.first:
        yield None
        return
    folder = RunFolder(out, config, corpus.description, resume)
    try:
        yield folder
    except KeyboardInterrupt as interrupted:
        newest = folder.newest_checkpoint()
        interrupted.add_note("there is no checkpoint yet" if newest is None else f"the newest checkpoint is {newest.name}")
        raise
    finally:
        folder.close()


def train(
    config: Config, data: Corpus | str | Path, out: str | Path, resume: bool = False, *, device: str = "auto",
    progress: bool = False, tensorboard: bool = False, note: str = "", full: bool = True,
) -> RunRecord:  # fmt: skip
    """Train a model and leave everything about it in a folder.

    Args:
        config: all settings; `rltok.preset(name)` gives one.
        data: a corpus, or what `rltok.data.load_corpus` takes: "sample", a file, a folder, "hf:NAME", ...
        out: folder of the run; must be new or empty unless `resume`.
        resume: go on from the newest checkpoint, or from the start if there is none yet. The metrics then equal those
            of a run that was never interrupted, line by line, but for the fields of time.
        device: "auto", "cpu" or "cuda". Kernels or plain PyTorch: `rltok.kernels.backends`.
        progress: show backend, bytes/s and time left on stderr, as a bar in a terminal; elsewhere as a line
            after the first update and ten for the rest.
        tensorboard: also write the metrics for TensorBoard.
        note, full: go into the record; full=False marks a smoke run. A finished run keeps the record it has.

    SIGTERM and SIGHUP wait for the end of an update and a checkpoint, then end the process as they would have. Control-C saves
    nothing, and says which checkpoint is the newest. In processes that torchrun started (`rltok.runs.together`) all compute each
    update together, and the first one alone writes; all return its record.

    Raises:
        RltokError: bad settings, data, folder or checkpoint, a backend that cannot run here, too little memory, or a loss
            that is not finite (the last checkpoint stays).
    """
    check_processes(config)
    chosen, leads = own_device(device), place().number == 0
    progress, tensorboard = progress and leads, tensorboard and leads
    say = partial(print, file=lasting(sys.stderr), flush=True) if progress else lambda _: None
    backend, why = backend_of(config, chosen)
    summary_writer = _summary_writer() if tensorboard else None
    corpus = _corpus(data, config)
    for line in filter(None, (corpus.summary, travel_advice(config) if full else None)):
        say(line)
    with joined(config, corpus, chosen) as ranks, _claimed(out, config, corpus, resume, ranks) as folder, ranks.watched():
        run = _open(config, corpus, folder, chosen, ranks)
        for line in (*_beginning(run, resume), f"backend {backend}: {why}"):
            say(line)
        first = run.step + 1 if run.step else 0  # TensorBoard hides what an earlier session wrote from there on
        board = summary_writer(str(Path(out) / "tensorboard"), purge_step=first) if tensorboard else nullcontext()
        total, remedy = config.num_updates * config.bytes_per_update, ON_A_CPU if chosen.type == "cpu" else ""
        with board as events, closing(Progress(total, run.bytes, progress, remedy)) as shown, held_back() as signals:
            _loop(run, events, shown, signals)
        came = ranks.agree(signals)
        record = None if came else ranks.same(None if folder is None else _finish(run, note, full))
    if came:
        act_on(came, f"the checkpoint of update {run.step} is saved", progress)
    return record
