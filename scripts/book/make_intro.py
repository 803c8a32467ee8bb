"""Write the picture and the table of the book's first page from the demo's stored record.

python scripts/book/make_intro.py

rewrites book/_generated/picture.md, measured.md and try.md; a test fails while they are out of date.
"""

import html
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from readme_numbers import RECORD, table, whole_words

ROOT = Path(__file__).resolve().parents[2]
PICTURE = ROOT / "book" / "_generated" / "picture.md"
MEASURED = ROOT / "book" / "_generated" / "measured.md"
TRY = ROOT / "book" / "_generated" / "try.md"
DEMO = ROOT / "book" / "demo_page.json"  # what the demo model makes of some texts, by make_demo_expected.py
SCRIPTS = ("byte_view", "demo_model", "demo_weights", "demo_widget")
WITHOUT = "To type a text of your own here, allow JavaScript: the model then runs in this page. Nothing is sent anywhere."
BAR = "\u2502"  # what the demo prints after a byte that got a boundary
SHOWN = 300  # characters of the passage


def load_record() -> dict[str, Any]:
    """The stored record of `make demo`."""
    if not RECORD.exists():
        raise SystemExit(
            f"{RECORD.relative_to(ROOT)} is missing, and the first page shows what it measured. Make it:"
            f" python scripts/measure/measure_tiny.py --seeds 0 1 2 --out {RECORD.relative_to(ROOT)}"
        )
    return json.loads(RECORD.read_text(encoding="utf-8"))


def tokens(painted: str, shown: float) -> list[str]:
    """The passage cut at its boundaries, about `shown` characters of it, ending with a whole token."""
    parts, length = [], 0
    for token in painted.split(BAR):
        parts.append(token)
        length += len(token)
        if length >= shown:
            break
    return [token for token in parts if token]


def block(caption: str, painted: str, shown: float = SHOWN) -> str:
    """One passage as HTML: every token a box of its own."""
    spans = "".join(f"<span>{html.escape(token)}</span>" for token in tokens(painted, shown))
    return f'<figure class="rltok-tokens"><figcaption>{html.escape(caption)}</figcaption><p lang="en">{spans}</p></figure>'


def picture(record: dict[str, Any]) -> str:
    """The same held-out passage cut by an untrained and by a trained model, as the first seed's demo drew it."""
    passage = record["runs"][0]["passage"]
    blocks = [block(f"{moment.title()} training", whole_words(passage[moment])) for moment in ("before", "after")]
    return "```{raw} html\n" + "\n".join(blocks) + "\n```\n"


def scripted(name: str, inside: str, without: str, scripts: Sequence[str]) -> str:
    """A place that scripts fill, of class `name`; until they do, and where they may not, it shows what is inside."""
    loaded = "".join(f'<script src="../_static/{script}.js" defer></script>' for script in scripts)
    return f'```{{raw}} html\n<div class="{name}">\n{inside}\n<noscript><p>{without}</p></noscript>\n</div>\n{loaded}\n```\n'


def try_it(texts: list[dict[str, Any]]) -> str:
    """The place of the field in which a reader types: until its scripts run, a text as the demo model cuts it."""
    case = next(case for case in texts if case["name"] == "English")
    painted = "".join(sign + BAR * (cut == "1") for sign, cut in zip(case["text"], case["boundaries"], strict=True))
    return scripted("rltok-try", block("As the model in this page cuts it", painted, math.inf), WITHOUT, SCRIPTS)


def main() -> None:
    """Rewrite all three parts."""
    TRY.write_text(try_it(json.loads(DEMO.read_text(encoding="utf-8"))["texts"]), encoding="utf-8")
    record = load_record()
    PICTURE.write_text(picture(record), encoding="utf-8")
    MEASURED.write_text(table(record) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
