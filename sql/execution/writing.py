"""Rows that are written in this process: files first, then one commit; nothing stays behind where it is not decided."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import IO
from uuid import uuid4

import pyarrow as pa

from lake import IdempotencyClaim, Lake, LakeTable
from model.options.maintenance import PRECOMMIT_COMPACT
from model.snapshot import CommitKind, Snapshot
from sql.execution.answers import written_answer
from sql.execution.cancellation import Cancellation
from table.compaction.rewrite import merged_before_commit
from table.format.io.patience import seconds_left
from table.format.manifests.entries import NewFile
from table.write.writer import write_batches
from workers.pool import WorkerPool
from workers.task import BodyTask

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
    rows = list(batches)
    with lake.reserve.promise(sum(batch.nbytes for batch in rows)):
        return append_written(lake, table, write_batches(table.files, table.schema, rows), claim=claim, cancellation=cancellation)


def written_by_worker(
    workers: WorkerPool, lake: Lake, table: LakeTable, media_type: str, body: IO[bytes], *, names: Sequence[str] | None = None
) -> list[NewFile]:
    """Let a worker decode a body that lies in a file, and write its rows as data files, which are the caller's from then on.

    ``names``: what the columns of an Arrow body are called, in place of their names there.
    """
    files = table.files
    task = BodyTask(
        media_type=media_type,
        table=str(table.identifier),
        warehouse=lake.warehouse,
        location=files.location,
        branch=files.layout.branch,
        schema=table.schema,
        names=None if names is None else tuple(names),
        store_seconds=seconds_left(),
    )
    return workers.write(task, body.fileno(), files.io.delete, owner=lake.caller.principal)


def append_written(
    lake: Lake,
    table: LakeTable,
    files: list[NewFile],
    *,
    claim: IdempotencyClaim | None = None,
    cancellation: Cancellation | None = None,
) -> tuple[int, Snapshot | None]:
    """Commit files that were written just now, or remove them; returns how many rows they hold, and the snapshot (None for no files)."""
    with table.write() as write:
        write.add(before_commit(table, files))
        if not write.files:
            return 0, None
        if cancellation is not None:
            cancellation.check()
        request = write.request(CommitKind.APPEND, commit_user=COMMIT_USER)
        return write.rows, lake.commit(table, request, claim=claim, answer=written_answer(write.rows))
