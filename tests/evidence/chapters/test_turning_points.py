"""ch06_onset: the lead over the early exit, and the moment at which a policy goes to white space or away from it."""

import pytest
from sweeps import record, rows_of, sweep_of, with_repeats

from rltok.evidence.chapters.ch06_onset import ahead_table, lead_table, schedules_table, turns_table


def leading(leads, budget, name="ours", seed=0, **more):
    """A run with so many lines of training at equal distances, whose early exit is behind by these nats per byte."""
    curve = [
        {"step": at, "bytes": budget * at // len(leads), "nll": 1.0 + 0.1 * at, "early_nll": 1.0 + 0.1 * at + lead}
        for at, lead in enumerate(leads, start=1)
    ]
    return record(name, seed, **more) | {"curve": curve, "bytes": budget, "matrix_parameters": budget}


def test_the_lead_over_the_early_exit_is_read_at_the_same_bytes_of_every_size():
    small = sweep_of(leading([0.01 * at for at in range(1, 21)], 20_000_000), leading([0.0] * 20, 20_000_000, seed=1))
    large = sweep_of(leading([0.001 * at for at in range(1, 101)], 200_000_000))
    head, first, second = rows_of(lead_table([large, small], ["bpe", "ours"], parts=(0.5, 1.0)))
    assert head[2:] == ["after 10 MB", "after 20 MB", "at its end"]
    # of 20 lines, those of the tenth before 10 MB are the 9th and 10th; before the end, the 18th to 20th
    assert [cell.split(" ")[0] for cell in first[2:]] == ["+0.048", "+0.095", "+0.095"]
    assert second[2:] == ["+0.005", "+0.009", "+0.095"]  # 10 MB is its 5th line of 100; 90 to 100 of the last
    again = with_repeats(large, leading([0.003 * at for at in range(1, 101)], 200_000_000))
    assert rows_of(lead_table([again], ["ours"], parts=(0.5,)))[1][3] == "+0.190"  # the mean of 0.095 and 0.285
    assert rows_of(lead_table([large], ["ours"], parts=(0.001,)))[1][2] == "+0.001"  # no line so early: the nearest


def going(shares, seed=0, lead=0.0):
    """A run with so many lines of training, of which the lead is 0 but around the largest share."""
    curve = [
        {
            "step": at,
            "bytes": 1_000_000 * at,
            "whitespace_share": share,
            "nll": 1.0,
            "early_nll": 1.0 + lead * (share == max(shares)),
        }
        for at, share in enumerate(shares, start=1)
    ]
    return record("ours", seed) | {"curve": curve}


@pytest.mark.parametrize("shares, message", [
    ([0.2, 0.3, 0.49, 0.5, 0.9], ["passes 0.5", "4", "4"]),
    ([0.2, 0.3, 0.4, 0.1, 0.0], ["at most 0.40", "3", "3"]),
    ([0.6], ["passes 0.5", "1", "1"]),
])  # fmt: skip
def test_a_policy_passes_half_of_white_space_or_turns_away_where_it_has_most(shares, message):
    head, row = rows_of(turns_table([sweep_of(going(shares))], ["ours", "nobody"]))
    assert row[3:6] == message and head[3:6] == ["white space", "MB read", "update"]


def test_the_lead_at_the_turn_is_a_mean_of_seven_lines_and_fixed_rules_have_no_turn():
    shares = [0.1] * 10 + [0.4] + [0.1] * 10
    rows = rows_of(turns_table([sweep_of(going(shares, lead=0.7), record("even"))], ["ours", "even"]))[1:]
    assert [row[6] for row in rows] == ["+0.100"]
    tiny = record("ours")["config"]
    updates = tiny["train"]["training_bytes"] // (tiny["train"]["sequences_per_update"] * tiny["data"]["sequence_length"])
    assert rows[0][7] == f"{tiny['train']['warmup_fraction'] * updates:.0f}"


def test_each_schedule_has_a_row_with_what_came_out():
    slow = {"train.learning_rate": 0.25, "train.warmup_fraction": 0.5, "train.sequences_per_update": 32}
    runs, even = [record("ours", seed, bits=2.0 + seed) for seed in (0, 1)], record("even", bits=2.5, rule="even")
    even["scores"]["validation"]["policy_entropy"] = None
    sweep = sweep_of(*runs, record("ours_late", bits=1.5, **slow), even)
    for run, share in zip(runs, (0.25, 0.75), strict=True):
        run["scores"]["validation"] |= {"whitespace_share": share, "policy_entropy": 2 * share, "early_bits_per_byte": 3.0}
    head, ours, late, even = rows_of(schedules_table([sweep], ["ours", "ours_late", "even", "nobody"]))
    assert head[2:] == ["seeds", "peak learning rate", "after MB", "rows of an update", "white space", "entropy",
                        "bits per byte, validation", "of the early exit alone"]  # fmt: skip
    assert ours[0] == "`ours`" and ours[2] == "2" and ours[6:8] == ["0.50 ± 0.25", "1.00 ± 0.50"] and ours[9] == "3.000 ± 0.000"
    budget = late_bytes(slow)
    assert late[3:6] == ["0.25", f"{budget / 2e6:.3g}", "32"] and late[9] == "-"
    assert even[7] == "-"  # no policy, no entropy
    assert schedules_table([sweep], ["nobody"]) == "None of these contenders has a finished run."
    smoke = sweep_of(record("ours", bits=5.0, full=False) | {"matrix_parameters": 1})
    again = with_repeats(sweep_of(record("ours", bits=2.0)), record("ours", bits=3.0))
    small, large = rows_of(schedules_table([again, smoke], ["ours"]))[1:]  # by size, smallest first
    assert small[1:3] == ["32m (smoke)", "1"] and large[1:3] == ["32m", "1"]
    of_both = [run["scores"]["validation"]["bits_per_byte"] for run in again.everything]
    assert large[8] == f"{sum(of_both) / 2:.3f}"  # the mean over the runs of a seed


def late_bytes(settings):
    """Bytes of whole updates that a run of these settings reads."""
    config = record("ours", **settings)["config"]
    an_update = settings["train.sequences_per_update"] * config["data"]["sequence_length"]
    return config["train"]["training_bytes"] // an_update * an_update


def test_nobody_there_is_told_in_words():
    for made in (lead_table, turns_table):
        assert made([], ["ours"]) == made([sweep_of(record("even"))], ["ours"]) == "None of these contenders has a finished run."


def held_out(name, bits, every, seed=0, **more):
    """A run that was evaluated at its start and then every so many bytes."""
    curve = [{"step": at, "bytes": at * every, "flops": 0.0, "bits_per_byte": loss} for at, loss in enumerate(bits)]
    return record(name, seed, **more) | {"held_out": curve, "bytes": every * (len(bits) - 1)}


def test_who_is_ahead_is_asked_after_the_same_bytes_of_every_size_and_only_where_it_was_evaluated():
    large = sweep_of(
        held_out("even", [8.0, 3.0, 2.0], 50_000_000),
        held_out("bpe", [9.0, 3.4, 1.9], 50_000_000, rule="bpe"),
        held_out("naive", [9.0, 3.0, 1.9], 50_000_000, seed=1, rule="even"),
    )
    for run in large.records:
        run["matrix_parameters"] = 10**9
    small = sweep_of(
        *(held_out("even", [8.0, 4.0, 2.0], 10_000_000, seed=seed) for seed in (0, 1)),
        *(held_out("bpe", [8.0, 4.0 + bits, 2.0], 10_000_000, seed=seed, rule="bpe") for seed, bits in enumerate((0.1, 0.3))),
    )
    marks = (4, 10, 20, 50, 100)  # the small one is evaluated from 10 MB on and ends at 20, the large one from 50 on
    head, *rows = rows_of(ahead_table([large, small], ["even", "bpe", "naive", "nobody"], marks))
    assert head[2:] == [f"after {mark} MB" for mark in marks]
    assert [row[0] for row in rows] == ["`bpe`", "`bpe`", "`naive`"]
    assert rows[0][2:] == ["-", "+0.200 ± 0.100", "+0.000 ± 0.000", "-", "-"]
    assert rows[1][2:] == ["-", "-", "-", "+0.400", "-0.100"]
    assert rows[2][2:] == ["-"] * 5  # no seed in common
    from_bpe = rows_of(ahead_table([large], ["even", "bpe"], (75,), reference="bpe"))
    assert from_bpe == [["held-out text, minus `bpe`", "size", "after 75 MB"], ["`even`", rows[1][1], "-0.150"]]
    assert "None of these" in ahead_table([], ["bpe"], marks) and "None of these" in ahead_table([small], ["even"], marks)
