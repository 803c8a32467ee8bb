"""rltok.explore: what is read equals what evaluation says, and every widget of the panel changes what it shows."""

import sys

import pytest
import torch
from runs import small_config, write_text

import rltok
from rltok.data.documents import Document
from rltok.data.rows import cut_documents
from rltok.errors import RltokError
from rltok.evaluation import evaluate
from rltok.explore import explorer, read
from rltok.explore.panel import ABOVE, DRAW, first_bytes
from rltok.presets import preset
from rltok.runs.loading import load_config
from rltok.runs.models import new_model
from rltok.runs.shipped import weights_of
from rltok.show.characters import UNSEEN
from rltok.show.readings import summary

TEXT = "The ferry left late because the tide had turned against it.  "


@pytest.fixture(scope="module")
def demo():
    return rltok.load("demo")


@pytest.fixture
def panel():
    pytest.importorskip("ipywidgets")
    return Panel(explorer("demo", text=TEXT))


class Panel:
    """The widgets of an explorer by what they are."""

    def __init__(self, box):
        self.field, controls, self.note, views, self.keys = box.children
        self.mode, self.level, self.again, *self.rate = controls.children
        self.views = views.children

    def shown(self):
        return [view.value for view in self.views]


def test_a_reading_equals_an_evaluation_row_by_row():
    """Of a fresh model, whose draws are far from decided."""
    fresh = new_model(preset("tiny"), torch.device("cpu"))
    rows = cut_documents([Document(TEXT.encode(), "here", "0")], sequence_length=30, cut="full_windows", name="x")
    scored = evaluate(fresh, rows, seed=3, batch=2)
    reading = read(fresh, TEXT[:60], row_bytes=30, seed=3)
    each = [sum(reading.bits[start : start + 30]) / 30 for start in reading.starts]
    assert each == pytest.approx(scored.row_bits_per_byte, rel=1e-5)
    assert sum(reading.early_bits) / 60 == pytest.approx(scored.early_bits_per_byte, rel=1e-5)
    assert len(reading.boundaries) == len(reading.probabilities) == 60 and reading.starts == [0, 30]


def test_the_first_row_is_drawn_as_boundary_view_draws_it(demo):
    reading, view = read(demo, TEXT, row_bytes=512, seed=5), rltok.boundary_view(demo, TEXT, seed=5)
    assert [int(drawn) for drawn in reading.boundaries] == view["boundaries"]
    assert reading.probabilities == pytest.approx(view["probabilities"])


def test_a_loaded_model_knows_the_length_of_its_rows_and_the_seed_is_0(demo, finished):
    for model, length in ((demo, load_config("demo").data.sequence_length), (rltok.load(finished), 64)):
        assert read(model, TEXT * 20) == read(model, TEXT * 20, row_bytes=length, seed=0)
        assert rltok.boundary_view(model, TEXT) == rltok.boundary_view(model, TEXT, seed=0)
    by_hand = rltok.AutoregressiveUNet(preset("tiny").model)
    with pytest.raises(RltokError, match="Give row_bytes, or set model.row_bytes"):
        read(by_hand, TEXT)
    by_hand.row_bytes = 30
    assert read(by_hand, TEXT).starts == [0, 30, 60]
    with pytest.raises(RltokError, match="row_bytes must be at least 1; got 0"):
        read(by_hand, TEXT, row_bytes=0)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("call", [read, rltok.boundary_view, rltok.generate, rltok.stream])
def test_a_name_in_place_of_a_model_is_one_line_that_loads_it(call):
    with pytest.raises(RltokError, match=r"a model is needed; got str. Load it from its name first: rltok.load\('demo'\)"):
        call("demo", TEXT)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("call", [read, rltok.boundary_view, rltok.stream])
def test_several_texts_in_place_of_one_are_one_line(call, demo):
    with pytest.raises(RltokError, match="a text must be str or bytes; got list"):
        call(demo, [TEXT])


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("wrong", ["model", None, 5])
def test_what_is_no_name_is_one_line(wrong, demo, tmp_path):
    given, got = (demo, "a model") if wrong == "model" else (wrong, type(wrong).__name__)
    calls = [rltok.load, load_config, lambda name: rltok.export(name, tmp_path / "x.safetensors")]
    for call in calls if wrong == "model" else [*calls, explorer]:
        with pytest.raises(RltokError, match=f"what names a model is a text or a path; got {got}. Name a run's folder"):
            call(given)


def test_a_threshold_stands_in_place_of_a_draw(demo):
    reading = read(demo, TEXT, row_bytes=512, seed=0, threshold=0.3)
    assert list(reading.boundaries) == [chance > 0.3 for chance in reading.probabilities]
    assert read(demo, TEXT, row_bytes=512, seed=1, threshold=0.3) == reading


def test_a_rule_without_probabilities_has_none_and_refuses_a_threshold():
    config = rltok.config.with_settings(preset("tiny"), {"model.rule.name": "random_k"})
    model = new_model(config, torch.device("cpu"))
    assert read(model, TEXT, row_bytes=512, seed=0).probabilities is None
    with pytest.raises(RltokError, match="Leave the threshold out"):
        read(model, TEXT, row_bytes=512, seed=0, threshold=0.5)


def test_the_first_bytes_of_a_text_are_whole_characters():
    assert [first_bytes("aé日👩", most) for most in (1, 2, 3, 5, 6, 9, 99)] == [
        text.encode() for text in ("a", "a", "aé", "aé", "aé日", "aé日", "aé日👩")
    ]


def test_typing_redrawing_and_the_threshold_change_what_is_shown(panel):
    first = panel.shown()
    panel.again.click()
    second = panel.shown()
    assert first != second
    panel.level.value = 0.9
    assert panel.mode.value == ABOVE and panel.shown() != second
    panel.mode.value = DRAW
    assert panel.shown() == second
    assert "divided differently" not in panel.keys.value
    assert UNSEEN not in panel.keys.value
    panel.field.value = "A bell\a"
    assert UNSEEN in panel.keys.value
    panel.field.value = "Another text"
    assert "in 12 bytes" in panel.shown()[0]


def test_drawing_again_ends_the_threshold(panel):
    panel.mode.value = ABOVE
    cut = panel.shown()
    panel.again.click()
    assert panel.mode.value == DRAW and panel.shown() != cut


def test_nothing_much_and_broken_text_are_shown_or_refused_in_words(panel):
    panel.field.value = ""
    assert "Nothing to read yet." in panel.shown()[0] and panel.note.value == ""
    panel.field.value = "日" * 34_000
    assert "Only the first 2046 bytes are read here" in panel.note.value and "in 2046 bytes" in panel.shown()[0]
    before = panel.shown()
    panel.field.value = "half \ud83d"
    assert "lone surrogate" in panel.note.value and panel.shown() == before
    panel.field.value = "<script>alert(1)</script> שלום 👩‍👧"
    assert panel.note.value == "" and "<script>" not in panel.shown()[0]


def test_two_models_stand_side_by_side_with_their_differences_marked():
    pytest.importorskip("ipywidgets")
    both = Panel(explorer("demo", "small-english", text=TEXT))
    assert ["<b>demo</b>" in both.shown()[0], "<b>small-english</b>" in both.shown()[1]] == [True, True]
    assert "divided differently" in both.keys.value
    assert 'class="differs' in both.shown()[0] + both.shown()[1]
    same = Panel(explorer("demo", "demo", text=TEXT))
    assert same.shown()[0] == same.shown()[1] and 'differs"' not in same.shown()[0]


def test_loaded_models_are_explored_as_their_names_are(demo):
    pytest.importorskip("ipywidgets")
    named, loaded = (Panel(explorer(model, "small-english", text=TEXT)).shown() for model in ("demo", demo))
    assert loaded[0] == named[0].replace("boundaries of demo", "boundaries of the first model").replace(
        "<b>demo</b>", "<b>the first model</b>"
    )
    assert loaded[1] == named[1]
    assert "<b>the model</b>" in Panel(explorer(demo, text=TEXT)).shown()[0]


def test_a_file_of_weights_is_explored_as_its_name_is():
    pytest.importorskip("ipywidgets")
    named, file = (Panel(explorer(model, text=TEXT)).shown()[0] for model in ("demo", weights_of("demo")))
    assert named.split('dir="auto"')[1].split(">", 1)[1] == file.split('dir="auto"')[1].split(">", 1)[1]


def test_an_unknown_model_and_a_missing_package_are_one_line(monkeypatch):
    pytest.importorskip("ipywidgets")
    with pytest.raises(RltokError, match="Did you mean 'demo'"):
        explorer("demos")
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(RltokError, match=r"the explorer needs ipywidgets. Run: pip install 'rltok\[notebook\]'"):
        explorer("demo")


def test_a_model_with_a_range_of_rates_has_a_slider_of_that_range_and_others_have_none(tmp_path, quick):
    pytest.importorskip("ipywidgets")
    ranged = small_config(model__rule__lowest_rate=0.1, model__rule__highest_rate=0.5)
    rltok.train(ranged, write_text(tmp_path), tmp_path / "run")
    assert not Panel(explorer("demo", text=TEXT)).rate
    panel = Panel(explorer("demo", tmp_path / "run", text=TEXT))
    (slider,), before = panel.rate, panel.shown()
    assert (slider.min, slider.max, slider.value) == (0.1, 0.5, 0.2)
    for rate in (0.1, 0.5):
        slider.value = rate
        reading = read(rltok.load(tmp_path / "run", rate=rate), TEXT, row_bytes=64, seed=0)
        assert summary(reading) in panel.shown()[1] and not panel.note.value
        assert panel.shown()[1] != before[1]


def test_two_models_of_other_ranges_share_a_slider_and_a_rate_that_one_lacks_is_named(tmp_path, quick):
    pytest.importorskip("ipywidgets")
    for name, highest in (("one", 0.5), ("other", 0.3)):
        config = small_config(model__rule__lowest_rate=0.1, model__rule__highest_rate=highest)
        rltok.train(config, write_text(tmp_path), tmp_path / name)
    panel = Panel(explorer(tmp_path / "one", tmp_path / "other", text=TEXT))
    shown = panel.shown()
    panel.rate[0].value = 0.45
    assert "trained for rates from 0.1 to 0.3; got 0.45" in panel.note.value and panel.shown() == shown
