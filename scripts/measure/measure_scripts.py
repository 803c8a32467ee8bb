"""Openings of one guide in several languages, and how many bytes of each script a training text holds.

    python scripts/measure/measure_scripts.py multilingual --english english-validation.parquet \
        --train 'english-train-*.parquet' --out notebooks/results/scripts.json

The record keeps the openings themselves, so that chapter 08 needs no other file.
"""

import argparse
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from rltok.data.documents import Document
from rltok.data.sources import documents, spec_name
from rltok.errors import RltokError
from rltok.evidence.chapters.ch08_explore import script
from rltok.evidence.measuring import run, stored_record
from rltok.runs.results import repository_commit
from rltok.system.files import write_record

WHAT = "openings of one guide in several languages, and bytes of each script in a training text"
SOURCE = {
    "repository": "github/opensource.guide", "licence": "CC BY 4.0",
    "changes": "Markdown, links and headings removed; English is another page, because the same one is in the training text",
}  # fmt: skip
LANGUAGES = (
    "french", "spanish", "hungarian", "turkish", "greek", "russian", "arabic", "persian", "hindi", "bengali", "tamil", "korean",
    "japanese", "chinese-simplified",
)  # fmt: skip
ENGLISH = "_articles/building-community.md"  # in the validation split
PARAGRAPHS, MOST = 3, 2000  # of an opening: paragraphs, bytes


def opening(text: str) -> str:
    """The first paragraphs of a text, headings (short, or questions) left out; at most `MOST` bytes, one paragraph at least."""
    parts = [part for part in re.split(r"\n\s*\n", text.strip()) if len(part.encode()) > 100 and part[-1] not in "?;\uff1f\u061f"]
    taken = parts[:1]
    for part in parts[1:PARAGRAPHS]:
        if len("\n\n".join([*taken, part]).encode()) <= MOST:
            taken.append(part)
    return "\n\n".join(taken)


def english(held_out: Iterable[Document]) -> str:
    """The English page. Raises `RltokError` where it is missing."""
    for document in held_out:
        if document.id.startswith(ENGLISH):
            return document.text.decode()
    raise RltokError(f"--english holds no document {ENGLISH}. Name the validation text.")


def script_bytes(texts: Iterable[str]) -> dict[str, int]:
    """UTF-8 bytes of each script, most frequent first."""
    total, characters = 0, Counter()
    for text in texts:
        total += len(text.encode())
        characters.update(re.findall(r"[^\x00-\x7f]", text))
    found = Counter()
    for character, count in characters.items():
        found[script(character)] += count * len(character.encode())
    found["ASCII"] = total - found.total()
    return dict(found.most_common())


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="LANGUAGE.txt of each language")
    parser.add_argument("--english", required=True, help="text that holds the English page")
    parser.add_argument("--train", required=True, help="training text, as in rltok train --data")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    stored_record(options.out, WHAT)
    texts = {"english": opening(english(documents(options.english)))}
    for language in LANGUAGES:
        texts[language] = opening((options.folder / f"{language}.txt").read_text(encoding="utf-8"))
    counts = script_bytes(document.text.decode(errors="replace") for document in documents(options.train))
    training = {"name": spec_name(options.train), "bytes": sum(counts.values()), "scripts": counts}
    about = {"schema": 1, "what": WHAT, "commit": repository_commit(), "source": SOURCE}
    write_record(options.out, about | {"texts": texts, "training": training})


if __name__ == "__main__":
    run(main)
