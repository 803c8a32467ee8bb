"""Runs on the toy language: which there are, the loop of one, and what a record says of it.

Arm(language, estimator, seed) --run_arm--> curve of `toy_measures.look`, and where the boundaries fall at the end
"""

import time
from dataclasses import dataclass
from typing import Any

import torch

from rltok.config import Config
from rltok.data import Corpus
from rltok.data.batches import micro_batches
from rltok.evidence.toy import Language, Lexicon, OracleRule, independent, second_order
from rltok.evidence.toy.lexicon import WORDS
from rltok.evidence.toy.measures import CONTROLS, LETTERS, MORE_RANDOM, ORACLE, RANDOM, Cells, decisions, look, rates_in_words
from rltok.optim import make_optimizer
from rltok.presets import preset
from rltok.runs.models import new_model
from rltok.runs.results import thin
from rltok.step import train_step
from rltok.variance.ladder import estimator

FULL = "causal+early+gamma0.9+batch"
QUIET = "naive, weight / 50"  # with its advantages, hundreds of times as large at first and tens at the end, weighed down
QUIET_FACTOR = 1 / 50
MORE = 0.32  # boundaries per byte; of naive REINFORCE on "early" the record has 0.30 to 0.35
ESTIMATORS = ("naive", QUIET, "causal", "causal+early", "causal+early+gamma0.9", FULL)
CURVE_POINTS = 60
HELD_OUT_ROWS = 64
SURPRISE = 0.1  # probability of a word that nothing foretells
LANGUAGE_SEED = 0  # of table and text; runs of every seed share both
# On top of the preset tiny. With a byte window of 2, a prediction sees 3 bytes through byte layers alone: at most the last word.
# With a scale of 1 the policy settles before the token layers know what a word foretells, and then on a place of no use; with
# half the updates, or weights of 1, a seed of "late" is left behind. Found on validation rows.
SETTINGS: dict[str, Any] = {
    "model.window": 2,
    "model.rule.scale": 4.0,
    "data.sequence_length": 128,
    "data.cut": "documents",
    "train.sequences_per_update": 16,
    "train.micro_batch": 16,
    "train.training_bytes": 640 * 16 * 128,
}


@dataclass(frozen=True)
class Arm:
    """One run: a language, who draws the boundaries, and the seed of weights, order and draws."""

    words: str  # a key of WORDS
    order: str  # "second" or "independent"
    name: str  # of `ladder`, or QUIET, or one of CONTROLS
    seed: int

    @property
    def language(self) -> Language:
        """The language it reads."""
        lexicon = Lexicon(WORDS[self.words])
        return independent(lexicon) if self.order == "independent" else second_order(lexicon, SURPRISE, LANGUAGE_SEED)

    def config(self, settings: dict[str, Any]) -> Config:
        """The preset tiny with `SETTINGS`, this arm's own and those given; the rate is that of word ends."""
        language = self.language
        own = {"name": "toy", "train.seed": self.seed, "model.rule.target_rate": round(1 / language.bytes_per_word, 9)}
        if self.name in (RANDOM, MORE_RANDOM):
            own["model.rule.name"] = "random_k"
        if self.name == MORE_RANDOM:
            own["model.rule.target_rate"] = MORE
        if self.name not in CONTROLS:
            rung = estimator("naive" if self.name == QUIET else self.name)
            if self.name == QUIET:
                own["objective.lambda_policy"] = QUIET_FACTOR * preset("tiny").objective.lambda_policy
            own |= {f"objective.{key}": getattr(rung, key) for key in ("gamma", "relative_rewards", "credit", "centring")}
        return preset("tiny", SETTINGS | own | settings)


def toy_corpus(language: Language, config: Config) -> Corpus:
    """Text enough for one pass, and held-out rows."""
    sizes = (config.num_updates * config.train.sequences_per_update, HELD_OUT_ROWS, HELD_OUT_ROWS)
    return language.corpus("toy", config.data.sequence_length, sizes, LANGUAGE_SEED)


def run_arm(arm: Arm, settings: dict[str, Any], looks: int) -> dict[str, Any]:
    """Train one model and look at it `looks` times on the way, on validation rows; then once on test rows.

    Args:
        arm: which run.
        settings: dotted, on top of `SETTINGS`.
        looks: evaluations after the first, which is of the untrained model.
    """
    language, config, device = arm.language, arm.config(settings), torch.device("cpu")
    corpus = toy_corpus(language, config)
    cells = {part: Cells.of(getattr(corpus, part), language.lexicon) for part in ("validation", "test")}
    rule = OracleRule(language.lexicon, LETTERS.get(arm.name)) if arm.name in (ORACLE, *LETTERS) else None
    model = new_model(config, device, rule).train()
    optimizer = make_optimizer(model, config.train)
    total, batch, seconds, advantage_rms = config.num_updates, config.train.micro_batch, 0.0, None
    due = {round(total * number / looks) for number in range(looks + 1)}
    curve = []
    for step in range(total + 1):
        if step:
            start = time.process_time()
            metrics = train_step(model, optimizer, micro_batches(corpus, config, step, device), config, step)
            seconds += time.process_time() - start  # of CPU: other runs may share its cores
            advantage_rms = metrics.to_dict()["advantage_rms"]
        if step in due:
            point = look(model, cells["validation"], seed=arm.seed, batch=batch)
            curve.append({"step": step, "bytes": step * config.bytes_per_update, "advantage_rms": advantage_rms, **point})
    boundaries = decisions(model, cells["test"].rows, seed=arm.seed, batch=batch)
    return {
        "words": arm.words,
        "order": arm.order,
        "name": arm.name,
        "seed": arm.seed,
        "config_hash": config.digest(),
        "data": corpus.description,
        "updates": total,
        "bytes": total * config.bytes_per_update,
        "seconds": round(seconds, 1),
        "curve": thin(curve, CURVE_POINTS),
        "test": look(model, cells["test"], seed=arm.seed, batch=batch),
        "rates_in_words": rates_in_words(boundaries, cells["test"], language.lexicon),
    }
