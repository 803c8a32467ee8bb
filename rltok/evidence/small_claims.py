"""Claims that small runs, counts or enumeration answer: from the records of other chapters, without a sweep.

Their records were there before these questions were written down, so each says in its own words what was compared.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from rltok.config import with_settings
from rltok.evidence.cost import CLAIM, extra
from rltok.evidence.criteria import NOT_RUN
from rltok.evidence.ladder import rows_of, stage_names
from rltok.evidence.verdicts import CONTRADICTED, SUPPORTED, UNDECIDED, Finding, bounded, finding
from rltok.presets import preset
from rltok.runs.snapshots import text_ids
from rltok.statistics import mean_and_error
from rltok.unet import AutoregressiveUNet
from rltok.variance.exact import enumerate_row

NAIVE, WHOLE = "naive", "causal+early+gamma0.99+batch"
EVERY_BYTE = 0.99  # boundaries per byte that count as one for every byte
TEXT = b"tokens"


@dataclass(frozen=True)
class SmallClaim:
    """A claim and where its answer comes from: a stored record, or a computation of seconds."""

    id: str
    text: str
    source: str
    paper: str
    record: str | None  # name in notebooks/results; None: computed
    criterion: Callable[[Any], Finding]


def equality(_: None) -> Finding:
    """Eq. (10) as printed would make the gap of Jensen's inequality 0; it is added up over all strings of a short text."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        tiny = with_settings(preset("tiny"), {"model.embedding_dim": 16, "model.num_heads": 2}).model
        row = enumerate_row(AutoregressiveUNet(tiny).double().eval(), text_ids(TEXT))
    gap = float(row.jensen_gap)
    return finding(f"left minus right side {gap:.1e} nats on {TEXT.decode()!r}", CONTRADICTED if gap > 1e-9 else SUPPORTED)


def computation(_: None) -> Finding:
    """Early head and policy in the FLOPs of BPE guidance, 147M at its target rate, by the paper's rule."""
    model = preset("147m").model
    share = extra(model, model.rule.target_rate).counted_share
    return finding(f"{share:.2%}", SUPPORTED if share < CLAIM else CONTRADICTED)


def time(record: dict[str, Any]) -> Finding:
    """The measured cost of policy and early head in the time of an update, with its interval."""
    cost, (low, high) = record["policy_cost"]["cost"], record["policy_cost"]["interval"]
    verdict = SUPPORTED if high < CLAIM else CONTRADICTED if low > CLAIM else UNDECIDED
    return finding(f"{cost:+.2%} ({low:+.2%} to {high:+.2%}) of an update, {record['device']}", verdict)


def noise(record: dict[str, Any]) -> Finding:
    """Rows that naive REINFORCE and the whole ladder need for a cosine of 0.5, at every stage and seed; None is never."""
    stages = stage_names(record)
    pairs = [
        (naive if naive is not None else float("inf"), whole if whole is not None else float("inf"))
        for stage in stages
        for naive, whole in zip(*(rows_of(record, stage, name) for name in (NAIVE, WHOLE)), strict=True)
    ]
    fewer = sum(whole < naive for naive, whole in pairs)
    verdict = SUPPORTED if fewer == len(pairs) else CONTRADICTED if fewer == 0 else UNDECIDED
    return finding(f"fewer rows in {fewer} of {len(pairs)} stages and seeds of the preset tiny", verdict)


def _rates(record: dict[str, Any], loss: str) -> list[float]:
    return [run["rate"] for run in record["runs"] if run["loss"] == loss]


def no_constraint(record: dict[str, Any]) -> Finding:
    """Without a rate loss a token ends at every byte."""
    rates = _rates(record, "none")
    every = sum(rate > EVERY_BYTE for rate in rates)
    verdict = SUPPORTED if every == len(rates) else CONTRADICTED if every == 0 else UNDECIDED
    others = [rate for rate in rates if rate <= EVERY_BYTE]
    rest = f", the others between {min(others):.2f} and {max(others):.2f}" if others else ""
    return finding(f"{every} of {len(rates)} runs came above {EVERY_BYTE} boundaries per byte{rest}", verdict)


def pressure(record: dict[str, Any]) -> Finding:
    """Distance of the rate from its target, mean over starts of each seed: pressure on probabilities minus on logits."""
    runs = pd.DataFrame(record["runs"])
    runs["distance"] = (runs["rate"] - record["target"]).abs()
    by_seed = runs.pivot_table(index="seed", columns="loss", values="distance")[["probabilities", "logits"]].dropna()
    mean, error = mean_and_error((by_seed["probabilities"] - by_seed["logits"]).to_numpy())
    sides = " against ".join(f"{value:.3f} with {loss}" for loss, value in by_seed.mean().items())
    return finding(f"mean distance from the target {sides}, {len(by_seed)} seeds", bounded(mean, error, len(by_seed), low=0.0))


def leak(record: dict[str, Any]) -> Finding:
    """What shifted boundaries tell of the rest of a word, by counts: bits per byte without them minus with them.

    Counts of the words of one text are what they are: there is no error, and any gap above 0 is information about later bytes.
    """
    size = max(record["words"], key=int)
    bits = record["words"][size]["leak"]
    measured = f"{bits:.3f} bits per byte of the rest of words, by counts, vocabulary of {int(size):,}"
    return finding(measured, CONTRADICTED if bits > 0 else SUPPORTED)


def small_claims() -> list[SmallClaim]:
    """All of them, in the order of the paper."""
    paper = f"less than {CLAIM:.1%}"
    return [
        SmallClaim("efficiency_flops",
            f"learned boundaries add less than {CLAIM:.1%} to the FLOPs of BPE guidance (a wish of the paper)", "§2.1", paper,
            None, computation),
        SmallClaim("efficiency_time", "the same of time, policy and estimator alone", "§2.1", paper, "bench_147m", time),
        SmallClaim("equality", "log p(y|x) equals the expectation of log p(y|a,x)", "eq. (10)", "an equation", None, equality),
        SmallClaim("noise", "with the reductions, REINFORCE needs fewer rows for a policy gradient in about the right direction",
            "§2.4", "in words", "variance_ladder", noise),
        SmallClaim(
            "no_constraint", "without a rate loss every byte ends a token", "§2.6", "in words", "rate_loss", no_constraint
        ),
        SmallClaim("pressure", "pressure on probabilities is unstable (ours: ends farther from the target than on logits)",
            "§2.6", "in words", "rate_loss", pressure),
        SmallClaim("leak", "shifting BPE boundaries by one byte removes what they tell of later bytes", "D.1", "in words",
            "bpe_leak", leak),
    ]  # fmt: skip


def judged(claim: SmallClaim, results: Path) -> Finding:
    """What a small claim's record shows; no run where the file is not there."""
    if claim.record is None:
        return claim.criterion(None)
    path = results / f"{claim.record}.json"
    return claim.criterion(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else NOT_RUN
