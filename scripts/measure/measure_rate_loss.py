"""What holds the rate: no rate loss, that of eq. (24) on logits, and the same pressure on probabilities.

    python scripts/measure/measure_rate_loss.py --seeds 0 1 2 --out notebooks/results/rate_loss.json

The preset tiny for half its updates on the bundled sample, target 1/5, once as it starts and twice from far away: the policy's
bias (22), which is not trained, is shifted so that the fresh policy draws at that rate under the cap. The rate reached is the
mean over the last fifth of the updates, each of which is logged. Runs that the file holds already, of the same settings and
text, stay in it and are not made again. `--updates` for shorter runs.
"""

import itertools
import math
from typing import Any

import small_runs
import torch
from small_runs import arguments, config_of, facts, parsed, run_missing, scored, trained
from torch import Tensor

from rltok.config import Config
from rltok.data import Corpus
from rltok.evidence.measuring import run
from rltok.losses import probability_rate_loss, target_rate_loss
from rltok.policy import uncapped_rate
from rltok.rng import row_uniforms
from rltok.step import RateLoss
from rltok.unet import AutoregressiveUNet

WHAT = "rates and held-out scores with three rate losses, the preset tiny on the bundled sample"


def no_rate_loss(logits: Tensor, target_rate: float, mask: Tensor) -> Tensor:
    """0, as with lambda_target = 0."""
    return torch.zeros(())


LOSSES: dict[str, RateLoss] = {"none": no_rate_loss, "logits": target_rate_loss, "probabilities": probability_rate_loss}
STARTS = (0.2, 0.01, 0.8)  # rate of the fresh policy, but for what its random weights do; 0.2 is the target, and no shift
UPDATES = 150


def start_at(model: AutoregressiveUNet, rate: float) -> None:
    """Give the policy the bias with which the cap lets this rate through; at the target rate it keeps that of eq. (22)."""
    if rate == model.config.rule.target_rate:
        return
    free = uncapped_rate(rate, model.config.rule.softcap)
    model.rule.bias = math.log(free / (1 - free))


@torch.no_grad()
def rate_under_the_cap(model: AutoregressiveUNet, corpus: Corpus, config: Config) -> float:
    """The rate on the rows that `scored` takes, from the same uniforms, with the cap that only training has."""
    drawn, hits, numbers = 0, 0, range(min(len(corpus.validation), config.train.evaluate_rows))
    model.train()
    for start in range(0, len(numbers), config.train.micro_batch):
        part = numbers[start : start + config.train.micro_batch]
        ids = corpus.validation.ids(list(part))
        out = model(ids, uniforms=row_uniforms(config.train.seed, 0, part, ids.shape[1] - 1))
        drawn, hits = drawn + int(out.drawn.sum()), hits + int((out.drawn & out.boundaries).sum())
    return hits / drawn


def one_run(loss: str, start: float, config: Config, corpus: Corpus) -> dict[str, Any]:
    """What the record says of one run; its held-out rate stands there twice, without the cap and with it."""
    model, curve, seconds = trained(config, corpus, lambda model: start_at(model, start), LOSSES[loss])
    score, capped = scored(model, corpus, config), rate_under_the_cap(model, corpus, config)
    return {"loss": loss, "start": start, "held_out_rate_capped": capped, **facts(config, curve, score, seconds)}


def verdict(runs: list[dict[str, Any]]) -> str:
    """Lowest and highest rate that each loss reached, over seeds, from the target's start and from the others."""
    parts = []
    for loss, far in itertools.product(LOSSES, (False, True)):
        rates = [one["rate"] for one in runs if one["loss"] == loss and (one["start"] != STARTS[0]) == far]
        if rates:
            parts.append(f"{loss} {'far from the target' if far else 'at the target'} {min(rates):.3f} to {max(rates):.3f}")
    return f"rates reached, by loss and start: {', '.join(parts)}"


def record_of(runs: list[dict[str, Any]], corpus: Corpus, updates: int) -> dict[str, Any]:
    """The runs in order, with everything that names the measurement."""
    runs = sorted(runs, key=lambda one: (STARTS.index(one["start"]), list(LOSSES).index(one["loss"]), one["seed"]))
    shared = config_of(0, updates)
    more = {"verdict": verdict(runs), "target": shared.model.rule.target_rate}
    return small_runs.record_of(WHAT, updates >= UPDATES, shared, corpus, runs, **more)


def line_of(entry: dict[str, Any]) -> str:
    """A line on a run."""
    what = f"{entry['loss']} from {entry['start_rate']:.3f}, seed {entry['seed']}: rate {entry['rate']:.4f}"
    return f"{what}, {entry['bits_per_byte']:.4f} bits per byte"


def main() -> None:
    """Command line."""
    parser = arguments(__doc__.splitlines()[0], UPDATES)
    parser.add_argument("--losses", nargs="+", choices=LOSSES, default=list(LOSSES))
    parser.add_argument("--starts", nargs="+", type=float, choices=STARTS, default=list(STARTS))
    options = parsed(parser)
    record = run_missing(
        options, WHAT, itertools.product(options.starts, options.losses, options.seeds),
        lambda one: (one["start"], one["loss"], one["seed"]),
        lambda job, config, corpus: one_run(job[1], job[0], config, corpus),
        lambda runs, corpus: record_of(runs, corpus, options.updates), line_of,
    )  # fmt: skip
    for loss, start in itertools.product(LOSSES, STARTS):
        rates = [one["rate"] for one in record["runs"] if (one["loss"], one["start"]) == (loss, start)]
        if rates:
            print(f"{loss:14s} from {start:<5g} reaches {', '.join(f'{rate:.4f}' for rate in rates)}")


if __name__ == "__main__":
    run(main)
