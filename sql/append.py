"""Bodies of rows appended to a table: Parquet, Arrow, CSV or NDJSON in, one commit out."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO

import pyarrow as pa

from lake import EVERYBODY, Caller, IdempotencyClaim, Lake, LakeTable, Replay
from model.errors import InvalidData, OutcomeUnknown, UnsupportedMediaType
from model.identifier import Identifier
from sql.bodies import arrow_batches, csv_batches, ndjson_batches, parquet_batches
from sql.writing import append_batches

_MEMORY_BYTES = 4 << 20
"""Bodies up to here are held in memory where they must be held at all; larger ones go to a temporary file."""
_CHUNK_BYTES = 1 << 20

Reader = Callable[[IO[bytes], LakeTable], Iterator[pa.RecordBatch]]
READERS: dict[str, Reader] = {
    "application/vnd.apache.parquet": parquet_batches,
    "application/vnd.apache.arrow.stream": arrow_batches,
    "text/csv": csv_batches,
    "application/x-ndjson": ndjson_batches,
}
_SEEKING = frozenset({"application/vnd.apache.parquet"})
"""Formats read from the end first, so that the whole body must be there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """What an append did."""

    rows: int
    snapshot_id: int | None
    """None where the body held no rows."""
    replayed: bool = False
    """True where the same key's body was appended before, and nothing was done now."""


class Appender:
    """Appends bodies, each as one commit."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def append(
        self, identifier: Identifier, body: IO[bytes], content_type: str, *, idempotency_key: str | None = None, caller: Caller = EVERYBODY
    ) -> AppendResult:
        """Append a body's rows; nothing is changed where any of them does not fit."""
        kind = content_type.partition(";")[0].strip().lower()
        reader = READERS.get(kind)
        if reader is None:
            known = ", ".join(READERS)
            raise UnsupportedMediaType(f"Bodies of type {kind or '(none)'} are not read here; send one of {known}.")
        lake = self._lake.for_caller(caller)
        table = lake.open_to_write(identifier)
        lake.reserve.require()
        if idempotency_key is None and kind not in _SEEKING:
            return self._append(lake, table, reader, body, None)
        with tempfile.SpooledTemporaryFile(max_size=_MEMORY_BYTES) as held:
            digest = _copy(body, held, prefix=f"{identifier}\0{kind}\0")
            if idempotency_key is None:
                return self._append(lake, table, reader, held, None)
            claimed = self._lake.claim(idempotency_key, scope=f"append:{caller.principal}", body_hash=digest)
            if isinstance(claimed, Replay):
                return AppendResult(rows=claimed.answer["rows"], snapshot_id=claimed.answer["snapshotId"], replayed=True)
            return self._append_claimed(lake, table, reader, held, claimed)

    def _append_claimed(self, lake: Lake, table: LakeTable, reader: Reader, held: IO[bytes], claim: IdempotencyClaim) -> AppendResult:
        idempotency = self._lake.idempotency
        try:
            result = self._append(lake, table, reader, held, claim)
        except OutcomeUnknown:
            idempotency.release(claim)  # the commit, if it is there, has stored its answer
            raise
        except BaseException:
            idempotency.abandon(claim)
            raise
        try:
            if result.snapshot_id is None:
                idempotency.finish(claim, {"rows": 0, "snapshotId": None})
        finally:  # a claim that cannot be finished must run out, not be kept alive
            idempotency.release(claim)
        return result

    @staticmethod
    def _append(lake: Lake, table: LakeTable, reader: Reader, body: IO[bytes], claim: IdempotencyClaim | None) -> AppendResult:
        rows, snapshot = append_batches(lake, table, _readable(reader(body, table)), claim=claim)
        return AppendResult(rows=rows, snapshot_id=snapshot.id if snapshot else None)


def _readable(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The batches; what Arrow says of a broken body becomes `InvalidData`."""
    try:
        yield from batches
    except (pa.ArrowException, EOFError) as problem:
        raise InvalidData(f"The body cannot be read: {problem}") from problem


def _copy(body: IO[bytes], held: IO[bytes], *, prefix: str) -> str:
    """Copy a body to where it can be read twice; returns its digest."""
    digest = hashlib.sha256(prefix.encode())
    while chunk := body.read(_CHUNK_BYTES):
        digest.update(chunk)
        held.write(chunk)
    held.seek(0)
    return digest.hexdigest()
