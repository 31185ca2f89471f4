"""Rows that are written in this process: files first, then one commit; nothing stays behind where it fails."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import uuid4

import pyarrow as pa

from lake import IdempotencyClaim, Lake, LakeTable
from lake.commit.discard import discard as discard
from model.errors import LakeError, OutcomeUnknown
from model.maintenance_options import PRECOMMIT_COMPACT
from model.snapshot import CommitKind, Snapshot
from sql.answers import written_answer
from sql.cancellation import Cancellation
from table.commit import CommitRequest
from table.manifest import NewFile
from table.rewrite import merged_before_commit
from table.write import write_batches

COMMIT_USER = str(uuid4())
"""Who this process is in the snapshots it commits."""


def before_commit(table: LakeTable, written: list[NewFile]) -> list[NewFile]:
    """The files a write commits: merged first where the table asks for it (`precommit-compact`)."""
    if len(written) < 2 or not PRECOMMIT_COMPACT.read(table.schema.options):
        return written
    return merged_before_commit(table.files, table.schema, written)


def append_batches(
    lake: Lake,
    table: LakeTable,
    batches: Iterable[pa.RecordBatch],
    *,
    claim: IdempotencyClaim | None = None,
    cancellation: Cancellation | None = None,
) -> tuple[int, Snapshot | None]:
    """Write rows that fit the table and commit them; returns how many, and the snapshot (None for no rows)."""
    written = before_commit(table, write_batches(table.files, table.schema, batches))
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
