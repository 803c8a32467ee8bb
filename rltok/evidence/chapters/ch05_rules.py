"""Chapter 05b: tables and figures about rules, from the records of a comparison, and from a record of the leak of BPE boundaries.

Nothing is computed from models here. Whether a difference counts as one is decided in a single place, `Difference.verdict`.
"""

import html
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rltok.data.fixed_texts import FIXED_TEXTS
from rltok.errors import RltokError
from rltok.evidence.differences import gap
from rltok.evidence.methods import MATCHED, MATCHED_RANDOM, RULES
from rltok.evidence.ranking import LEARNED, MARKERS, ranked
from rltok.evidence.records import Sweep, read_sweeps
from rltok.show.plots import PALETTE
from rltok.show.tables import markdown
from rltok.show.views import boundary_html
from rltok.statistics import Difference, difference_of_seeds

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RULES_SCHEMA = 1
KINDS = {"bpe_leak": "words", "rates": "within"}  # kind of record -> what only it holds
SPLIT = "test"  # that the comparison is scored on


def check(record: dict[str, Any], kind: str) -> dict[str, Any]:
    """The record itself; `RltokError` if it is not of this kind: bpe_leak or rates."""
    if record.get("schema") != RULES_SCHEMA or KINDS[kind] not in record or not record.get("runs"):
        raise RltokError(
            f"this is no {kind} record (schema {record.get('schema')!r}, expected {RULES_SCHEMA}, with {KINDS[kind]!r} and runs)."
            " Make it again."
        )
    return record


def read_comparison(results: Path) -> Sweep:
    """The stored comparison, below the folder of results, its methods in the order in which the chapter presents them."""
    sweep = read_sweeps(results / "rules")["tiny"]
    return replace(sweep, runs={name: sweep.runs[name] for name in RULES + MATCHED_RANDOM if name in sweep.runs})


def describe(record: dict[str, Any]) -> str:
    """Two lines that name a record: size, text, seeds; devices, commits, settings. Its runs may name devices and commits."""

    def named(key: str) -> list[str]:
        return [record[key]] if key in record else sorted({run[key] for run in record["runs"]})

    seeds = ", ".join(map(str, sorted({run["seed"] for run in record["runs"]})))
    size = "full size" if record["full"] else "smoke size, which shows shapes and no results"
    split = f", {record['split']} split" if "split" in record else ""
    commits = ", ".join(commit[:7] + ("+" if "+" in commit else "") for commit in named("commit"))
    return (
        f"{size}; text: {record['data']['name']}{split}; seeds {seeds}\n{'; '.join(named('device'))};"
        f" commit {commits}, config {record['config_hash']}"
    )


def describe_sweep(sweep: Sweep) -> str:
    """The same of a comparison, whose settings are those of the first run of the learned rule."""
    first = sweep.runs[LEARNED][min(sweep.runs[LEARNED])]
    shared = {key: first[key] for key in ("full", "data", "config_hash")}
    return describe(shared | {"split": SPLIT, "runs": sweep.records})


# Differences


def minus_learned(sweep: Sweep) -> dict[str, Difference]:
    """Every method's bits per byte minus the learned rule's, paired by seed and row."""
    return {name: gap(sweep, name, LEARNED, SPLIT) for name in sweep.runs if name != LEARNED}


def minus_matched_random(sweep: Sweep) -> dict[str, Difference]:
    """Bits per byte of a rule without rate control minus those of as many random places."""
    rules = [name.removeprefix(MATCHED) for name in sweep.runs if name.startswith(MATCHED)]
    return {rule: gap(sweep, rule, MATCHED + rule, SPLIT) for rule in rules}


def minus_random(sweep: Sweep, names: Sequence[str]) -> dict[str, Difference]:
    """Bits per byte of rules that hold the target rate minus those of random places at that rate."""
    return {name: gap(sweep, name, "random_k", SPLIT) for name in names}


def scores(sweep: Sweep, name: str) -> dict[int, float]:
    """Bits per byte of a method by seed."""
    return dict(sweep.bits_per_byte[SPLIT][name])


# The comparison


def with_reach(gap: Difference) -> str:
    """A difference and half of its 95 % interval, which stay on one line of a page."""
    reach = gap.reach()
    return f"{gap.bits:+.3f}" + ("" if reach is None else f"\u00a0±\u00a0{reach:.3f}")


def comparison_table(sweep: Sweep, names: Sequence[str]) -> str:
    """Markdown: loss, difference from the learned rule with its interval and verdict, tokens and cost of some methods."""
    rows = []
    for line in ranked(sweep, SPLIT):
        if line["name"] not in names:
            continue
        minus = line["minus_learned"]
        rows.append([
            f"`{line['name']}`", f"{line['bits_per_byte'].bits:.3f}", "-" if minus is None else with_reach(minus),
            "-" if minus is None else minus.verdict, f"{line['tokens_per_byte']:.3f}", f"{line['flops_per_byte'] / 1e6:.2f}",
        ])  # fmt: skip
    return markdown(["rule", "bits per byte", "minus `learned`", "loss", "tokens per byte", "MFLOPs per byte"], rows)


def tokens_of(sweep: Sweep) -> dict[str, float]:
    """Tokens per byte of each method."""
    return {line["name"]: line["tokens_per_byte"] for line in ranked(sweep, SPLIT)}


def comparison_figure(sweep: Sweep) -> "Figure":
    """Difference from the learned rule with its interval and the seeds as dots; beside it the tokens per byte."""
    import matplotlib.pyplot as plt

    gaps, reference, tokens = minus_learned(sweep), scores(sweep, LEARNED), tokens_of(sweep)
    names = sorted(gaps, key=lambda name: gaps[name].bits, reverse=True)
    figure, (left, right) = plt.subplots(
        1, 2, figsize=(8.4, 0.3 * len(names) + 1.2), sharey=True, width_ratios=(2, 1)
    )  # fmt: skip
    for height, name in enumerate(names):
        minus, colour = gaps[name], PALETTE[1 if name.startswith(MATCHED) else 0]
        reach = minus.reach() or 0.0
        left.plot([minus.bits - reach, minus.bits + reach], [height, height], color=colour, linewidth=1.6)
        left.plot([minus.bits], [height], marker="|", markersize=9, color=colour)
        for seed, bits in scores(sweep, name).items():
            left.plot([bits - reference[seed]], [height], marker="o", markersize=3, color="0.35", linestyle="")
        right.plot([tokens[name]], [height], marker="s", markersize=4, color=colour)
    left.axvline(0, color="k", linewidth=0.8)
    left.locator_params(axis="x", nbins=6)
    left.set_yticks(range(len(names)), names, fontsize=8)
    left.set_xlabel("bits per byte minus learned (line: 95 % interval; dots: seeds)", fontsize=8)
    right.axvline(tokens[LEARNED], color="k", linewidth=0.8)
    right.set_xlabel("tokens per byte (line: learned)", fontsize=8)
    right.set_xlim(left=0)
    return figure


# Boundaries on a fixed text


def view(sweep: Sweep, name: str, text: str, seed: int, characters: int) -> tuple[str, list[int], list[float] | None]:
    """The first `characters` of a fixed text with the boundaries that a trained run drew there: text, boundaries, probabilities.

    Of seeds other than 0 no record has probabilities.
    """
    if seed not in sweep.runs.get(name, {}):
        raise RltokError(f"the comparison has no run of {name!r} with seed {seed}. It has: {', '.join(sweep.runs)}.")
    drawn, shown = sweep.runs[name][seed]["snapshots"][-1][text], FIXED_TEXTS[text][:characters]
    size, percent = len(shown.encode()), drawn.get("percent")
    chances = percent and [int(percent[2 * place : 2 * place + 2]) / 100 for place in range(size)]
    return shown, [int(bit) for bit in drawn["boundaries"][:size]], chances


def side_by_side(sweep: Sweep, names: Sequence[str], text: str, seed: int, characters: int) -> str:
    """HTML: the same text under every rule, each block with a name for readers who cannot see it."""
    blocks = []
    for name in names:
        shown, boundaries, probabilities = view(sweep, name, text, seed, characters)
        share = f"{sum(boundaries)} of {len(boundaries)} bytes end a token"
        block = boundary_html(shown, boundaries, probabilities, f"{name}: the text {text}, {share}")
        blocks.append(f"<div><strong>{html.escape(name)}</strong> ({share}){block}</div>")
    return "".join(blocks)


# The leak of shifted BPE


def words_table(record: dict[str, Any]) -> str:
    """Markdown: bits per byte of the rest of words by counts, without and with shifted bits, for every vocabulary."""
    rows = [
        [f"{int(size):,}", f"{entry['without_bits']:.3f}", f"{entry['shifted_bits']:.3f}", f"{entry['leak']:.3f}"]
        for size, entry in record["words"].items()
    ]
    return markdown(["vocabulary asked for", "without shifted bits", "with them", "leak, bits per byte"], rows)


def leak_gaps(record: dict[str, Any], part: str) -> dict[str, Difference]:
    """Differences of a part, "probe" or "unet", over seeds: "b - a" is b's bits per byte minus a's."""
    seeds = [run[f"{part}_gaps"] for run in record["runs"]]
    return {
        name: difference_of_seeds([one[name]["bits_per_byte"] for one in seeds], [one[name]["standard_error"] for one in seeds])
        for name in seeds[0]
    }  # fmt: skip


def leak_table(record: dict[str, Any], part: str) -> str:
    """Markdown: every difference of a part, first loss minus second, with the verdict on the first."""
    rows = []
    for name, difference in leak_gaps(record, part).items():
        first, second = (re.sub(r"^(\w+) as( often as)? (\w+)$", r"\1, as many as \3", side) for side in name.split(" - "))
        rows.append([first, second, with_reach(difference), difference.verdict])
    return markdown(["loss with", "minus loss with", "bits per byte", "verdict on the first"], rows)


def leak_by_place(record: dict[str, Any], first: str, second: str) -> dict[str, Difference]:
    """Bits per byte of one probe minus another's, by the place of the byte in its token."""
    pairs = [(run["probe"][first]["by_place"], run["probe"][second]["by_place"]) for run in record["runs"]]
    return {place: difference_of_seeds([a[place]["bits"] - b[place]["bits"] for a, b in pairs]) for place in pairs[0][0]}


def words_figure(record: dict[str, Any]) -> "Figure":
    """The leak by counts against the bytes of the word that are known already, a line for each vocabulary."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots()
    for number, (size, entry) in enumerate(record["words"].items()):
        known = [int(k) for k in entry["by_known"]]
        leaks = [one["leak"] for one in entry["by_known"].values()]
        axes.plot(known, leaks, marker=MARKERS[number % len(MARKERS)], markersize=4, label=f"{int(size):,} asked for")
    axes.set(xlabel=f"bytes of the word that are known (last: {max(known)} and more)", ylabel="leak (bits per byte)")
    axes.axhline(0, color="0.5", linewidth=0.8)
    axes.legend(fontsize=8)
    return figure
