"""Markdown tables of generated pages, for scripts that run without rltok."""

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[object]], numbers_from: int | None = None) -> str:
    """Markdown; columns from a given one on are aligned right."""
    rule = ["---" if numbers_from is None or place < numbers_from else "---:" for place in range(len(head))]
    cells = [head, rule, *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", r"\|") for cell in row) + " |" for row in cells) + "\n"
