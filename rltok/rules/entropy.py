"""Boundaries before bytes that a small frozen byte model finds hard to predict (BLT, Pagnoni et al. 2024)."""

import math

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from rltok.attention import window_attention
from rltok.config import ModelConfig
from rltok.errors import RltokError
from rltok.layers import Block, RMSNorm, initialise, rotary_table
from rltok.rules.base import Boundaries, TrainingRows, first_position
from rltok.rules.fitted import FittedRule, row_order
from rltok.vocab import EOS, PAD, PADDED_IDS, PREDICTED

MOST_BATCH_BYTES = 65_536  # of an update of the byte model
UPDATES = 500  # a smaller budget takes smaller batches before it takes fewer updates
CALIBRATION_BYTES = 1 << 17  # the threshold's standard error is then a few thousandths in the rate
CALIBRATION_ROWS = 16  # at a time
HEAD_DIM = 32


class ByteModel(nn.Module):
    """A causal transformer over bytes: embedding, blocks with a window, norm, head over the 257 ids that are predicted.

    Args:
        dim: width, a multiple of 32.
        layers: blocks.
        window: positions that a block sees, itself included.
        norm_eps, rope_theta: as in the U-Net.
    """

    def __init__(self, *, dim: int, layers: int, window: int, norm_eps: float, rope_theta: float) -> None:
        super().__init__()
        self.window, self.rope_theta = window, rope_theta
        self.sees = layers * (window - 1) + 1  # positions
        self.embedding = nn.Embedding(PADDED_IDS, dim)
        self.blocks = nn.ModuleList(Block(dim, dim // HEAD_DIM, 2 * dim, norm_eps) for _ in range(layers))
        self.norm = RMSNorm(dim, norm_eps)
        self.head = nn.Linear(dim, len(PREDICTED), bias=False)

    def forward(self, ids: Int[Tensor, "B N"]) -> Float[Tensor, "B N predicted"]:
        """Log-probabilities of ids[:, i + 1] given ids[:, : i + 1], in the order of `vocab.PREDICTED`."""
        states = self.embedding(ids)
        rotary = rotary_table(torch.arange(ids.shape[1], device=ids.device), HEAD_DIM, self.rope_theta, states.dtype)
        for block in self.blocks:
            states = block(states, rotary, lambda q, k, v: window_attention(q, k, v, window=self.window, softcap=None))
        return self.head(self.norm(states)).log_softmax(dim=-1)


def mean_nll(log_probs: Float[Tensor, "B N predicted"], targets: Int[Tensor, "B N"]) -> Float[Tensor, ""]:
    """Mean over the targets that are not PAD of -log p(target), nats."""
    places = targets.masked_fill(targets == EOS, PREDICTED.index(EOS))
    return F.nll_loss(log_probs.flatten(0, 1), places.flatten(), ignore_index=PAD)


def entropies(log_probs: Float[Tensor, "B N predicted"]) -> Float[Tensor, "B N"]:
    """H_i = - sum_x p(x | ids[:, : i + 1]) log p(x | ids[:, : i + 1]), nats."""
    return -(log_probs.exp() * log_probs).sum(dim=-1)


class EntropyRule(FittedRule):
    """A boundary wherever the next byte is hard to tell: a_i = 1 iff H_i > threshold.

    H_i is the entropy of a frozen `ByteModel`'s prediction of byte i + 1 from the bytes up to i. `fit` trains that model on
    the training rows, for `fit_bytes` bytes, and then sets the threshold so that on training rows (those it has seen
    last) the rate is `target_rate`; on other text the rate may differ. In BLT's words the hard byte starts a patch; here
    the byte before it carries the boundary, so that the token's state is there when the hard byte is predicted.

    Args:
        byte_model: not yet trained; its parameters never receive gradients through this rule.
        target_rate: wanted boundaries per byte, which sets the threshold.
        fit_bytes: bytes that the byte model is trained on.
        learning_rate: peak of the byte model's AdamW, reached after a tenth, then a cosine to 0.
    """

    name = "entropy"

    def __init__(self, byte_model: ByteModel, *, target_rate: float, fit_bytes: int, learning_rate: float) -> None:
        super().__init__()
        self.byte_model = byte_model.requires_grad_(False)
        self.target_rate, self.fit_bytes, self.learning_rate = target_rate, fit_bytes, learning_rate
        self.sees = byte_model.sees
        self.register_buffer("threshold", torch.zeros(()))

    @classmethod
    def for_model(cls, model: ModelConfig) -> FittedRule:
        """The rule with a byte model of the configured size, whose norms and rotary positions are those of the U-Net."""
        rule = model.rule
        byte_model = ByteModel(
            dim=rule.entropy_dim, layers=rule.entropy_layers, window=rule.entropy_window, norm_eps=model.norm_eps,
            rope_theta=model.rope_theta,
        )  # fmt: skip
        learning_rate = rule.entropy_learning_rate
        return cls(byte_model, target_rate=rule.target_rate, fit_bytes=rule.fit_bytes, learning_rate=learning_rate)

    def fit(self, rows: TrainingRows, seed: int) -> None:
        """Train the byte model, then calibrate the threshold; a function of rows and seed alone (on the CPU to the bit).

        Raises:
            RltokError: training diverged, or no row holds a byte whose boundary would be drawn.
        """
        if not len(rows):
            raise _too_little(0)
        self.fitted.fill_(False)  # until both have worked
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            torch.default_generator.manual_seed(seed)
            device = self.threshold.device
            fresh = self.byte_model.to("cpu")
            fresh.requires_grad_(True)
            initialise(fresh)
            for norm in (part for part in fresh.modules() if isinstance(part, RMSNorm)):
                nn.init.zeros_(norm.weight)
            _train(fresh.to(device), rows, seed, self.fit_bytes, self.learning_rate)
        self.byte_model.requires_grad_(False)
        self.byte_model.zero_grad(set_to_none=True)
        if not all(bool(weights.isfinite().all()) for weights in self.byte_model.parameters()):
            raise self._diverged("weights")
        self._calibrate(rows, seed)
        self.fitted.fill_(True)

    def _calibrate(self, rows: TrainingRows, seed: int) -> None:
        order, drawn_entropies = row_order(rows, seed)[::-1].copy(), []
        while sum(map(len, drawn_entropies)) < CALIBRATION_BYTES and len(order):
            ids, order = rows.ids(order[:CALIBRATION_ROWS]).to(self.threshold.device), order[CALIBRATION_ROWS:]
            drawn = (ids[:, 1:] != PAD) & ~first_position(ids[:, 1:])
            drawn_entropies.append(self._entropies(ids[:, :-1])[drawn])
        highest = torch.cat(drawn_entropies).sort(descending=True).values
        if not len(highest):
            raise _too_little(len(rows))
        if not bool(highest.isfinite().all()):
            raise self._diverged("entropies")
        self.threshold.copy_(highest[min(len(highest) - 1, round(self.target_rate * len(highest)))])

    def _diverged(self, what: str) -> RltokError:
        return RltokError(
            f"the byte model of the entropy rule has {what} that are not finite after training with"
            f" model.rule.entropy_learning_rate={self.learning_rate:g}. Lower it."
        )

    def entropies(self, ids: Int[Tensor, "B N"]) -> Float[Tensor, "B N"]:
        """H_i of every position, in the byte model's own precision even under autocast. Raises `RltokError` before `fit`."""
        self.require_fit()
        return self._entropies(ids)

    @torch.no_grad()
    def _entropies(self, ids: Int[Tensor, "B N"]) -> Float[Tensor, "B N"]:
        with torch.autocast(ids.device.type, enabled=False):
            return entropies(self.byte_model(ids))

    def facts(self) -> dict[str, float]:
        """The threshold, nats."""
        return {"threshold": float(self.threshold)}

    def decide(self, byte_states: Float[Tensor, "B N d"], ids: Int[Tensor, "B N"], uniforms: Float[Tensor, "B N"]) -> Boundaries:
        """Compare every H_i with the threshold; neither byte states nor uniforms are looked at."""
        return Boundaries((self.entropies(ids) > self.threshold) | first_position(ids))


def _too_little(rows: int) -> RltokError:
    return RltokError(
        f"the training text supports no entropy threshold: none of its {rows} rows holds 2 bytes, and the first of a row carries"
        " no drawn boundary. Give longer text."
    )


def _train(model: ByteModel, rows: TrainingRows, seed: int, total_bytes: int, learning_rate: float) -> None:
    """AdamW on next-byte NLL over passes of the rows in random order, until `total_bytes` input positions have been seen."""
    device, length = model.head.weight.device, rows.ids([0]).shape[1] - 1
    batch = min(len(rows), max(1, min(MOST_BATCH_BYTES, total_bytes // UPDATES) // length))
    steps = max(1, total_bytes // (batch * length))
    warmup = max(1, steps // 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    order, passes = row_order(rows, seed)[:0], 0
    for step in range(steps):
        if len(order) < batch:
            order, passes = row_order(rows, seed + passes), passes + 1
        ids, order = rows.ids(order[:batch]).to(device), order[batch:]
        factor = min((step + 1) / warmup, 0.5 * (1 + math.cos(math.pi * max(0, step - warmup) / max(1, steps - warmup))))
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * factor
        optimizer.zero_grad(set_to_none=True)
        mean_nll(model(ids[:, :-1]), ids[:, 1:]).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
