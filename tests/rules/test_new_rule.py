"""A rule that a reader writes in one file of about 30 lines works with the network, the update and the views."""

import itertools
import re
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from a_new_rule import KindRule
from helpers import ragged_ids, random_uniforms, tiny_model
from paths import ROOT, TESTS
from test_causality import LENGTHS, check_every_place
from test_step import batches_of, config_for

import rltok
from rltok.optim import make_optimizer
from rltok.rules import Boundaries, Rule
from rltok.rules.base import first_position
from rltok.runs.snapshots import boundary_view, text_ids
from rltok.step import train_step

TEXT = b"In 1999, two gulls!"
PAGE = ROOT / "book" / "a_new_rule.md"


class MatrixRule(Rule):
    """Has a matrix to be initialised, trained and moved with the rest."""

    def __init__(self):
        super().__init__()
        self.project = torch.nn.Linear(16, 1, bias=False)

    def decide(self, byte_states, ids, uniforms):
        return Boundaries((uniforms < self.project(byte_states)[..., 0].sigmoid()) | first_position(ids))


def model_with_the_rule(**settings):
    model = tiny_model("even", **settings)
    model.rule = KindRule()
    return model


def code_of_the_page(language="python"):
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S)


def test_it_is_about_30_lines():
    assert len((TESTS / "a_new_rule.py").read_text().splitlines()) <= 35


def test_a_token_begins_where_the_kind_of_byte_changes():
    model = model_with_the_rule()
    parts = [len(list(group)) for _, group in itertools.groupby(TEXT.decode(), lambda c: (c.isalpha(), c.isdigit(), c.isspace()))]
    starts = np.cumsum([0, *parts])[:-1]
    view = boundary_view(model, TEXT, seed=0)
    assert np.flatnonzero(view["boundaries"]).tolist() == starts.tolist()
    assert view["probabilities"] is None


@pytest.mark.usefixtures("shapes_unchecked")
def test_it_is_causal_and_trains():
    model = model_with_the_rule(dtype=torch.float64)
    for batch in LENGTHS:
        check_every_place(model, batch, seed=batch)
    model, config = model_with_the_rule(), config_for("even")
    before = model.embedding.weight.detach().clone()
    metrics = train_step(model, make_optimizer(model, config.train), batches_of(), config, 1).to_dict()
    assert metrics["policy_entropy"] is None and not torch.equal(model.embedding.weight, before)


def test_it_takes_prescribed_boundaries_and_ragged_rows():
    model = model_with_the_rule()
    ids = ragged_ids((9, 4, 0))
    drawn = model(ids, uniforms=random_uniforms(3, 9))
    assert torch.equal(model(ids, boundaries=drawn.boundaries).nll, drawn.nll)
    assert model(text_ids(TEXT)).nll.shape == (1, len(TEXT))


def test_a_rule_that_is_handed_over_takes_the_place_of_the_named_one_and_is_initialised_with_the_rest():
    config = tiny_model("learned").config
    model = rltok.AutoregressiveUNet(config, rule=KindRule())
    assert isinstance(model.rule, KindRule) and not list(model.rule.parameters())
    assert model(ragged_ids((9, 4))).boundary_logits is None
    with_matrix = rltok.AutoregressiveUNet(config, rule=MatrixRule())
    weight = with_matrix.state_dict()["rule.project.weight"]
    # normal of standard deviation 1 / sqrt(3 * 16), where a layer's own start is uniform within 1 / 4
    many = torch.cat([rltok.AutoregressiveUNet(config, rule=MatrixRule()).rule.project.weight.detach() for _ in range(20)])
    assert weight.shape == (1, 16) and many.std().item() == pytest.approx(48**-0.5, rel=0.15) and many.abs().max() > 0.3


def test_one_file_and_one_line_train_it_by_name(tmp_path):
    shutil.copytree(ROOT / "rltok", tmp_path / "rltok", ignore=shutil.ignore_patterns("__pycache__"))
    source = TESTS / "a_new_rule.py"
    shutil.copy(source, tmp_path / "rltok" / "rules" / "kind.py")
    (line,) = re.findall(r'^ +"kind": NamedRule.*\n', source.read_text(), re.M)
    registry = tmp_path / "rltok" / "registry.py"
    head, entries = registry.read_text().split("= {\n", 1)
    registry.write_text(f"{head}= {{\n{line}{entries}")
    (tmp_path / "text.txt").write_bytes(TEXT * 200)
    code = """
import rltok
config = rltok.preset("tiny_kind", {"data.sequence_length": 64, "train.sequences_per_update": 4, "train.micro_batch": 4,
                                    "train.training_bytes": 512, "train.policy_lr_multiplier": 1.0})
print(rltok.train(config, "text.txt", "run").config["model"]["rule"]["name"])
model = rltok.load("run")
print(type(model.rule).__module__, *map(int, rltok.boundary_view(model, "ab 1", seed=0)["boundaries"]))
"""
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["kind", "rltok.rules.kind", "1", "0", "1", "1"]


def test_the_page_shows_the_file_that_these_tests_import():
    shown = re.findall(r"^```\{literalinclude\} (\S+)$", PAGE.read_text(encoding="utf-8"), re.M)
    assert [(PAGE.parent / name).resolve() for name in shown] == [(TESTS / "a_new_rule.py").resolve()]


@pytest.mark.usefixtures("shapes_unchecked")
def test_the_code_of_the_page_runs_as_it_stands_there_and_prints_what_it_says(monkeypatch, capsys):
    monkeypatch.chdir(PAGE.parents[1])
    monkeypatch.setattr(sys, "path", [*sys.path])
    shorter = 'rltok.preset("tiny", {"train.training_bytes": 2 * 8192, "data.sequence_length": 128})'
    look, train = code_of_the_page()
    assert look.count('rltok.preset("tiny")') == 1
    names: dict = {}
    exec(look.replace('rltok.preset("tiny")', shorter), names)
    assert [capsys.readouterr().out] == code_of_the_page("text")
    corpus = rltok.data.load_corpus("sample:validation", names["config"].data)
    monkeypatch.setattr(rltok.data, "load_corpus", lambda spec, config: corpus)
    exec(train, names)
    assert len(capsys.readouterr().out.split()) == 4 and names["step"] == names["config"].num_updates > 1
