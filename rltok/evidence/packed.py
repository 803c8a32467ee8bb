"""A sweep as the repository keeps it: a small JSON of facts a run, and the long lists of all its runs in three tables.

    SWEEP/NAME-seedK.json             facts: settings, hashes, sessions, means; in place of a list its length, or its columns
    SWEEP/repeats/NAME-seedK-R.json   the same seed once more
    SWEEP/scores.parquet              run, entry (validation, piqa, ...), bits, bytes: a row for each document, or item
    SWEEP/curves.parquet              run, entry (curve, held_out, positions), step, ...
    SWEEP/texts.parquet               run, entry (samples, snapshots), step, ...
    SWEEP/SHA256SUMS                  of all these files, as `sha256sum -c` takes it

    records in JSON files --pack--> the same folder, packed --read_folder--> the same records, to the bit

Ints that stand among floats have a column of their own, so that they stay ints.
"""

import hashlib
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rltok.errors import RltokError
from rltok.evidence.record_file import Record, read_record
from rltok.evidence.record_schema import unit_lists
from rltok.system.files import MISSING, json_text, read_file, write_bytes

SUMS = "SHA256SUMS"
SCORES, CURVES, TEXTS = TABLES = ("scores.parquet", "curves.parquet", "texts.parquet")
KEYS = ("run", "entry")
POSITIONS = ("start", "rewards", "returns")
INTS = ":int"  # ends the name of the column of ints that stand among floats
LEVEL = 19  # of zstd
RESTORE = "Restore it from the repository."
REMOVED = f"{RESTORE[:-1]}, or, where it is to go, pack the sweep anew: scripts/measure/pack_records.py."

Columns = dict[str, list[Any]]
Parts = dict[tuple[str, str], Columns]  # by table and entry


def sweep_files(folder: Path) -> list[Path]:
    """The JSON files of the runs of a sweep; those of a seed that was run before come last."""
    return [*sorted(folder.glob("*.json")), *sorted(folder.glob("repeats/*.json"))]


def split(record: Record) -> tuple[Record, Parts]:
    """A checked record as its facts and its long lists. A failed run has facts alone."""
    if record.get("failed"):
        return record, {}
    facts, parts = dict(record), {}
    views = [{"step": shot["step"], "of": name} | view for shot in record["snapshots"] for name, view in shot.items()
             if name != "step"]  # fmt: skip
    rows = {(CURVES, "curve"): record["curve"], (CURVES, "held_out"): record["held_out"],
            (TEXTS, "samples"): record["samples"], (TEXTS, "snapshots"): views}  # fmt: skip
    for (table, entry), points in rows.items():
        facts[entry] = list(points[0])
        parts[table, entry] = {key: [point.get(key) for point in points] for key in points[0]}
    parts[CURVES, "positions"] = {key: record["positions"][key] for key in POSITIONS}
    facts["positions"] = record["positions"] | {key: len(record["positions"][key]) for key in POSITIONS}
    facts["scores"] = dict(record["scores"])
    for place, score in ((place, score) for place, score in record["scores"].items() if score is not None):
        lists = {name: score[key] for name, key in unit_lists(place).items()}
        parts[SCORES, place] = lists
        facts["scores"][place] = score | {key: len(lists[name]) for name, key in unit_lists(place).items()}
    return facts, parts


def join(facts: Record, tables: Mapping[str, pa.Table]) -> Record:
    """The record that was `split`, from its facts and, by entry, its rows of the tables."""
    if facts.get("failed"):
        return facts

    def rows(entry: str) -> list[dict[str, Any]]:
        keys = facts[entry]
        return [dict(zip(keys, row, strict=True)) for row in zip(*(_values(tables[entry], key) for key in keys), strict=True)]

    shots: dict[int, dict[str, Any]] = {}
    for view in rows("snapshots"):
        shots.setdefault(step := view.pop("step"), {"step": step})[view.pop("of")] = view
    scores = {
        place: score and score | {key: _values(tables[place], name) for name, key in unit_lists(place).items()}
        for place, score in facts["scores"].items()
    }
    return facts | {
        "scores": scores,
        "curve": rows("curve"),
        "held_out": rows("held_out"),
        "positions": facts["positions"] | {key: _values(tables["positions"], key) for key in POSITIONS},
        "samples": rows("samples"),
        "snapshots": list(shots.values()),
    }


def _values(table: pa.Table, name: str) -> list[Any]:
    """A column as plain values."""
    column = table[name]
    values = column.to_pylist() if column.null_count else column.to_numpy().tolist()
    if name + INTS in table.column_names and table[name + INTS].null_count < len(values):
        return [value if whole is None else whole for value, whole in zip(values, table[name + INTS].to_pylist(), strict=True)]
    return values


def _table(parts: Mapping[tuple[str, str], Columns]) -> pa.Table:
    """One table of the lists of each (run, entry), in this order; a column that one has not is null there."""
    names = dict.fromkeys(name for columns in parts.values() for name in columns)
    lengths = [len(next(iter(columns.values()))) for columns in parts.values()]
    arrays: dict[str, Any] = {
        key: pa.array(np.repeat([of[place] for of in parts], lengths)).dictionary_encode() for place, key in enumerate(KEYS)
    }
    for name in names:
        values = [value for columns, length in zip(parts.values(), lengths, strict=True)
                  for value in columns.get(name, [None] * length)]  # fmt: skip
        if {int, float} <= {type(value) for value in values}:
            arrays[name + INTS] = [value if type(value) is int else None for value in values]
            values = [value if type(value) is float else None for value in values]
        arrays[name] = values
    return pa.table(arrays)


def _by_run(files: Iterable[bytes]) -> dict[str, dict[str, pa.Table]]:
    """The rows of each run, by entry, of all tables."""
    tables: dict[str, dict[str, pa.Table]] = {}
    for content in files:
        table = pq.read_table(pa.BufferReader(content)).unify_dictionaries().combine_chunks()
        run, entry = (table[key].chunk(0) for key in KEYS)
        code = run.indices.to_numpy().astype(np.int64) * len(entry.dictionary) + entry.indices.to_numpy()
        for start, stop in pairwise([0, *(np.flatnonzero(np.diff(code)) + 1).tolist(), len(code)]):
            tables.setdefault(run[start].as_py(), {})[entry[start].as_py()] = table.slice(start, stop - start)
    return tables


def read_folder(folder: Path, whole: bool = True, *, any_commit: bool = False) -> dict[str, Record]:
    """The record of each run of a sweep, packed or in a file of its own, by the name of its JSON file in the folder.

    Args:
        folder: of the sweep.
        whole: check each entry of records in files of their own; those that are packed were checked before.
        any_commit: whether those in files of their own may be of code that nobody can look up.

    Raises:
        RltokError: a packed file is missing or was changed; a record is damaged, see `read_record`.
    """
    sums = _listed(folder)
    names = [path.relative_to(folder).as_posix() for path in sweep_files(folder)]
    for name in sorted(sums.keys() - {*names, *TABLES}):
        raise RltokError(f"{folder.name}/{name} is missing. {REMOVED}")
    packed = _unpacked(folder, sums, [name for name in names if name in sums])
    return {name: packed[name] if name in packed else read_record(folder / name, whole, any_commit=any_commit) for name in names}


def pack(folder: Path) -> list[str]:
    """Pack the records of a sweep that lie in files of their own, beside those that are packed; gives their names.

    A packed run whose JSON file was removed leaves the tables, too. Where there is nothing to do, no file changes.

    Raises:
        RltokError: there is no run; a run is packed already, with another record; a record is damaged, lies under another
            run's name, or holds what no table can.
    """
    sums, new = _listed(folder), {}
    names = [path.relative_to(folder).as_posix() for path in sweep_files(folder)]
    if not (names or sums):
        raise RltokError(f"{folder} has no record of a run, so nothing is packed. Name the folder of a sweep.")
    for name in names:
        if sums.get(name) != _digest(read_file(folder / name)):
            new[name] = read_record(folder / name, whole=True)
            _check_name(folder, name, new[name])
            if name in sums and sums[name] != _digest(json_text(split(new[name])[0]).encode()):
                raise RltokError(
                    f"{folder.name}/{name} is packed already, and this is another record of it. To put it in the place of the"
                    " other one, move it away, pack, put it back and pack again."
                )
    records = _unpacked(folder, sums, [name for name in names if name in sums and name not in new]) | new
    if not new and sums.keys() <= {*names, *TABLES}:
        return []
    files = _files({name: records[name] for name in names})
    for name in sorted(files, key=lambda name: (name.endswith(".json"), name)):  # facts last: until then a record is whole
        write_bytes(folder / name, files[name])
    for table in set(TABLES) - files.keys():
        (folder / table).unlink(missing_ok=True)
    return list(new)


def _check_name(folder: Path, name: str, record: Record) -> None:
    """Raise `RltokError` unless a file is called after the run that its record is of."""
    run = f"{record['name']}-seed{record['seed']}"
    if name != f"{run}.json" and not name.startswith(f"repeats/{run}-"):
        raise RltokError(
            f"{folder.name}/{name} holds a record of {run}, so it is not packed. Call it {run}.json, or repeats/{run}-2.json for"
            " the same seed once more; or remove it."
        )


def _files(records: Mapping[str, Record]) -> dict[str, bytes]:
    """What the files of a packed sweep hold. Raises `RltokError` unless the records come out of them to the bit."""
    files: dict[str, bytes] = {}
    tables: dict[str, Parts] = {table: {} for table in TABLES}
    for name, record in records.items():
        facts, parts = split(record)
        files[name] = json_text(facts).encode()
        for (table, entry), columns in parts.items():
            tables[table][name, entry] = columns
    try:
        files |= {table: _parquet(_table(parts), table) for table, parts in tables.items() if parts}
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise RltokError(f"these records do not fit into tables ({error}). Leave the new ones in files of their own.") from error
    rows = _by_run(files[table] for table in TABLES if table in files)
    for name, record in records.items():
        if json.dumps(join(json.loads(files[name]), rows.get(name, {}))) != json.dumps(record):
            raise RltokError(f"{name}: tables cannot hold all that it says, so it is not packed. Leave it in a file of its own.")
    return files | {SUMS: "".join(f"{_digest(content)}  {name}\n" for name, content in sorted(files.items())).encode()}


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _parquet(table: pa.Table, name: str) -> bytes:
    """The bytes of a table. Scores have few different values; those of curves differ in their low bits, which are no pattern."""
    buffer = io.BytesIO()
    how = {"use_dictionary": list(KEYS), "use_byte_stream_split": True} if name == CURVES else {}
    pq.write_table(table, buffer, compression="zstd", compression_level=LEVEL, **how)
    return buffer.getvalue()


def _listed(folder: Path) -> dict[str, str]:
    """SHA-256 by name of each file of a packed sweep; none where nothing is packed. Raises `RltokError` for a damaged list."""
    try:
        lines = read_file(folder / SUMS).decode().splitlines()
        return {name: sha for sha, name in (line.split("  ", 1) for line in lines)}
    except MISSING:
        if any((folder / table).exists() for table in TABLES):
            raise RltokError(f"{folder.name}/{SUMS} is missing. {RESTORE}") from None
        return {}
    except ValueError as error:
        raise RltokError(f"{folder.name}/{SUMS} is damaged ({error}). {RESTORE}") from error


def _unpacked(folder: Path, sums: Mapping[str, str], names: Sequence[str]) -> dict[str, Record]:
    """Packed records by name. Raises `RltokError` for a file that is missing or not what was packed."""

    def content(name: str) -> bytes:
        try:
            data = read_file(folder / name)
        except MISSING as error:
            raise RltokError(f"{folder.name}/{name} is missing. {RESTORE}") from error
        if _digest(data) != sums[name]:
            raise RltokError(f"{folder.name}/{name}: it was changed after it was packed: its digest differs. {RESTORE}")
        return data

    facts = {name: json.loads(content(name)) for name in names}
    has_rows = not all(each.get("failed") for each in facts.values())
    rows = _by_run(content(table) for table in TABLES if table in sums and has_rows)
    return {name: join(each, rows.get(name, {})) for name, each in facts.items()}
