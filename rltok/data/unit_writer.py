"""One unit of `rltok prepare`: its documents filtered, cut, dealt to splits and stored, from where the last process stopped."""

import codecs
import hashlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rltok.data.documents import HEAD_BYTES, NULL_TEXT, Document, junk_reason
from rltok.data.rows import PIECES, Cut
from rltok.data.shards import MAX_SHARD_DOCUMENTS, SPLITS, ShardWriter, digest_of, seals_of
from rltok.data.tally import count_skipped, count_stored, new_tally
from rltok.data.units import Unit, unit_documents
from rltok.errors import RltokError


@dataclass(frozen=True)
class Rules:
    """What is stored of each document, and in which split; the same for every unit.

    Attributes:
        cut, sequence_length: as of `cut_documents`; "documents" stores no more than its row.
        validation_fraction, test_fraction: shares of documents in these splits, by their hash.
        max_bytes: most bytes stored of a unit.
        shard_bytes: a shard is sealed when it has so many.
        any_bytes: store documents that are no valid UTF-8 or do not look like text.
    """

    cut: Cut
    sequence_length: int
    validation_fraction: float
    test_fraction: float
    max_bytes: int | None
    shard_bytes: int
    any_bytes: bool

    def skipped(self, text: bytes) -> str | None:
        """Why a document is not stored, one of `tally.SKIPPED`, or None."""
        if text is NULL_TEXT:
            return "null"
        if not text:
            return "empty"
        if not (self.any_bytes or is_utf8(text)):
            return "invalid_utf8"
        if not self.any_bytes and junk_reason(text):
            return "no_text"
        return None if PIECES[self.cut](min(len(text), self.sequence_length), self.sequence_length) else "too_short"

    def split(self, document: Document, digest: tuple[int, int], forced: str | None) -> int:
        """Which split, as its place in SPLITS: by the hash of what is stored, of parts by that of the whole document's name."""
        if forced is not None:
            return SPLITS.index(forced)
        key = name_digest(document) if document.whole else digest
        u = key[0] / 2**64
        return 2 if u < self.test_fraction else 1 if u < self.test_fraction + self.validation_fraction else 0


def is_utf8(text: bytes) -> bool:
    """Whether bytes are valid UTF-8 from end to end."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for start in range(0, len(text), HEAD_BYTES):  # as a string at once it would take up to five times as much memory
            decoder.decode(memoryview(text)[start : start + HEAD_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def name_digest(document: Document) -> tuple[int, int]:
    """Of source and name of the whole document that this one is a part of."""
    return digest_of(f"{document.source}\0{document.whole}".encode())


def part_of(document: Document) -> int:
    """What all parts of one document share in the index; 0 for a document that is whole itself."""
    return max(1, name_digest(document)[0]) if document.whole else 0


def _fingerprint(document: Document) -> str:
    return hashlib.blake2b(document.text, digest_size=16).hexdigest()


class _Progress:
    """Where a unit stands: what the next seal says, taken up from the last one."""

    def __init__(self, last: dict[str, Any] | None) -> None:
        self.number: int = last["to"] if last else 0  # documents read so far
        self.fingerprint: str = last["fingerprint"] if last else ""
        self.begin()

    def begin(self) -> None:
        """A new shard."""
        self.tally, self.first = new_tally(), self.number

    def read(self, document: Document) -> None:
        """One more document."""
        self.fingerprint, self.number = _fingerprint(document), self.number + 1
        self.tally["read"] += 1
        self.tally["read_bytes"] += len(document.text)

    def facts(self, unit: Unit, last: bool, full: bool) -> dict[str, Any]:
        """What the seal says besides names, sizes and hashes."""
        return {
            "unit": unit.name, "from": self.first, "to": self.number, "last": last, "full": full,
            "fingerprint": self.fingerprint, "tally": self.tally,
        }  # fmt: skip


def _documents(unit: Unit, progress: _Progress, rules: Rules, force: bool, sleep: Callable[[float], None]) -> Iterator[Document]:
    """The documents that come next. Raises `RltokError` when the last one read before is no longer what it was."""
    start = progress.number
    found = unit_documents(unit, max(0, start - 1), force, sleep, rules.max_bytes)
    if start:
        before = next(found, None)
        if before is None or _fingerprint(before) != progress.fingerprint:
            raise RltokError(
                f"{unit.name} has changed since a part of it was stored: its document {start} is another one."
                " Put back the old text, or prepare into a new folder."
            )
    return found


def write_unit(
    folder: Path, number: int, unit: Unit, rules: Rules, *,
    force: bool = False, tell: Callable[[int], None] = lambda _: None, sleep: Callable[[float], None] = time.sleep,
) -> None:  # fmt: skip
    """Store what is still missing of a unit in sealed shards.

    Args:
        number: the unit's, in the names of its files.
        tell: called with the bytes read since the last call.
        sleep: between tries to reach the hub.

    Raises:
        RltokError: text that cannot be read; what is sealed stays, and another call goes on behind it.
    """
    seals = seals_of(folder, number)
    if seals and seals[-1]["last"]:
        return
    progress = _Progress(seals[-1] if seals else None)
    stored = sum(seal["tally"]["stored_bytes"] for seal in seals)
    shard, full = len(seals), False
    writer = ShardWriter(folder, number, shard)
    try:
        for document in _documents(unit, progress, rules, force, sleep):
            text = document.text[: rules.sequence_length] if rules.cut == "documents" else document.text
            reason = rules.skipped(document.text)
            if reason is None and rules.max_bytes is not None and stored + len(text) > rules.max_bytes:
                full = True
                break
            progress.read(document)
            tell(len(document.text))
            if reason is not None:
                count_skipped(progress.tally, reason, f"{unit.name}: {document.id}")
                continue
            digest = digest_of(text)
            split = rules.split(document, digest, unit.split)
            writer.add(text, digest, part_of(document), progress.number - 1, split, len(text) == len(document.text))
            count_stored(progress.tally, document.source, len(text))
            stored += len(text)
            if writer.bytes >= rules.shard_bytes or writer.documents >= MAX_SHARD_DOCUMENTS:
                writer.seal(progress.facts(unit, last=False, full=False))
                progress.begin()
                shard += 1
                writer = ShardWriter(folder, number, shard)
        writer.seal(progress.facts(unit, last=True, full=full))
    except BaseException:
        writer.abandon()
        raise
