"""Cells of a chapter for tests: code by the start of a line."""

import re


def code(cells, start):
    """The source of the one code cell in which a line begins so."""
    (match,) = (c.source for c in cells if c.cell_type == "code" and re.search(rf"^{re.escape(start)}", c.source, re.M))
    return match
