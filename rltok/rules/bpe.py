"""BPE guidance (appendix D.1): boundaries where a byte-pair tokenizer, trained beforehand, starts its tokens."""

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from rltok.config import ModelConfig
from rltok.rules.base import Boundaries, TrainingRows, first_position
from rltok.rules.byte_pairs import BytePairs, learn_merges, row_pattern
from rltok.rules.fitted import FittedRule, rows_in_random_order
from rltok.vocab import BOS


class BpeRule(FittedRule):
    """Boundaries from a byte-level BPE that `fit` trains on the training rows.

    * shifted, the paper's construction: a_i = 1 iff byte i is the first of a token and follows another token, in the
      segmentation of the whole row. Later bytes decide where a token ends, so this rule **looks ahead**: no boundary
      inside "walki" announces "ng". The shift by one hides the byte after a token's end, not that the token went on.
    * causal: a_i = 1 iff the last token starts at i in the segmentation of the bytes up to i alone. Splits of GPT-2 that
      look ahead at white space see the prefix only, too. A byte inside a character not yet complete counts as a
      character that is neither letter, digit nor space.

    There is no rate control: the rate follows from `vocabulary` and text. Segmentation runs on the CPU, so on a GPU every
    batch of ids is copied there and back, about 4 bytes a position.

    Args:
        vocabulary: ids wanted. Text too short for so many gives fewer: `reached_vocabulary` says how many.
        causal: which construction.
        fit_bytes: train on at most about so many bytes, of randomly chosen rows.
    """

    name = "bpe"

    def __init__(self, *, vocabulary: int, causal: bool, fit_bytes: int) -> None:
        super().__init__()
        self.causal = causal
        self.looks_ahead = None if causal else "later bytes decide where a token of bpe_boundary='shifted' ends"
        self.fit_bytes = fit_bytes
        # ids of both sides of every merge, -1 where the text supported no more; the settings decide the size
        self.register_buffer("merges", torch.full((vocabulary - 256, 2), -1, dtype=torch.int32))
        self._pairs: tuple[Tensor, BytePairs] | None = None  # made from the merges it stands beside

    @classmethod
    def for_model(cls, model: ModelConfig) -> FittedRule:
        """The rule that the settings describe; the sizes of the model do not matter."""
        rule = model.rule
        return cls(vocabulary=rule.vocabulary, causal=rule.bpe_boundary == "causal", fit_bytes=rule.fit_bytes)

    def fit(self, rows: TrainingRows, seed: int) -> None:
        """Train the tokenizer; the same rows and seed give the same merges."""
        texts = (bytes(row[row < BOS].astype(np.uint8)) for row in rows_in_random_order(rows, seed, self.fit_bytes))
        learnt = learn_merges(texts, len(self.merges) + 256)
        self.merges.fill_(-1)
        self.merges[: len(learnt)] = torch.from_numpy(learnt).to(self.merges.device)
        self.fitted.fill_(True)

    @property
    def pairs(self) -> BytePairs:
        """The tokenizer made from `merges`. Raises `RltokError` when the rule was not fitted."""
        self.require_fit()
        merges = self.merges.cpu()
        if self._pairs is None or not torch.equal(self._pairs[0], merges):
            self._pairs = (merges.clone(), BytePairs(merges[merges[:, 0] >= 0].numpy()))
        return self._pairs[1]

    @property
    def reached_vocabulary(self) -> int:
        """Ids of the tokenizer: fewer than `vocabulary` where the text supported no more."""
        return self.pairs.vocabulary

    def facts(self) -> dict[str, float]:
        """The size reached."""
        return {"reached_vocabulary": self.reached_vocabulary}

    def decide(self, byte_states: Float[Tensor, "B N d"], ids: Int[Tensor, "B N"], uniforms: Float[Tensor, "B N"]) -> Boundaries:
        """Segment every row; neither byte states nor uniforms are looked at."""
        pairs = self.pairs
        return Boundaries(self._rows(pairs, ids.cpu().numpy()).to(ids.device) | first_position(ids))

    def _rows(self, pairs: BytePairs, ids: Int[np.ndarray, "B N"]) -> Bool[Tensor, "B N"]:
        return torch.from_numpy(np.stack([row_pattern(pairs, row, self.causal) for row in ids]))
