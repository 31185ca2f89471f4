"""Bodies of rows appended to a table: Parquet, Arrow, CSV or NDJSON in, one commit out."""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import IO

from lake import EVERYBODY, Caller, IdempotencyClaim, Lake, LakeTable, Replay
from model.errors import LakeError, OutcomeUnknown, UnsupportedMediaType
from model.identifier import Identifier
from model.work.deciding import Decider, deciding_as, present_decider
from sql.execution.writing import append_written, written_by_worker
from table.format.manifests.entries import NewFile
from table.write.writer import write_batches
from workers.pool import WorkerPool, too_late
from workers.readers import READERS, TEXTS, readable
from workers.spool import BodyFiles, first_bytes, owner_of, size_of

_SMALL_BYTES = 256 << 10
"""Text up to here is decoded in this process: handing it over would take longer."""

Write = Callable[[], list[NewFile]]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """What an append did."""

    rows: int
    snapshot_id: int | None
    """None where the body held no rows."""
    replayed: bool = False
    """True where the same key's body was appended before, and nothing was done now."""


class _InTime:
    """Stops what takes longer than a worker may, for each row may have a file of its own."""

    def __init__(self, decider: Decider, seconds: float) -> None:
        self._decider, self._seconds = decider, seconds
        self._until = time.monotonic() + seconds
        self.begin_decision, self.end_decision = decider.begin_decision, decider.end_decision

    def check(self) -> None:
        """Raise where the body is to be given up."""
        self._decider.check()
        if time.monotonic() > self._until:
            raise too_late(self._seconds)


class Appender:
    """Appends bodies, each as one commit."""

    def __init__(self, lake: Lake, workers: WorkerPool, bodies: BodyFiles) -> None:
        self._lake = lake
        self._workers = workers
        self._bodies = bodies

    def append(
        self, identifier: Identifier, body: IO[bytes], content_type: str, *, idempotency_key: str | None = None, caller: Caller = EVERYBODY
    ) -> AppendResult:
        """Append a body's rows; nothing is changed where any of them does not fit."""
        kind = content_type.partition(";")[0].strip().lower()
        if kind not in READERS:
            known = ", ".join(READERS)
            raise UnsupportedMediaType(f"Bodies of type {kind or '(none)'} are not read here; send one of {known}.")
        lake = self._lake.for_caller(caller)
        digest = hashlib.sha256(f"{identifier}\0{kind}\0".encode())
        try:
            table = lake.open_to_write(identifier)
            lake.reserve.require()
            lake.quotas.check_ingest(caller)
        except LakeError:  # a body that was appended before is answered, whatever became of its table or of the space since then
            scope = _scope(lake)
            if idempotency_key is None or not lake.idempotency.known(idempotency_key, scope=scope):
                raise
            while chunk := body.read(_SMALL_BYTES):
                digest.update(chunk)
            done = lake.idempotency.answered(lake.idempotency.later(idempotency_key, scope=scope, body_hash=digest.hexdigest()))
            if done is None:
                raise
            return _again(done)

        def seen(chunk: bytes) -> None:
            lake.quotas.ingested(caller, len(chunk))
            if idempotency_key is not None:
                digest.update(chunk)

        begin = first_bytes(body, _SMALL_BYTES + 1) if kind in TEXTS else b""
        if kind in TEXTS and len(begin) <= _SMALL_BYTES:
            seen(begin)
            with lake.reserve.promise(len(begin)):
                return self._claimed(lake, table, self._here(table, kind, begin), idempotency_key, digest.hexdigest, short=True)
        with self._bodies.of(owner_of(caller.principal)).spooled(body, begin=begin, seen=seen) as content:
            write = partial(written_by_worker, self._workers, lake, table, kind, content)
            # Files are packed about as well as bodies are; what they take more is seen by whoever asks for space next.
            with lake.reserve.promise(size_of(content)):
                return self._claimed(lake, table, write, idempotency_key, digest.hexdigest)

    def _here(self, table: LakeTable, kind: str, body: bytes) -> Write:
        def write() -> list[NewFile]:
            batches = READERS[kind](io.BytesIO(body), table.schema, str(table.identifier))
            with deciding_as(_InTime(present_decider(), self._workers.limits.seconds)):
                return write_batches(table.files, table.schema, readable(batches))

        return write

    def _claimed(
        self, lake: Lake, table: LakeTable, write: Write, key: str | None, digest: Callable[[], str], *, short: bool = False
    ) -> AppendResult:
        """Write and commit, once for each key; the key of ``short`` work is claimed in its commit, which a repeat then loses."""
        if key is None:
            return self._append(lake, table, write, None)
        idempotency = self._lake.idempotency
        claim = idempotency.later(key, scope=_scope(lake), body_hash=digest())
        if short:
            try:
                return self._under(lake, table, write, claim)
            except LakeError as error:
                done = idempotency.answer_instead(claim, error)
                if done is not None:
                    return _again(done)
        claimed = idempotency.take(claim)
        return _again(claimed) if isinstance(claimed, Replay) else self._under(lake, table, write, claimed)

    def _under(self, lake: Lake, table: LakeTable, write: Write, claimed: IdempotencyClaim) -> AppendResult:
        """Write and commit under a claim, which is settled in any case."""
        idempotency = self._lake.idempotency
        try:
            result = self._append(lake, table, write, claimed)
        except OutcomeUnknown:
            idempotency.release(claimed)  # the commit, if it is there, has stored its answer
            raise
        except BaseException:
            idempotency.abandon(claimed)
            raise
        if result.snapshot_id is None:
            idempotency.finish(claimed, {"rows": 0, "snapshotId": None})
        else:
            idempotency.release(claimed)
        return result

    @staticmethod
    def _append(lake: Lake, table: LakeTable, write: Write, claim: IdempotencyClaim | None) -> AppendResult:
        rows, snapshot = append_written(lake, table, write(), claim=claim)
        return AppendResult(rows=rows, snapshot_id=snapshot.id if snapshot else None)


def _scope(lake: Lake) -> str:
    """Where the keys of a caller's bodies lie."""
    return f"append:{lake.caller.principal}"


def _again(done: Replay) -> AppendResult:
    """The result of a body that was appended before."""
    return AppendResult(rows=done.answer["rows"], snapshot_id=done.answer["snapshotId"], replayed=True)
