"""rltok.evidence.chapters.ch02_graph: the drawn graph says what the chapter proves."""

import matplotlib
import pytest

matplotlib.use("agg")

from rltok.evidence.chapters import ch02_graph  # noqa: E402
from rltok.show import plots  # noqa: E402

WEIGHTS = {name for name, node in ch02_graph.NODES.items() if node[2] == "weights"}


@pytest.fixture
def figure():
    return ch02_graph.computation_graph()


def pairs(edges):
    return {(start, stop) for start, stop, _ in edges}


def ends(edges):
    """Nodes at which an arrow of `edges` arrives."""
    return {stop for _, stop, _ in edges}


def test_one_node_is_drawn_and_only_the_logits_lead_to_it():
    drawn = [name for name, node in ch02_graph.NODES.items() if node[2] == "drawn"]
    assert drawn == ["a"] and pairs(ch02_graph.DRAWN) == {("l", "a")}
    assert "a" not in ends(ch02_graph.COMPUTED)


def test_backpropagation_runs_against_every_computed_arrow_between_loss_and_weights_and_never_through_the_draw():
    back = {(stop, start) for start, stop in pairs(ch02_graph.BACKPROP)}
    assert back < pairs(ch02_graph.COMPUTED)
    assert pairs(ch02_graph.COMPUTED) - back == {
        ("x", "X"), ("y", "nll"), ("a", "tokens"), ("a", "nll"), ("X", "l"), ("theta_policy", "l"),
    }  # fmt: skip


def test_the_encoder_gets_both_terms_the_policy_the_second_and_what_comes_after_the_tokens_the_first():
    first, second = ends(ch02_graph.BACKPROP) & WEIGHTS, ends(ch02_graph.SCORE) & WEIGHTS
    assert first == WEIGHTS - {"theta_policy"}
    assert second == {"theta_policy", "theta_encoder"}


def test_every_node_and_every_arrow_is_in_the_figure(figure):
    axes = figure.axes[0]
    words = [text.get_text() for text in axes.texts]
    assert {node[3] for node in ch02_graph.NODES.values()} <= set(words)
    edges = [*ch02_graph.COMPUTED, *ch02_graph.DRAWN, *ch02_graph.BACKPROP, *ch02_graph.SCORE]
    assert len(axes.lines) == len(edges)
    assert [len(line.get_xdata()) for line in axes.lines] == [2 + len(between) for _, _, between in edges]
    assert len({line.get_color() for line in axes.lines}) == 3


def test_a_node_moved_up_changes_the_digest(figure, monkeypatch):
    before = plots.digest(figure)
    x, y, *rest = ch02_graph.NODES["loss"]
    monkeypatch.setitem(ch02_graph.NODES, "loss", (x, y + 0.1, *rest))
    assert plots.digest(ch02_graph.computation_graph()) != before
