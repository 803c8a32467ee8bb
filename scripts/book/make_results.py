"""Write the appendices to chapters 04, 06b and 07: every table, sentence and figure of results that they have no room for.

python scripts/book/make_results.py   # rewrites book/_generated/results and book/_static/results; a test fails when out of date
"""

import json
import math
import statistics
import textwrap
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rltok.evidence import aside, criteria, differences, figures, headline, measuring, summary, tables, verdicts, words
from rltok.evidence.chapters import (
    ch04_policy,
    ch04_travel,
    ch06_runs,
    ch06_starts,
    ch06_where,
    ch07_answers,
    ch07_domains,
    ch07_moved,
    ch07_results,
)
from rltok.evidence.chapters.ch06_onset import ahead_table, lead_table, schedules_table, turns_table
from rltok.evidence.claims import POLICIES
from rltok.evidence.cost import CLAIM, extra, largest_rank
from rltok.evidence.paper import PLACE_NAMES, TABLE_1
from rltok.evidence.record_file import Record
from rltok.evidence.records import SCHEDULE, Sweep, is_learned, read_sweeps
from rltok.evidence.toy import views
from rltok.presets import preset
from rltok.show.tables import markdown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "notebooks" / "results"
TABLES = ROOT / "book" / "_generated" / "results"
PICTURES = ROOT / "book" / "_static" / "results"
LETTERS = 36  # of a passage, which with its bars and a name fits the page
WIDTH = 78  # characters of a line that the page shows whole
TASKS = ("arc_easy", "piqa", "hellaswag", "lambada")
LOOKS = (
    ("arc_easy", "ours", "even"),
    ("lambada", "ours", "bpe"),
    ("test", "ours", "ours_lags1"),
    ("lambada", "ours", "ours_lags1"),
)


class Stored:
    """The stored sweeps that the appendices are about, read once."""

    @cached_property
    def sweeps(self) -> dict[str, Sweep]:
        """All sweeps in which every method has one schedule."""
        return ch06_runs.all_sweeps(RESULTS / "sweeps")

    @cached_property
    def best(self) -> Sweep:
        """Each method at 32M under the schedule that is best for it."""
        return headline.best_sweep(RESULTS)

    @property
    def early(self) -> Sweep:
        """The first sweep, whose learning rate peaks early."""
        return self.sweeps[ch07_results.EARLY]

    @property
    def large(self) -> Sweep:
        """The runs of 147M parameters."""
        return self.sweeps[headline.LARGE]

    @cached_property
    def slow(self) -> Sweep:
        """Methods of the first sweep under a later, lower peak."""
        return differences.borrowing(ch06_runs.schedule_sweep(RESULTS / "causes", "32m_slow", self.early), self.early)

    @cached_property
    def schedules(self) -> Sweep:
        """The policy of the first sweep under the schedule of the large runs, and under parts of it."""
        return ch06_runs.schedule_sweep(RESULTS / "causes", "schedule", self.early, SCHEDULE)

    @cached_property
    def tiny_late(self) -> Sweep:
        """The preset tiny with an early and with a late peak."""
        return read_sweeps(RESULTS / "causes", SCHEDULE, "tiny_late")["tiny_late"]

    @property
    def large_policies(self) -> list[str]:
        """The policies among the large runs."""
        return [name for name, runs in self.large.runs.items() if is_learned(next(iter(runs.values())))]

    @property
    def learned(self) -> list[str]:
        """The policies of the first sweep that a claim is about."""
        return [name for name in POLICIES if name in self.early.runs]

    @property
    def shown(self) -> list[str]:
        """The main methods of the first sweep."""
        main = ("even", "random_k", "bpe", "dynamic_pooling_port", "hnet_port", *POLICIES)
        return [name for name in main if name in self.early.runs]


def of_sweep(of: Callable[[Stored], Sweep]) -> dict[str, Callable[[Stored], str]]:
    """The tables that every sweep has."""
    made = {
        "heading": tables.heading, "rates": tables.table_3, "drivers": tables.drivers_table,
        "places": ch06_where.places_table, "course": tables.course_table, "passages": passages,
    }  # fmt: skip
    return {name: (lambda stored, make=make: make(of(stored))) for name, make in made.items()}


def passages(sweep: Sweep) -> str:
    """The beginning of a held-out passage with a bar after each boundary, by method, of its first seed."""
    lines = []
    for name in tables.methods_of(sweep):
        sample = sweep.runs[name][min(sweep.runs[name])]["samples"][0]
        text = sample["text"].encode("latin-1")[:LETTERS].decode("ascii", "replace").replace("\n", "↵")
        each = zip(text, sample["boundaries"], strict=False)
        lines.append(f"{name:26s} {''.join(letter + '|' * (bit == '1') for letter, bit in each)}"[:WIDTH])
    return "```{code-block} text\n" + "\n".join(lines) + "\n```"


def bulleted(lines: Sequence[str]) -> str:
    """Lines as a list."""
    return "\n".join(f"* {line}" for line in lines)


def forms(stored: Stored) -> str:
    """Two claims by the rule's form of today and by that of its first days."""
    lines = []
    for name, other in [*((name, "bpe") for name in stored.learned), ("ours_lags1", "ours")]:
        found = differences.gap(stored.early, name, other, "test")
        if found is not None:
            new, old = verdicts.non_inferior(found, criteria.MARGIN), verdicts.equivalent(found, criteria.MARGIN)
            lines.append(f"`{name}` minus `{other}`: {found}; no worse: {new}; alike: {old}")
    return bulleted(lines)


def twice(stored: Stored) -> str:
    """How far runs with one seed differ, beside runs with several."""
    pairs = summary.repeated_pairs(stored.early)
    between = _deviation(summary.spread_of_seeds(stored.early, list(dict.fromkeys(name for name, *_ in pairs))))
    lines = []
    for devices in dict.fromkeys(pair[3] for pair in pairs):
        gaps = [pair[2] for pair in pairs if pair[3] == devices]
        mean = f"mean {statistics.fmean(gaps):+.4f}, deviation of a run {_deviation(gaps):.4f}"
        lines.append(f"{words.many(len(gaps), 'pair')}, {' minus '.join(devices)}: {mean}")
    whole = _deviation([pair[2] for pair in pairs])
    lines.append(f"between seeds {between:.4f} bits per byte; the share is {whole / between:.0%}")
    return bulleted(lines)


def _deviation(gaps: Sequence[float]) -> float:
    """Standard deviation of a run, from differences of two."""
    return math.sqrt(statistics.fmean(gap**2 for gap in gaps) / 2)


def in_fp16(stored: Stored) -> str:
    """What runs in fp16 lose beside those in bf16."""
    return summary.in_fp16(read_sweeps(RESULTS / "causes", ("precision",), "32m_fp16").get("32m_fp16"))


def pairs_of_seeds(stored: Stored) -> str:
    """Which differences deviate least and most from seed to seed."""
    pairs = differences.by_pair(stored.early, "test")
    each = {pair: statistics.stdev(gaps) for pair, gaps in pairs.items() if len(gaps) > 1}
    least, most = (f"{each[pair]:.4f} of `{pair[0]}` minus `{pair[1]}`" for pair in (f(each, key=each.get) for f in (min, max)))
    whole = differences.deviation(stored.early, "test")
    return f"Of {len(each)} pairs, on test text: {whole:.4f} bits per byte; least {least}, most {most}."


def attention(stored: Stored) -> str:
    """What attention adds to the FLOPs by the paper's rule."""
    added = {name: statistics.fmean(run["attention_flops"] / run["flops"] for run in stored.early.runs[name].values())
             for name in stored.shown}  # fmt: skip
    return "Attention adds " + ", ".join(f"{share:.1%} to `{name}`" for name, share in added.items()) + "."


def settled(stored: Stored) -> str:
    """How far boundaries agree with the final ones after a tenth of training, and how much text that is."""
    run = next(iter(stored.early.runs[stored.learned[0]].values()))
    at = {name: statistics.fmean(stored.early.each(name, lambda run: criteria.agreement_at(run, 1 / 10)))
          for name in stored.learned}  # fmt: skip
    tenths = f"{preset('147m').train.training_bytes / 1e7:.0f} MB in the paper, {run['bytes'] / 1e7:.3g} MB here"
    return f"F1 after a tenth: {', '.join(f'`{name}` {value:.2f}' for name, value in at.items())}. A tenth is {tenths}."


def deviations(stored: Stored) -> str:
    """The differences under the later peak in deviations from seed to seed of the first sweep."""
    rivals = ("bpe", "hnet_port")
    return bulleted([differences.in_deviations(stored.slow, stored.early, stored.learned[-1], rival, "test") for rival in rivals])


def verdict_counts(stored: Stored) -> str:
    """How many verdicts of each kind the first sweep has, and which runs failed."""
    lines = [f"{verdict}: {count}" for verdict, count in tables.counts(stored.early).items()]
    failed = [run for sweep in stored.sweeps.values() for run in sweep.failed]
    told = [f"`{run['name']}`, {run['sweep']} ({' '.join(run['failed'].split())})" for run in failed]
    return bulleted([*lines, f"runs that failed: {', '.join(told) or 'none'}"])


def looks(stored: Stored) -> str:
    """Differences between rows of the paper's Table 1, in combined standard errors."""
    rows = []
    for place, first, second in LOOKS:
        a, b = TABLE_1[first][place], TABLE_1[second][place]
        gap = a.mean - b.mean
        rows.append([PLACE_NAMES[place], f"{first} minus {second}", f"{gap:+.3f}", f"{gap / math.hypot(a.error, b.error):+.1f}"])
    return markdown(["set", "difference", "bits per byte", "in standard errors"], rows)


def rule(stored: Stored) -> str:
    """The rule of judging, as its code declares it, in lines that fit the page; definitions stay indented."""
    blocks = []
    for block in verdicts.__doc__.strip().split("\n\n"):
        lines = block.splitlines() if block.startswith(" ") else [block]
        blocks.append("\n".join(textwrap.fill(line, WIDTH, subsequent_indent=" " * (8 if block.startswith(" ") else 0))
                                for line in lines))  # fmt: skip
    return "```{code-block} text\n" + "\n\n".join(blocks) + "\n```"


def kinds(make: Callable[[dict, Stored], str]) -> Callable[[Stored], str]:
    """A part made of the record of kinds of text; sizes that are not those of stored runs are left out, and named."""

    def made(stored: Stored) -> str:
        record, told = ch07_domains.fitting(ch07_domains.read(RESULTS / "kinds.json"), list(stored.sweeps.values()))
        return f"Bits by kind of text: {told}.\n\n{make(record, stored)}"

    return made


def by_kind(split: str) -> Callable[[Stored], str]:
    """Differences from even spacing, and then from guidance, by kind of text."""

    def made(record: dict, stored: Stored) -> str:
        names = [*(name for name in ("bpe", "hnet_port", *POLICIES) if name in stored.shown), headline.FAST]
        return "\n\n".join(ch07_domains.table(record, split, names, reference) for reference in ("even", "bpe"))

    return kinds(made)


def answers(stored: Stored) -> str:
    """Bits per item minus those of even spacing, by length of the answer, a table for each benchmark."""
    record, told = ch07_answers.fitting(ch07_answers.read(RESULTS / "answers.json"), list(stored.sweeps.values()))
    names = [*(name for name in stored.shown if name != "even"), headline.FAST]
    return "\n\n".join([f"Bits per item: {told}.", *(ch07_answers.table(record, task, names) for task in TASKS)])


def answers_by_seed(stored: Stored) -> str:
    """Bits per byte of the large runs on two benchmarks, each seed's, lowest mean first on the first of them."""
    large, tasks = stored.large, ("arc_easy", "lambada")
    names = sorted(large.runs, key=lambda name: large.bits_per_byte[tasks[0]][name].mean())
    rows = [[f"`{name}`", *(", ".join(f"{bits:.3f}" for _, bits in sorted(dict(large.bits_per_byte[task][name]).items()))
                            for task in tasks)] for name in names]  # fmt: skip
    return markdown(["147m, by seed", *(PLACE_NAMES[task] for task in tasks)], rows)


def second_seed(make: Callable[[Record, Record], str]) -> Callable[[Stored], str]:
    """A part made of the start of a second large run and of the finished first one, or why there is none."""

    def made(stored: Stored) -> str:
        start, run, why_not = ch06_starts.beside(RESULTS / "start_147m.json", stored.large)
        return why_not or make(start, run)

    return made


def overturned(stored: Stored) -> str:
    """What the runs at each method's best schedule say otherwise than the first sweep."""
    return ch07_moved.overturned([stored.early, stored.slow, stored.best])


def record(name: str) -> dict:
    """A record of small runs."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def toy(language: str, controls: bool = False) -> Callable[[Stored], str]:
    """What estimators recover of a toy language, or what its controls are worth."""

    def made(stored: Stored) -> str:
        found = record("toy")
        return views.gain_table(found, language, views.names_of(found, language, controls))

    return made


def costs(stored: Stored) -> str:
    """What learned boundaries add to the compute of a model that is given its boundaries."""
    rows = []
    for name in ("147m", "90m", "32m"):
        model = preset(name).model
        added = extra(model, model.rule.target_rate)
        shares = [part / added.guided for part in (added.early_head, added.policy, added.early_head + added.policy)]
        uncounted = f"{added.guided / (added.scan + added.estimator) / 1e6:.0f} million"
        rank = largest_rank(model, model.rule.target_rate, CLAIM)
        rows.append([name, *(f"{share:.3%}" for share in shares), uncounted, str(rank)])
    return markdown(["preset", "early head", "policy", "both", "draw and estimator, one part in", "largest rank"], rows)


def thin_head(stored: Stored) -> str:
    """What an early head of low rank did to the loss of the model, and to its own."""
    found = record("low_rank_head")
    own = found["gaps"][0]
    error = f"{own['early_bits_per_byte']:+.2f} ± {own['early_bits_per_byte_standard_error']:.2f}"
    return bulleted([found["verdict"], f"the early head's own loss: {error}"])


PARTS: dict[str, Callable[[Stored], str]] = {
    "policy_rate_losses": lambda stored: ch04_policy.rate_loss_table(record("rate_loss")),
    "policy_toy_early": toy("early"),
    "policy_toy_early_controls": toy("early", controls=True),
    "policy_toy_late": toy("late"),
    "policy_toy_late_controls": toy("late", controls=True),
    "policy_travel": lambda stored: ch04_travel.table(ch04_travel.read(RESULTS / "causes")),
    "policy_costs": costs,
    "policy_thin_head": thin_head,
    **{f"best_{name}": make for name, make in of_sweep(lambda stored: stored.best).items()},
    **{f"large_{name}": make for name, make in of_sweep(lambda stored: stored.large).items() if name not in ("rates", "course")},
    **{f"first_{name}": make for name, make in of_sweep(lambda stored: stored.early).items()},
    "first_losses": lambda stored: tables.table_1(stored.early),
    "first_accuracies": lambda stored: tables.accuracy_table(stored.early),
    "best_who": lambda stored: tables.who_is_who(stored.best),
    "first_who": lambda stored: tables.who_is_who(stored.early),
    "best_matched": lambda stored: ch07_results.matched_table(stored.best),
    "best_losses": lambda stored: tables.side_by_side([stored.best]),
    "first_in_short": lambda stored: summary.in_short(stored.early),
    "first_forms": forms,
    "first_twice": twice,
    "fp16": in_fp16,
    "first_unscored": lambda stored: summary.unscored(stored.early),
    "first_pairs": pairs_of_seeds,
    "first_one_seed": lambda stored: summary.one_seed(stored.early, stored.learned[0]),
    "first_cards": lambda stored: summary.one_device(
        stored.early, stored.learned, ("even", "bpe", "dynamic_pooling_port", "hnet_port")
    ),
    "first_attention": attention,
    "first_settled": settled,
    "first_counts": verdict_counts,
    "slow_aside": lambda stored: aside.aside(stored.slow, stored.early, main=True),
    "slow_beside": lambda stored: tables.side_by_side([stored.early, stored.slow], list(stored.slow.runs)),
    "slow_deviations": deviations,
    "slow_ahead": lambda stored: ahead_table([stored.early, stored.slow], list(stored.slow.runs), (10, 20, 35, 50, 75, 99)),
    "slow_schedules": lambda stored: schedules_table([stored.early, stored.slow], list(stored.slow.runs)),
    "slow_turns": lambda stored: turns_table([stored.early, stored.slow], list(stored.slow.runs)),
    "large_aside": lambda stored: aside.aside(stored.large, stored.early),
    "large_beside": lambda stored: tables.side_by_side([stored.early, stored.large], list(stored.large.runs)),
    "large_ahead": lambda stored: ahead_table(
        [stored.early, stored.slow, stored.large], list(stored.large.runs), (27, 50, 75, 99, 130, 160, 300, 620)
    ),
    "large_losses": lambda stored: tables.table_1(stored.large),
    "large_accuracies": lambda stored: tables.accuracy_table(stored.large),
    "large_who": lambda stored: tables.who_is_who(stored.large),
    "large_onsets": lambda stored: "\n\n".join(
        ch06_where.onsets_table(stored.large, name) for name in [*stored.large_policies, "hnet_port"] if name in stored.large.runs
    ),
    "large_starts": second_seed(ch06_starts.starts_table),
    "large_around": second_seed(lambda start, run: ch06_where.around_table(ch06_starts.views(start, run))),
    "large_agreement": second_seed(ch06_starts.agreement_table),
    "large_lead": lambda stored: lead_table([stored.early, stored.large], ["even", "bpe", *stored.large_policies]),
    "large_turns": lambda stored: turns_table(
        [stored.early, stored.large], list(dict.fromkeys([*stored.learned, *stored.large_policies]))
    ),
    "causes_who": lambda stored: tables.who_is_who(stored.schedules),
    "causes_schedules": lambda stored: schedules_table(
        [stored.early, stored.schedules, stored.large], [*stored.large_policies, *stored.schedules.runs]
    ),
    "causes_turns": lambda stored: turns_table([stored.schedules], list(stored.schedules.runs)),
    "causes_tiny": lambda stored: schedules_table([stored.tiny_late], list(stored.tiny_late.runs)),
    "large_claims": lambda stored: tables.claims_table(differences.borrowing(stored.large, stored.early)),
    "paper_looks": looks,
    "rule": rule,
    "moved_overturned": overturned,
    "moved_verdicts": lambda stored: ch07_moved.moved(RESULTS / "verdicts_before.json", ch07_moved.judge_all(RESULTS)),
    "kinds": kinds(lambda record, stored: ch07_domains.kinds_table(record)),
    "kinds_test": by_kind("test"),
    "kinds_validation": by_kind("validation"),
    "kinds_contrast": kinds(
        lambda record, stored: ch07_domains.contrast_table(
            record, [*stored.learned, headline.FAST], "books", "encyclopaedia", "bpe"
        )
    ),
    "kinds_contrast_even": kinds(
        lambda record, stored: ch07_domains.contrast_table(
            record, ["bpe", "hnet_port", *stored.learned, headline.FAST], "books", "encyclopaedia"
        )
    ),
    "answers": answers,
    "answers_by_seed": answers_by_seed,
    "answers_bytes": lambda stored: ch07_answers.bytes_table(
        ch07_answers.read_bytes(RESULTS / "answer_bytes.json"), ("arc_easy", "piqa", "lambada")
    ),
}
DRAWN: dict[str, Callable[[Stored], "Figure"]] = {
    "best_flops": lambda stored: figures.figure_3(stored.best, (headline.FAST, "bpe", "hnet_port", "whitespace", "even")),
    "first_flops": lambda stored: figures.figure_3(stored.early, stored.shown),
    "first_entropy": lambda stored: figures.figure_13(stored.early, stored.learned),
    "first_snapshots": lambda stored: figures.snapshots_figure(stored.early, stored.learned[0]),
    "first_positions": lambda stored: figures.positions_figure(stored.early, stored.learned),
}


def files() -> dict[Path, str]:
    """What belongs in each file of tables and sentences."""
    stored = Stored()
    return {TABLES / f"{name}.md": make(stored) + "\n" for name, make in PARTS.items()}


def main() -> None:
    """Rewrite both folders. A picture holds the digest of its data, by which a test knows whether it is of these records."""
    import matplotlib.pyplot as plt

    from rltok.show.plots import digest, use_style

    for folder in (TABLES, PICTURES):
        folder.mkdir(parents=True, exist_ok=True)
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
    use_style()
    plt.rcParams.update({"svg.hashsalt": "rltok", "svg.fonttype": "path"})
    stored = Stored()
    for name, draw in DRAWN.items():
        drawing = draw(stored)
        drawing.savefig(PICTURES / f"{name}.svg", metadata={"Description": digest(drawing), "Date": None})
        plt.close(drawing)


if __name__ == "__main__":
    measuring.run(main)
