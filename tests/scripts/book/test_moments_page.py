"""The page with a slider through training: current, and true in what it tells readers to look for."""

import json
from dataclasses import replace
from functools import cache

import make_moments
import pytest

from rltok.data.fixed_texts import FIXED_TEXTS
from rltok.evidence import headline

MOMENTS = 20


@cache
def found():
    return make_moments.moments()


def runs(name):
    """Moments of the prose, of the runs whose name holds `name`."""
    named = [run for size in found()["sizes"] for run in size["runs"] if name in run["name"]]
    assert named
    return [run["moments"]["prose"] for run in named]


def share(boundaries, among=None):
    """Share of the prose's bytes, or of those `among` them, with a boundary after them."""
    found = [cut == "1" for byte, cut in zip(FIXED_TEXTS["prose"], boundaries, strict=True) if among is None or byte in among]
    return sum(found) / len(found)


def sure(percent):
    """Share of probabilities up to 5 % or from 95 % on."""
    chances = [int(percent[i : i + 2]) for i in range(0, len(percent), 2)]
    return sum(chance <= 5 or chance >= 95 for chance in chances) / len(chances)


def test_data_and_page_are_current():
    assert make_moments.DATA.read_text(encoding="utf-8") == make_moments.data(found()), "run: python scripts/book/make_moments.py"
    assert make_moments.PAGE.read_text(encoding="utf-8") == make_moments.page(found()), "run: python scripts/book/make_moments.py"


def test_the_data_are_the_records_boundaries_a_digit_for_each_byte():
    stored = json.loads(make_moments.DATA.read_text(encoding="utf-8").removeprefix(make_moments.BEGIN).removesuffix(";\n"))
    assert stored["texts"] == FIXED_TEXTS
    record = headline.best_sweep(make_moments.RESULTS).runs[headline.FAST][make_moments.SEED]
    shown = next(run for run in stored["sizes"][0]["runs"] if run["name"] == headline.NAMES[headline.FAST])
    assert stored["sizes"][0]["steps"] == [shot["step"] for shot in record["snapshots"]]
    for size in stored["sizes"]:
        assert len(size["steps"]) == MOMENTS and size["steps"][-1] == size["updates"]
    for name, text in FIXED_TEXTS.items():
        assert [each["boundaries"] for each in shown["moments"][name]] == [s[name]["boundaries"] for s in record["snapshots"]]
        lengths = {key: {len(each[key]) for each in shown["moments"][name]} for key in ("boundaries", "percent")}
        assert lengths == {"boundaries": {len(text.encode())}, "percent": {2 * len(text.encode())}}


def test_bpe_does_not_move():
    for moments in runs("BPE"):
        assert len({each["boundaries"] for each in moments}) == 1


def test_policies_begin_near_their_rate_and_become_sure():
    for moments in runs("policy"):
        assert abs(share(moments[0]["boundaries"]) - 0.2) < 0.05
        assert sure(moments[0]["percent"]) == 0 and sure(moments[-1]["percent"]) > 0.85


def test_the_fast_policy_ends_at_spaces_at_both_sizes_and_the_large_one_of_the_paper_elsewhere():
    ends = [end for *_, end in runs(headline.NAMES[headline.FAST])]
    assert len(ends) == 2 and all(share(end["boundaries"], " ") == 1 and sure(end["percent"]) > 0.95 for end in ends)
    ((*_, end),) = runs(make_moments.NAMES[headline.LARGE_POLICY])
    assert share(end["boundaries"], " ") < 0.1


def test_h_net_goes_on_moving_and_stays_undecided():
    for *_, before, end in runs("H-Net"):
        assert before["boundaries"] != end["boundaries"]
        assert sure(end["percent"]) < 0.05


def test_records_of_other_texts_are_refused():
    sweep = headline.large_sweep(make_moments.RESULTS)
    record = json.loads(json.dumps(sweep.runs["bpe"][0]))
    record["snapshots"][3]["code"]["text"] = "another text"
    with pytest.raises(AssertionError):
        make_moments._size(replace(sweep, runs={"bpe": {0: record}}), ("bpe",))
