"""Chapter 07: its tables and figures against numbers of our choice, and what it says where records are missing."""

import re

import matplotlib
import pytest
from sweeps import record, seeds_of, sweep_of, write

from rltok.errors import RltokError
from rltok.evidence import headline
from rltok.evidence.chapters import ch07_moved, ch07_results

matplotlib.use("Agg")
LATE = {"train.warmup_fraction": 0.45}
RATES = {"space": 0.9, "word start": 0.1, "letter": 0.05, "punctuation": None}


def learned(name, bits, **more):
    return seeds_of(name, bits, rule="learned", **more)


def cells(table):
    """Rows of a Markdown table by their first cell."""
    plain = table.replace("\N{NO-BREAK SPACE}", " ")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in plain.splitlines()[2:]]
    return {first: rest for first, *rest in rows}


@pytest.fixture
def results(tmp_path):
    """Records of three sizes, of which the largest has one run a method."""
    small = {"sweep": "tiny"}
    best = {"sweep": "32m_best"}
    write(tmp_path / "rules", *seeds_of("even", 2.9, **small), *learned("learned", 2.8, **small))
    write(tmp_path / "best", *learned("policy_x20", 1.7, **best), *learned("policy", 1.75, **best, **LATE),
          *seeds_of("even", 1.8, **best))  # fmt: skip
    write(tmp_path / "sweeps", *learned("ours_gamma0.9", 1.9), *seeds_of("even", 2.0),
          record("ours_gamma0.9", sweep="147m", bits=1.5), record("even", sweep="147m", bits=1.6))  # fmt: skip
    return tmp_path


def test_every_sweep_but_the_first_is_a_row_and_a_single_run_borrows(results):
    sweeps = ch07_results.settings(results)
    assert {sweep.name for sweep in sweeps} == {"tiny", "32m_best", "147m"}
    found = cells(ch07_results.minus_table(sweeps, "even", ["policy_x20", "policy"]))
    rows = {re.search("`(.*)`", first)[1]: rest for first, rest in found.items() if "`" in first}
    value = {plan: [cell if cell == "-" else float(cell.split()[0]) for cell in row] for plan, row in rows.items()}
    wanted = {"rltok compare": ["-", -0.1], "32m_best": [-0.1, -0.05], "147m": ["-", -0.1]}
    for plan, row in wanted.items():
        assert value[plan] == [cell if cell == "-" else pytest.approx(cell, abs=0.015) for cell in row]  # noise of documents
    borrowed = [plan for plan, row in rows.items() if any("(" in cell for cell in row)]
    assert borrowed == ["147m"]


def test_a_later_sweep_becomes_a_row_by_itself(results):
    write(results / "best", record("even", sweep="90m_code"), record("policy_x20", sweep="90m_code", rule="learned"))
    assert "90m_code" in [sweep.name for sweep in ch07_results.settings(results)]


def test_the_papers_row_is_of_its_table():
    row = cells(ch07_results.minus_table([], "even", ["policy", "whitespace"]))["the paper: 147M, 6 GB"]
    assert row == ["-0.079 ± 0.008", "-"]  # 1.297 and 1.376, errors 0.003: 1.96 * sqrt(2) * 0.003


def test_verdicts_stand_with_each_seed_and_pairs_without_runs_are_left_out():
    sweep = sweep_of(*learned("policy_x20", 1.7, wiggle=0.0), *seeds_of("even", 1.8, wiggle=0.0))
    ((pair, row),) = cells(ch07_results.verdicts_table(sweep)).items()
    assert pair == "fast policy − even spacing"
    assert row[0] == "-0.100, -0.100, -0.100" and row[2] == "**lower**" and row[3] == "0.200 and 0.200"


def test_a_pair_whose_rates_should_agree_and_do_not_is_refused():
    sweep = sweep_of(*learned("policy_x20_rate_bpe", 1.7, rate=0.3), *seeds_of("bpe", 1.8))
    with pytest.raises(RltokError, match="rates that are to be equal"):
        ch07_results.verdicts_table(sweep)


def test_a_run_that_missed_its_rival_s_rate_is_shown_and_not_compared():
    near, far = (learned(f"policy_x20_rate_{rival}", 1.7, rate=0.204, wiggle=0.0) for rival in ("bpe", "whitespace"))
    rivals = [*seeds_of("bpe", 1.8, wiggle=0.0), *seeds_of("whitespace", 1.8, rate=0.19, wiggle=0.0)]
    found = cells(ch07_results.matched_table(sweep_of(*near, *far, *rivals)))
    assert found["`policy_x20_rate_bpe`"] == ["3", "0.204", "0.200", "-0.100 ± 0.000, **lower**"]
    assert found["`policy_x20_rate_whitespace`"] == ["3", "0.204", "0.190", "rates differ"]


def test_a_second_try_at_a_rival_s_rate_is_judged_in_plain_words():
    sweep = sweep_of(
        *learned("policy_x20_again_rate_whitespace", 1.7, rate=0.204, wiggle=0.0), *seeds_of("whitespace", 1.8, wiggle=0.0)
    )
    ((pair, row),) = cells(ch07_results.verdicts_table(sweep)).items()
    assert pair == "fast policy, equally many boundaries − white-space rule" and row[2] == "**lower**"


def test_places_are_shares_of_each_kind_of_byte_seed_by_seed():
    sweep = sweep_of(*learned("policy", 1.7, seeds=2))
    for run in sweep.records:
        run["scores"]["validation"]["class_rates"] = RATES
    found = cells(ch07_results.places_table([(sweep, ["policy", "nobody"])]))
    assert found == {f"`32m`: paper's policy, seed {seed}": ["90%", "10%", "5%", "0%"] for seed in (0, 1)}


def test_what_turned_is_listed_and_what_did_not_is_not():
    def sweep(name, policy, bpe, random, white):
        runs = [*learned("policy", policy, sweep=name, white=white), *seeds_of("even", 2.0, sweep=name),
                *seeds_of("bpe", bpe, sweep=name), *seeds_of("random_k", random, sweep=name)]  # fmt: skip
        return sweep_of(*runs)

    first, last = sweep("first", 1.8, 2.1, 2.2, 0.9), sweep("last", 1.9, 1.7, 2.2, 0.1)
    found = cells(ch07_moved.overturned([first, last]))
    assert found["paper's policy minus BPE guidance"][-1] == "higher"
    assert found["BPE guidance minus even spacing"][-1] == "lower"
    assert not any("random" in row or row == "paper's policy minus even spacing" for row in found)
    assert found["white space with a boundary, paper's policy"][:2] == ["90%", "10%"]


def test_seeds_differ_by_their_best_and_their_worst():
    sweep = sweep_of(*(record("even", seed, bits=bits, wiggle=0.0) for seed, bits in enumerate((1.7, 1.9, 1.8))))
    assert ch07_results.spread(sweep, "even") == pytest.approx(0.2)
    assert ch07_results.by_seed(sweep, ["even"]).splitlines()[1].split()[0] == "even"


def test_the_figure_of_policies_has_a_line_a_seed_and_a_label_a_group():
    names = ("policy", "policy_x20", "policy_x20_gamma0.9", "policy_x20_gamma0.99", "policy_x20_lags0")
    sweep = sweep_of(*(run for name in names for run in learned(name, 1.7)))
    left, right = ch07_results.policies_figure(sweep).axes
    assert len(left.lines) == len(right.lines) == 3 * len(names)
    assert len(left.get_legend_handles_labels()[1]) == len(ch07_results.GROUPS) == 4


def test_the_figure_of_schedules_has_the_differences_from_even_spacing():
    sweep = sweep_of(*learned("policy", 1.9, wiggle=0.0), *seeds_of("even", 2.0, wiggle=0.0))
    (axes,) = ch07_results.peaks_figure({"one": sweep, "other": sweep}, ["policy_x20", "policy"]).axes
    points = [line.get_xdata() for line in axes.lines if line.get_marker() in "os"]
    assert [list(map(float, each)) for each in points] == [[pytest.approx(-0.1)], [pytest.approx(-0.1)]]


def test_a_folder_without_the_sweep_of_the_verdict_is_refused_in_one_line(tmp_path):
    with pytest.raises(RltokError, match=r"holds no finished run of 32m_best\. Take .*/32m_best\.toml\.$"):
        headline.best_sweep(tmp_path)
