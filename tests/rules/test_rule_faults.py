"""What goes wrong in a rule or in its fit is told in one line, and leaves nothing behind."""

import math
import re
import sys

import numpy as np
import pytest
import torch
from helpers import ragged_ids, random_uniforms, tiny_config, tiny_model
from runs import TEXT, as_options, digests, small_config, write_text

import rltok
from rltok.cli.main import main
from rltok.config import with_settings
from rltok.errors import RltokError
from rltok.presets import preset
from rltok.rules import Boundaries, Rule, make_rule
from rltok.rules.base import first_position
from rltok.rules.dynamic_pooling import DynamicPoolingRule
from rltok.rules.hnet import ratio_loss
from rltok.runs import training
from rltok.runs.models import new_model
from rltok.vocab import BOS, EOS

pytestmark = pytest.mark.usefixtures("shapes_unchecked", "short_snapshots")  # the package's own checks, not those of the tests

SHAPE = (3, 9)
IDS = ragged_ids((9, 4, 0))


class Says(Rule):
    """Answers as it is told, whatever it is asked."""

    def __init__(self, answer):
        super().__init__()
        self.answer = answer

    def decide(self, byte_states, ids, uniforms):
        return self.answer

    def prescribed(self, byte_states, boundaries):
        return self.answer


def marks(rows=3, length=9, dtype=torch.bool):
    """A boundary on BOS and at every second position."""
    return (torch.arange(length) % 2 == 0).expand(rows, length).to(dtype).clone()


def without_bos():
    marked = marks()
    marked[1, 0] = False
    return marked


WRONG = {  # arguments of Boundaries (else the answer itself), and words of the error
    "no Boundaries": (marks(), "must return rltok.rules.Boundaries; got Tensor"),
    "nothing": (None, "must return rltok.rules.Boundaries; got NoneType"),
    "no tensor": ([marks().tolist()], "boundaries of type list; make it a tensor, torch.bool of shape (3, 9)"),
    "floats": ([marks(dtype=torch.float32)], "boundaries as torch.float32 of shape (3, 9) on cpu; make it torch.bool"),
    "integers": ([marks(dtype=torch.int64)], "boundaries as torch.int64"),
    "too short": ([marks(length=8)], "of shape (3, 8) on cpu; make it torch.bool of shape (3, 9), one entry for each"),
    "one row": ([marks(rows=1)], "of shape (1, 9)"),
    "a scalar": ([torch.tensor(True)], "of shape ()"),
    "elsewhere": ([marks().to("meta")], "on meta; make it torch.bool of shape (3, 9), one entry for each input position, on cpu"),
    "none": ([torch.zeros(SHAPE, dtype=torch.bool)], "without True at position 0 in 3 of 3 rows; BOS carries"),
    "not on BOS": ([without_bos()], "without True at position 0 in 1 of 3 rows; BOS carries the first token. Return marks |"),
    "logits, wide": ([marks(), torch.zeros(3, 9, 1)], "logits as torch.float32 of shape (3, 9, 1)"),
    "logits, whole": ([marks(), marks(dtype=torch.int64)], "logits as torch.int64 of shape (3, 9) on cpu; make it floating"),
    "soft, one row": ([marks(), None, torch.zeros(1, 9)], "soft as torch.float32 of shape (1, 9)"),
    "loss a number": ([marks(), None, None, 0.5], "aux_loss of type float; make it a tensor, floating point of shape (), a"),
    "loss a vector": ([marks(), None, None, torch.zeros(1)], "aux_loss as torch.float32 of shape (1,)"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_answer_of_a_rule_is_named_with_what_it_should_be(case):
    answer, words = WRONG[case]
    answer = Boundaries(*answer) if isinstance(answer, list) else answer
    model = rltok.AutoregressiveUNet(tiny_config(), rule=Says(answer))
    for method, given in (("decide", {}), ("prescribed", {"boundaries": marks()})):
        with pytest.raises(RltokError, match=re.escape(words)) as error:
            model(IDS, **given)
        assert f"Says.{method} " in str(error.value) and "\n" not in str(error.value)


def test_a_right_answer_passes_with_all_it_may_hold():
    full = Boundaries(marks(), torch.zeros(SHAPE, dtype=torch.float64), torch.zeros(SHAPE), torch.zeros(()))
    for answer in (Boundaries(marks()), full):
        out = rltok.AutoregressiveUNet(tiny_config(), rule=Says(answer))(IDS)
        assert torch.equal(out.boundaries, marks() & ((IDS[:, 1:] < BOS) | first_position(marks())))


def test_the_rule_handed_over_is_an_instance_of_rule():
    for wrong, got in ((Says, "the class Says"), (torch.nn.Identity(), "Identity"), ("hnet", "str")):
        with pytest.raises(RltokError, match=f"an instance of a subclass of rltok.rules.Rule; got {got}. Write rule="):
            rltok.AutoregressiveUNet(tiny_config(), rule=wrong)


# A fit that fails


def test_a_fit_that_fails_leaves_no_run_and_the_same_command_works_once_the_cause_is_gone(tmp_path, monkeypatch, capsys):
    out = tmp_path / "run"
    settings = {**_small(), "model.rule.name": "bpe", "model.rule.vocabulary": 300}
    command = ["train", "--preset", "tiny", "--data", write_text(tmp_path), "--out", str(out), *as_options(settings)]
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "tokenizers", None)
        for _ in range(2):
            assert main(command) == 2 and "need the tokenizers package" in capsys.readouterr().err
            assert not out.exists()
    assert main(command) == 0 and (out / "record.json").exists()


def _small():
    """The small run's settings, one update long."""
    plain, settings = small_config(train__training_bytes=256).to_dict(), {}
    for section in ("model", "data", "train"):
        settings |= {f"{section}.{key}": value for key, value in plain[section].items() if not isinstance(value, dict | str)}
    return {key: "null" if value is None else value for key, value in settings.items()}


def test_a_text_without_pairs_leaves_an_empty_folder_empty_and_what_was_there_before(tmp_path):
    out, text = tmp_path / "run", write_text(tmp_path, b"a\nb\nc\n" * 600)
    out.mkdir()
    config = small_config(model__rule__name="bpe", train__training_bytes=256)
    with pytest.raises(RltokError, match="supports no BPE vocabulary"):
        rltok.train(config, text, out)
    assert out.is_dir() and not any(out.iterdir())
    (out / ".lock").write_text("")  # of a process that was killed while it took possession
    with pytest.raises(RltokError, match="supports no BPE vocabulary"):
        rltok.train(config, text, out)
    assert [path.name for path in out.iterdir()] == [".lock"]


def test_a_model_that_cannot_be_made_leaves_no_run_either(tmp_path, monkeypatch):
    def no_room(*_):
        raise RltokError("does not fit into memory")

    monkeypatch.setattr(training, "new_model", no_room)
    with pytest.raises(RltokError, match="does not fit into memory"):
        rltok.train(small_config(), write_text(tmp_path), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_fit_that_fails_in_a_run_that_was_there_or_that_was_interrupted_leaves_the_run(tmp_path, monkeypatch):
    text, out = write_text(tmp_path), tmp_path / "run"
    config = small_config(model__rule__name="bpe", model__rule__vocabulary=300, train__training_bytes=256)

    def stop(error):
        def fit(*_):
            raise error

        return fit

    with monkeypatch.context() as patch:
        patch.setattr("rltok.rules.bpe.BpeRule.fit", stop(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            rltok.train(config, text, out)
        before = digests(out)
        assert {"config.json", "data.json"} <= set(before)
        patch.setattr("rltok.rules.bpe.BpeRule.fit", stop(RltokError("no")))
        with pytest.raises(RltokError, match="^no$"):
            rltok.train(config, text, out, resume=True)
        assert digests(out) == before
    assert rltok.train(config, text, out, resume=True).updates == 1


# The entropy rule


class Rows:
    """Rows of ids from byte strings, for a rule to be fitted on."""

    def __init__(self, *texts):
        self.table = [torch.tensor([BOS, *text, EOS][: len(texts[0]) + 1]) for text in texts]

    def __len__(self):
        return len(self.table)

    def ids(self, indices):
        return torch.stack([self.table[int(i)] for i in np.asarray(indices)])


def entropy_rule(**settings):
    sizes = {"entropy_dim": 32, "entropy_layers": 1, "entropy_window": 8, "fit_bytes": 3000}
    return make_rule(tiny_config("entropy", **(sizes | settings)))


def test_a_byte_model_that_diverged_is_an_error_that_names_its_learning_rate():
    rule = entropy_rule()
    rule.learning_rate = 1e38  # beyond what the settings allow
    for rate in (1e30, 3e37):
        rule.learning_rate = rate
        with pytest.raises(RltokError, match="not finite after training with model.rule.entropy_learning_rate=.*Lower it"):
            rule.fit(Rows(TEXT[:64], TEXT[70:134]), seed=0)
        assert not rule.fitted
    rule.learning_rate = 3e-3
    rule.fit(Rows(TEXT[:64], TEXT[70:134]), seed=0)
    assert rule.fitted and math.isfinite(rule.facts()["threshold"])


def test_entropies_that_are_not_finite_are_noticed_though_the_weights_are(monkeypatch):
    rule = entropy_rule()
    monkeypatch.setattr("rltok.rules.entropy.entropies", lambda log_probs: log_probs[..., 0] * float("nan"))
    with pytest.raises(RltokError, match="has entropies that are not finite .*entropy_learning_rate=0.003. Lower it"):
        rule.fit(Rows(TEXT[:64]), seed=0)
    assert not rule.fitted


def test_the_highest_learning_rate_that_the_settings_allow_ends_in_a_threshold_or_in_that_error():
    rule = entropy_rule(entropy_learning_rate=1.0)
    try:
        rule.fit(Rows(TEXT[:64], TEXT[70:134]), seed=0)
    except RltokError as error:
        assert "entropy_learning_rate=1" in str(error)
    else:
        assert math.isfinite(rule.facts()["threshold"])


def test_rows_of_one_byte_or_no_rows_support_no_threshold():
    for rows, count in ((Rows(b"a", b"b", b"c"), 3), (Rows(), 0)):
        rule = entropy_rule(fit_bytes=9)
        with pytest.raises(
            RltokError, match=f"supports no entropy threshold: none of its {count} rows holds 2 bytes.*Give longer"
        ):
            rule.fit(rows, seed=0)
        assert not rule.fitted
    entropy_rule(fit_bytes=9).fit(Rows(b"ab"), seed=0)


# Dynamic pooling and H-Net


@pytest.mark.parametrize("temperature", [1e-30, 0.01, 0.5, 100.0, 1e8, 1e30])
def test_gates_are_hard_where_the_uniform_is_below_the_chance_at_any_temperature(temperature):
    torch.manual_seed(0)
    rule = DynamicPoolingRule(6, target_rate=0.2, variant="authors", temperature=temperature, prior_weight=1.0, norm_eps=1e-6)
    ids, states, uniforms = ragged_ids((400,))[:, :-1], torch.randn(1, 400, 6), random_uniforms(1, 400)
    logits = rule.logits(states)
    expected = uniforms.double() < logits.double().sigmoid()
    expected[:, 0] = True
    assert 100 < expected.sum() < 300
    assert torch.equal(rule.decide(states, ids, uniforms).boundaries, expected)


@pytest.mark.parametrize(("rule", "variant"), [("dynamic_pooling", "faithful"), ("dynamic_pooling", "authors"), ("hnet", "port")])
@pytest.mark.parametrize("rate", [1e-6, 1 - 1e-6])
def test_the_losses_at_the_outermost_rates_and_weights_are_finite_with_their_gradients(rule, variant, rate):
    model = tiny_model(rule, variant=variant, target_rate=rate, prior_weight=1e6, ratio_weight=1e6)
    out = model(ragged_ids((40, 7)), uniforms=random_uniforms(2, 40))
    assert out.aux_loss.isfinite()
    (out.nll.sum() + out.aux_loss).backward()
    assert all(p.grad.isfinite().all() for p in model.rule.parameters() if p.grad is not None)


def test_the_ratio_loss_is_1_at_the_outermost_rates():
    for rate in (1e-6, 1 - 1e-6):
        boundaries, mask = torch.ones(1, 4, dtype=torch.bool), torch.ones(1, 4, dtype=torch.bool)
        if rate < 0.5:
            boundaries = ~boundaries
        assert ratio_loss(torch.full((1, 4), rate), boundaries, rate, mask).item() == pytest.approx(1, rel=1e-5)


# Memory


def test_a_model_that_does_not_fit_names_the_byte_model_where_there_is_one(monkeypatch):
    def no_room(*_):
        raise RuntimeError("not enough memory")

    monkeypatch.setattr("rltok.runs.models.FastUNet", no_room)
    settings = {"model.rule.name": "entropy", "model.rule.entropy_dim": 8192}
    with pytest.raises(
        RltokError, match=r"entropy_dim=8192 and 2 layers, does .* smaller ratios, or a smaller model\.rule\.entropy_dim\."
    ):
        new_model(with_settings(preset("tiny"), settings), torch.device("cpu"))
    with pytest.raises(
        RltokError, match=r"1 \+ 2 \+ 1 layers and MLP ratios of 1 and 4 does not .* fewer layers or smaller ratios\.$"
    ):
        new_model(preset("tiny"), torch.device("cpu"))
