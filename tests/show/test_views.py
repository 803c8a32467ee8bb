"""rltok.show.views: the HTML shows every boundary, escapes every text, and can be read."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rltok.show.views import boundary_html, colour_of, ink_on


def luminance(rgb):
    """WCAG 2 relative luminance."""
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (channel / 255 for channel in rgb)]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("value", [i / 50 for i in range(51)])
def test_ink_stands_out_from_every_background_by_the_ratio_that_wcag_asks_for(value):
    background = colour_of(value)
    ink = 1.0 if ink_on(background) == "#fff" else 0.0
    light, dark = sorted((luminance(background), ink), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5


def test_the_scale_grows_lighter_with_the_value_and_clamps_beyond_its_ends():
    steps = [luminance(colour_of(i / 20)) for i in range(21)]
    assert steps == sorted(steps) and steps[0] < 0.05 and steps[-1] > 0.7
    assert colour_of(-1) == colour_of(0) and colour_of(2) == colour_of(1)


def test_every_drawn_boundary_has_an_edge_and_every_character_its_probability():
    page = boundary_html("ab\n", [0, 1, 1], [0.25, 0.5, 1.0], "three bytes")
    assert len(re.findall(r"border-right:\d+px solid #[0-9a-f]{6};", page)) == 2 and page.count("a token ends here") == 2
    assert re.findall(r"boundary probability ([\d.]+)", page) == ["0.25", "0.50", "1.00"]
    assert page.endswith("<br></div>") and "\u21b5" in page


def test_without_probabilities_boundaries_are_coloured_and_not_called_probabilities():
    page = boundary_html("ab", [0, 1], None, "x")
    assert re.findall('title="([^"]*)"', page) == ["no token ends here", "a token ends here"]
    assert re.findall(r"rgb\(([\d,]+)\)", page) == [",".join(map(str, colour_of(value))) for value in (0, 1)]


@given(st.text(max_size=20), st.text(max_size=20))
def test_no_text_or_label_becomes_markup(text, label):
    data = text.encode("utf-8", errors="ignore")
    page = boundary_html(data, [0] * len(data), [0.5] * len(data), label)
    assert len(re.findall(r"<(?!/)", page)) == 1 + page.count("<span") + page.count("<br>")
    assert page.count("<span") == len(data.decode())
    assert page.startswith('<div class="rltok-boundaries" role="figure" aria-label="')
