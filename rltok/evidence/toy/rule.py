"""Boundaries where words end, read off the bytes: what a policy that knew the lexicon would draw."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from rltok.errors import RltokError
from rltok.evidence.toy.lexicon import NO_WORD, Lexicon
from rltok.rules.base import Boundaries, Rule, first_position


class OracleRule(Rule):
    """A boundary on the last byte of every word, visible when the next word's first byte is predicted; or on letter `letter`.

    Causal, because no word begins another: the end of a word is known from the bytes up to it. Rows begin with a word.

    Args:
        lexicon: the words.
        letter: 1 puts the boundary on the first letter of every word, and so on; on the last of a shorter word. None: the last.
    """

    def __init__(self, lexicon: Lexicon, letter: int | None = None) -> None:
        super().__init__()
        if letter is not None and letter < 1:
            raise RltokError(f"letters of a word are counted from 1; got letter={letter}.")
        self.lexicon, self.letter = lexicon, letter

    def decide(self, byte_states: Float[Tensor, "B N d"], ids: Int[Tensor, "B N"], uniforms: Float[Tensor, "B N"]) -> Boundaries:
        """Follow the words from the byte after BOS on."""
        ended = torch.from_numpy(self.lexicon.follow(ids[:, 1:].cpu().numpy()) != NO_WORD).to(ids.device)
        if self.letter is not None:
            place = torch.arange(ended.shape[1], device=ids.device).expand_as(ended)
            last = torch.where(ended, place, -1).cummax(dim=1).values  # the end of the last whole word, up to here
            before = torch.nn.functional.pad(last, (1, 0), value=-1)[:, :-1]
            ended = (place - before == self.letter) | (ended & (place - before < self.letter))
        return Boundaries(torch.nn.functional.pad(ended, (1, 0), value=False) | first_position(ids))
