"""rltok.show.plots: the line under a figure changes when what is plotted does."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("agg")
import matplotlib.pyplot as plt  # noqa: E402

from rltok.show import plots  # noqa: E402


def line(values, **options):
    figure, axes = plt.subplots()
    axes.plot(values, **options)
    return figure


def test_a_digest_names_number_range_and_checksum_of_the_plotted_values():
    assert plots.digest(line([1.0, 2.0, 4.0])).startswith("figure data: 1 series, 3 values, 1 to 4, checksum ")


def test_a_changed_value_changes_the_digest_and_noise_beyond_three_digits_does_not():
    values = np.array([1.0, 2.5, 400.0])
    digest = plots.digest(line(values))
    assert plots.digest(line(values * [1, 1.01, 1])) != digest
    assert plots.digest(line(values * (1 + 1e-6))) == digest
    assert plots.digest(line(-values)) != digest


def test_points_of_a_line_that_move_sideways_change_the_digest():
    figure, axes = plt.subplots()
    axes.plot([1.0, 2.0], [5.0, 5.0])
    moved, axes = plt.subplots()
    axes.plot([1.0, 3.0], [5.0, 5.0])
    assert plots.digest(figure) != plots.digest(moved)


def test_without_checksum_only_the_shape_is_named():
    assert plots.digest(line([1.0, 2.0]), checksum=False) == "figure data: 1 series, 2 values"


@pytest.mark.parametrize("draw", ["bar", "scatter", "imshow"])
def test_bars_points_and_images_count_as_data(draw):
    def figure(top):
        made, axes = plt.subplots()
        arguments = ([[0, 1], [2, top]],) if draw == "imshow" else ([0, 1], [1, top])
        getattr(axes, draw)(*arguments)
        return made

    assert plots.digest(figure(3.0)) == plots.digest(figure(3.0)) != plots.digest(figure(5.0))


def test_a_changed_label_changes_the_digest():
    def figure(word):
        made = line([1.0, 2.0])
        made.axes[0].text(0, 1, word)
        return made

    assert plots.digest(figure("a")) != plots.digest(figure("b"))


def test_show_prints_the_digest_and_closes_the_figure(capsys):
    figure = line([1.0, 2.0])
    plots.show(figure)
    assert plots.digest(figure) in capsys.readouterr().out
    assert not plt.get_fignums()


def test_the_boundary_figure_holds_the_value_of_every_character():
    figure = plots.boundary_figure("café\n", [0, 0, 0, 0, 1, 1], [0.1, 0.2, 0.3, 0.9, 0.4, 0.5], width=3)
    image = figure.axes[0].images[0].get_array()
    np.testing.assert_allclose(np.asarray(image)[0], [0.1, 0.2, 0.3])
    np.testing.assert_allclose(np.asarray(image)[1, :2], [0.4, 0.5])
    assert [text.get_text() for text in figure.axes[0].texts] == ["c", "a", "f", "é", "\u21b5"]
    assert len(figure.axes[0].collections) == 2  # an edge for each boundary


def test_the_diagram_has_a_token_for_each_boundary():
    figure = plots.unet_diagram(["BOS", "L", "e", "a"], [1, 0, 1, 0])
    words = [text.get_text() for text in figure.axes[0].texts]
    assert sum(word.startswith("$X'") for word in words) == sum(word.startswith("$Y'") for word in words) == 2
    assert sum(word.startswith("$Y_") for word in words) == 4
    assert [word for word in words if word in ("0", "1")] == ["1", "0", "1", "0"]
    arrows = [text for text in figure.axes[0].texts if getattr(text, "arrow_patch", None) is not None]
    up, skips, uses, select, attention = 8, 4, 4, 2, 3
    assert len(arrows) == up + skips + uses + select + attention


def test_the_style_is_opaque_white():
    plots.use_style()
    assert plt.rcParams["savefig.facecolor"] == plt.rcParams["figure.facecolor"] == "white"
