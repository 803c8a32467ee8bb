"""`rltok prepare`: options to a request, the request to shards, and what came of it as a table."""

import argparse
import json
import os
from pathlib import Path
from typing import Any

from rltok.cli.options import say
from rltok.config import DataConfig
from rltok.data.prepare import Tell, prepare_folder
from rltok.data.prepared import RECORD, open_prepared
from rltok.data.request import Request
from rltok.data.shards import SPLITS
from rltok.data.sources import told
from rltok.data.tally import SKIPPED
from rltok.data.unit_writer import Rules
from rltok.errors import RltokError
from rltok.runs.progress import Progress
from rltok.system.files import check_name, quoted

WORDS = {
    "too_short": "too short for a row",
    "empty": "empty",
    "null": "without text (null)",
    "invalid_utf8": "no valid UTF-8",
    "no_text": "NUL or control bytes, no text",
}


def prepare(options: argparse.Namespace) -> None:
    """`rltok prepare`."""
    check_name(options.out, "folder")
    folder = Path(options.out)
    for place in (folder, *folder.parents):
        if os.path.lexists(place) and not place.is_dir():
            raise RltokError(f"{place} is a file; --out needs a folder.")
    if options.check:
        _check(folder, options)
        return
    request = _request(options)
    jobs = options.jobs if options.jobs is not None else len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    if jobs < 1:
        raise RltokError(f"--jobs must be at least 1; got {jobs}.")
    finished = (folder / RECORD).exists()
    texts = [*((name, "source") for name in request.sources), (request.validation, "validation"), (request.test, "test")]
    for line in [f"{role}: {told(name)}" for name, role in texts if name is not None and not finished]:
        say(options, line)
    bars: list[Progress] = []

    def bar(total: int | None, done: int) -> Tell:
        bars.append(Progress(total, done, not options.json))
        return bars[0].update

    def note(line: str) -> None:
        say(options, line)

    try:
        record = prepare_folder(request, folder, jobs=jobs, force=options.force, bar=bar, note=note)
    finally:
        for shown in bars:
            shown.close()
    if finished:
        say(options, f"{folder}: finished already; --check reads it again and compares hashes")
    print(json.dumps(record, indent=1, allow_nan=False) if options.json else "\n".join(table(record)))
    if not record["splits"]["train"]["documents"]:
        raise RltokError(
            "the training split is empty: every document is in another split or a duplicate of one there. Give more text or"
            " smaller --validation-fraction and --test-fraction, into a new --out."
        )
    if not options.json:
        _how_to_go_on(folder, record)


def _how_to_go_on(folder: Path, record: dict[str, Any]) -> None:
    """Say which splits are empty, and how to train."""
    for split in ("validation", "test"):
        if not record["splits"][split]["documents"]:
            share = "training then holds out its last rows" if split == "validation" else "there is nothing to score in the end"
            print(f"the {split} split is empty: {share}. Give --{split} TEXT or a larger --{split}-fraction, into a new --out")
    print(f"\ntrain on it: rltok train --data {quoted(folder)}" + _settings(record))


def _settings(record: dict[str, Any]) -> str:
    """What `rltok train` has to be told besides the folder; windows may be of any length, which it then fits to little text."""
    cut, length = (record["settings"][key] for key in ("cut", "sequence_length"))
    asked = cut != "windows" or length != DataConfig().sequence_length
    return f" --set data.cut={cut}" + (f" data.sequence_length={length}" if asked else "")


def _request(options: argparse.Namespace) -> Request:
    rules = Rules(
        cut=options.cut,
        sequence_length=options.sequence_length,
        validation_fraction=0.0 if options.validation is not None else options.validation_fraction,
        test_fraction=0.0 if options.test is not None else options.test_fraction,
        max_bytes=options.max_bytes,
        shard_bytes=options.shard_bytes,
        any_bytes=options.allow_binary,
    )
    return Request(tuple(options.source), rules, options.validation, options.test)


def _check(folder: Path, options: argparse.Namespace) -> None:
    if not folder.is_dir():
        raise RltokError(f"there is no folder {folder}. Name one that rltok prepare wrote.")
    prepared = open_prepared(folder)
    damaged = prepared.damaged()
    count = len(prepared.record["shards"])
    if options.json:
        print(json.dumps({"shards": count, "damaged": damaged}, indent=1))
    if damaged:
        raise RltokError(f"{len(damaged)} of {count} shards and their list are damaged: " + " ".join(damaged))
    if not options.json:
        print(f"{folder}: all {count} shards are as they were written")


def table(record: dict[str, Any]) -> list[str]:
    """What was read, left out and kept, for a terminal."""
    read, timing = record["read"], record["timing"]
    lines = [f"{'split':<12}{'documents':>12}{'bytes':>16}{'rows':>12}{'duplicates':>12}"]
    for split in SPLITS:
        counts = record["splits"][split]
        lines.append(f"{split:<12}" + "".join(f"{counts[key]:>{n}}" for key, n in _COLUMNS))
    sizes = f"the longest has {read['longest']} bytes, the mean {record['mean_bytes']:.0f}"
    lines += ["", f"{read['read']} documents read, {read['stored']} stored (duplicates too), of which {sizes}"]
    for reason in SKIPPED:
        if read[reason]:
            named = ", ".join(read["named"].get(reason, []))
            lines.append(f"{read[reason]} left out: {WORDS[reason]}" + (f" (first: {named})" if named else ""))
    beyond = sum(counts["beyond_max_bytes"] for counts in record["splits"].values())
    lines += [f"{beyond} left out: past --max-bytes"] if beyond else []
    lines += [*_limit_lines(record), *_part_lines(record)]
    lines += ["", f"{'largest sources':<40}{'documents':>12}{'bytes':>16}"]
    lines += [f"{name[:39]:<40}{each['documents']:>12}{each['bytes']:>16}" for name, each in record["largest_sources"].items()]
    rate = f"{timing['bytes_per_second'] / 1e6:.1f} MB/s"
    return [*lines, "", f"{timing['seconds']:.1f} s for {timing['bytes'] / 1e6:.1f} MB in the last session, {rate}"]


def _limit_lines(record: dict[str, Any]) -> list[str]:
    """Where --max-bytes ended the reading."""
    limit = record["settings"]["max_bytes"]
    return [
        f"--max-bytes {limit} ended the {name}: {found['bytes']} bytes stored, and the next document is longer than the"
        f" {limit - found['bytes']} bytes left"
        for name, found in record["limits"].items()
        if found["ended"]
    ]


def _part_lines(record: dict[str, Any]) -> list[str]:
    """How many documents are parts of longer ones, and whether one of these holds most of them."""
    parts, kept = record["parts"], sum(counts["documents"] for counts in record["splits"].values())
    if not parts["documents"]:
        return []
    lines = [
        f"{parts['documents']} documents are parts of {parts['wholes']} longer ones (ids such as x#3); parts of one go to the"
        " same split"
    ]
    if parts["most"] > kept / 2:
        lines.append(
            f"warning: {parts['most']} of all {kept} documents are parts of one and the same; if they are not, rename the ids"
        )
    return lines


_COLUMNS = (("documents", 12), ("bytes", 16), ("rows", 12), ("duplicates", 12))
