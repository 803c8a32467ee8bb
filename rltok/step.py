"""One update, which spells the paper: forward, rewards, returns, advantages, losses, clip, step."""

import contextlib
import os
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from rltok.config import Config, ObjectiveConfig
from rltok.data import Corpus
from rltok.data.order import row_indices
from rltok.errors import RltokError
from rltok.estimator import policy_loss
from rltok.flops import parameter_counts
from rltok.kernels import backends
from rltok.losses import Losses, mean_over, target_rate_loss
from rltok.metrics import StepMetrics
from rltok.optim import gradient_norm, learning_rate, set_learning_rate
from rltok.rng import row_uniforms
from rltok.rules import Rule
from rltok.unet import AutoregressiveUNet, UNetOutput
from rltok.variance.ladder import advantages
from rltok.vocab import PAD

MicroBatch = tuple[Tensor, Tensor]  # ids [B, N + 1], uniforms [B, N]
TRAINING_BYTES = 16  # of a parameter in fp32: itself, its gradient, and AdamW's two
RateLoss = Callable[[Tensor, float, Tensor], Tensor]  # of logits, target rate and mask, as `target_rate_loss`


def advantages_of(out: UNetOutput, objective: ObjectiveConfig) -> Tensor:
    """Advantage of every decision, eqs. (15) to (17), as the objective asks; [B, N], without gradient."""
    return advantages(out.nll, out.early_nll, out.scored, objective)


def losses_of(
    out: UNetOutput, advantages: Tensor, target_rate: float, rate_loss: RateLoss = target_rate_loss
) -> Losses:  # fmt: skip
    """The parts of eq. (27); policy and target are 0 for a rule without a policy, whose own loss is `aux`.

    Every rule keeps the early head and its loss, so that all train under equal terms; the authors gave it to their own
    rule alone. `rate_loss` stands in for eq. (24).
    """
    zero = out.nll.new_zeros(())
    logits = out.boundary_logits
    return Losses(
        auto=mean_over(out.nll, out.scored),  # eq. (25)
        early=mean_over(out.early_nll, out.scored),  # eq. (26)
        policy=zero
        if logits is None
        else policy_loss(logits, out.boundaries, advantages, out.drawn, out.scored.sum()),  # eq. (18)
        target=zero if logits is None else rate_loss(logits, target_rate, out.drawn),  # eq. (24)
        aux=out.aux_loss,
    )


def train_step(
    model: AutoregressiveUNet, optimizer: torch.optim.Optimizer, batches: list[MicroBatch], config: Config, step: int,
    meanwhile: Callable[[], None] = lambda: None, rate_loss: RateLoss = target_rate_loss,
) -> StepMetrics:  # fmt: skip
    """One update: accumulate the gradient of eq. (27) over micro-batches, clip, step.

    Advantages are centred inside each micro-batch; losses are weighted by scored bytes, so that the update is the mean
    over all bytes of the update. A loss or gradient that is not finite raises `RltokError` before anything changes.
    `meanwhile` is called after each micro-batch, when a card, which works on its own, still has its backward pass before it.
    `rate_loss` stands in for eq. (24); records know none but that.
    """
    objective, metrics = config.objective, StepMetrics(step)
    weights = {name: getattr(objective, name) for name in ("lambda_auto", "lambda_policy", "lambda_target", "lambda_early")}
    scored = sum((ids[:, 1:] != PAD).sum() for ids, _ in batches)
    optimizer.zero_grad(set_to_none=True)
    for ids, uniforms in batches:
        with autocast(config, ids.device):
            out = model(ids, uniforms=uniforms)  # eqs. (1) to (6), (14), (19) to (23)
        advantages = advantages_of(out, objective)  # eqs. (15) to (17)
        losses = losses_of(out, advantages, config.model.rule.target_rate, rate_loss)
        (losses.total(**weights) * (out.scored.sum() / scored)).backward()  # eq. (27)
        metrics.add(ids, out, losses, advantages)
        meanwhile()
    metrics.grad_norm_rule = gradient_norm(list(model.rule.parameters()))
    metrics.grad_norm = torch.nn.utils.clip_grad_norm_(model.parameters(), config.train.clip_norm)
    metrics.check_finite()  # waits for the device
    metrics.learning_rate = learning_rate(step - 1, config.num_updates, config.train)
    set_learning_rate(optimizer, metrics.learning_rate)
    optimizer.step()
    return metrics


def uses_bf16(config: Config, device: torch.device) -> bool:
    """Whether forward passes run under bf16 autocast: asked for, or "auto" on a card that has it."""
    if config.train.precision == "auto":
        return device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
    return config.train.precision == "bf16"


def backend_of(config: Config, device: torch.device) -> tuple[str, str]:
    """`backends.chosen` for training with a configuration: ("plain" or "triton", why)."""
    return backends.chosen(device, uses_bf16(config, device), config.model.head_dim)


def autocast(config: Config, device: torch.device) -> contextlib.AbstractContextManager:
    """bf16 autocast where `uses_bf16` says so, else nothing."""
    return torch.autocast(device.type, torch.bfloat16) if uses_bf16(config, device) else contextlib.nullcontext()


def micro_batches(corpus: Corpus, config: Config, step: int, device: torch.device) -> list[MicroBatch]:
    """Rows and uniforms of update `step` (from 1): pure functions of seed, step and global row number."""
    return [_micro_batch(corpus, config, step, number, device) for number in range(config.micro_batches_per_update)]


def _micro_batch(corpus: Corpus, config: Config, step: int, number: int, device: torch.device) -> MicroBatch:
    train = config.train
    part = slice(number * train.micro_batch, (number + 1) * train.micro_batch)
    rows = range((step - 1) * train.sequences_per_update, step * train.sequences_per_update)[part]
    ids = corpus.train.ids(row_indices(train.seed, step - 1, train.sequences_per_update, len(corpus.train))[part])
    return _moved(ids, device), _moved(row_uniforms(train.seed, step, rows, ids.shape[1] - 1), device)


def _moved(x: Tensor, device: torch.device) -> Tensor:
    """On the device; to a card without waiting for it, which takes pinned memory."""
    return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x.to(device)


class Ahead:
    """Micro-batches of update after update, the next update's made one by one while a card is busy with this one's.

    Args:
        corpus, config, device: as of `micro_batches`.
        last: number of the last update that will be asked for.
    """

    def __init__(self, corpus: Corpus, config: Config, device: torch.device, last: int) -> None:
        self._make = partial(_micro_batch, corpus, config, device=device)
        self._count = config.micro_batches_per_update
        self._last = last if device.type == "cuda" else 0  # a CPU gains nothing
        self._step, self._ready = 0, list[MicroBatch]()

    def __call__(self, step: int) -> list[MicroBatch]:
        """Those of update `step`."""
        ready = self._ready if self._step + 1 == step else []
        self._step, self._ready = step, []
        return ready + [self._make(step=step, number=number) for number in range(len(ready), self._count)]

    def prepare(self) -> None:
        """Make one more of the next update's: `train_step` calls it when the device has enough to do."""
        if self._step < self._last and len(self._ready) < self._count:
            self._ready.append(self._make(step=self._step + 1, number=len(self._ready)))


def resolve_device(name: str) -> torch.device:
    """The device called `name`; "auto" takes a CUDA card when there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise RltokError(f"there is no device {name!r}. Use auto, cpu or cuda.") from error
    if device.type not in ("cpu", "cuda"):
        raise RltokError(f"rltok does not run on {name!r}. Use auto, cpu or cuda.")
    if device.type == "cuda" and not torch.cuda.is_available():
        raise RltokError(f"device {name!r} was asked for, but torch {torch.__version__} sees no CUDA card. Use --device cpu.")
    return device


def memory_bytes(device: torch.device) -> int:
    """Memory of a card, or of the machine; 0 where the system does not tell."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else 0


def _too_large(config: Config) -> RltokError:
    model, rule, beside, remedy = config.model, config.model.rule, "", ""
    if rule.name == "entropy":
        beside = f", and a byte model with entropy_dim={rule.entropy_dim} and {rule.entropy_layers} layers,"
        remedy = ", or a smaller model.rule.entropy_dim"
    return RltokError(
        f"a model with embedding_dim={model.embedding_dim}, {model.down_layers} + {model.mid_layers} + {model.up_layers} layers"
        f" and MLP ratios of {model.byte_mlp_ratio} and {model.token_mlp_ratio}{beside} does not fit into memory. Choose a"
        f" smaller model.embedding_dim, fewer layers or smaller ratios{remedy}."
    )


def new_model(config: Config, device: torch.device, rule: Rule | None = None) -> AutoregressiveUNet:
    """A freshly initialised model; the weights depend on the seed alone, and the global random state is left as it was.

    A rule that is given stands in for the one that the configuration names.
    """
    # Counted first: a system that promises more memory than it has ends the process without a word.
    if 0 < memory_bytes(device) < TRAINING_BYTES * sum(parameter_counts(config.model).values()):
        raise _too_large(config)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(config.train.seed)
        try:
            return AutoregressiveUNet(config.model, rule).to(device)
        except (RuntimeError, MemoryError) as error:  # from torch's allocator, which has no exception of its own on the CPU
            raise _too_large(config) from error
