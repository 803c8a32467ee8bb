"""ch05_rules and ch05_rates: tables, texts and verdicts say what the record says."""

import json
import re
from itertools import combinations

import matplotlib
import numpy as np
import pytest
from paths import ROOT
from sweeps import record, sweep_of

matplotlib.use("agg")

from rltok.data.fixed_texts import FIXED_TEXTS  # noqa: E402
from rltok.errors import RltokError  # noqa: E402
from rltok.evidence.chapters import (
    ch05_rates,  # noqa: E402
    ch05_rules,
)
from rltok.evidence.records import Sweep  # noqa: E402
from rltok.show import plots  # noqa: E402
from rltok.show.tables import markdown  # noqa: E402

RESULTS = ROOT / "notebooks" / "results"
STORED = {kind: RESULTS / f"{kind}.json" for kind in ch05_rules.KINDS}
COMMON = {"schema": 1, "full": True, "data": {"name": "sample"}, "commit": "1" * 40, "device": "cpu", "config_hash": "abc"}


def result(name: str, seed: int, rows: list[float], *, tokens=0.2, rule="learned", last=0.2) -> dict:
    """A run that lost so many bits per byte on three rows of equal length."""
    found = record(name, seed, rule=rule, sweep="tiny")
    found["scores"]["test"] |= {
        "unit": "rows", "unit_bits": [100 * bits for bits in rows], "unit_bytes": [100] * len(rows),
        "bits_per_byte": sum(rows) / len(rows), "tokens_per_byte": tokens, "whitespace_share": None,
    }  # fmt: skip
    found |= {"flops": 5e6 * found["bytes"], "curve": [point | {"rate": last} for point in found["curve"]]}
    size = len(FIXED_TEXTS["prose"].encode())
    drawn = {"boundaries": "".join("1" if i % 5 == seed else "0" for i in range(size)), "percent": None}
    found["snapshots"][-1] |= {"prose": drawn}
    return found


def comparison() -> Sweep:
    """Two seeds of learned, of a rule that is clearly worse, of one that is not, and of as many random places as of that one."""
    runs = []
    for seed, shift in ((0, 0.0), (1, 0.1)):
        runs += [
            result("learned", seed, [2.0 + shift, 2.5 + shift, 3.0 + shift]),
            result("hnet", seed, [2.51 + shift, 3.0 + shift, 3.49 + shift], tokens=0.3, rule="hnet", last=0.24 - shift),
            result("bpe", seed, [2.3 - shift, 2.3 + shift, 2.9 + 4 * shift], tokens=0.25, rule="bpe"),
            result("random_k_as_bpe", seed, [2.5 + shift, 2.6, 3.1], tokens=0.25, rule="random_k"),
        ]
    return sweep_of(*runs)


def cells(table: str) -> list[list[str]]:
    """Rows of a Markdown table without the rule under its head."""
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    assert len({len(line) for line in lines}) == 1
    return [lines[0], *lines[2:]]


# The comparison


def test_differences_from_learned_and_from_as_many_random_places_are_paired_by_row_and_seed():
    sweep = comparison()
    gaps = ch05_rules.minus_learned(sweep)
    assert list(gaps) == ["hnet", "bpe", "random_k_as_bpe"]
    assert gaps["hnet"].bits == pytest.approx(0.5) and gaps["hnet"].verdict == "higher"
    random = ch05_rules.minus_matched_random(sweep)
    by_seed = [(2.3 + 2.3 + 2.9) / 3 - (2.5 + 2.6 + 3.1) / 3, (2.2 + 2.4 + 3.3) / 3 - (2.6 + 2.6 + 3.1) / 3]
    assert list(random) == ["bpe"]
    assert random["bpe"].error_units > 0
    assert random["bpe"].bits == pytest.approx(np.mean(by_seed))
    bits = [  # of two seeds each method borrows: the variances of all pairs over seeds, averaged
        [2.5, 2.6], [3.0, 3.1], [7.5 / 3, 7.9 / 3], [8.2 / 3, 8.3 / 3]
    ]  # fmt: skip
    variances = [np.var(np.subtract(a, b), ddof=1) for a, b in combinations(bits, 2)]
    assert random["bpe"].error_seeds == pytest.approx(np.sqrt(np.mean(variances) / 2))


def test_the_table_has_a_line_for_every_named_contender_with_its_interval_and_verdict():
    sweep = comparison()
    table = cells(ch05_rules.comparison_table(sweep, ["learned", "hnet", "bpe"]))
    assert [line[0] for line in table] == ["rule", "`learned`", "`hnet`", "`bpe`"]
    assert table[1][1:4] == ["2.550", "-", "-"] and table[2][3] == "higher" and table[3][3] == "undecided"
    assert table[2][1] == "3.050"
    reach = ch05_rules.minus_learned(sweep)["hnet"].reach()
    assert table[2][2] == f"+0.500\u00a0±\u00a0{reach:.3f}"  # a number and its interval stay on one line
    assert table[3][4:] == ["0.250", "5.00"]


def test_the_figure_of_a_comparison_shows_every_seed_and_the_interval_and_moves_with_the_records():
    sweep = comparison()
    left, right = ch05_rules.comparison_figure(sweep).axes
    dots = sorted(line.get_xdata()[0] for line in left.lines if line.get_marker() == "o")
    bits = {(run["name"], run["seed"]): run["scores"]["test"]["bits_per_byte"] for run in sweep.records}
    assert dots == pytest.approx(sorted(bits[key] - bits["learned", key[1]] for key in bits if key[0] != "learned"))
    gap = ch05_rules.minus_learned(sweep)["hnet"]
    spans = [tuple(line.get_xdata()) for line in left.lines if len(line.get_xdata()) == 2]
    assert any(span == pytest.approx((gap.bits - gap.reach(), gap.bits + gap.reach())) for span in spans)
    assert [label.get_text() for label in left.get_yticklabels()][-1] != "hnet"  # sorted: the worst stands at the bottom
    other = sweep_of(*(run for run in sweep.records if run["name"] != "bpe"))
    digests = [plots.digest(ch05_rules.comparison_figure(each)) for each in (sweep, other)]
    assert digests[0] != digests[1]
    assert any(line.get_xdata()[0] == 0.3 for line in right.lines)


# Boundaries on a fixed text


def test_a_text_is_cut_by_characters_and_its_boundaries_by_bytes():
    sweep = comparison()
    size = len(FIXED_TEXTS["multilingual"].encode())
    drawn = {"boundaries": "01" * (size // 2) + "0" * (size % 2), "percent": "25" * size}
    sweep.runs["learned"][0]["snapshots"][-1] |= {"multilingual": drawn}
    shown, boundaries, probabilities = ch05_rules.view(sweep, "learned", "multilingual", seed=0, characters=11)
    assert shown == "At the café" and len(boundaries) == len(probabilities) == 12 and set(probabilities) == {0.25}


def test_side_by_side_every_rule_has_a_named_block_and_its_own_edges():
    page = ch05_rules.side_by_side(comparison(), ["learned", "hnet"], "prose", seed=0, characters=50)
    assert re.findall(r'aria-label="(\w+): the text prose, (\d+) of (\d+) bytes', page) == [
        ("learned", "10", "50"), ("hnet", "10", "50"),
    ]  # fmt: skip
    assert page.count("border-right") == 20 and page.count("<strong>") == 2


def test_a_run_that_is_not_there_is_an_error_that_names_those_that_are():
    with pytest.raises(RltokError, match="no run of 'even' with seed 0. It has: learned, hnet, bpe, random_k_as_bpe"):
        ch05_rules.view(comparison(), "even", "prose", 0, 10)


# The leak


def leak_record() -> dict:
    """Two seeds; the leak of the probe is certain, that of the network is not."""
    runs = []
    for seed, shift in ((0, 0.001), (1, -0.001)):
        probe = {
            name: {"by_place": {"first byte": {"bits": bits + shift}, "later": {"bits": 2 * bits - shift}}}
            for name, bits in (("causal bits", 2.0), ("shifted bits", 1.75))
        }
        gap = {"bits_per_byte": 0.05 + shift, "standard_error": 0.002}
        runs.append({
            "seed": seed, "probe": probe, "probe_gaps": {"causal bits - shifted bits": gap},
            "unet_gaps": {"causal - shifted as often as causal": {"bits_per_byte": 20 * shift, "standard_error": 0.001}},
        })  # fmt: skip
    known = {"1": {"bytes": 9, "leak": 0.0}, "2": {"bytes": 5, "leak": 0.25}}
    words = {"2048": {"without_bits": 2.5, "shifted_bits": 2.25, "leak": 0.25, "by_known": known}}
    return COMMON | {"words": words, "runs": runs}


def test_the_leak_has_a_verdict_where_it_is_certain_and_says_of_which_side():
    record = leak_record()
    assert cells(ch05_rules.leak_table(record, "probe"))[1] == [
        "causal bits", "shifted bits", f"+0.050\u00a0±\u00a0{12.706 * 0.001:.3f}", "higher",  # t of one degree
    ]  # fmt: skip
    assert cells(ch05_rules.leak_table(record, "unet"))[1][1::2] == ["shifted, as many as causal", "undecided"]
    places = ch05_rules.leak_by_place(record, "causal bits", "shifted bits")
    assert {place: gap.bits for place, gap in places.items()} == pytest.approx({"first byte": 0.25, "later": 0.5})


def test_words_are_shown_by_vocabulary_and_drawn_by_known_bytes():
    record = leak_record()
    assert cells(ch05_rules.words_table(record))[1] == ["2,048", "2.500", "2.250", "0.250"]
    (axes,) = ch05_rules.words_figure(record).axes
    assert axes.lines[0].get_xdata().tolist() == [1, 2] and axes.lines[0].get_ydata().tolist() == [0.0, 0.25]


# Rates


def rates_record() -> dict:
    """One rule that holds its rate and one that misses it once."""
    off = {("learned", 5): [0.004, -0.009], ("learned", 2): [0.01, 0.0], ("hnet", 5): [0.011, -0.002]}
    runs = [
        {"rule": rule, "target": 1 / n, "rate": 1 / n + value, "off": value, "seed": seed, "commit": c * 40, "device": d}
        for (rule, n), values in off.items() for seed, (value, c, d) in enumerate(zip(values, "ab", ("cpu", "gpu"), strict=True))
    ]  # fmt: skip
    named = {key: value for key, value in COMMON.items() if key not in ("commit", "device")}
    return named | {"within": 0.01, "runs": runs}


def test_a_rate_is_held_up_to_and_with_the_tolerance():
    assert ch05_rates.rates_held(rates_record()) == [
        "learned          within 0.01 in 4 of 4 runs, at most 0.0100 off",
        "hnet             within 0.01 in 1 of 2 runs, at most 0.0110 off",
    ]


def test_the_figure_of_rates_has_a_dot_for_every_run_and_the_line_of_the_tolerance():
    left, right = ch05_rates.rates_figure(rates_record()).axes
    assert sorted(y for line in left.lines[1:] for y in line.get_ydata()) == pytest.approx(
        sorted([0.204, 0.191, 0.51, 0.5, 0.211, 0.198])
    )
    dots = sorted(y for line in right.lines if line.get_linestyle() == "None" for y in line.get_ydata())
    assert dots == pytest.approx([1e-4, 0.002, 0.004, 0.009, 0.01, 0.011])
    assert any(list(line.get_ydata()) == [0.01, 0.01] for line in right.lines)


def test_the_distance_from_the_target_is_the_largest_over_seeds_and_none_without_a_target():
    sweep = comparison()
    assert ch05_rates.farthest(sweep, "hnet") == pytest.approx(0.06)
    assert ch05_rates.farthest(sweep, "learned") == 0 and ch05_rates.farthest(sweep, "bpe") is None


# Records


@pytest.mark.parametrize("kind", ch05_rules.KINDS)
def test_another_kind_of_file_is_refused(kind):
    own = {"bpe_leak": leak_record, "rates": rates_record}
    assert ch05_rules.check(own[kind](), kind)["schema"] == 1
    for other in [make() for name, make in own.items() if name != kind] + [own[kind]() | {"schema": 2}, {}]:
        with pytest.raises(RltokError, match=f"no {kind} record"):
            ch05_rules.check(other, kind)


def test_a_record_is_named_with_its_size_and_with_every_device_and_commit_that_made_it():
    config = comparison().runs["learned"][0]["config_hash"]
    assert ch05_rules.describe_sweep(comparison()) == (
        f"full size; text: text, test split; seeds 0, 1\ncpu; commit 0000000, config {config}"
    )
    rates = ch05_rules.describe(rates_record() | {"full": False})
    assert rates.startswith("smoke size, which shows shapes and no results; text: sample; seeds 0, 1\ncpu; gpu; ")
    assert "commit aaaaaaa, bbbbbbb" in rates
    assert "commit 1111111+," in ch05_rules.describe(leak_record() | {"commit": "1" * 40 + "+changes"})


@pytest.mark.parametrize("kind", ch05_rules.KINDS)
def test_the_stored_record_can_be_read_and_shown(kind):
    record = ch05_rules.check(json.loads(STORED[kind].read_text(), parse_constant=pytest.fail), kind)
    assert ch05_rules.describe(record)
    lines, figure = {
        "bpe_leak": (ch05_rules.words_table, ch05_rules.words_figure),
        "rates": (lambda record: "\n".join(ch05_rates.rates_held(record)), ch05_rates.rates_figure),
    }[kind]
    assert len(lines(record).splitlines()) > 1 and plots.digest(figure(record)).startswith("figure data")


def test_the_stored_comparison_can_be_read_and_shown():
    sweep = ch05_rules.read_comparison(RESULTS)
    assert ch05_rules.describe_sweep(sweep) and sweep.runs.keys() >= {"learned", "dynamic_pooling_port", "random_k_as_bpe"}
    assert len(cells(ch05_rules.comparison_table(sweep, list(sweep.runs)))) == len(sweep.runs) + 1
    assert plots.digest(ch05_rules.comparison_figure(sweep)).startswith("figure data")


def test_a_bar_in_a_cell_does_not_end_it():
    assert markdown(["a"], [["x|y"]]).splitlines()[2] == r"| x\|y |"
