"""Make the bundled sample, rltok/data/sample.parquet, from a folder of .txt files: `make_sample.py FOLDER [OUTPUT]`.

The same texts and pyarrow give the same file. Splits are whole documents, so no book is divided between them.
"""

import argparse
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

OUTPUT = Path(__file__).resolve().parents[2] / "rltok" / "data" / "sample.parquet"
VALIDATION = {"book-white-fang", "usgov-digital-gov"}
TEST = {"book-pride-and-prejudice", "usgov-18f-blog"}


def split_of(name: str) -> str:
    """Split of the document called `name`."""
    return "validation" if name in VALIDATION else "test" if name in TEST else "train"


def source_of(name: str) -> str:
    """Where a document comes from: `book-kim` is one of the classic books, `usgov-18f-blog` is the 18F blog."""
    return "classic-books" if name.startswith("book-") else name.removeprefix("usgov-")


def sample_table(folder: Path) -> pa.Table:
    """Table text, source, id, split of the folder's .txt files in order of name, one row a file."""
    paths = sorted(folder.glob("*.txt"))
    names = [path.stem for path in paths]
    missing = (VALIDATION | TEST) - set(names)
    if missing:
        raise SystemExit(f"{folder} lacks texts that the splits name: {', '.join(sorted(missing))}.")
    columns = {
        "text": [path.read_text(encoding="utf-8") for path in paths],
        "source": [source_of(name) for name in names],
        "id": names,
        "split": [split_of(name) for name in names],
    }
    return pa.table(columns)


def main() -> None:
    """Read the folder, write the file, say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("output", type=Path, nargs="?", default=OUTPUT)
    arguments = parser.parse_args()
    table = sample_table(arguments.folder)
    pq.write_table(table, arguments.output, compression="zstd", compression_level=22, use_dictionary=False)
    print(f"{arguments.output.name}: {arguments.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
