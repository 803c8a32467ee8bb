"""Keys and values that earlier positions leave behind: of byte layers the last few, of token layers all."""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rltok.attention import masked_attention, row_numbers

SMALLEST = 64  # tokens of a row that there is room for at first


def attend_one(q: Float[Tensor, "B H D"], keys: Tensor, values: Tensor, visible: Tensor, softcap: float | None) -> Tensor:
    """Attention of one query a row over the entries [B, H, K, D] of its cache that are visible, [B, K]."""
    mask = visible[:, None, None]
    if softcap is None:
        return F.scaled_dot_product_attention(q[:, :, None], keys, values, attn_mask=mask)[:, :, 0]
    return masked_attention(q[:, :, None], keys, values, mask, softcap)[:, :, 0]


class Cache:
    """Keys and values [B, H, K, D] of one layer."""

    def __init__(self) -> None:
        self.keys = self.values = torch.empty(0)

    def _set(self, keys: Tensor, values: Tensor) -> None:
        self.keys, self.values = keys, values

    def keep(self, rows: Int[Tensor, " kept"]) -> None:
        """Drop all other rows."""
        self._set(self.keys[rows], self.values[rows])


class WindowCache(Cache):
    """The last `window` positions of a byte layer, position p in slot p mod `window`: a new one takes the place of the oldest."""

    def fill(
        self, k: Float[Tensor, "B N H D"], v: Float[Tensor, "B N H D"], newest: Int[Tensor, " B"], window: int
    ) -> None:  # fmt: skip
        """Keys and values of whole rows, each up to its newest position."""
        slots = torch.arange(window, device=k.device)
        places = newest[:, None] - (newest[:, None] - slots) % window  # the last position that falls into each slot
        rows = torch.arange(len(k), device=k.device)[:, None]
        self._set(*(x[rows, places.clamp(min=0)].transpose(1, 2).contiguous() for x in (k, v)))

    def put(self, k: Float[Tensor, "B H D"], v: Float[Tensor, "B H D"], slots: tuple[Tensor, Tensor]) -> None:
        """Key and value of the newest position of each row; `slots`: rows, and their newest positions mod `window`."""
        rows, places = slots
        self.keys[rows, :, places], self.values[rows, :, places] = k, v

    @staticmethod
    def visible(newest: Int[Tensor, " B"], window: int) -> Bool[Tensor, "B window"]:
        """Slots that hold a position of the row: all, once it is as long as the window."""
        return torch.arange(window, device=newest.device) <= newest[:, None]


class TokenCache(Cache):
    """All tokens of each row in a token layer, in order; room doubles when it is used up."""

    def fill(self, k: Float[Tensor, "M H D"], v: Float[Tensor, "M H D"], offsets: Int[Tensor, " rows_plus_one"]) -> None:
        """Keys and values of packed tokens."""
        rows = row_numbers(offsets, len(k))
        places = torch.arange(len(k), device=k.device) - offsets[rows]
        room = max(SMALLEST, 2 * int(offsets.diff().max()))
        self._set(*(k.new_zeros(len(offsets) - 1, k.shape[1], room, k.shape[2]) for _ in range(2)))
        self.keys[rows, :, places], self.values[rows, :, places] = k, v

    def put(
        self, k: Float[Tensor, "R H D"], v: Float[Tensor, "R H D"], rows: Int[Tensor, " R"], places: Int[Tensor, " R"],
        longest: int,
    ) -> tuple[Tensor, Tensor]:  # fmt: skip
        """One more token in some rows, at these places; the keys and values of these rows up to place `longest` - 1."""
        if longest > self.keys.shape[2]:
            self._set(*(torch.cat([x, torch.zeros_like(x)], dim=2) for x in (self.keys, self.values)))
        self.keys[rows, :, places], self.values[rows, :, places] = k, v
        whole = len(rows) == len(self.keys)  # then nothing need be copied
        return tuple((x if whole else x[rows])[:, :, :longest] for x in (self.keys, self.values))
