"""rltok.evidence.aside: what the runs of another size say."""

import re

from sweeps import record, seeds_of, sweep_of

from rltok.evidence.aside import aside
from rltok.evidence.differences import deviation, gap
from rltok.statistics import SURE, t_limit


def spoken(message):
    """The lines under each of the three heads."""
    heads = "Speaks against|Speaks for|Leaves open"
    _, against, for_it, left_open = re.split(rf"\*\*(?:{heads})(?:, of the main claims that were run)?:\*\*", message)
    return against.strip().split("\n"), for_it.strip().split("\n"), left_open.strip().split("\n")


def of(lines, start):
    """The one line about a claim, behind its words; None without one."""
    chosen = [line for line in lines if line.startswith(f"* {start}")]
    return chosen[0].partition("): ")[2] if chosen else None


FEWER = "held-out text: fewer bits per byte than evenly spaced boundaries"


def test_claims_stand_on_their_side_with_their_numbers():
    text = aside(sweep_of(record("ours", bits=1.9), record("even", bits=2.0, white=0.2)))
    assert text.startswith("**At `32m`** (2 runs, at most 1 seed each, so leaning at most): bits per byte on test text")
    assert "borrowed" not in text and "Not run: `dynamic_pooling_port`, `hnet_port`, `bpe`; a claim" in text
    against, for_it, _ = spoken(text)
    minus_even = gap(sweep_of(record("ours", bits=1.9), record("even", bits=2.0)), "ours", "even", "test")
    assert of(for_it, FEWER) == f"γ = 0.99: {minus_even}, 1 seed" and of(against, "ARC-Easy: no difference").startswith(
        "γ = 0.99: -"
    )
    assert of(against, FEWER) is None
    worse = aside(sweep_of(*seeds_of("ours", 2.1), *seeds_of("even", 2.0)))
    assert "(6 runs, at most 3 seeds each):" in worse and of(spoken(worse)[0], FEWER).startswith("γ = 0.99: +")


def test_seeds_that_only_the_reference_has_are_nobodys_and_contenders_of_fewer_are_told_too():
    text = aside(sweep_of(*seeds_of("even", 2.0), record("ours", bits=1.9)))
    assert "(4 runs, at most 1 seed each beside `even`, so leaning at most)" in text
    mixed = aside(sweep_of(*seeds_of("even", 2.0), *seeds_of("bpe", 2.1, rule="bpe", wiggle=0.05), record("ours", bits=1.9)))
    order = mixed.partition("lowest first:")[2].partition(". ")[0]
    assert all(f"`{name}`" in order for name in ("ours", "even", "bpe"))
    assert "Errors in parentheses are borrowed: from seed to seed at `32m`" in mixed  # from the two with three seeds


def test_main_claims_alone_leave_out_the_others_of_each_side():
    sweep = sweep_of(record("ours", bits=1.9), record("even", bits=2.0, white=0.2))
    every, main = spoken(aside(sweep)), spoken(aside(sweep, main=True))
    assert of(every[0], "ARC-Easy: no difference") and not of(main[0], "ARC-Easy: no difference")  # which is no main claim
    assert aside(sweep, main=True).count(", of the main claims that were run:**") == 3
    assert of(main[1], FEWER) == of(every[1], FEWER) and set(main[1]) < set(every[1]) and main[2] == every[2]


def test_of_a_claim_about_several_rivals_the_parts_that_were_run_are_told():
    _, for_it, _ = spoken(aside(sweep_of(record("ours", bits=1.9), record("even", bits=2.0))))
    assert of(for_it, "LAMBADA: fewer bits per byte than each of the three").startswith("γ = 0.99: in part, even: -")
    both = sweep_of(
        record("ours", bits=1.9), record("ours_gamma0.9", bits=1.8), record("even", bits=2.0), record("bpe", bits=1.5)
    )
    against, for_it, _ = spoken(aside(both))
    assert len(re.findall("γ = 0.9?9: ", of(for_it, FEWER))) == 2
    parts = of(for_it, "held-out text: none of the other three is as good as BPE guidance")
    assert parts.startswith("in part, even: -") and "γ" not in parts  # it is not about ours
    assert "leans" not in "".join(against + for_it)


def test_a_paragraph_has_whole_sentences_whatever_is_missing():
    three = [*seeds_of("ours", 1.9), *seeds_of("even", 2.0)]
    for sweep in (sweep_of(record("ours")), sweep_of(*three, record("naive", rule="even")), sweep_of(*three)):
        text = aside(sweep)
        assert not any(odd in text for odd in ("..", "What one seed says", "compare Without"))
        assert all(spoken(text))


def test_a_size_of_single_seeds_borrows_the_deviation_of_another():
    full = sweep_of(*seeds_of("ours", 1.9), *seeds_of("even", 2.0), *seeds_of("bpe", 2.1, rule="bpe", wiggle=0.05))
    spread = deviation(full, "test")
    single = sweep_of(record("ours", bits=1.9), record("even", bits=2.0))
    minus_even = gap(single, "ours", "even", "test").bits
    text, limit = aside(single, full), t_limit(SURE, 4)  # three methods, three seeds
    assert f"`ours` {minus_even:+.4f} ± " in text and f" / ({spread:.4f}) (95%: ± {limit * spread:.4f})" in text
    assert f"are borrowed: from seed to seed at `32m` a difference on test text deviates by {spread:.3f}, on benchmarks" in text
    assert "minus `bpe`" not in text and "borrowed" not in aside(single)
    guided = sweep_of(record("ours", bits=1.9), record("even", bits=2.0), record("bpe", bits=1.8, rule="bpe"))
    more = gap(guided, "ours", "bpe", "test").bits
    assert f"`ours` minus `bpe` is {more:+.4f} ± " in aside(guided, full) and more > 0
    assert "borrowed" not in aside(full, full)  # it has its own
    near = sweep_of(record("ours", bits=2.0 - spread), record("even", bits=2.0))  # within seeds' interval, beyond documents'
    assert [of(side, FEWER) is not None for side in spoken(aside(near, full))] == [False, False, True]
    assert [of(side, FEWER) is not None for side in spoken(aside(near))] == [False, True, False]
    unscored = sweep_of(record("ours"), record("even"))
    for run in unscored.records:
        run["scores"]["test"] = None
    text = aside(unscored, full)
    assert of(spoken(text)[2], FEWER) == "γ = 0.99: no score in common" and "borrowed" in text  # benchmarks borrow
    alone = aside(sweep_of(record("bpe", rule="bpe")), full)
    assert "borrowed" not in alone and all(lines == ["* nothing"] for lines in spoken(alone))
    rivals = {"dynamic_pooling_port": "dynamic_pooling", "hnet_port": "hnet", "bpe": "bpe"}
    runs = [record(name, rule=rule) for name, rule in rivals.items()]
    assert "Not run" not in aside(sweep_of(record("ours"), record("even"), *runs), full)
