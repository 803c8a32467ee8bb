"""Counts in words."""


def many(count: int, what: str) -> str:
    """A count in words: 1 run, 3 runs, 2 boundaries."""
    if count == 1:
        return f"{count} {what}"
    return f"{count} {what.removesuffix('y')}ies" if what.endswith("ry") else f"{count} {what}s"
