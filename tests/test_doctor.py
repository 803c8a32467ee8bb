"""`rltok doctor`: this machine, and what other cards could do, with measured and estimated kept apart."""

import importlib.util
import json
from pathlib import Path

import pytest
import torch

from rltok.cli import doctor
from rltok.cli.main import main
from rltok.flops import parameter_counts
from rltok.kernels import backends
from rltok.presets import preset
from rltok.speed import speeds
from rltok.speed.cards import CARDS, card_of
from rltok.speed.speeds import STATE_BYTES, fitting_rows, measured_speeds, outlook, outlooks, ratio, table

ROOT = Path(__file__).resolve().parents[1]
import make_speeds  # noqa: E402

CARD = {card.name: card for card in CARDS}
H100, T4, L4, A100 = CARD["H100"], CARD["T4"], CARD["L4"], CARD["A100 40GB"]
MEASURED = {
    "preset": "147m", "device": "NVIDIA H100 80GB HBM3", "precision": "bf16 autocast", "commit": "a" * 40, "record": "bench.json",
    "backend": "triton", "micro_batch": 16, "bytes_per_second": 1_200_000.0, "peak_memory_bytes": 40e9, "updates": 50,
    "tokens_per_byte": 0.2, "product_share": 0.5,
}  # fmt: skip
PLAIN = MEASURED | {"backend": "plain", "bytes_per_second": 300_000.0, "peak_memory_bytes": 70e9, "micro_batch": 8}


def told(capsys, *more):
    assert main(["doctor", "--device", "cpu", *more]) == 0
    return capsys.readouterr().out


def test_it_tells_device_memory_precision_backend_and_compilers_in_words_and_json(capsys):
    found = json.loads(told(capsys, "--json"))
    assert found["device"].startswith("cpu") and found["memory_bytes"] > 1e9 and found["bf16"] is False
    assert found["backend"] == "plain" and found["why_backend"]
    assert (found["triton"] is not None) == (importlib.util.find_spec("triton") is not None)
    assert isinstance(found["torch_compile"], bool) and found["known_card"] is None
    words = told(capsys)
    assert (
        f"backend   plain: {found['why_backend']}" in words and "torch.compile" in words and "A T4 was never available" in words
    )


@pytest.mark.parametrize(
    ("installed", "problem", "why"),
    [(False, None, "Triton is not installed"), (True, "too old", "device cpu is no CUDA card")],
)
def test_it_says_why_everything_is_plain(installed, problem, why, capsys, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.delenv("RLTOK_BACKEND", raising=False)
    monkeypatch.setattr(backends, "_installed", lambda: installed)
    monkeypatch.setattr(backends, "_card_problem", lambda index: problem)
    assert f"backend   plain: {why}" in told(capsys)


def test_without_a_measurement_nothing_is_estimated(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "measured_speeds", lambda: [])
    found = json.loads(told(capsys, "--json"))
    assert {each["basis"] for each in found["outlooks"]} == {"not measured"}
    assert {each["bytes_per_second"] for each in found["outlooks"]} == {each["hours"] for each in found["outlooks"]} == {None}
    words = told(capsys)
    assert "nothing to estimate from" in words
    assert len([line for line in words.splitlines() if line.endswith("not measured")]) == len(CARDS) * len(speeds.SHOWN)


def test_measured_rows_say_so_and_the_others_say_from_what_they_are_estimated(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "measured_speeds", lambda: [MEASURED, PLAIN])
    words = told(capsys)
    basis = {
        (line[:11].strip(), line[11:19].strip()): line.rsplit("  ", 1)[1].strip()
        for line in words.splitlines()
        if " at 0.20 tokens" in line
    }
    assert basis["H100", "147m"] == "measured at 0.20 tokens a byte"
    assert basis["L4", "147m"] == "estimated from the H100's 1.2 MB/s at 0.20 tokens a byte"
    assert {preset for _, preset in (key for key in basis)} == {"147m"} and "32m and 90m was not measured" in words
    assert "This machine is not in the table: `rltok bench --updates 5` measures it." in words
    assert "measured: 147m on NVIDIA H100 80GB HBM3, triton; 147m on NVIDIA H100 80GB HBM3, plain." in words
    assert "estimated: of a measured update, matrix products take" in words and "rows: of a forward pass" in words


def test_an_estimate_stretches_products_by_arithmetic_and_all_else_by_bandwidth():
    # 1 s on an H100, 0.4 s of it in products: 0.4 * 989.5 / 121 + 0.6 * 3350 / 300 s on an L4
    assert 1 / ratio(L4, H100, 0.4) == pytest.approx(0.4 * 989.5 / 121 + 0.6 * 3350 / 300)
    assert 1 / ratio(T4, H100, 0.4) == pytest.approx(0.4 * 989.5 / 8.1 + 0.6 * 2 * 3350 / 320)  # numbers twice as wide
    assert ratio(T4, T4, 0.4) == pytest.approx(1) and ratio(H100, H100, 0.9) == pytest.approx(1)
    found = outlook(L4, "147m", [MEASURED])
    assert found.bytes_per_second == pytest.approx(1_200_000 * ratio(L4, H100, 0.5))
    assert found.hours == pytest.approx(preset("147m").train.training_bytes / found.bytes_per_second / 3600)
    assert outlook(L4, "90m", [MEASURED]).basis == "not measured"  # another preset is no basis


def test_a_measurement_on_the_card_itself_wins_and_else_the_nearest_card_is_the_basis():
    other = MEASURED | {"device": "NVIDIA A100-SXM4-80GB", "bytes_per_second": 500_000.0}
    assert outlook(CARD["A100 80GB"], "147m", [MEASURED, other]).bytes_per_second == 500_000.0
    assert outlook(A100, "147m", [MEASURED, other]).basis.startswith("estimated from the A100 80GB's ")
    assert outlook(H100, "147m", [MEASURED, other]).bytes_per_second == 1_200_000.0
    unknown = MEASURED | {"device": "cpu x86_64, 2 threads"}
    assert outlook(H100, "147m", [unknown]).basis == "not measured"


def test_a_card_without_bf16_runs_plain_fp32_and_is_estimated_from_a_plain_measurement():
    assert outlook(T4, "147m", [MEASURED]).basis == "not measured"
    found = outlook(T4, "147m", [MEASURED, PLAIN | {"peak_memory_bytes": 10e9}])
    assert (found.precision, found.backend, found.basis[:25]) == ("fp32", "plain", "estimated from the H100's")
    assert found.bytes_per_second == pytest.approx(300_000 * ratio(T4, H100, 0.5))


def test_what_fits_is_the_largest_divisor_whose_activations_have_room_and_no_speed_is_told_of_what_does_not():
    fixed = STATE_BYTES * sum(parameter_counts(preset("147m").model).values())
    for rows in (16, 8, 4, 2):
        a_row = (speeds.USABLE * A100.memory_bytes - fixed) / rows
        assert fitting_rows(A100, preset("147m"), MEASURED | {"peak_memory_bytes": fixed + 16 * a_row * 0.999}) == rows
    found = outlook(T4, "147m", [PLAIN | {"peak_memory_bytes": 79e9}])
    assert (found.micro_batch, found.bytes_per_second, found.hours) == (0, None, None)
    assert " no " in table([found])[1]


def test_cards_are_found_by_the_names_that_cuda_gives_them_and_each_names_its_source():
    names = [name for card in CARDS for name in card.device_names]
    assert len(set(names)) == len(names)
    assert card_of("Tesla T4") is T4 and card_of("NVIDIA H100 PCIe") is None  # another variant has other numbers
    assert T4.bf16_rate is None and T4.rate == T4.fp32_rate and H100.rate == H100.bf16_rate
    assert all("NVIDIA" in card.source for card in CARDS)


def test_the_stored_speeds_are_those_of_the_stored_records_and_come_with_the_package():
    assert make_speeds.made(make_speeds.RESULTS) == speeds.STORED.read_text(), "run: python scripts/book/make_speeds.py"
    assert measured_speeds() == json.loads(speeds.STORED.read_text())["speeds"]


def test_a_record_gives_a_row_for_each_arm_and_must_be_full_and_from_a_clean_tree(tmp_path):
    numbers = ("backend", "micro_batch", "bytes_per_second", "tokens_per_byte", "peak_memory_bytes", "updates")
    arm = {key: MEASURED[key] for key in numbers} | {"time_split": {"shares": {"matrix products": 0.5}}}
    named = {key: MEASURED[key] for key in ("preset", "device", "precision", "commit")}
    record = named | {"what": "rltok bench: whole updates", "schema": 1, "full": True, "arm": arm, "plain": None}
    (tmp_path / "bench.json").write_text(json.dumps(record))
    assert json.loads(make_speeds.made(tmp_path))["speeds"] == [MEASURED]
    record["plain"] = arm | {"backend": "plain"}
    (tmp_path / "bench.json").write_text(json.dumps(record))
    rows = json.loads(make_speeds.made(tmp_path))["speeds"]
    assert [row["backend"] for row in rows] == ["triton", "plain"]
    assert [each.card for each in outlooks(rows) if each.basis.startswith("measured")] == ["H100"]
    for spoiled in ({"full": False}, {"commit": None}, {"commit": "a" * 40 + "+changes"}):
        (tmp_path / "bench.json").write_text(json.dumps(record | spoiled))
        with pytest.raises(SystemExit, match="no full record of a clean tree"):
            make_speeds.made(tmp_path)
    for text in ("[1", "[]", '{"what": "other"}', json.dumps(record | {"schema": 99}), json.dumps(record | {"what": "another"})):
        (tmp_path / "bench.json").write_text(text)
        with pytest.raises(SystemExit, match="bench.json is no record of rltok bench"):
            make_speeds.made(tmp_path)
    (tmp_path / "bench.json").write_text(json.dumps(record | {"arm": arm | {"peak_memory_bytes": None}}))
    with pytest.raises(SystemExit, match="was measured on a CPU"):
        make_speeds.made(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"speeds": null}',
        '{"speeds": [{}]}',
        "[" * 100_000,
        None,
        json.dumps({"speeds": [MEASURED | {"bytes_per_second": 0.0}]}),
    ],
)
def test_a_damaged_table_of_speeds_is_one_line_of_a_report(text, tmp_path, capsys, monkeypatch):
    stored = tmp_path / "speeds.json"
    if text is not None:
        stored.write_text(text)
    monkeypatch.setattr(speeds, "STORED", stored)
    words = told(capsys)
    assert f"no table: {stored} " in words and "Install rltok again." in words and "versions" in words


def test_memory_of_a_card_is_asked_of_the_card(monkeypatch):
    class Properties:
        total_memory = 79

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties)
    assert doctor.memory_bytes(torch.device("cuda", 0)) == 79
