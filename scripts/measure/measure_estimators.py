"""Estimators beyond the paper: exact bias and variance on short rows, sampled variance on real ones, and what each costs.

    python scripts/measure/measure_estimators.py --out notebooks/results/estimators.json

Trains the preset tiny on the bundled sample and stops at `MOMENTS`. There every rung of `rltok.variance.beyond` is measured:
over all draws of rows of 4 bytes in float64, and on batches of full rows. About 12 minutes of one core. Commit first.
"""

import argparse
import copy
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rltok.config import Config
from rltok.data import load_corpus
from rltok.evidence.measuring import run
from rltok.presets import preset
from rltok.runs.results import origin
from rltok.system.files import write_json
from rltok.unet import AutoregressiveUNet
from rltok.variance.beyond import Baseline, linear_value
from rltok.variance.beyond_exact import Table
from rltok.variance.beyond_laboratory import BASE, HEADS, costs, measures, sample, value_weights
from rltok.variance.exact import exact_gradient, joint_moments
from rltok.variance.gradients import policy_parameters, share
from rltok.variance.laboratory import Sizes, batches_of
from rltok.variance.stages import at_stages, rounded

WHAT = "estimators beyond the paper, exact and sampled, the preset tiny on the bundled sample"
MOMENTS = (60, 200, None)  # finished updates; None is all of them
SIZES = Sizes(rows=16, batches=10, draws=3, reference_draws=12)
FITTED = 8  # batches that the values are fitted to, others than those measured
EXACT_ROWS, EXACT_BYTES, EXACT_FITTED = 16, 4, 1024  # rows, their bytes, rows of as many that the values are fitted to
CPU = torch.device("cpu")


def fitted_values(model: AutoregressiveUNet, batches: list[Tensor], config: Config) -> dict[str, Baseline]:
    """The linear values at the present weights."""
    gamma, lags, seed = config.objective.gamma, config.model.rule.lags, config.train.seed + 1
    made = {}
    for name, sees in HEADS.items():
        weights = value_weights(model, batches, seed, gamma=gamma, sees=sees)
        made[name] = linear_value(weights, lags=lags, gamma=gamma, sees=sees)
    return made


def exact(model: AutoregressiveUNet, short: Tensor, config: Config) -> dict[str, dict[str, float]]:
    """Bias and variance of every rung on the first of these rows, one at a time, with values fitted to the others.

    bias_true: of the undiscounted rung, against the gradient of the expected loss; bias: of the discounted one, against the
    expectation of the ladder's `causal+early+gamma`; the largest over rows and over all parameters that the policy gradient
    reaches, in the largest entry of what it is held against. variance: the trace, mean over rows; ratio: one draw's over it.
    """
    model, gamma = copy.deepcopy(model).double(), config.objective.gamma
    values = fitted_values(model, [short[EXACT_ROWS:]], config)
    names, discounted = list(policy_parameters(model)), f"causal+early+gamma{gamma:g}"
    found: dict[str, dict[str, float]] = {}
    for ids in short[:EXACT_ROWS].split(1):
        table, true = Table.of(model, share(model, ids)), exact_gradient(model, ids).flat("policy", names)
        ladder = joint_moments(model, ids, [discounted])[discounted].mean
        for key, discount, wanted in (("bias_true", 1.0, true), ("bias", gamma, ladder)):
            for name, *update in table.rungs(discount, values):
                moments, one = table.moments(*update), found.setdefault(name, {"bias_true": 0.0, "bias": 0.0, "variance": 0.0})
                one[key] = max(one[key], float((moments.mean - wanted).abs().max() / wanted.abs().max()))
                if key == "bias":
                    one["variance"] += float(moments.variance.sum()) / EXACT_ROWS
    base = found["one draw"]["variance"]
    return {name: one | {"ratio": base / one["variance"]} for name, one in found.items()}


def measured(config: Config, seed: int) -> Iterator[dict[str, Any]]:
    """The record after each moment of one run."""
    corpus, gamma, start = load_corpus("sample", config.data), config.objective.gamma, time.process_time()
    record = {
        "schema": 1,
        "what": WHAT,
        **origin(config, corpus.description, CPU),
        "seed": seed,
        "base": BASE,
        **asdict(SIZES),
        "fitted_batches": FITTED,
        "exact_rows": EXACT_ROWS,
        "exact_bytes": EXACT_BYTES,
        "exact_fitted": EXACT_FITTED,
        "stages": [],
    }
    batches = batches_of(corpus.train, Sizes(SIZES.rows, SIZES.batches + FITTED, 2, 2), seed, CPU)
    kept, for_values = batches[: SIZES.batches], batches[SIZES.batches :]
    short = corpus.train.ids(range(EXACT_ROWS + EXACT_FITTED))[:, : EXACT_BYTES + 1]
    shares = {str(moment): 1.0 if moment is None else moment / config.num_updates for moment in MOMENTS}
    for _, step, model in at_stages(config, corpus, shares, CPU):
        sampled = measures(sample(model, kept, fitted_values(model, for_values, config), SIZES, seed, gamma))
        exactly = exact(model, short, config)
        cost = costs(config.model, config.data.sequence_length, sampled["means"]["rate"], SIZES)
        record["stages"].append(rounded({"step": step, "sampled": sampled, "exact": exactly, "costs": cost}))
        yield record | {"seconds": round(time.process_time() - start, 1)}  # of one core


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=0, help="of training, rows and draws")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for record in measured(preset("tiny", {"train.seed": options.seed}), options.seed):
        write_json(options.out, record)
        last = record["stages"][-1]
        ratios = {name: one["ratio"][0] for name, one in last["sampled"]["rungs"].items()}
        print(f"after {last['step']} updates: " + ", ".join(f"{name} {ratio}" for name, ratio in ratios.items()), flush=True)


if __name__ == "__main__":
    run(main)
