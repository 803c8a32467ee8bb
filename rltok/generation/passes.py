"""Logits of the next byte of rows that grow: by a full pass for every byte, or by what one byte adds to caches.

Both have `start()` for the logits after the prompts, `step(ids)` for those after one more byte in each row, `keep(rows)` to drop
the others, and `rows`, what is known of each. They give the same, to rounding: see `tests/generation/test_generation.py`.
"""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from rltok.attention import row_causal_attention as token_attention
from rltok.attention import window_attention
from rltok.generation.caches import Cache, TokenCache, WindowCache, attend_one
from rltok.resample import Packed
from rltok.rules import Boundaries, Rule
from rltok.rules.growing import ANY_BYTE, GrowingRows, entries
from rltok.unet import AutoregressiveUNet
from rltok.vocab import PAD


class FullPass:
    """The definition: every byte scores its whole row anew, as training does."""

    def __init__(self, model: AutoregressiveUNet, rows: GrowingRows) -> None:
        self.model, self.rows = model, rows

    def start(self) -> Float[Tensor, "B ids"]:
        """Log-probabilities of the byte after each prompt."""
        rows, model = self.rows, self.model
        width = rows.ids.shape[1] - 1 if model.rule.reads_length else rows.longest
        inputs, targets = rows.ids[:, :width], rows.ids[:, 1 : width + 1]
        ids = rows.ids[:, : width + 1].clone()  # a position whose target is PAD would count as padding
        ids[:, 1:] = targets.masked_fill((targets == PAD) & (inputs != PAD), ANY_BYTE)
        byte_states = model.encode(inputs)
        decided = model.decide(byte_states, ids, uniforms=rows.uniforms[:, :width])
        rows.boundaries[:, :width] = decided.boundaries
        return model.output_logits(model.after_boundaries(byte_states, decided))[rows.here]

    def step(self, ids: Int[Tensor, " B"]) -> Float[Tensor, "B ids"]:
        """The same with one more byte in every row."""
        self.rows.put(ids)
        return self.start()

    def keep(self, rows: Int[Tensor, " kept"]) -> None:
        """Drop all other rows."""
        self.rows.keep(rows)


def _own(rule: Rule, method: str) -> bool:
    """Whether the rule does this in its own way."""
    return getattr(type(rule), method) is not getattr(Rule, method)


def _through(
    blocks: Iterable[nn.Module], caches: Iterable[Cache], states: Tensor, rotary: tuple[Tensor, Tensor],
    attend: Callable[[Any, Tensor, Tensor, Tensor], Tensor],
) -> Tensor:  # fmt: skip
    """Block after block, each with its cache: `attend(cache, q, k, v)`."""
    for block, cache in zip(blocks, caches, strict=True):
        states = block(states, rotary, partial(attend, cache))
    return states


class CachedPass:
    """One pass over the prompts, then for every byte the byte layers at one position of each row, and the token layers where
    that position ends a token. Rows end their tokens at different bytes, so the token layers see only some rows at a time.
    """

    def __init__(self, model: AutoregressiveUNet, rows: GrowingRows) -> None:
        self.model, self.rows = model, rows
        self.down, self.up = ([WindowCache() for _ in blocks] for blocks in (model.down_blocks, model.up_blocks))
        self.tokens = [TokenCache() for _ in model.mid_blocks]
        places = torch.arange(rows.ids.shape[1] - 1, device=rows.ids.device)
        self.cos, self.sin = model.rotary(places, rows.byte_states.dtype)

    def start(self) -> Float[Tensor, "B ids"]:
        """Logits of the byte after each prompt, from one pass over all of them."""
        model, rows, width = self.model, self.rows, self.rows.longest
        byte_states = self._whole_rows(model.down_blocks, self.down, model.embedding(rows.ids[:, :width]))
        rows.byte_states[:, :width] = byte_states
        decided = self._decide(width)
        packed = model.rule.downsample(byte_states, decided)

        def attend(cache: TokenCache, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            cache.fill(k, v, packed.offsets)
            return token_attention(q, k, v, packed.offsets, softcap=model.config.attention_softcap)

        states = _through(model.mid_blocks, self.tokens, packed.states, model.token_rotary(packed), attend)
        token_states = model.token_output(states, packed.states)
        self.latest = model.rule.settle(token_states, decided)[packed.offsets[1:] - 1]
        self.counts = packed.offsets.diff()
        self.host_counts = self.counts.tolist()
        self.ends = torch.where(decided.boundaries, torch.arange(width, device=rows.ids.device), 0).amax(dim=1)
        upsampled = model.rule.upsample(token_states, byte_states, decided)
        return model.output_logits(self._whole_rows(model.up_blocks, self.up, upsampled)[rows.here])

    def _whole_rows(self, blocks: nn.ModuleList, caches: list[WindowCache], states: Tensor) -> Tensor:
        window, softcap, width = self.model.config.window, self.model.config.attention_softcap, states.shape[1]

        def attend(cache: WindowCache, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            cache.fill(k, v, self.rows.newest, window)
            return window_attention(q, k, v, window=window, softcap=softcap)

        return _through(blocks, caches, states, (self.cos[:width], self.sin[:width]), attend)

    def _decide(self, width: int) -> Boundaries:
        """Boundaries of the prompts; of a rule that reads how long rows will be, from rows of that length."""
        rows, rule = self.rows, self.model.rule
        read = rows.ids.shape[1] - 1 if rule.reads_length else width
        decided = rule.decide(rows.byte_states[:, :read], rows.ids[:, :read], rows.uniforms[:, :read])
        known = torch.arange(width, device=rows.ids.device) <= rows.newest[:, None]
        rows.boundaries[:, :width] = decided.boundaries[:, :width] & known
        if decided.soft is not None:
            rows.gates[:, :width] = decided.soft[:, :width]
        return Boundaries(rows.boundaries[:, :width], soft=rows.gates[:, :width])

    def step(self, ids: Int[Tensor, " B"]) -> Float[Tensor, "B ids"]:
        """Logits after one more byte in every row."""
        model, rows = self.model, self.rows
        rows.put(ids)
        here, window, softcap = rows.here, model.config.window, model.config.attention_softcap
        slots, visible = (here[0], rows.newest % window), WindowCache.visible(rows.newest, window)
        rotary = self.cos[rows.newest], self.sin[rows.newest]

        def attend(cache: WindowCache, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            cache.put(k, v, slots)
            return attend_one(q, cache.keys, cache.values, visible, softcap)

        byte_states = _through(model.down_blocks, self.down, model.embedding(ids), rotary, attend)
        rows.byte_states[here] = byte_states
        decided = model.rule.decide_newest(rows)
        rows.boundaries[here] = decided.boundaries[:, 0]
        if decided.soft is not None:
            rows.gates[here] = decided.soft[:, 0].to(rows.gates.dtype)
        if ended := [row for row, ends in enumerate(decided.boundaries[:, 0].tolist()) if ends]:
            self._new_tokens(torch.tensor(ended, device=ids.device), ended)
        upsampled = self._upsample(byte_states, decided)
        return model.output_logits(_through(model.up_blocks, self.up, upsampled, rotary, attend))

    def _new_tokens(self, rows: Int[Tensor, " R"], on_host: list[int]) -> None:
        """The token layers for the rows whose newest byte ends a token."""
        model, packed, places = self.model, self._pool(rows), self.counts[rows]
        longest = 1 + max(self.host_counts[row] for row in on_host)
        visible = torch.arange(longest, device=rows.device) <= places[:, None]

        def attend(cache: TokenCache, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            keys, values = cache.put(k, v, rows, places, longest)
            return attend_one(q, keys, values, visible, model.config.attention_softcap)

        states = _through(model.mid_blocks, self.tokens, packed.states, model.token_rotary(packed, places), attend)
        token_states = model.token_output(states, packed.states)
        self.latest[rows] = self._settle(rows, token_states)
        self.counts[rows] += 1
        self.ends[rows] = self.rows.newest[rows]
        for row in on_host:
            self.host_counts[row] += 1

    def _pool(self, rows: Int[Tensor, " R"]) -> Packed:
        """The token that ends at the newest byte of each of these rows: the byte's own state, or the last one that the rule's
        `downsample` makes of the bytes from the boundary before."""
        known, newest, offsets = self.rows, self.rows.newest[rows], torch.arange(len(rows) + 1, device=rows.device)
        if not _own(self.model.rule, "downsample"):
            return Packed(known.byte_states[rows, newest], offsets, newest)
        start = self.ends[rows]
        width = int((newest - start).max()) + 1
        whole = (known.byte_states, known.boundaries, known.gates)
        states, boundaries, gates = (entries(values, start, width, rows) for values in whole)
        boundaries = boundaries & (start[:, None] + torch.arange(width, device=start.device) <= newest[:, None])
        packed = self.model.rule.downsample(states, Boundaries(boundaries, soft=gates))
        last = packed.offsets[1:] - 1
        return Packed(packed.states[last], offsets, packed.positions[last] + start)

    def _settle(self, rows: Int[Tensor, " R"], token_states: Float[Tensor, "R d"]) -> Float[Tensor, "R d"]:
        """What bytes read of the new token of each row: what the rule makes of it and of what they read before."""
        if not _own(self.model.rule, "settle"):
            return token_states
        pairs = torch.stack([self.latest[rows].to(token_states.dtype), token_states], dim=1)
        gates = self.rows.gates[rows, self.rows.newest[rows]][:, None].expand(-1, 2)
        both = Boundaries(torch.ones_like(gates, dtype=torch.bool), soft=gates)
        return self.model.rule.settle(pairs.flatten(0, 1), both)[1::2]

    def _upsample(self, byte_states: Float[Tensor, "B d"], decided: Boundaries) -> Float[Tensor, "B d"]:
        """The newest byte of each row with what bytes read of the latest token, as the only byte and token of a row."""
        if not _own(self.model.rule, "upsample"):
            return byte_states + self.latest
        alone = Boundaries(torch.ones_like(decided.boundaries), soft=decided.soft)
        return self.model.rule.upsample(self.latest, byte_states[:, None], alone)[:, 0]

    def keep(self, rows: Int[Tensor, " kept"]) -> None:
        """Drop all other rows."""
        for part in (self.rows, *self.down, *self.tokens, *self.up):
            part.keep(rows)
        self.latest, self.counts, self.ends = self.latest[rows], self.counts[rows], self.ends[rows]
        self.host_counts = [self.host_counts[row] for row in rows.tolist()]
