"""rltok.evidence.chapters.ch04_policy: one draw at many rates, and what a record of rate losses says."""

import math

import pytest
import torch

from rltok.errors import RltokError
from rltok.evidence.chapters import ch04_policy

RUNS = [
    {"loss": loss, "start": start, "seed": seed, "rate": rate, "policy_entropy": 0.1 + seed, "whitespace_share": 0.5,
     "bits_per_byte": 3.0 + seed, "curve": [{"step": 1, "rate": start}, {"step": 9, "rate": rate}]}
    for loss, start, seed, rate in (
        ("none", 0.2, 0, 0.9), ("none", 0.2, 1, 1.0), ("logits", 0.2, 0, 0.2), ("logits", 0.8, 0, 0.3), ("none", 0.8, 0, 0.95),
    )
]  # fmt: skip
RECORD = {"target": 0.2, "runs": RUNS}


def test_without_weights_a_draw_at_a_rate_is_the_uniforms_below_it():
    uniforms = torch.rand(500, generator=torch.Generator().manual_seed(0))
    drawn = ch04_policy.draws_at_rates(torch.zeros(500, 3), uniforms, scale=16.0, softcap=None, rates=(0.1, 0.4))
    for row, rate in zip(drawn, (0.1, 0.4), strict=True):
        assert torch.equal(row[1:], uniforms[1:] < rate) and row[0]
    assert (drawn[1] | ~drawn[0]).all()  # a boundary at a low rate stays at a higher one


def test_terms_move_the_rate_and_the_cap_moves_it_towards_a_half():
    terms, uniforms = torch.full((20_000, 1), 16.0), torch.rand(20_000, generator=torch.Generator().manual_seed(0))
    for softcap in (None, 2.0):
        (row,) = ch04_policy.draws_at_rates(terms, uniforms, scale=16.0, softcap=softcap, rates=(0.2,))
        logit = math.log(0.25) + 1
        logit = logit if softcap is None else softcap * math.tanh(logit / softcap)
        assert float(row.float().mean()) == pytest.approx(1 / (1 + math.exp(-logit)), abs=0.01)


def test_a_text_is_marked_after_the_bytes_that_end_tokens():
    assert ch04_policy.marked(b"ab\nc", torch.tensor([True, False, True, True, False])) == "ab|/|c"


def test_rows_of_the_figure_are_the_draws():
    drawn = torch.tensor([[True, False, True], [True, True, True]])
    image = ch04_policy.rates_figure(b"ab", drawn, (0.1, 0.5)).axes[0]
    assert image.images[0].get_array().tolist() == [[False, True], [True, True]]
    assert [label.get_text() for label in image.get_yticklabels()] == ["0.1", "0.5"]


def test_rows_of_rate_losses_are_least_to_most_and_mean_over_seeds():
    head, _, *rows = (
        [cell.strip() for cell in row.strip("|").split("|")] for row in ch04_policy.rate_loss_table(RECORD).splitlines()
    )
    assert rows[0] == ["no rate loss", "0.2", "0.900 to 1.000", "0.10 to 1.10", "0.50 to 0.50", "3.500"]
    logits = "on logits, eq. (24)"
    assert [row[:2] for row in rows] == [["no rate loss", "0.2"], [logits, "0.2"], [logits, "0.8"], ["no rate loss", "0.8"]]
    assert len(rows[0]) == len(head)
    assert [run["seed"] for run in ch04_policy.rate_loss_runs(RECORD, "none", 0.2)] == [0, 1]


def test_every_run_is_a_line_in_the_panel_of_its_start():
    left, right = ch04_policy.rate_loss_figure(RECORD).axes
    assert (left.get_title(), right.get_title()) == ("start at 0.2", "start at 0.8")
    assert [line.get_ydata()[-1] for line in left.lines] == [0.9, 1.0, 0.2, 0.2] and left.lines[-1].get_color() == "k"
    assert left.lines[0].get_color() == left.lines[1].get_color() == right.lines[1].get_color() != left.lines[2].get_color()
    assert [text.get_text() for text in right.get_legend().get_texts()] == ["no rate loss", "on logits, eq. (24)"]


@pytest.mark.parametrize(
    ("rates", "scale", "softcap", "message"),
    [
        ((), 1.0, None, "rates must hold at least one"), ((0.0,), 1.0, None, "strictly between 0 and 1; got 0.0"),
        ((math.nan,), 1.0, None, "strictly between 0 and 1"), ((0.2,), 0.0, None, "scale be greater than 0"),
        ((1e-9,), 1.0, 6.0, "under softcap=6 no probability is 1e-09"), ((0.2,), 1.0, 0.0, "softcap must be greater than 0"),
    ],
)  # fmt: skip
def test_rates_that_no_policy_can_have_are_named(rates, scale, softcap, message):
    with pytest.raises(RltokError, match=message):
        ch04_policy.draws_at_rates(torch.zeros(5, 2), torch.rand(5), scale=scale, softcap=softcap, rates=rates)
