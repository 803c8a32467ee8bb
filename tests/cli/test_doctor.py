"""`rltok doctor`: this machine, and the cards that were measured."""

import importlib.util
import json
import sys
from types import SimpleNamespace

import make_speeds  # noqa: E402
import pytest
import torch

from rltok.cli import doctor
from rltok.cli.main import main
from rltok.errors import RltokError
from rltok.kernels import backends
from rltok.speed import speeds
from rltok.speed.speeds import fastest, measured_speeds

MEASURED = {
    "preset": "147m", "device": "NVIDIA H100 80GB HBM3", "precision": "bf16 autocast", "commit": "a" * 40, "record": "bench.json",
    "backend": "triton", "micro_batch": 16, "bytes_per_second": 1_200_000.0, "peak_memory_bytes": 40e9, "updates": 50,
    "tokens_per_byte": 0.2,
}  # fmt: skip
PLAIN = MEASURED | {"backend": "plain", "bytes_per_second": 300_000.0, "peak_memory_bytes": 70e9, "micro_batch": 8}


def report(capsys, *more):
    assert main(["doctor", "--device", "cpu", *more]) == 0
    return capsys.readouterr().out


def test_it_reports_device_memory_precision_backend_and_compilers_in_words_and_json(capsys):
    content = json.loads(report(capsys, "--json"))
    assert content["device"].startswith("cpu") and content["memory_bytes"] > 1e9 and content["precision"] == "fp32"
    assert content["backend"] == "plain" and content["why_backend"]
    assert (content["triton"] is not None) == (importlib.util.find_spec("triton") is not None)
    assert isinstance(content["torch_compile"], bool)
    words = report(capsys)
    assert f"backend   plain: {content['why_backend']}" in words and "torch.compile" in words


@pytest.mark.parametrize(
    ("count", "words"), [(0, "0 cards"), (1, "1 card"), (4, "4 cards: --standalone --nproc-per-node 4 -m rltok train ...")]
)
def test_it_says_how_many_cards_torchrun_can_take(count, words, capsys, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    assert json.loads(report(capsys, "--json"))["cards"] == count
    assert f"torchrun  {words}" in report(capsys).splitlines()


@pytest.mark.parametrize(
    ("installed", "problem", "why"),
    [(False, None, "Triton is not installed"), (True, "too old", "device cpu is no CUDA card")],
)
def test_it_says_why_everything_is_plain(installed, problem, why, capsys, monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.delenv("RLTOK_BACKEND", raising=False)
    monkeypatch.setattr(backends, "_installed", lambda: installed)
    monkeypatch.setattr(backends, "_card_problem", lambda index: problem)
    assert f"backend   plain: {why}" in report(capsys)


@pytest.fixture
def t4(monkeypatch):
    """A free card of Colab in the place of this machine."""
    card = SimpleNamespace(name="Tesla T4", total_memory=15_828_320_256, major=7)
    for name, value in {
        "is_available": True, "get_device_properties": card, "get_device_name": card.name, "get_device_capability": (7, 5),
        "current_device": 0,
    }.items():  # fmt: skip
        monkeypatch.setattr(torch.cuda, name, lambda *_, value=value: value)
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: including_emulation)
    monkeypatch.setattr(backends, "_installed", lambda: True)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    backends._card_problem.cache_clear()
    yield torch.device("cuda", 0)
    backends._card_problem.cache_clear()


def test_a_t4_gets_fp16_with_a_gradient_scaler_plain_pytorch_and_the_presets_that_fit_it(t4, monkeypatch):
    big, small = MEASURED | {"backend": "plain", "micro_batch": 16}, PLAIN | {"preset": "32m", "micro_batch": 32}
    big["peak_memory_bytes"], small["peak_memory_bytes"] = 56e9, 46e9
    monkeypatch.setattr(doctor, "measured_speeds", lambda: [big, small])
    report = doctor.examine(t4)
    assert report["precision"] == "fp16 autocast" and report["backend"] == "plain"
    lines = doctor.lines(report)
    assert "device    Tesla T4, 16 GB, forward passes in fp16 with a gradient scaler" in lines
    assert "backend   plain: Tesla T4 has compute capability 7.5, and bf16 needs 8.0" in lines
    # 92 % of the card, less 16 bytes a weight, holds 9 rows of 46/32 GB, but not 4 of 56/16
    assert report["fits"] == {"32m": 8, "147m": None}
    assert "fits      32m at 8 rows a pass, 147m does not, by the memory measured below" in lines


def test_compiled_kernels_have_a_folder_and_a_size(monkeypatch, tmp_path, capsys):
    knobs = SimpleNamespace(cache=SimpleNamespace(dir=str(tmp_path)))
    monkeypatch.setitem(sys.modules, "triton", SimpleNamespace(knobs=knobs))
    monkeypatch.setattr(doctor, "versions", lambda: {"triton": "3.4"})
    (tmp_path / "A1").mkdir()
    (tmp_path / "A1" / "kernel.cubin").write_bytes(bytes(3_000_000))
    assert f"kernels   {tmp_path}, 3 MB (TRITON_CACHE_DIR)" in report(capsys).splitlines()
    monkeypatch.setattr(doctor, "versions", lambda: {"torch": "2.8"})
    assert "TRITON_CACHE_DIR" not in report(capsys)


def test_each_measured_row_is_a_line_and_no_other_card_is_named(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "measured_speeds", lambda: [MEASURED, PLAIN])
    lines = report(capsys).splitlines()
    head = lines.index(next(line for line in lines if line.startswith("card")))
    # 6e9 bytes at 1.2 and 0.3 MB/s
    assert lines[head + 1].split() == ["NVIDIA", "H100", "80GB", "HBM3", "147m", "triton", "16", "40", "GB", "1.2", "1.4", "0.20"]
    assert lines[head + 2].split() == ["NVIDIA", "H100", "80GB", "HBM3", "147m", "plain", "8", "70", "GB", "0.3", "5.6", "0.20"]
    assert lines[head + 3] == "" and "estimated" not in "".join(lines)
    assert "This machine was not measured: `rltok bench --updates 5` measures it." in lines


def test_a_measured_machine_is_not_asked_to_measure(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "measured_speeds", lambda: [MEASURED | {"device": doctor.device_name(torch.device("cpu"))}])
    assert "not measured" not in report(capsys)


def test_the_fastest_row_of_a_preset_is_found_and_a_preset_without_one_is_named():
    assert fastest([PLAIN, MEASURED], "147m") is MEASURED
    with pytest.raises(RltokError, match="^'90m' was measured on no card; measured presets: 147m. `rltok bench` measures this"):
        fastest([MEASURED, PLAIN], "90m")
    with pytest.raises(RltokError, match="measured presets: none"):
        fastest([], "90m")


def test_the_stored_speeds_are_those_of_the_stored_records_and_come_with_the_package():
    assert make_speeds.made(make_speeds.RESULTS) == speeds.STORED.read_text(), "run: python scripts/book/make_speeds.py"
    assert measured_speeds() == json.loads(speeds.STORED.read_text())["speeds"]


def test_a_record_gives_a_row_for_each_arm_and_must_be_full_and_from_a_clean_tree(tmp_path):
    numbers = ("backend", "micro_batch", "bytes_per_second", "tokens_per_byte", "peak_memory_bytes", "updates")
    arm = {key: MEASURED[key] for key in numbers}
    named = {key: MEASURED[key] for key in ("preset", "device", "precision", "commit")}
    record = named | {"what": "rltok bench: whole updates", "schema": 1, "full": True, "arm": arm, "plain": None}
    (tmp_path / "bench.json").write_text(json.dumps(record))
    assert json.loads(make_speeds.made(tmp_path))["speeds"] == [MEASURED]
    record["plain"] = arm | {"backend": "plain"}
    (tmp_path / "bench.json").write_text(json.dumps(record))
    rows = json.loads(make_speeds.made(tmp_path))["speeds"]
    assert [row["backend"] for row in rows] == ["triton", "plain"]
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
    words = report(capsys)
    assert f"no table: {stored} " in words and "Install rltok again." in words and "versions" in words


def test_memory_of_a_card_is_what_cuda_says(monkeypatch):
    class Properties:
        total_memory = 79

    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda device: Properties)
    assert doctor.memory_bytes(torch.device("cuda", 0)) == 79
