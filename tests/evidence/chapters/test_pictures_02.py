"""rltok.evidence.chapters.ch02_pictures: what is drawn is what the chapter computes."""

import math

import matplotlib
import pytest

matplotlib.use("agg")

from rltok.evidence.chapters import ch02_pictures  # noqa: E402


def lines(figure):
    """Drawn lines by label."""
    return {line.get_label(): line for line in figure.axes[0].lines}


def test_the_slope_touches_the_expected_loss_and_has_its_difference_quotient():
    drawn = lines(ch02_pictures.decision_figure(0.2, 2, 3))
    x, y = drawn["expected loss"].get_data()
    (x0, x1), (y0, y1) = drawn["its slope here"].get_data()
    logit = math.log(0.25)
    near = sorted(zip(x, y, strict=True), key=lambda point: abs(point[0] - logit))[:2]
    assert (y1 - y0) / (x1 - x0) == pytest.approx((near[0][1] - near[1][1]) / (near[0][0] - near[1][0]), abs=0.01)
    assert (y0 + y1) / 2 == pytest.approx(0.2 * 2 + 0.8 * 3)


def test_a_baseline_moves_both_estimates_and_not_their_mean():
    drawn = lines(ch02_pictures.baseline_figure(0.2, 2, 3))
    b, boundary = drawn["a boundary was drawn"].get_data()
    _, none = drawn["none was drawn"].get_data()
    assert drawn["mean"].get_ydata() == pytest.approx([0.2 * 0.8 * (2 - 3)] * len(b))
    meeting = min(range(len(b)), key=lambda i: abs(boundary[i] - none[i]))
    assert b[meeting] == pytest.approx(2.2)


def test_the_gap_reaches_from_the_mean_of_logs_to_the_log_of_the_mean():
    drawn = lines(ch02_pictures.jensen_figure(0.9, 0.1))
    assert drawn["gap"].get_ydata().tolist() == pytest.approx([(math.log(0.9) + math.log(0.1)) / 2, math.log(0.5)])
