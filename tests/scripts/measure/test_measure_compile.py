"""The script that compiles byte layers: both arms make the same updates. How fast anything is, no test asks."""

import json
import sys

import measure_compile
import pytest
import torch
from runs import small_config, write_text

from rltok.runs.models import new_model

pytestmark = pytest.mark.usefixtures("shapes_unchecked")


def test_both_arms_make_the_same_updates_and_one_of_them_compiles_byte_layers_alone(tmp_path, monkeypatch):
    compiled = []
    monkeypatch.setattr(torch.nn.Module, "compile", lambda block, **how: compiled.append((block, how)))
    made, path = [], tmp_path / "compile.json"
    monkeypatch.setattr(measure_compile, "new_model", lambda *given: made.append(new_model(*given)) or made[-1])
    monkeypatch.setattr(measure_compile, "preset", lambda name: small_config())
    words = ["--device", "cpu", "--data", write_text(tmp_path), "--micro-batch", "2", "--updates", "2", "--out", str(path)]
    monkeypatch.setattr(sys, "argv", ["measure_compile.py", *words])
    measure_compile.main()
    record = json.loads(path.read_text())
    assert (record["precision"], record["config"]["train"]["micro_batch"]) == ("fp16 autocast", 2)
    eager, other = record["arms"]
    assert (eager["compiled"], other["compiled"]) == (False, True) and len(other["seconds"]) == 2
    assert eager["nll"] == other["nll"] and record["ratio"] == other["bytes_per_second"] / eager["bytes_per_second"]
    model = made[1]
    assert [block for block, _ in compiled] == [*model.down_blocks, *model.up_blocks]
    assert {(how["backend"], how["dynamic"]) for _, how in compiled} == {("inductor", False)}
