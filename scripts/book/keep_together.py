"""Extension of Sphinx, which book/_config.yml names: what belongs together stays on one line of a page.

These are a number and its error, such as 2.477 ± 0.012, and a formula and the marks around it: browsers would begin a line with
the full stop after a formula.
"""

import re

from docutils import nodes
from sphinx.application import Sphinx

APART = re.compile(r"(?<=[\d%]) ± (?=\(?\d)")
BEFORE, AFTER = re.compile(r"[(\u201c]+$"), re.compile(r"^[.,;:!?)\u201d\u2019]+")


def _cut(beside: nodes.Node | None, marks: re.Pattern[str]) -> str:
    """Take the marks off a text beside a formula and return them; nothing where no text stands there."""
    found = marks.search(beside) if isinstance(beside, nodes.Text) else None
    if found is None:
        return ""
    beside.parent.replace(beside, nodes.Text(marks.sub("", beside)))
    return found[0]


def keep_together(app: Sphinx, page: nodes.document, name: str) -> None:
    """Put what belongs together where no line breaks; code and printed lines, which never break, stay as they are."""
    for text in list(page.findall(nodes.Text)):
        if APART.search(text) and not isinstance(text.parent, nodes.literal_block):
            text.parent.replace(text, nodes.Text(APART.sub("\u00a0±\u00a0", text)))
    for formula in list(page.findall(nodes.math)):
        parent, place = formula.parent, formula.parent.index(formula)
        before = _cut(parent[place - 1] if place else None, BEFORE)
        after = _cut(parent[place + 1] if place + 1 < len(parent) else None, AFTER)
        if before or after:
            whole = nodes.inline("", "", nodes.Text(before), formula.deepcopy(), nodes.Text(after), classes=["rltok-together"])
            parent.replace(formula, whole)


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("doctree-resolved", keep_together)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
