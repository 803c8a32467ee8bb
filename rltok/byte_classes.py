"""Kinds of bytes by which boundary rates are reported: what does the policy treat differently?"""

import functools

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from rltok.vocab import BOS, EOS

CLASSES = ("space", "word start", "letter", "punctuation", "digit", "other")


def _table() -> Tensor:
    kinds = torch.full((BOS + 3,), CLASSES.index("other"))
    for byte in range(128):
        char = chr(byte)
        if char.isspace():
            kinds[byte] = CLASSES.index("space")
        elif char.isalpha():
            kinds[byte] = CLASSES.index("letter")
        elif char.isdigit():
            kinds[byte] = CLASSES.index("digit")
        elif char.isprintable():
            kinds[byte] = CLASSES.index("punctuation")
    return kinds


@functools.cache
def _kinds(device: torch.device) -> Tensor:
    """The table on a device: made once, because a copy from the host would wait for the device."""
    return _table().to(device)


def byte_classes(ids: Int[Tensor, "B N"]) -> Int[Tensor, "B N"]:
    """Index into CLASSES of each id; ASCII by character, "word start" is a letter right after white space, the rest "other".

    Each id is judged by itself and the id before it, so the class is known when the boundary is drawn. The first letter
    of a row (after BOS) counts as a word start.
    """
    kinds = _kinds(ids.device)[ids]
    before = torch.nn.functional.pad(ids[:, :-1], (1, 0), value=EOS)
    follows_space = (_kinds(ids.device)[before] == CLASSES.index("space")) | (before == BOS)
    starts = (kinds == CLASSES.index("letter")) & follows_space
    return torch.where(starts, CLASSES.index("word start"), kinds)


def boundary_counts(
    ids: Int[Tensor, "B N_plus_1"], boundaries: Bool[Tensor, "B N"], drawn: Bool[Tensor, "B N"]
) -> Int[Tensor, "classes 2"]:
    """Drawn positions, and boundaries among them, of each byte class."""
    each = torch.arange(len(CLASSES), device=ids.device)[:, None, None] == byte_classes(ids[:, :-1])  # [classes, B, N]
    # sums over masks: selecting by a mask, and bincount, would wait for the device
    return torch.stack([(each & chosen).sum(dim=(1, 2)) for chosen in (drawn, drawn & boundaries)], dim=1)
