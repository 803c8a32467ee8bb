"""What a low-rank early head (eq. 14) costs in bits per byte: the preset tiny with a full one and with shorter ones.

    python scripts/measure/measure_low_rank.py --seeds 0 1 2 --out notebooks/results/low_rank_head.json

Half of tiny's updates on the bundled sample, pairs of runs that differ in the early head alone: same seed, rows and draws. At
147M a rank of 47 meets the claim of 0.1 % (`rltok.evidence.cost`); the same share of the width of tiny, 64, is a
rank of 4. At this size no rank meets the claim itself: policy and heads weigh more in a small network. Runs that the file
holds already, of the same settings and text, stay in it and are not made again. `--updates` for shorter runs.
"""

import itertools
import statistics
from typing import Any

import small_runs
from small_runs import arguments, config_of, facts, parsed, run_missing, scored, trained

from rltok.config import Config
from rltok.data import Corpus
from rltok.evidence.cost import CLAIM, extra, largest_rank
from rltok.evidence.low_rank import shorten_early_head
from rltok.evidence.measuring import at_least, run
from rltok.presets import preset
from rltok.runs.models import new_model
from rltok.statistics import error_of_mean
from rltok.unet import AutoregressiveUNet

WHAT = "held-out scores with early heads of low rank, the preset tiny on the bundled sample"
UPDATES = 150
LARGE = "147m"  # whose rank is scaled down
FULL = 0  # stands for a full early head, where a rank is asked for


def scaled_rank(shared: Config) -> int:
    """The rank that meets the claim at the large size, by the share of the width that it has there."""
    large = preset(LARGE).model
    rank = largest_rank(large, large.rule.target_rate, CLAIM)
    return round(rank * shared.model.embedding_dim / large.embedding_dim)


def one_run(rank: int, config: Config, corpus: Corpus) -> dict[str, Any]:
    """What the record says of one run."""

    def shorten(model: AutoregressiveUNet) -> None:
        if rank != FULL:
            shorten_early_head(model, rank)

    model, curve, seconds = trained(config, corpus, shorten)
    costs = extra(config.model, config.model.rule.target_rate, rank or None)
    share = {"rank": rank, "early_head_share": costs.early_head / costs.guided}
    return share | facts(config, curve, scored(model, corpus, config), seconds)


def gaps(runs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each rank, bits per byte minus those of the full head of the same seed: mean, and standard error over seeds."""
    full = {one["seed"]: one for one in runs if one["rank"] == FULL}
    lines = []
    for rank in sorted({one["rank"] for one in runs} - {FULL}):
        line: dict[str, Any] = {"rank": rank}
        pairs = [(one, full[one["seed"]]) for one in runs if one["rank"] == rank and one["seed"] in full]
        for key in ("bits_per_byte", "early_bits_per_byte") if pairs else ():
            differences = [low[key] - whole[key] for low, whole in pairs]
            line[key] = statistics.fmean(differences)
            line[f"{key}_standard_error"] = error_of_mean(differences)
        lines.append(line)
    return lines


def verdict(lines: list[dict[str, Any]]) -> str:
    """Difference in bits per byte of each rank, with its standard error over seeds."""
    parts = []
    for line in lines:
        if "bits_per_byte" in line:
            error = line["bits_per_byte_standard_error"]
            parts.append(f"rank {line['rank']} {line['bits_per_byte']:+.4f}" + ("" if error is None else f" ± {error:.4f}"))
    return f"bits per byte minus those with a full early head: {', '.join(parts) or 'not measured yet'}"


def record_of(runs: list[dict[str, Any]], corpus: Corpus, updates: int) -> dict[str, Any]:
    """The runs in order, with everything that names the measurement."""
    runs = sorted(runs, key=lambda one: (one["rank"], one["seed"]))
    more = {"verdict": verdict(gaps(runs)), "gaps": gaps(runs)}
    return small_runs.record_of(WHAT, updates >= UPDATES, config_of(0, updates), corpus, runs, **more)


def line_of(entry: dict[str, Any]) -> str:
    """A line on a run."""
    what = f"rank {entry['rank'] or 'full'}, seed {entry['seed']}: {entry['bits_per_byte']:.4f} bits per byte"
    return f"{what}, early head {entry['early_bits_per_byte']:.4f}"


def main() -> None:
    """Command line."""
    parser = arguments(__doc__.splitlines()[0], UPDATES)
    parser.add_argument(
        "--ranks", type=int, nargs="+", help="beside the full head; default: that of 147M by its share of the width"
    )
    options = parsed(parser)
    shared = config_of(0, options.updates)
    at_least(1, ranks=min(options.ranks or [1]))
    for rank in options.ranks or []:
        shorten_early_head(new_model(shared, small_runs.CPU), rank)  # one that cannot be is told before anything is run
    record = run_missing(
        options, WHAT, itertools.product([FULL, *(options.ranks or [scaled_rank(shared)])], options.seeds),
        lambda one: (one["rank"], one["seed"]),
        lambda job, config, corpus: one_run(job[0], config, corpus),
        lambda runs, corpus: record_of(runs, corpus, options.updates), line_of,
    )  # fmt: skip
    print(record["verdict"])


if __name__ == "__main__":
    run(main)
