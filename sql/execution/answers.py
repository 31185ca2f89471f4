"""What is kept of a write's answer under its idempotency key, and the same answer made from it again."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import pyarrow as pa

from lake.access.owner import Owner
from lake.commit.claims import DONE
from model.errors import UnsupportedType
from model.schema.types import parse_type
from model.snapshot import Snapshot
from sql.execution.results import ResultColumn, ResultKind, ResultSet

Answer = Mapping[str, Any]
MOST_BYTES = 1 << 16
"""Larger answers are not kept, in bytes of Arrow: their repeats are told that it is done."""


def written_answer(rows: int) -> Callable[[Snapshot], Answer]:
    """The answer of an INSERT of so many rows, made from the snapshot that holds them: what `Lake.commit` stores."""
    return lambda snapshot: {"rows": rows, "snapshotId": snapshot.id}


def answer_of(result: ResultSet, owner: Owner) -> Answer:
    """The answer of a statement of the owner's that committed no rows."""
    if result.affected_rows is not None:
        return {"rows": result.affected_rows, "snapshotId": result.snapshot_id}
    if result.held is None or result.kind is ResultKind.SUCCESS or result.held.nbytes > MOST_BYTES:
        return DONE
    columns: list[dict[str, Any]] = [
        {"name": column.name, "type": column.type.to_json(), "comment": column.comment} for column in result.columns
    ]
    try:
        if tuple(parse_type(column["type"]) for column in columns) != result.types:
            return DONE
    except UnsupportedType:  # one that only results have
        return DONE
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, result.held.schema) as stream:
        stream.write_batch(result.held)
    whose = {"administrator": owner.administrator, "roles": sorted(owner.claimed)}
    return {"columns": columns, "arrow": b64encode(sink.getvalue()).decode(), "owner": whose}


def replayed(answer: Answer, caller: Owner) -> ResultSet:
    """The result a repeat of the statement gets; who has other rights than the first who sent it is told that it is done."""
    if "rows" in answer:
        return ResultSet.written(int(answer["rows"]), answer["snapshotId"])
    if "jobId" in answer:
        return ResultSet.of_job(UUID(answer["jobId"]))
    if "arrow" in answer and _whose(answer, caller.principal).admits(caller):
        columns = [ResultColumn(column["name"], parse_type(column["type"]), column["comment"]) for column in answer["columns"]]
        return ResultSet.of_batch(columns, pa.ipc.open_stream(b64decode(answer["arrow"])).read_next_batch())
    return ResultSet.ok()


def _whose(answer: Answer, principal: str) -> Owner:
    """Who was answered, of a principal, to whom keys belong; earlier versions did not say."""
    owner = answer.get("owner", {})
    return Owner(principal=principal, administrator=bool(owner.get("administrator")), claimed=frozenset(owner.get("roles", ())))
