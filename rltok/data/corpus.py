"""A corpus: training, validation and perhaps test rows, with a description that goes into every record of a run."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltok.config import DataConfig
from rltok.data.prepared import Prepared, is_prepared, open_prepared
from rltok.data.rows import Rows, cut_documents
from rltok.data.sources import Spec, documents, is_hub, spec_name, summary
from rltok.errors import RltokError


@dataclass(frozen=True, eq=False)
class Corpus:
    """Rows of each split.

    Attributes:
        description: plain values for records, without folders of this machine.
        files: what was read, in words.
    """

    train: Rows
    validation: Rows
    test: Rows | None
    description: dict[str, Any]
    files: str = ""

    @property
    def summary(self) -> str:
        """The training text in one line."""
        has, held_out = self.description["train"], self.description.get("held_out", "documents of their own")
        counts = f"{has['bytes']} bytes, {has['documents']} document{'s' * (has['documents'] != 1)}, {has['rows']} rows"
        return f"training text: {self.files or self.description['name']}: {counts}; held out: {held_out}"


def num_held_out(num_rows: int, fraction: float) -> int:
    """How many of R >= 2 rows go to validation: the fraction, but at least one, and at least one stays for training."""
    return min(num_rows - 1, max(1, round(fraction * num_rows)))


def hold_out(rows: Rows, fraction: float) -> tuple[Rows, Rows]:
    """Rows for training and validation: the last `num_held_out` rows in corpus order are held out.

    A contiguous tail, so that at most one document (when cut into windows) has rows on both sides.

    Raises:
        RltokError: fewer than 2 rows.
    """
    if len(rows) < 2:
        shorter = max(8, rows.total_bytes // 8)
        if rows.cut != "windows" and rows.total_bytes >= rows.sequence_length:  # of one long document, which may give more
            remedy = "Set data.cut=windows, which takes all of a document in place of its beginning, or add documents."
        else:
            remedy = f"Add text, or --set data.sequence_length={shorter}" + ("" if rows.cut == "windows" else " data.cut=windows")
        raise RltokError(
            f"{rows.name!r} gives {len(rows)} row of data.sequence_length={rows.sequence_length} from {rows.total_bytes} bytes;"
            f" training and validation need one each. {remedy}"
        )
    start = len(rows) - num_held_out(len(rows), fraction)
    return rows.subset(slice(0, start)), rows.subset(slice(start, None))


def _cut(spec: Spec, config: DataConfig, max_bytes: int | None, allow_binary: bool, force: bool) -> Rows:
    """Rows of one spec, named without folders. Raises `RltokError` for an endless stream."""
    if max_bytes is None and is_hub(spec):
        raise RltokError(f"{spec!r} streams without a known end. Say how much to read: --max-bytes, or max_bytes= in Python.")
    stream = documents(spec, allow_binary=allow_binary, force=force, max_bytes=max_bytes)
    return cut_documents(stream, config.sequence_length, config.cut, name=spec_name(spec), max_bytes=max_bytes)


def describe(rows: Rows | None) -> dict[str, Any] | None:
    """The entry of a split in a run's record: rows, documents, bytes and hash; None without rows."""
    if rows is None:
        return None
    return {"rows": len(rows), "documents": rows.num_documents, "bytes": rows.total_bytes, "hash": rows.hash}


def _verified(spec: Spec, config: DataConfig) -> Prepared | None:
    """The prepared folder that `spec` names, with its cut and its files checked; None for any other text."""
    if not isinstance(spec, str | Path) or not is_prepared(spec):
        return None
    prepared = open_prepared(spec)
    prepared.check_cut(config)
    prepared.verify()
    return prepared


def load_corpus(
    spec: Spec,
    config: DataConfig,
    *,
    validation_spec: Spec | None = None,
    max_bytes: int | None = None,
    allow_binary: bool = False,
    force: bool = False,
) -> Corpus:
    """Rows to train and to validate on.

    Args:
        spec: what `documents` accepts, or a folder that `rltok prepare` wrote, whose rows stay in its files. Such a folder
            and the word `sample` bring their own splits, made of whole documents.
        config: how documents are cut, and the share held out.
        validation_spec: separate text for validation. Without it the last max(1, round(held_out_fraction * R)) of R
            rows in corpus order are held out (never all of them).
        max_bytes: most bytes kept of training text (before holding out) and of `validation_spec`; a hub dataset needs it.
        allow_binary: let files through that do not look like text.
        force: ask the hub without first testing that it answers.

    Raises:
        RltokError: bad or missing text, too little of it, validation text equal to the training text,
            or a damaged file of a prepared folder.
    """
    prepared = _verified(spec, config)
    is_sample = spec == "sample"
    if prepared is not None:
        rows = prepared.rows("train", config, max_bytes)
    else:
        rows = _cut("sample:train" if is_sample else spec, config, max_bytes, allow_binary, force)
    if validation_spec is not None:
        train, validation = rows, _cut(validation_spec, config, max_bytes, allow_binary, force)
        held_out = f"separate text: {validation.name}"
        if train.hash == validation.hash:
            raise RltokError(f"validation text {validation.name!r} is the training text itself. Give other text or leave it out.")
    elif prepared is not None and prepared.text_bytes("validation"):
        train, validation = rows, prepared.rows("validation", config)
        held_out = "whole documents, set apart by rltok prepare"
    elif is_sample:
        train, validation = rows, _cut("sample:validation", config, None, allow_binary, force)
        held_out = "whole documents, as listed with the sample"
    else:
        train, validation = hold_out(rows, config.held_out_fraction)
        held_out = f"last {len(validation)} of {len(rows)} rows in corpus order"
    test = _cut("sample:test", config, None, allow_binary, force) if is_sample else None
    description = {
        "name": spec_name(spec),
        "cut": config.cut,
        "sequence_length": config.sequence_length,
        "max_bytes": max_bytes,
        "held_out": held_out,
        "skipped_documents": rows.skipped_documents,
        "train": describe(train),
        "validation": describe(validation),
        "test": describe(test) if prepared is None else prepared.describe("test"),
    }
    return Corpus(train, validation, test, description, summary(spec))


def load_test(spec: Spec, config: DataConfig, *, allow_binary: bool = False, force: bool = False) -> Rows:
    """Rows of the test split of a prepared folder or of `sample`; any other text is taken as test text itself.

    Nothing else reads a prepared folder's test documents.

    Raises:
        RltokError: bad or missing text, a damaged file, or no test document.
    """
    prepared = _verified(spec, config)
    if prepared is not None:
        return prepared.rows("test", config)
    return _cut("sample:test" if spec == "sample" else spec, config, None, allow_binary, force)
