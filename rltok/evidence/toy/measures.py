"""What a run on the toy language is judged by: where its boundaries fall against the words, and what they are worth.

rows, model --decisions--> boundaries --> mutual_information with (word, place), f1_at_offsets from the word ends
bits per byte of run, oracle and random places --> share_of_gain
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Integer

from rltok.data.rows import Rows
from rltok.errors import RltokError
from rltok.evaluation import evaluate, evaluation_mode
from rltok.evidence.toy import Lexicon
from rltok.evidence.toy.lexicon import NO_WORD
from rltok.rng import row_uniforms
from rltok.unet import AutoregressiveUNet

ORACLE, RANDOM = "oracle", "random"  # names of runs with boundaries at word ends, and at random places as often
LETTERS = {"after letter 1": 1, "after letter 2": 2}  # with boundaries at this letter of every word
MORE_RANDOM = "random, 0.32"  # at random places as often as naive REINFORCE draws on "early", which is more often than asked for
CONTROLS = (ORACLE, RANDOM, *LETTERS, MORE_RANDOM)  # boundaries that nobody learned
WANTED = 0.8  # share of the oracle's gain

Run = dict[str, Any]  # of a record


def mutual_information(boundaries: Bool[np.ndarray, "..."], cells: Integer[np.ndarray, "..."]) -> float:
    """Bits that a position's cell tells of the decision made there: I(a; cell) = sum p(a, cell) log2 p(a, cell) / p(a) p(cell).

    From counts, so that a policy which ignores the cells still shows about (number of cells - 1) / (2 ln 2 positions).

    Args:
        boundaries: decisions.
        cells: the number of (word, place) at each of them, at least 0.

    Raises:
        RltokError: no position at all.
    """
    if boundaries.size == 0:
        raise RltokError("mutual information needs at least 1 position; got none. Give longer rows.")
    joint = np.zeros((2, int(cells.max()) + 1))
    np.add.at(joint, (boundaries.astype(np.int64).ravel(), cells.ravel()), 1)
    joint /= joint.sum()
    apart = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0, keepdims=True)
    seen = joint > 0
    return float((joint[seen] * np.log2(joint[seen] / apart[seen])).sum())


def f1_at_offsets(boundaries: Bool[np.ndarray, "B N"], ends: Bool[np.ndarray, "B N"], reach: int) -> dict[int, float]:
    """F1 of the boundaries against the positions k bytes after the word ends, for k from -reach to reach.

        F1_k = 2 |boundaries and ends shifted by k| / (|boundaries| + |ends shifted by k|)

    Positions from which the byte k before lies outside the row count on neither side. 0 where nothing coincides.

    Args:
        boundaries, ends: of the same bytes.
        reach: at most N - 1.

    Raises:
        RltokError: a reach that leaves no position, or is negative.
    """
    length = boundaries.shape[1]
    if not 0 <= reach < length:
        raise RltokError(f"reach must lie between 0 and {length - 1}, one less than the bytes of a row; got {reach}.")
    f1 = {}
    for k in range(-reach, reach + 1):
        drawn, wanted = boundaries[:, max(0, k) : length + min(0, k)], ends[:, max(0, -k) : length - max(0, k)]
        either = drawn.sum() + wanted.sum()
        f1[k] = float(2 * (drawn & wanted).sum() / either) if either else 0.0
    return f1


def share_of_gain(run: float, random: float, oracle: float) -> float:
    """How much of what word ends gain over random places a run has gained: (random - run) / (random - oracle).

    Bits per byte all three; 1 at the oracle, 0 at random places, below 0 where a run is worse than those.

    Raises:
        RltokError: the oracle gains nothing, so that there is no share of it.
    """
    if not oracle < random:
        raise RltokError(f"the oracle ({oracle:g} bits per byte) gains nothing over random places ({random:g}). Train longer.")
    return (random - run) / (random - oracle)


@dataclass(frozen=True)
class Cells:
    """Rows with every byte's (word, place), which runs on the same rows share."""

    rows: Rows
    word: Integer[np.ndarray, "B N"]
    place: Integer[np.ndarray, "B N"]
    number: Integer[np.ndarray, "B N"]  # one for each (word, place)
    ends: Bool[np.ndarray, "B N"]

    @staticmethod
    def of(rows: Rows, lexicon: Lexicon) -> "Cells":
        """The cells of rows that begin with a word; the last byte of a row carries no decision and is left out."""
        text = rows.bytes_[:, :-1].astype(np.int64)
        word, place = lexicon.places(text)
        return Cells(rows, word, place, word * int(lexicon.lengths.max()) + place, lexicon.follow(text) != NO_WORD)


@torch.no_grad()
def decisions(model: AutoregressiveUNet, rows: Rows, *, seed: int, batch: int) -> Bool[np.ndarray, "B N_less_1"]:
    """Boundaries on every byte of the rows but the last, which carries none: the draws of `evaluate` with the same seed."""
    made, device = [], next(model.parameters()).device
    with evaluation_mode(model):
        for start in range(0, len(rows), batch):
            numbers = range(start, min(len(rows), start + batch))
            ids = rows.ids(list(numbers)).to(device)
            out = model(ids, uniforms=row_uniforms(seed, 0, numbers, ids.shape[1] - 1).to(device))
            made.append(out.boundaries[:, 1:].cpu().numpy())
    return np.concatenate(made)


def rates_in_words(boundaries: Bool[np.ndarray, "B N"], cells: Cells, lexicon: Lexicon) -> list[list[float | None]]:
    """For every word, the share of boundaries at each of its bytes; None where the rows hold no such byte."""
    return [
        [
            float(boundaries[at].mean()) if (at := (cells.word == number) & (cells.place == place)).any() else None
            for place in range(length)
        ]
        for number, length in enumerate(lexicon.lengths)
    ]  # fmt: skip


def look(model: AutoregressiveUNet, cells: Cells, *, seed: int, batch: int) -> dict[str, Any]:
    """All measures of a model on held-out rows, as plain values: a point of a curve."""
    score = evaluate(model, cells.rows, seed=seed, batch=batch)
    boundaries = decisions(model, cells.rows, seed=seed, batch=batch)
    whole = cells.word != NO_WORD
    f1 = f1_at_offsets(boundaries, cells.ends, int(cells.place.max()))
    return {
        "bits_per_byte": score.bits_per_byte,
        "standard_error": score.standard_error,
        "early_bits_per_byte": score.early_bits_per_byte,
        "rate": score.rate,
        "policy_entropy": score.policy_entropy,
        "mutual_information": mutual_information(boundaries[whole], cells.number[whole]),
        "f1": {str(k): value for k, value in f1.items()},
    }


def key_of(run: Run) -> tuple[Any, ...]:
    """What tells runs of one record apart."""
    return tuple(run[key] for key in ("words", "order", "name", "seed"))


def shares(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """By estimator, language and seed: the share of the oracle's gain on test rows, and how many bytes it took.

    `bytes_to_0.8` is of the first look on the way from which on the share of validation rows, measured against the oracle and
    the random places at the end of their runs, stays at 0.8 or more; None where it never does. Runs without an oracle and
    random places of the same language and seed, or whose oracle gains nothing, are left out.
    """
    by_key = {key_of(run): run for run in runs}
    made: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for run in runs:
        ends = [by_key.get((run["words"], run["order"], name, run["seed"])) for name in (RANDOM, ORACLE)]
        if run["name"] in (RANDOM, ORACLE) or None in ends:
            continue
        random, oracle = ends
        if not _gains(oracle["test"], random["test"]):  # runs were too short
            continue
        share = share_of_gain(*(one["test"]["bits_per_byte"] for one in (run, random, oracle)))
        reached = None
        for point in reversed(run["curve"] if _gains(oracle["curve"][-1], random["curve"][-1]) else ()):
            on_the_way = (point, random["curve"][-1], oracle["curve"][-1])
            if share_of_gain(*(one["bits_per_byte"] for one in on_the_way)) < WANTED:
                break
            reached = point["bytes"]
        line = {"seed": run["seed"], "share": share, "bytes_to_0.8": reached}
        made.setdefault((run["words"], run["order"], run["name"]), []).append(line)
    return [
        {
            "words": words,
            "order": order,
            "name": name,
            "mean_share": statistics.fmean(each["share"] for each in lines),
            "seeds": lines,
        }
        for (words, order, name), lines in made.items()
    ]


def _gains(oracle: dict[str, Any], random: dict[str, Any]) -> bool:
    return oracle["bits_per_byte"] < random["bits_per_byte"]  # False for NaN
