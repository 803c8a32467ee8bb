"""Several processes that compute one update together, and what they need of each other for it.

    batch_sum(part)   over the processes that hold rows of one micro-batch: in the means of losses and rules, and in eq. (17)
    Ranks             which of the processes this one is; counts, metrics and gradients over all of them

`rltok.runs.together` makes them of what torchrun started. In one process everything here returns what it is given.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

T = TypeVar("T")
Group = dist.ProcessGroup

# As autocast has its precision: means inside are over whole micro-batches, also in rules that know nothing of processes.
_sharers: ContextVar[Group | None] = ContextVar("sharers", default=None)


class _BatchSum(torch.autograd.Function):
    """A sum over processes, in which each is responsible for the gradient of its own part: it passes through as it is."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, group: Group) -> Tensor:
        """The sum of all parts."""
        whole = part.detach().clone()
        dist.all_reduce(whole, group=group)
        return whole

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        """All processes compute the same loss of the sum; the gradients of their parts are added up over them later."""
        return gradient, None


def batch_sum(part: Tensor) -> Tensor:
    """The sum over the rows of a whole micro-batch from that over the rows of this process; any shape, the same in each.

    Whatever is no plain sum over rows, such as a mean or its square, is computed from such sums, and so is the same function
    of the micro-batch for any number of processes.
    """
    group = _sharers.get()
    return part if group is None else _BatchSum.apply(part, group)


@dataclass(frozen=True)
class Ranks:
    """The processes that compute each update together. The default is one that computes it alone."""

    number: int = 0  # of this process, from 0; that one alone writes files and speaks
    count: int = 1
    sharers: Group | None = None  # the processes with rows of the same micro-batches; None where each has its own
    waiting: Group | None = None  # all, for what may take long, and for values on the CPU
    watched: Callable[[], AbstractContextManager[Any]] = nullcontext  # around what all do together: the end of one ends all
    replica: DistributedDataParallel | None = None  # of the model: its backward pass leaves the mean of all gradients

    @property
    def first(self) -> bool:
        """Whether this process writes the files of the run and speaks for all."""
        return self.number == 0

    @property
    def sharing(self) -> int:
        """How many processes have rows of each of this one's micro-batches."""
        return 1 if self.sharers is None else self.sharers.size()

    def of_model(self, model: nn.Module) -> "Ranks":
        """With the model of this process, whose weights and buffers become those of process 0."""
        if self.count == 1:
            return self
        return replace(self, replica=DistributedDataParallel(model, gradient_as_bucket_view=True))  # no second copy of gradients

    @contextmanager
    def micro_batch(self, last: bool) -> Iterator[None]:
        """Around forward and backward pass; gradients are exchanged in the last one of an update, while it computes."""
        apart: AbstractContextManager[Any] = nullcontext() if last or self.replica is None else self.replica.no_sync()
        before = _sharers.set(self.sharers)
        try:
            with apart:
                yield
        finally:
            _sharers.reset(before)

    def sum(self, values: Tensor) -> Tensor:
        """Sum over processes, in float64 where there are several."""
        if self.count == 1:
            return values
        whole = values.double()
        dist.all_reduce(whole)
        return whole

    def mean(self, values: Tensor) -> Tensor:
        """Mean over processes, as `replica` has it of gradients."""
        return values if self.count == 1 else self.sum(values) / self.count

    def agree(self, signals: list[int]) -> int:
        """The number of a signal that came to any of the processes; 0 without one."""
        came = signals[0] if signals else 0
        if self.count == 1:
            return came
        highest = torch.tensor(came)
        dist.all_reduce(highest, dist.ReduceOp.MAX, group=self.waiting)
        return int(highest)

    def wait(self) -> None:
        """Until all processes are here, however long the first one writes or scores."""
        if self.count > 1:
            dist.barrier(group=self.waiting)

    def same(self, value: T) -> T:
        """The value that process 0 has, in all of them."""
        if self.count == 1:
            return value
        box = [value]
        dist.broadcast_object_list(box, group=self.waiting)
        return box[0]


ALONE = Ranks()
