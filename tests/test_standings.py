"""rltok.evidence.ranking: means over seeds, paired differences and their errors; and what a record of rates says of a run."""

import itertools
import json
import sys
from dataclasses import replace

import measure_leak
import measure_rates
import measure_toy
import pytest

from rltok.errors import RltokError
from rltok.evaluation import Evaluation, paired_difference
from rltok.evidence import measuring
from rltok.evidence.ranking import averaged, figure, standings, table


def made(*row_bits, seed=0) -> dict:
    """A result that scored these rows."""
    found = Evaluation(
        bits_per_byte=sum(row_bits) / len(row_bits), standard_error=0.1, early_bits_per_byte=3.0, rate=0.2, tokens_per_byte=0.2,
        policy_entropy=None, whitespace_share=None, class_rates={}, rows=len(row_bits), scored_bytes=100, seed=seed,
        row_bits_per_byte=row_bits,
    )  # fmt: skip
    return {
        "name": "learned", "seed": seed, "evaluation": found.to_dict(), "row_bits_per_byte": list(row_bits),
        "last_fifth_rate": 0.2, "flops_per_byte": 5e6, "seconds": 2.0,
    }  # fmt: skip


def test_differences_are_paired_by_row_and_seed():
    results = [
        made(2.0, 3.0, 4.0), made(2.5, 3.5, 4.1, seed=1), made(2.2, 3.4, 4.3) | {"name": "even"},
        made(2.5, 3.3, 4.5, seed=1) | {"name": "even"},
    ]  # fmt: skip
    learned, even = standings(results)
    gap = even["minus_learned"]
    by_row = [(0.2 + 0.0) / 2, (0.4 - 0.2) / 2, (0.3 + 0.4) / 2]
    mean = sum(by_row) / 3
    assert learned["minus_learned"] is None
    assert gap["bits_per_byte"] == pytest.approx(mean)
    assert gap["standard_error_rows"] == pytest.approx((sum((x - mean) ** 2 for x in by_row) / 2 / 3) ** 0.5)
    assert gap["standard_error_seeds"] == pytest.approx(abs(0.3 - 0.2 / 3) / 2)
    assert even["standard_error_seeds"] == pytest.approx(abs(9.9 / 3 - 10.3 / 3) / 2)


def test_with_one_seed_the_errors_are_those_of_the_evaluation_and_of_seeds_there_is_none():
    results = [made(2.0, 3.0, 4.0), made(2.2, 3.4, 4.3) | {"name": "even"}]
    pair = [Evaluation(**r["evaluation"], row_bits_per_byte=tuple(r["row_bits_per_byte"])) for r in reversed(results)]
    line = standings(results)[1]
    gap = paired_difference(*pair)
    assert line["minus_learned"]["bits_per_byte"] == pytest.approx(gap.bits)
    assert line["minus_learned"]["standard_error_rows"] == pytest.approx(gap.error_units)
    assert line["standard_error_seeds"] is None and line["minus_learned"]["standard_error_seeds"] is None
    assert averaged(pair[:1]).row_bits_per_byte == pair[0].row_bits_per_byte
    counted = replace(pair[0], documents=3, standard_error_documents=0.1, document_bits=(1.0,), document_bytes=(2,))
    assert averaged([counted, pair[1]]).standard_error_documents is None  # it would be of one seed
    assert averaged([counted, pair[1]]).document_bits == averaged([counted, pair[1]]).document_bytes == ()


def test_without_the_learned_rule_there_is_no_difference_and_a_single_row_has_no_error():
    line = standings([made(2.0) | {"name": "even"}])[0]
    assert line["minus_learned"] is None and line["standard_error_rows"] is None
    shown = table([line])
    assert "2.0000 " in shown[1] and "+-" not in shown[1]
    assert figure([line]).axes[0].get_lines()[0].get_ydata()[0] == 2.0


def test_the_measurement_of_rates_asks_every_rule_for_every_target(tmp_path):
    jobs = measure_rates.jobs_of(measure_rates.RULES, measure_rates.TARGETS, [1, 4], {"train.log_every": 1}, tmp_path)
    assert len({job[2] for job in jobs}) == len(jobs) == 60
    asked = {(name, round(1 / config.model.rule.target_rate), config.train.seed) for name, config, _ in jobs}
    assert asked == set(itertools.product(measure_rates.RULES, measure_rates.TARGETS, [1, 4]))
    assert all(config.train.log_every == 1 for _, config, _ in jobs)
    found = measure_rates.rate_of(
        made(2.0, 3.0)
        | {
            "rule": {"target_rate": 0.25}, "last_fifth_rate": 0.26, "curve": [{"step": 1, "rate": 0.5}], "config_hash": "x",
            "updates": 9,
        },
        device="cpu",
    )  # fmt: skip
    assert (found["rate"], found["highest"]) == (0.26, 0.5) and found["off"] == pytest.approx(0.01)


def test_the_record_of_rates_goes_on_where_it_stopped_and_leaves_other_files_alone(tmp_path):
    path, data, settings = tmp_path / "rates.json", {"name": "sample", "hash": "1"}, {"train.log_every": 1}
    assert measure_rates.stored_runs(path, data, settings) == []
    ((_, config, _),) = measure_rates.jobs_of(["hnet"], [4], [2], settings, tmp_path)
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
    with pytest.raises(SystemExit) as told:
        measuring.run(module.main)
    assert told.value.code == 2 and len(capsys.readouterr().err.splitlines()) == 1
    assert not list(tmp_path.iterdir())
