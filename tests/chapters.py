"""Cells of a chapter for tests: code by the start of a line, or from one heading to another."""

import re


def code(cells, start):
    """The source of the one code cell in which a line begins so."""
    (match,) = (c.source for c in cells if c.cell_type == "code" and re.search(rf"^{re.escape(start)}", c.source, re.M))
    return match


def between(cells, first, last):
    """Sources of the code cells from one heading to another; both begin their cells."""
    heads = [
        number for number, cell in enumerate(cells) if cell.cell_type == "markdown" and re.match(f"({first}|{last})", cell.source)
    ]
    return [cell.source for cell in cells[heads[0] : heads[1]] if cell.cell_type == "code"]
