"""The autoregressive U-Net (section 2.2, eqs. 1 to 6 and 14).

    ids -> encode -> byte_states -> rule.decide -> boundaries -> downsample -> mid -> upsample -> decode -> nll
                         `-> early head -> early_nll

Input position i holds ids[:, i] (position 0 is BOS) and predicts ids[:, i + 1]. A boundary at i is drawn from what
stands at or before i, and is visible when ids[:, i + 1] is predicted.
"""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from rltok.attention import row_causal_attention, window_attention
from rltok.config import ModelConfig
from rltok.errors import RltokError
from rltok.layers import Block, RMSNorm, initialise, rotary_table
from rltok.losses import next_byte_nll
from rltok.resample import Packed
from rltok.rng import row_uniforms
from rltok.rules import Boundaries, Rule, make_rule
from rltok.rules.base import first_position
from rltok.rules.check import check_decided, check_rule
from rltok.vocab import BOS, PAD, PADDED_IDS, PREDICTED


@dataclass(frozen=True)
class UNetOutput:
    """Result of one forward pass. Masks: True = counts."""

    nll: Float[Tensor, "B N"]  # nats; entry i predicts ids[:, i + 1]; 0 where not scored
    early_nll: Float[Tensor, "B N"]  # the same from the byte states alone, eq. (14)
    boundaries: Bool[Tensor, "B N"]
    boundary_logits: Float[Tensor, "B N"] | None  # None for rules without a policy
    scored: Bool[Tensor, "B N"]  # the target is not PAD
    drawn: Bool[Tensor, "B N"]  # scored and not forced
    aux_loss: Float[Tensor, ""]  # the rule's own, already weighted
    soft: Float[Tensor, "B N"] | None = None  # gates of straight-through rules
    byte_states: Float[Tensor, "B N d"] | None = None  # X of eq. (1), for `redraw`


class AutoregressiveUNet(nn.Module):
    """Byte layers, a token level whose length the boundary rule decides, byte layers.

    Args:
        config: sizes and rule, `Config.model`.
        rule: draws the boundaries in place of the rule that `config` names, and is initialised with the rest. Records and
            checkpoints still name `config.rule`.
    """

    def __init__(self, config: ModelConfig, rule: Rule | None = None) -> None:
        super().__init__()
        self.config = config
        d, eps = config.embedding_dim, config.norm_eps

        def blocks(count: int, mlp_ratio: int) -> nn.ModuleList:
            return nn.ModuleList(Block(d, config.num_heads, mlp_ratio * d, eps) for _ in range(count))

        def head_norm() -> nn.Module:
            return RMSNorm(d, eps) if config.head_norm in ("rms", "heads") else nn.Identity()

        self.row_bytes: int | None = None  # bytes of a row in training, where `load` or a run's settings say so
        self.embedding = nn.Embedding(PADDED_IDS, d)
        self.down_blocks = blocks(config.down_layers, config.byte_mlp_ratio)
        self.mid_blocks = blocks(config.mid_layers, config.token_mlp_ratio)
        self.up_blocks = blocks(config.up_layers, config.byte_mlp_ratio)
        if rule is not None:
            check_rule(rule)
        self.rule = make_rule(config) if rule is None else rule
        self.early_norm, self.output_norm = head_norm(), head_norm()
        self.early_head = nn.Linear(d, PADDED_IDS, bias=False)
        self.output_head = nn.Linear(d, PADDED_IDS, bias=False)
        never = torch.full((PADDED_IDS,), float("-inf"))
        never[list(PREDICTED)] = 0.0
        self.register_buffer("never_predicted", never, persistent=False)
        initialise(self)
        with torch.no_grad():  # eq. (14): both heads start equal, then go their own ways
            self.early_head.weight.copy_(self.output_head.weight)

    def _byte_layers(self, blocks: nn.ModuleList, states: Float[Tensor, "B N d"]) -> Float[Tensor, "B N d"]:
        rotary = self.rotary(torch.arange(states.shape[1], device=states.device), states.dtype)
        window, softcap = self.config.window, self.config.attention_softcap

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return window_attention(q, k, v, window=window, softcap=softcap)

        for block in blocks:
            states = block(states, rotary, attend)
        return states

    def _token_layers(self, packed: Packed, rotary: tuple[Tensor, Tensor]) -> Float[Tensor, "M d"]:
        states = packed.states

        def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return row_causal_attention(q, k, v, packed.offsets, softcap=self.config.attention_softcap)

        for block in self.mid_blocks:
            states = block(states, rotary, attend)
        return states

    def rotary(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """(cos, sin) of positions of any shape, in fp32 or wider; of rounded positions where `rotary_positions` is "bf16"."""
        head_dim = self.config.head_dim
        if self.config.rotary_positions == "bf16":
            positions = positions.to(torch.bfloat16)
        return rotary_table(positions, head_dim, self.config.rope_theta, torch.promote_types(dtype, torch.float32))

    def encode(self, ids: Int[Tensor, "B N"]) -> Float[Tensor, "B N d"]:
        """Byte states X of the input ids, eq. (1): X_i has seen ids[:, : i + 1]."""
        return self._byte_layers(self.down_blocks, self.embedding(ids))

    def mid(self, packed: Packed) -> Float[Tensor, "M d"]:
        """Token states Y' from X', eq. (4): full causal attention inside each row."""
        states = self._token_layers(packed, self.token_rotary(packed))
        return self.token_output(states, packed.states)

    def token_rotary(self, packed: Packed, earlier: Int[Tensor, " rows"] | None = None) -> tuple[Tensor, Tensor]:
        """(cos, sin) of tokens by their byte positions or their numbers in the row, as `token_positions` says; `earlier`: how
        many tokens of each row came before these."""
        places = packed.positions
        if self.config.token_positions == "index":
            index = torch.arange(len(places), device=places.device)
            rows = torch.bucketize(index, packed.offsets[1:], right=True)
            places = index - packed.offsets[rows] + (0 if earlier is None else earlier[rows])
        return self.rotary(places, packed.states.dtype)

    def token_output(self, states: Float[Tensor, "M d"], before: Float[Tensor, "M d"]) -> Float[Tensor, "M d"]:
        """Y' from the states after and before the token layers, as `upsample` says."""
        return states - before if self.config.upsample == "deviation" else states

    def decode(self, upsampled: Float[Tensor, "B N d"]) -> Float[Tensor, "B N d"]:
        """Byte layers after the token level, eq. (6) up to the output head."""
        return self._byte_layers(self.up_blocks, upsampled)

    def _logits(self, states: Tensor, norm: nn.Module, head: nn.Module) -> Tensor:
        """Logits over ids in fp32 or wider, even under autocast; -inf for ids that are never predicted."""
        wide = states.to(torch.promote_types(states.dtype, torch.float32))
        with torch.autocast(wide.device.type, enabled=False):
            return head(norm(wide)) + self.never_predicted

    def output_logits(self, decoded: Float[Tensor, "... d"]) -> Float[Tensor, "... ids"]:
        """Logits of the next byte from decoded states, eq. (6)."""
        return self._logits(decoded, self.output_norm, self.output_head)

    def early_logits(self, byte_states: Float[Tensor, "B N d"]) -> Float[Tensor, "B N ids"]:
        """Logits of the next byte from the byte states alone, eq. (14)."""
        return self._logits(byte_states, self.early_norm, self.early_head)

    def decide(
        self, byte_states: Float[Tensor, "B N d"], ids: Int[Tensor, "B N_plus_1"], *,
        uniforms: Float[Tensor, "B N"] | None = None, boundaries: Bool[Tensor, "B N"] | None = None,
        terms: Float[Tensor, "B N terms"] | None = None,
    ) -> Boundaries:  # fmt: skip
        """Boundaries drawn with the uniforms, or those given, eq. (2); none where the next byte is not scored.

        terms: `LearnedRule.terms` of these byte states, where they have been computed already.

        Raises:
            RltokError: the rule's answer has a wrong type, dtype or shape, or (on the CPU) no boundary at position 0.
        """
        counts, known = (ids[:, 1:] != PAD) | first_position(ids[:, :-1]), {} if terms is None else {"terms": terms}
        if boundaries is None:
            inputs = torch.where(counts, ids[:, :-1], PAD)
            decided = self.rule.decide(byte_states, inputs, uniforms, **known)
        else:
            decided = self.rule.prescribed(byte_states, boundaries, **known)
        method = "decide" if boundaries is None else "prescribed"
        check_decided(decided, f"{type(self.rule).__name__}.{method}", byte_states)
        return replace(decided, boundaries=decided.boundaries & counts)

    def after_boundaries(self, byte_states: Float[Tensor, "B N d"], decided: Boundaries) -> Float[Tensor, "B N d"]:
        """Decoded states from byte states and boundaries, eqs. (3) to (6): everything that the boundaries influence."""
        token_states = self.mid(self.rule.downsample(byte_states, decided))
        return self.decode(self.rule.upsample(token_states, byte_states, decided))

    def _output_nll(self, byte_states: Tensor, decided: Boundaries, targets: Tensor) -> Tensor:
        """-log p of each target, eqs. (3) to (6); [B, N], nats."""
        return next_byte_nll(self.output_logits(self.after_boundaries(byte_states, decided)), targets)

    def _both_nll(
        self, ids: Tensor, uniforms: Tensor | None, boundaries: Tensor | None
    ) -> tuple[Tensor, Tensor, Boundaries, Tensor]:  # fmt: skip
        """(nll, early_nll, what the rule decided, byte states), eqs. (1) to (6) and (14)."""
        byte_states, targets = self.encode(ids[:, :-1]), ids[:, 1:]
        decided = self.decide(byte_states, ids, uniforms=uniforms, boundaries=boundaries)
        nll = self._output_nll(byte_states, decided, targets)
        return nll, next_byte_nll(self.early_logits(byte_states), targets), decided, byte_states

    def forward(
        self, ids: Int[Tensor, "B N_plus_1"], *, uniforms: Float[Tensor, "B N"] | None = None,
        boundaries: Bool[Tensor, "B N"] | None = None, generator: torch.Generator | None = None,
    ) -> UNetOutput:  # fmt: skip
        """Score a batch of rows.

        Args:
            ids: BOS, then N bytes, PAD at the end of short rows.
            uniforms: numbers in [0, 1) that fix the draw.
            boundaries: prescribed boundaries instead of a draw; True at position 0.
            generator: source of the uniforms when neither is given; without it row b draws
                `row_uniforms(seed=0, step=0, rows=[b])`.

        Raises:
            RltokError: (a ValueError) ids of a wrong shape or value, boundaries without one at position 0.
        """
        uniforms = _checked(ids, uniforms, boundaries, generator)
        nll, early_nll, decided, byte_states = self._both_nll(ids, uniforms, boundaries)
        scored = ids[:, 1:] != PAD
        return UNetOutput(
            nll=nll,
            early_nll=early_nll,
            boundaries=decided.boundaries,
            boundary_logits=decided.logits,
            scored=scored,
            drawn=scored & ~first_position(scored),
            aux_loss=nll.new_zeros(()) if decided.aux_loss is None else decided.aux_loss,
            soft=decided.soft,
            byte_states=byte_states,
        )

    def redraw(self, ids: Int[Tensor, "B N_plus_1"], out: UNetOutput, uniforms: Float[Tensor, "B N"]) -> UNetOutput:
        """`forward(ids, uniforms=...)` from the byte states of another forward pass; its `nll` has no gradient."""
        decided = self.decide(out.byte_states, ids, uniforms=uniforms)
        with torch.no_grad():
            nll = self._output_nll(out.byte_states, decided, ids[:, 1:])
        return replace(out, nll=nll, boundaries=decided.boundaries, boundary_logits=decided.logits)

    def given_nll(self, ids: Int[Tensor, "B N_plus_1"], boundaries: Bool[Tensor, "B N"]) -> Float[Tensor, "B N"]:
        """`forward(ids, boundaries=...).nll` alone: neither early head nor policy run. For rules without soft gates."""
        _checked(ids, None, boundaries, None)
        return self._output_nll(self.encode(ids[:, :-1]), Boundaries(boundaries), ids[:, 1:])

    def log_probs(
        self, ids: Int[Tensor, "B N_plus_1"], *, uniforms: Float[Tensor, "B N"] | None = None,
        boundaries: Bool[Tensor, "B N"] | None = None, generator: torch.Generator | None = None,
    ) -> Float[Tensor, "B N ids"]:  # fmt: skip
        """Predictive log-probabilities log p(. | ids[:, : i + 1], a_{<= i}) at each position; arguments as in `forward`."""
        uniforms, byte_states = _checked(ids, uniforms, boundaries, generator), self.encode(ids[:, :-1])
        decided = self.decide(byte_states, ids, uniforms=uniforms, boundaries=boundaries)
        return self.output_logits(self.after_boundaries(byte_states, decided)).log_softmax(dim=-1)


def _checked(
    ids: Tensor, uniforms: Tensor | None, boundaries: Tensor | None, generator: torch.Generator | None
) -> Tensor | None:  # fmt: skip
    """The uniforms to draw with, None where boundaries are prescribed."""
    check_ids(ids)
    _check_given(ids, uniforms, boundaries)
    return _default_uniforms(ids, generator) if uniforms is None and boundaries is None else uniforms


def _default_uniforms(ids: Tensor, generator: torch.Generator | None) -> Tensor:
    rows, length = ids.shape[0], ids.shape[1] - 1
    if generator is None:
        return row_uniforms(0, 0, range(rows), length).to(ids.device)
    return torch.rand(rows, length, generator=generator, device=generator.device).to(ids.device)


def check_ids(ids: Tensor) -> None:
    """Raise `RltokError` unless ids are rows of BOS, bytes, EOS, and PAD at the end; values are checked on the CPU only."""
    if not isinstance(ids, Tensor):
        raise RltokError(f"ids must be a torch tensor, int64 of shape [B, N + 1]; got {type(ids).__name__}.")
    if ids.ndim != 2 or ids.shape[0] < 1 or ids.shape[1] < 2 or ids.dtype != torch.int64:
        raise RltokError(f"ids must be int64 of shape [B, N + 1] with B and N at least 1; got {ids.dtype} {tuple(ids.shape)}.")
    if ids.device.type != "cpu":  # values are checked where looking at them costs no synchronisation
        return
    if not bool((ids[:, 0] == BOS).all()):
        raise RltokError(f"every row of ids must begin with BOS = {BOS}; got {ids[:, 0].unique().tolist()}.")
    if bool((ids[:, 1:] == BOS).any()):
        raise RltokError(
            f"BOS = {BOS} may stand only at the start of a row, because it is never predicted; found it after other ids."
        )
    if int(ids.min()) < 0 or int(ids.max()) > PAD:
        raise RltokError(f"ids must lie between 0 and {PAD}; got {int(ids.min())} to {int(ids.max())}.")
    padded = ids == PAD
    if bool((padded[:, :-1] & ~padded[:, 1:]).any()):
        raise RltokError(f"PAD = {PAD} may stand only at the end of a row; found it before other ids.")


def _check_given(ids: Tensor, uniforms: Tensor | None, boundaries: Tensor | None) -> None:
    shape = (ids.shape[0], ids.shape[1] - 1)
    if uniforms is not None and boundaries is not None:
        raise RltokError("give uniforms (to draw) or boundaries (to prescribe), not both.")
    for name, given in (("uniforms", uniforms), ("boundaries", boundaries)):
        if given is not None and tuple(given.shape) != shape:
            raise RltokError(f"{name} must have shape {shape}, one entry for each input position; got {tuple(given.shape)}.")
    if uniforms is not None and uniforms.device.type == "cpu" and not bool(((uniforms >= 0) & (uniforms < 1)).all()):
        raise RltokError(
            f"uniforms must lie in [0, 1); got {float(uniforms.min()):g} to {float(uniforms.max()):g}. row_uniforms() makes some."
        )
    if boundaries is not None and (boundaries.dtype != torch.bool or not bool(boundaries[:, 0].all())):
        raise RltokError(
            f"boundaries must be bool with True at position 0 of every row (BOS carries the first token); got {boundaries.dtype}"
            f" with {int((~boundaries[:, 0].bool()).sum())} rows without it. Set boundaries[:, 0] = True."
        )
