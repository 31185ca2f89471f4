"""What is kept of a write's answer under its idempotency key, and the same answer made from it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from model.snapshot import Snapshot
from sql.execution.results import ResultSet

Answer = Mapping[str, Any]


def written_answer(rows: int) -> Callable[[Snapshot], Answer]:
    """The answer of an INSERT of so many rows, made from the snapshot that holds them: what `Lake.commit` stores."""
    return lambda snapshot: {"rows": rows, "snapshotId": snapshot.id}


def answer_of(result: ResultSet) -> Answer:
    """The answer of a statement that committed no rows."""
    if result.affected_rows is not None:
        return {"rows": result.affected_rows, "snapshotId": result.snapshot_id}
    return {"ok": True}


def replayed(answer: Answer) -> ResultSet:
    """The result a repeat of the statement gets."""
    if "rows" in answer:
        return ResultSet.written(int(answer["rows"]), answer["snapshotId"])
    if "jobId" in answer:
        return ResultSet.of_job(UUID(answer["jobId"]))
    return ResultSet.ok()
