"""One run in several processes: whether they fit together, how they meet, and how all come to the state of the first.

torchrun starts them, each with the same command. Process 0 alone reads and writes the run's folder, scores and speaks; so of
several machines only the first needs the folder.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
import torch.distributed as dist

from rltok.config import Config
from rltok.data import Corpus
from rltok.data.order import check_ranks, sharing
from rltok.device import PRECISIONS, backend_of, precision_of, resolve_device
from rltok.errors import RltokError
from rltok.ranks import ALONE, Ranks
from rltok.runs.checkpoint import checkpoints, update_of
from rltok.system.place import place
from rltok.system.processes import meet, roll_call


def own_device(name: str) -> torch.device:
    """`resolve_device`, and among the processes of a machine the card whose number is this one's.

    Raises:
        RltokError: fewer cards than processes, or a name with the number of a card.
    """
    device, here = resolve_device(name), place()
    if here.count == 1 or device.type != "cuda":
        return device
    if device.index is not None:
        raise RltokError(f"--device {name} names one card, but each of {here.count} processes takes its own. Use --device cuda.")
    cards = torch.cuda.device_count()
    if here.local >= cards:
        raise RltokError(f"process {here.local} of this machine has no card: torch sees {cards}. Start --nproc-per-node {cards}.")
    torch.cuda.set_device(here.local)
    return torch.device("cuda", here.local)


def check_processes(config: Config) -> None:
    """Raise `RltokError` where the rows of an update cannot be dealt out to the processes there are."""
    check_ranks(config.train.sequences_per_update, config.train.micro_batch, place().count)


@contextmanager
def joined(config: Config, corpus: Corpus, device: torch.device) -> Iterator[Ranks]:
    """Inside, all processes of the run are connected; alone, nothing happens.

    Raises:
        RltokError: code, settings, text, precision or backend of two processes differ, or they are connected already.
    """
    here = place()
    if here.count == 1:
        yield ALONE
        return
    if dist.is_initialized():
        raise RltokError(
            "these processes are connected already: by a run that failed, or by a call of init_process_group. Start them anew for"
            " the next run, and leave that call to rltok."
        )
    text = " ".join(corpus.description[split]["hash"] for split in ("train", "validation"))
    called = roll_call({"code of rltok": _code(), "version of torch": torch.__version__, "set of settings": config.digest(),
                        "text": text, "kind of device": device.type, "precision": PRECISIONS[precision_of(config, device)],
                        "backend": backend_of(config, device)[0]})  # fmt: skip
    meeting = meet(called, device, sharing(config.train.sequences_per_update, config.train.micro_batch, here.count))
    yield Ranks(here.number, here.count, meeting.sharers, meeting.waiting, meeting.watched)
    with meeting.watched():
        meeting.part()


def check_newest(out: str | Path, ranks: Ranks) -> None:
    """Raise `RltokError` where a process finds a later checkpoint than process 0, from whose folder all go on.

    torchrun may give another machine number 0 than before, and that one would begin again. Processes that were given another
    `out`, or none, are not asked.
    """
    with ranks.watched():
        saved = checkpoints(Path(out)) if ranks.same(str(out)) == str(out) else []
        newest = update_of(saved[-1]) if saved else 0
        first, latest = ranks.same(newest), ranks.agree([newest])
    if latest > first:
        known = f"its newest checkpoint of update {first}" if first else "no checkpoint"
        raise RltokError(
            f"{out}, as process 0 sees it, has {known}, and as another one sees it, one of update {latest}. Give the machine that"
            " has it --node-rank 0, or let all share its disk."
        )


def _code() -> str:
    """Digest of the files of the package, as they are now."""
    folder, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(str(path.relative_to(folder)).encode() + path.read_bytes())
    return digest.hexdigest()[:12]


def same_state(ranks: Ranks, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Ranks:
    """Give all processes the weights, buffers and optimizer of process 0; returns `ranks` with the model."""
    if ranks.count == 1:
        return ranks
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    steps = ranks.same([float(optimizer.state[each]["step"]) for each in parameters if each in optimizer.state])
    if steps and not ranks.first:
        whole = optimizer.state_dict()
        whole["state"] = {
            number: {"step": torch.tensor(step), **{name: torch.zeros_like(each) for name in ("exp_avg", "exp_avg_sq")}}
            for number, (each, step) in enumerate(zip(parameters, steps, strict=True))
        }
        optimizer.load_state_dict(whole)
    if steps:
        for each in parameters:
            dist.broadcast(optimizer.state[each]["exp_avg"], 0)
            dist.broadcast(optimizer.state[each]["exp_avg_sq"], 0)
    return ranks.of_model(model)
