"""Rows that are written in this process: files first, then one commit; nothing stays behind where it fails."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from uuid import uuid4

import pyarrow as pa

from lake import IdempotencyClaim, Lake, LakeTable
from model.errors import LakeError, OutcomeUnknown
from model.snapshot import CommitKind, Snapshot
from sql.answers import written_answer
from sql.cancellation import Cancellation
from table.binary_row import decode
from table.commit import CommitRequest
from table.manifest import NewFile
from table.write import write_batches

_log = logging.getLogger(__name__)
COMMIT_USER = str(uuid4())
"""Who this process is in the snapshots it commits."""


def append_batches(
    lake: Lake,
    table: LakeTable,
    batches: Iterable[pa.RecordBatch],
    *,
    claim: IdempotencyClaim | None = None,
    cancellation: Cancellation | None = None,
) -> tuple[int, Snapshot | None]:
    """Write rows that fit the table and commit them; returns how many, and the snapshot (None for no rows)."""
    written = write_batches(table.files, table.schema, batches)
    rows = sum(new.file.row_count for new in written)
    if not written:
        return 0, None
    try:
        if cancellation is not None:
            cancellation.check()
        request = CommitRequest(kind=CommitKind.APPEND, adds=tuple(written), commit_user=COMMIT_USER)
        return rows, lake.commit(table, request, claim=claim, answer=written_answer(rows))
    except OutcomeUnknown:
        raise  # the snapshot may be there, and it may name these files
    except LakeError:
        discard(table, written)
        raise


def discard(table: LakeTable, written: Sequence[NewFile]) -> None:
    """Delete data files no snapshot names."""
    types = [field.type for field in table.schema.partition_fields]
    for new in written:
        directory = table.files.layout.bucket_dir(table.schema, decode(types, new.partition), new.bucket)
        try:
            table.files.io.delete(f"{directory}/{new.file.file_name}")
        except LakeError:  # invisible to every reader, and found later as an orphan
            _log.warning("A data file that was not committed could not be deleted: %s", new.file.file_name)
