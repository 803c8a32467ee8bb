"""Write what the book says of the claims of the paper, and of speed, from the stored records.

python scripts/book/make_claims.py    # rewrites claims.md, speeds.md and several_cards.md in book/_generated; a test fails
                                      # while they are out of date
"""

import json
from pathlib import Path

from rltok.evidence import aside, measuring, records, summary, tables
from rltok.evidence.chapters import ch06_runs
from rltok.flops import parameter_counts
from rltok.presets import preset
from rltok.runs.models import TRAINING_BYTES
from rltok.speed.speeds import measured_speeds

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "notebooks" / "results"
GENERATED = ROOT / "book" / "_generated"


def speeds() -> str:
    """What was measured of speed on cards, in a sentence."""
    rows = measured_speeds()
    plain = {row["record"]: row["bytes_per_second"] for row in rows if row["backend"] == "plain"}
    sentences = []
    for row in (row for row in rows if row["backend"] == "triton"):
        rate, total = row["bytes_per_second"], preset(row["preset"]).train.training_bytes
        sentences.append(
            f"`{row['preset']}` trains at {rate / 1e6:.2f} MB/s, {rate / plain[row['record']]:.1f} times as fast as plain PyTorch"
            f" ({total / rate / 3600:.1f} hours for its {total / 1e9:g} GB)"
        )
    devices = " and ".join(dict.fromkeys(row["device"] for row in rows))
    return f"On one {devices}, {'; '.join(sentences)}; what was timed, and how, is in [how it is fast](how_it_is_fast.md)."


FIRST = 5  # updates, over which differences of rounding have not grown yet
PARTS = (slice(FIRST), slice(-1, None))


def several_cards() -> str:
    """How much faster cards are together, and how nearly they compute the same."""
    record = json.loads((RESULTS / "processes_147m.json").read_text())
    medians, times = record["median_seconds"], record["times_as_fast"]
    losses: dict[int, list[list[float]]] = {}
    for run in record["runs"]:
        losses.setdefault(run["processes"], []).append(run["nll"])
    alone, several = losses[1], next(runs for count, runs in losses.items() if count > 1)
    together, apart = (
        [max(abs(mine / own - 1) for run in runs for mine, own in zip(run[part], alone[0][part], strict=True)) for part in PARTS]
        for runs in (several, alone[1:])
    )
    (count,) = times.keys() - {"1"}
    return (
        f"{count} {record['device']} of one machine train `{record['preset']}` {times[count]:.2f} times as fast as one of them"
        f" ({medians[count]:.3f} and {medians['1']:.3f} s an update; runs took turns, and differ by"
        f" {record['spread_of_rounds']:.1%}). Their losses differ from those of one card by at most {together[0]:.2%} in the"
        f" first {FIRST} updates and by {together[1]:.1%} after {len(alone[0])}; two runs of one card by {apart[0]:.3%} and"
        f" {apart[1]:.1%}, because sums in bf16 depend on their order, and training amplifies what differs."
    )


CARDS = (80, 141)  # GB, of an H100 and an H200


def sharding() -> str:
    """From which number of parameters on a model's state does not fit on one card."""
    largest = preset("147m")
    weights = sum(parameter_counts(largest.model).values())
    fitting = " or ".join(f"{size / TRAINING_BYTES:.1f} billion on one of {size} GB" for size in CARDS)
    return (
        f"In fp32 weights, gradients and AdamW's two moments take {TRAINING_BYTES} bytes a parameter:"
        f" {weights * TRAINING_BYTES / 1e9:.1f} GB for the matrices of `{largest.name}`. They fill a card at {fitting},"
        " activations aside. Up to there each process holds all of them, and FSDP, which shards them, would only send more."
    )


FIRST_SWEEP = (
    "The first table is of the first sweep, in which every method's learning rate peaks early. There the paper's policy (`ours`)"
    " goes to white space, and all methods predict worse than with a schedule of their own. README and chapter 07 judge by the"
    " latter, `32m_best`."
)
READ = (
    "Differences in bits per byte, behind ± their standard errors over documents (or questions) / over seeds, then half the width"
    " of the interval beyond which a difference counts. Verdicts with one number of *runs* were judged by the very same runs."
    " `dynamic_pooling_port` and `hnet_port` are those methods as the paper's authors compared with them; `even` is a boundary"
    " after every fifth byte."
)


def claims() -> str:
    """The claims that matter most, with what our runs say of them; smoke runs say nothing."""
    full = [sweep for sweep in records.read_sweeps(RESULTS / "sweeps").values() if sweep.full]
    sweeps, others = full[:1], full[1:]  # that of most runs; of the others a paragraph
    parts = [f"{tables.heading(sweep)}\n\n{tables.claims_table(sweep)}" for sweep in sweeps]
    for sweep in sweeps:
        lines = [READ, summary.chance(sweep), summary.single_seeds(sweep), summary.luck(sweep)]
        parts.append(" ".join(filter(None, lines)))
    slow = ch06_runs.schedule_sweep(RESULTS / "causes", f"{sweeps[0].name}_slow", sweeps[0]) if sweeps else None
    parts += [aside.aside(slow, full[0], main=True)] if slow else []
    parts += [aside.aside(sweep, full[0]) for sweep in others]
    parts = [FIRST_SWEEP, *parts] if sweeps else parts
    parts = parts or [f"No sweep at full size has been run yet.\n\n{tables.claims_table(None)}"]
    small = "What a count or small runs answer:\n\n" + tables.small_claims_table(RESULTS)
    return "\n\n".join([*parts, small])


def files() -> dict[Path, str]:
    """What belongs in each file."""
    texts = {"claims.md": claims(), "speeds.md": speeds(), "several_cards.md": f"{several_cards()}\n\n{sharding()}"}
    return {GENERATED / name: text + "\n" for name, text in texts.items()}


def main() -> None:
    """Rewrite all."""
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    measuring.run(main)
