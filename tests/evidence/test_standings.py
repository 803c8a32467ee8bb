"""rltok.evidence.ranking: means over seeds, paired differences and their errors; and what a record of rates says of a run."""

import itertools
import json
import sys

import measure_leak
import measure_rates
import measure_toy
import pytest
from sweeps import record, sweep_of

from rltok.errors import RltokError
from rltok.evidence import measuring
from rltok.evidence.ranking import figure, last_fifth, ranked, table


def made(name, *bits, seed=0, sizes=(100, 100, 100)) -> dict:
    """A run that lost so many bits on each row of the test split."""
    stored = record(name, seed, rule="learned" if name == "learned" else "even")
    score = {"unit": "rows", "unit_bits": list(bits), "unit_bytes": list(sizes), "bits_per_byte": sum(bits) / sum(sizes)}
    stored["scores"]["test"] |= score
    return stored


def lines_of(*runs) -> dict[str, dict]:
    return {line["name"]: line for line in ranked(sweep_of(*runs), "test")}


def test_differences_are_paired_by_row_and_seed():
    lines = lines_of(
        made("learned", 200, 300, 400), made("learned", 250, 350, 410, seed=1),
        made("hnet", 220, 340, 430), made("hnet", 250, 330, 450, seed=1),
    )  # fmt: skip
    learned, gap = lines["learned"], lines["hnet"]["minus_learned"]
    by_row = [(0.2 + 0.0) / 2, (0.4 - 0.2) / 2, (0.3 + 0.4) / 2]
    mean = sum(by_row) / 3
    assert list(lines) == ["learned", "hnet"] and learned["minus_learned"] is None
    assert gap.bits == pytest.approx(mean)
    assert gap.error_units == pytest.approx((sum((x - mean) ** 2 for x in by_row) / 2 / 3) ** 0.5)
    assert gap.error_seeds == pytest.approx(abs(0.3 - 0.2 / 3) / 2)
    assert lines["hnet"]["bits_per_byte"].bits == pytest.approx((9.9 + 10.3) / 6)
    assert lines["hnet"]["bits_per_byte"].error_seeds == pytest.approx(abs(9.9 / 3 - 10.3 / 3) / 2)


def test_a_longer_row_counts_for_more():
    runs = made("learned", 200, 300, 800, sizes=(100, 100, 200)), made("hnet", 200, 300, 840, sizes=(100, 100, 200))
    assert lines_of(*runs)["hnet"]["minus_learned"].bits == pytest.approx(40 / 400)


def test_other_numbers_are_means_over_seeds():
    one, two = made("hnet", 1, 2, 3), made("hnet", 1, 2, 3, seed=1)
    two["scores"]["test"] |= {"rate": 0.4, "whitespace_share": None}
    two |= {"seconds": 7.0, "flops": 4e10}
    two["curve"] = [point | {"rate": 0.5 if point["step"] > 16 else 9.0} for point in two["curve"]]
    line = lines_of(one, two)["hnet"]
    assert (line["seeds"], line["unit"], line["units"]) == ([0, 1], "rows", 3)
    assert (line["rate"], line["whitespace_share"], line["seconds"]) == (pytest.approx(0.3), 0.95, 6.0)
    assert (line["flops_per_byte"], line["last_fifth_rate"]) == (pytest.approx(1.5e6), pytest.approx(0.35))


def test_the_rate_reached_is_the_mean_over_the_last_fifth():
    assert last_fifth([{"step": step, "rate": float(step)} for step in range(1, 11)], "rate") == 9.5
    assert last_fifth([{"step": 1, "rate": 0.3}], "rate") == 0.3


def test_without_the_learned_rule_there_is_no_difference_and_a_single_row_has_no_error():
    (line,) = lines_of(made("even", 200, sizes=(100,))).values()
    assert line["minus_learned"] is None and line["bits_per_byte"].error_units is None
    shown = table([line])
    assert "2.0000 " in shown[1] and "+-" not in shown[1]
    assert figure([line]).axes[0].get_lines()[0].get_ydata()[0] == 2.0


def test_the_measurement_of_rates_asks_every_rule_for_every_target():
    jobs = measure_rates.jobs_of(measure_rates.RULES, measure_rates.TARGETS, [1, 4], {"train.log_every": 1})
    assert len({run.stem for run, _ in jobs}) == len(jobs) == 60
    requests = {
        (run.name.split("-")[0], round(1 / config.model.rule.target_rate), config.train.seed) for run, config in jobs
    }  # fmt: skip
    assert requests == set(itertools.product(measure_rates.RULES, measure_rates.TARGETS, [1, 4]))
    assert all(config.train.log_every == 1 for _, config in jobs)
    run = made("hnet-1_4", 1, 2, 3) | {"updates": 10}
    run["config"]["model"]["rule"]["target_rate"] = 0.25
    run["scores"]["validation"]["standard_error"] = 0.1
    measured = measure_rates.rate_of(run, [{"step": step, "rate": 0.5 if step < 5 else 0.26} for step in range(1, 11)])
    assert (measured["rule"], measured["rate"], measured["highest"]) == ("hnet", 0.26, 0.5) and measured["off"] == pytest.approx(
        0.01
    )


def test_the_record_of_rates_goes_on_where_it_stopped_and_leaves_other_files_alone(tmp_path):
    path, data, settings = tmp_path / "rates.json", {"name": "sample", "hash": "1"}, {"train.log_every": 1}
    assert measure_rates.stored_runs(path, data, settings) == []
    ((_, config),) = measure_rates.jobs_of(["hnet"], [4], [2], settings)
    run = {"rule": "hnet", "target": 0.25, "seed": 2, "config_hash": config.digest()}
    record = {"what": measure_rates.WHAT, "data": data, "runs": [run]}
    path.write_text(json.dumps(record))
    assert measure_rates.stored_runs(path, data, settings) == [run]
    with pytest.raises(RltokError, match="other settings, so it stays"):
        measure_rates.stored_runs(path, data, settings | {"train.training_bytes": 99_999})
    for text in (json.dumps(record | {"data": data | {"hash": "2"}}), json.dumps({"a": 1}), "[]", "no JSON"):
        path.write_text(text)
        with pytest.raises(RltokError, match="so it stays"):
            measure_rates.stored_runs(path, data, settings)
    with pytest.raises(RltokError, match="there is no folder"):
        measure_rates.stored_runs(tmp_path / "none" / "rates.json", data, settings)


@pytest.mark.parametrize(
    ("module", "words"),
    [
        (measure_rates, "--seeds 0 --targets 1"), (measure_rates, "--seeds 0 --jobs 0"), (measure_rates, "--seeds -1"),
        (measure_leak, "--seeds 0 --rows 1"), (measure_leak, "--seeds 0 --vocabulary 100"), (measure_leak, "--seeds 0 --jobs 0"),
        (measure_toy, "--seeds 0 --jobs 0"), (measure_toy, "--seeds -1"),
    ],
)  # fmt: skip
def test_wrong_arguments_of_the_measuring_scripts_are_told_in_one_line(module, words, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["script.py", *words.split(), "--out", str(tmp_path / "x.json"), "--training-bytes", "9999"])
    with pytest.raises(SystemExit) as text:
        measuring.run(module.main)
    assert text.value.code == 2 and len(capsys.readouterr().err.splitlines()) == 1
    assert not list(tmp_path.iterdir())
