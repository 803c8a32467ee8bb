"""Write what our runs say of the paper in short, for README's and the book's first page, from the stored records.

python scripts/book/make_verdict.py    # rewrites verdict.md and verdict.svg; a test fails while they are out of date
"""

from pathlib import Path

from rltok.evidence import headline, measuring

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "notebooks" / "results"
TEXT = ROOT / "book" / "_generated" / "verdict.md"
PICTURE = ROOT / "book" / "_static" / "verdict.svg"


def main() -> None:
    """Rewrite both. The picture holds the digest of its data, by which a test knows whether it is of these records."""
    import matplotlib.pyplot as plt

    from rltok.show.plots import digest

    TEXT.write_text(headline.verdict(RESULTS) + "\n", encoding="utf-8")
    drawing = headline.figure(RESULTS)
    plt.rcParams.update({"svg.hashsalt": "rltok", "svg.fonttype": "path"})
    drawing.savefig(PICTURE, metadata={"Description": digest(drawing), "Date": None})


if __name__ == "__main__":
    measuring.run(main)
