"""Comparison of SVG figures: the same drawing, numbers within a tolerance, whatever the processor's last digit."""

import re

from nbtools.rules import FIGURE_TOLERANCE

NAME = re.compile(r'(?<=id=")[^"]+(?=")|(?<=href="#)[^"]+(?=")|(?<=url\(#)[^)]+(?=\))')
NUMBER = re.compile(r"(?<![\w.#])-?\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w.])")


def canonical(svg: str) -> str:
    """Without the part that names matplotlib's version, and ids, some of which are hashes of coordinates, numbered in order."""
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    numbers: dict[str, str] = {}
    return NAME.sub(lambda match: numbers.setdefault(match[0], f"id{len(numbers)}"), svg)


def same_figure(ours: str, theirs: str) -> bool:
    """Whether two SVGs have the same elements and text, and numbers that differ by at most FIGURE_TOLERANCE points."""
    ours, theirs = canonical(ours), canonical(theirs)
    if NUMBER.sub("0", ours) != NUMBER.sub("0", theirs):
        return False
    pairs = zip(NUMBER.findall(ours), NUMBER.findall(theirs), strict=True)
    return all(abs(float(a) - float(b)) <= FIGURE_TOLERANCE for a, b in pairs)
