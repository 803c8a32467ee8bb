"""Write the Python code of this machine as training text: the standard library and all installed packages under open licences.

    python scripts/measure/python_text.py corpora/python
    rltok train --data corpora/python/train.parquet --validation corpora/python/validation.parquet --set data.cut=full_windows ...

Runs with the interpreter whose packages are wanted; --site adds folders of packages of others. Writes train.parquet,
validation.parquet and test.parquet (a file a row; whole packages go to one split) and packages.json: name, version, licence,
split, files and bytes of each, and what was left out: copies of other packages (folders such as _vendor), because they
have licences of their own; files of which most lines stand in another package; and files that hold no code, by the rules of
CodeParrot: lines too long, few letters, generated.
"""

import argparse
import hashlib
import json
import platform
import re
import string
import sys
import sysconfig
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import Distribution, distributions
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rltok.data.files import list_files, with_suffix
from rltok.errors import RltokError

OPEN = r"MIT|BSD|Apache|ISC|PSF|Python Software Foundation|MPL|Mozilla|Zlib|Unlicense|CC0|Public Domain"
CLOSED = r"GPL|GNU|Proprietary|Commercial"
VENDORED = {"_vendor", "vendor", "vendored", "_vendored", "vendored_packages", "extern", "externals", "third_party"}
SCORED = "rltok"  # what a model of this text is scored on, so it is left out
LONGEST_LINE, MEAN_LINE, LEAST_ALPHANUMERIC = 1000, 100, 0.25
SAMPLED, MOST_SHARED = 4, 0.5  # a file with more of its lines in other packages is a copy
ALPHANUMERIC = (string.ascii_letters + string.digits).encode()
GENERATED = re.compile(rb"auto-?generated|automatically generated|do not edit", re.IGNORECASE)


@dataclass
class Package:
    """A distribution, or the standard library."""

    name: str
    version: str
    licence: str
    paths: list[tuple[Path, str]]  # each with its name inside the package
    texts: dict[str, bytes] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of text."""
        return sum(map(len, self.texts.values()))

    def facts(self) -> dict[str, str | int]:
        """What the list of packages says."""
        about = {"name": self.name, "version": self.version, "licence": self.licence}
        return about | {"files": len(self.texts), "bytes": self.size}


def licence_of(distribution: Distribution) -> str:
    """A distribution's licence, from its expression, else its classifiers, else the first line of its text; "" for none."""
    about = distribution.metadata
    classified = [each.split(" :: ")[-1] for each in about.get_all("Classifier", []) if each.startswith("License ::")]
    text = (about.get("License") or "").strip()
    lines = text.splitlines()
    stated = about.get("License-Expression") or ", ".join(each for each in classified if each != "OSI Approved")
    return stated or (lines[0][:80] if lines and text != "UNKNOWN" else "")


def is_open(licence: str) -> bool:
    """Whether a licence lets its text be used for this, under any of the names that packages give it."""
    return bool(re.search(OPEN, licence)) and not re.search(CLOSED, licence)


def _python_files(distribution: Distribution) -> list[tuple[Path, str]]:
    paths = [(Path(distribution.locate_file(file)), file.as_posix()) for file in distribution.files or () if file.suffix == ".py"]
    return [(path, name) for path, name in paths if path.is_file() and ".." not in Path(name).parts]


def installed_packages(sites: list[str]) -> Iterator[Package]:
    """The standard library, then all distributions in the order of their names, each once."""
    library = Path(sysconfig.get_paths()["stdlib"])
    listed, _ = list_files(library, ("site-packages", "dist-packages"))
    paths = [(path, path.relative_to(library).as_posix()) for path in with_suffix(listed, (".py",))]
    yield Package("python standard library", platform.python_version(), "PSF-2.0", paths)
    each = {found.metadata["Name"].lower(): found for found in reversed(list(distributions(path=[*sys.path, *sites])))}
    each.pop(SCORED, None)
    for _, found in sorted(each.items()):
        yield Package(found.metadata["Name"], found.version, licence_of(found), _python_files(found))


def why_not(text: bytes) -> str | None:
    """Why a file is left out, None where it is taken."""
    lines = text.splitlines() or [b""]
    try:
        text.decode()
    except UnicodeDecodeError:
        return "no UTF-8"
    if not text.strip():
        return "empty"
    if max(map(len, lines)) > LONGEST_LINE or len(text) / len(lines) > MEAN_LINE:
        return "long lines"
    if len(text) - len(text.translate(None, ALPHANUMERIC)) < LEAST_ALPHANUMERIC * len(text):
        return "few letters"
    return "generated" if any(GENERATED.search(line) for line in lines[:5]) else None


def sampled_lines(text: bytes) -> set[int]:
    """One in SAMPLED of a file's longer lines, as hashes; without comments, where licences stand."""
    lines = (line.strip() for line in text.splitlines())
    hashes = (zlib.crc32(line) for line in lines if len(line) >= 20 and not line.startswith(b"#"))
    return {each for each in hashes if each % SAMPLED == 0}


def read(package: Package, seen: set[int | bytes], left_out: dict[str, int]) -> None:
    """Fill in a package's texts, without what earlier packages hold, and count the bytes that are left out by reason.

    seen: digests of all files so far (white space aside), and sampled lines of earlier packages; both are added to.
    """
    own_lines = set()
    for path, name in package.paths:
        text = path.read_bytes()
        digest, lines = hashlib.blake2b(b"".join(text.split()), digest_size=16).digest(), sampled_lines(text)
        reason = "copies of other packages" if VENDORED & {*Path(name).parts[:-1]} else why_not(text)
        if reason is None and (digest in seen or len(lines & seen) > MOST_SHARED * len(lines)):
            reason = "duplicates"
        seen.add(digest)
        if reason is None:
            own_lines |= lines
            package.texts[name] = text
        else:
            left_out[reason] = left_out.get(reason, 0) + len(text)
    seen |= own_lines


def split(packages: list[Package], share: float) -> dict[str, list[Package]]:
    """Whole packages to validation and to test text by turns, in the order of their names' hashes, while they fit into their
    shares of all bytes, each of them `share`; the others to training text."""
    whole = sum(package.size for package in packages)
    room, parts = {"validation": share * whole, "test": share * whole}, {"train": [], "validation": [], "test": []}
    for package in sorted(packages, key=lambda each: hashlib.blake2b(each.name.lower().encode()).digest()):
        most = max(room, key=lambda name: room[name])
        name = most if package.size <= room[most] else "train"
        parts[name].append(package)
        if name in room:
            room[name] -= package.size
    return {name: sorted(each, key=lambda package: package.name.lower()) for name, each in parts.items()}


def write(parts: dict[str, list[Package]], folder: Path) -> None:
    """A Parquet file for each split, with columns text, source and id, a row for each file."""
    for name, packages in parts.items():
        rows = [(text.decode(), package.name, path) for package in packages for path, text in package.texts.items()]
        table = pa.table(dict(zip(("text", "source", "id"), map(list, zip(*rows, strict=True)), strict=True)))
        pq.write_table(table, folder / f"{name}.parquet", compression="zstd")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="a new folder")
    parser.add_argument(
        "--site", nargs="+", default=[], metavar="FOLDER", help="also the packages in these site-packages folders"
    )
    parser.add_argument(
        "--held-out-share", type=float, default=0.02, help="of all bytes, once for validation and once for test (%(default)s)"
    )
    options = parser.parse_args()
    seen, left_out, taken, closed = set(), {}, [], []
    for package in installed_packages(options.site):
        if not is_open(package.licence):
            closed.append(package.facts())
            continue
        read(package, seen, left_out)
        taken += [package] if package.texts else []
    parts = split(taken, options.held_out_share)
    if not all(parts.values()):
        raise SystemExit(f"no two packages fit into {options.held_out_share:g} of all bytes each. Raise --held-out-share.")
    options.out.mkdir(parents=True)
    write(parts, options.out)
    listed = [each.facts() | {"split": name} for name, packages in parts.items() for each in packages]
    about = {"python": platform.python_version(), "packages": listed, "licence_not_open": closed, "bytes_left_out": left_out}
    (options.out / "packages.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    for name, packages in parts.items():
        print(f"{name}: {sum(each.size for each in packages)} bytes of {len(packages)} packages")
    print("left out, bytes: " + ", ".join(f"{reason} {size}" for reason, size in left_out.items()))
    print("left out, licence: " + (", ".join(each["name"] for each in closed) or "none"))


if __name__ == "__main__":
    try:
        main()
    except (OSError, RltokError) as error:
        raise SystemExit(str(error)) from error
