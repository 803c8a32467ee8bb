"""`generate`: several prompts at once, to their ends; `stream`: one, piece by piece. Both run a `Generation`."""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch

from rltok.device import memory_bytes
from rltok.errors import RltokError, TrainingFailed
from rltok.evaluation import checked_model, evaluation_mode
from rltok.generation.caches import SMALLEST
from rltok.generation.draws import draw
from rltok.generation.passes import CachedPass, FullPass
from rltok.generation.sampling import Sampling
from rltok.generation.text import TextStream
from rltok.rng import row_uniforms
from rltok.rules.growing import ANY_BYTE, GrowingRows
from rltok.unet import AutoregressiveUNet
from rltok.vocab import EOS, Texts, as_texts, encode

BOUNDARY_DRAWS, BYTE_DRAWS = 0, 1  # streams of random numbers of a row


def _require_room(model: AutoregressiveUNet, rows: int, longest: int) -> None:
    """Refuse what cannot fit: a system that promises more memory than it has ends the process without a word."""
    weight, memory = model.embedding.weight, memory_bytes(model.embedding.weight.device)
    caches = 2 * model.config.window * (len(model.down_blocks) + len(model.up_blocks)) + 2 * SMALLEST * len(model.mid_blocks)
    needed = weight.element_size() * weight.shape[1] * rows * (longest + caches)  # and passes take more
    if 0 < memory < needed:
        raise RltokError(
            f"{rows} texts of up to {longest - 1} bytes at once take more than {needed / 1e9:.3g} GB, and there are"
            f" {memory / 1e9:.3g} GB. Take fewer texts at once, or fewer bytes."
        )


@dataclass(frozen=True)
class Generated:
    """A row when it has ended."""

    prompt: bytes
    data: bytes  # what follows the prompt, without the stop string
    boundaries: tuple[bool, ...]  # after each byte of prompt and data: whether a token ends there
    ended: Literal["end", "stop", "length"]  # by the model; before a stop string; after as many bytes as were allowed

    @property
    def text(self) -> str:
        """What follows the prompt; bytes that are no UTF-8 become U+FFFD."""
        return self.data.decode("utf-8", errors="replace")


class Generation:
    """Rows on their way: an iterator over steps, each a list with a piece of text for every row, "" for rows that have ended.

    What a row becomes depends on model, prompt, sampling and the number of the row, and on no other row. The random numbers of
    a byte belong to its position, so that a text given back as a prompt goes on as it did. Rows may grow longer than any in
    training: positions are relative and byte layers see a window, so nothing ends there, but the model has not learned it.

    Args:
        model: in any mode; it runs in evaluation mode, in the precision of its weights.
        prompts: a text or several; an empty one starts from nothing. Bytes need not be UTF-8.
        sampling: how to go on.
        row_length: bytes of a row in training, for rules that place boundaries by the length of the row (`even`); rows that grow
            longer than that are placed by their own length. None: what the model knows, `model.row_bytes`.
        cached: False makes a full pass for every byte, slow and simple.

    Raises:
        RltokError: no prompt, no model, a rule that looks ahead, an empty stop string, more rows than fit into memory.
    """

    def __init__(
        self, model: AutoregressiveUNet, prompts: Texts, sampling: Sampling, *, row_length: int | None = None,
        cached: bool = True,
    ) -> None:  # fmt: skip
        rule, texts, stops = checked_model(model).rule, as_texts(prompts), as_texts(sampling.stop)
        if not texts:
            raise RltokError("there is no prompt. Give at least one; an empty text starts from nothing.")
        if rule.looks_ahead is not None:
            raise RltokError(
                f"{type(rule).__name__} cannot generate byte by byte: {rule.looks_ahead}. Take a model whose boundaries depend"
                " on earlier bytes alone, such as one of the rule learned."
            )
        self.model, self.sampling = model, sampling
        self.streams = [TextStream(stops) for _ in texts]
        self.prompts = [encode(text) for text in texts]
        self.ended: list[Any] = [None] * len(texts)
        self.boundaries: list[tuple[bool, ...]] = [()] * len(texts)
        lengths = [len(prompt) + sampling.max_bytes + 1 for prompt in self.prompts]
        if rule.reads_length:
            lengths = [max(row_length or model.row_bytes or 0, length) for length in lengths]
        _require_room(model, len(texts), max(lengths))
        weight, seed, numbers = model.embedding.weight, sampling.seed, range(len(texts))
        uniforms, self.byte_draws = (
            row_uniforms(seed, draws, numbers, max(lengths)).to(weight.device) for draws in (BOUNDARY_DRAWS, BYTE_DRAWS)
        )
        rows = GrowingRows.begin(
            [torch.from_numpy(prompt) for prompt in self.prompts], uniforms, lengths, weight.shape[1], weight.dtype,
            filled=rule.reads_length,
        )  # fmt: skip
        self.going = torch.arange(len(texts), device=weight.device)  # numbers of the rows that have not ended
        self.passes, self.made = (CachedPass if cached else FullPass)(model, rows), 0
        self.logits: torch.Tensor | None = None

    def __iter__(self) -> Iterator[list[str]]:
        """The steps that are still to come."""
        return self

    @torch.inference_mode()
    def __next__(self) -> list[str]:
        """One more byte in each row that goes on."""
        if None not in self.ended:
            raise StopIteration
        with evaluation_mode(self.model) if self.model.training else nullcontext():
            logits = self.passes.start() if self.logits is None else self.logits
            ids = draw(self.sampling, logits, self.byte_draws[self.going, self.passes.rows.newest])
            self.made += 1
            pieces = [""] * len(self.prompts)
            for row, drawn in zip(self.going.tolist(), ids.tolist(), strict=True):
                pieces[row] = self._take(row, drawn)
            self.logits = self.passes.step(ids.masked_fill(ids == EOS, ANY_BYTE))
            self._drop_ended()
        return pieces

    def _take(self, row: int, drawn: int) -> str:
        """What a new id of the row adds to its text; notes whether the row has ended."""
        if drawn < 0:
            raise TrainingFailed(
                "probabilities of the next byte come out as nan: the weights have grown too large. Take an earlier checkpoint, or"
                " train again with a lower train.learning_rate."
            )
        stream = self.streams[row]
        piece = "" if drawn == EOS else stream.feed(drawn)
        if drawn == EOS:
            self.ended[row] = "end"
        elif stream.stopped:
            self.ended[row] = "stop"
        elif self.made == self.sampling.max_bytes:
            self.ended[row] = "length"
        return piece if self.ended[row] is None else piece + stream.finish()

    def _drop_ended(self) -> None:
        """Note the boundaries of rows that have just ended, which cost nothing from now on."""
        numbers, boundaries = self.going.tolist(), self.passes.rows.boundaries
        left = [place for place, row in enumerate(numbers) if self.ended[row] is None]
        if len(left) == len(numbers):
            return
        for row, drawn in zip(numbers, boundaries.tolist(), strict=True):
            if self.ended[row] is not None:
                known = len(self.prompts[row]) + len(self.streams[row].data)
                self.boundaries[row] = tuple(drawn[1 : known + 1])
        kept = torch.tensor(left, dtype=torch.long, device=self.going.device)
        self.going, self.logits = self.going[kept], self.logits[kept]
        self.passes.keep(kept)

    def results(self) -> list[Generated]:
        """All rows, once all have ended."""
        for _ in self:
            pass
        rows = zip(self.prompts, self.streams, self.boundaries, self.ended, strict=True)
        return [Generated(bytes(prompt.tolist()), text.data, drawn, ended) for prompt, text, drawn, ended in rows]


def _sampling(settings: dict[str, Any]) -> Sampling:
    """The sampling of keyword arguments. Raises `RltokError` for a name that is none, with those that there are."""
    names = [field.name for field in fields(Sampling)]
    for name in sorted(settings.keys() - names):
        raise RltokError(
            f"there is no setting {name!r} of how text goes on. There are {', '.join(names)}, row_length; for several samples"
            " repeat the prompt."
        )
    return Sampling(**settings)


def generate(model: AutoregressiveUNet, prompts: Texts, *, row_length: int | None = None, **settings: Any) -> list[Generated]:
    """How one prompt or several go on, all at once: `generate(model, ["Once", "The"], max_bytes=100, temperature=0.7)`.

    Samples of one prompt are rows that begin alike: `generate(model, ["Once"] * 3)`.

    Args:
        model, prompts, row_length: as in `Generation`.
        settings: those of `Sampling`: max_bytes, temperature, top_k, top_p, seed, stop.

    Raises:
        RltokError: see `Generation` and `Sampling`.
    """
    return Generation(model, prompts, _sampling(settings), row_length=row_length).results()


def stream(model: AutoregressiveUNet, prompt: str | bytes, *, row_length: int | None = None, **settings: Any) -> Iterator[str]:
    """How one prompt goes on, in pieces that can be printed at once: `for piece in stream(model, "Once"): ...`.

    Arguments and errors as in `generate`; joined, the pieces are the text.
    """
    steps = Generation(model, [prompt], _sampling(settings), row_length=row_length)
    return (piece for (piece,) in steps if piece)
