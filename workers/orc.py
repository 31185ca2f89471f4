"""ORC files of tables decoded by workers: Arrow's reader can die of a changed bit, or of rows that take much, and only the read fails."""

from __future__ import annotations

import base64
import logging
import mmap
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.ipc as ipc

from model.errors import LakeError, Unavailable
from model.text.file_name import file_name
from table.format.io.file_io import FileIO
from table.format.io.patience import seconds_left
from table.format.io.storage_errors import storage_failure
from table.format.orc import FEWER, Here, OrcHead, OrcPart, Wanted, decode_with, decode_without
from workers.pool import WorkerLimits, WorkerLost, WorkerPool
from workers.spool import in_memory
from workers.task import STORE_SECONDS_LEFT, error_answer

_log = logging.getLogger(__name__)
_TRIES = 2
_HERE = Here()
"""Decodes in a worker."""


class OrcProcesses:
    """An `OrcDecoder` whose files are decoded by workers, which start when the first file is read."""

    def __init__(self, limits: WorkerLimits, warehouse: str) -> None:
        self._pool = WorkerPool(replace(limits, wait_seconds=limits.seconds, kept=0), what="ORC files")  # each is busy for moments only
        self._warehouse = warehouse

    def begin(self) -> None:
        """Decode all ORC files that this process reads from now on."""
        decode_with(self)

    def pids(self) -> list[int]:
        """The processes there are."""
        return self._pool.pids()

    def close(self) -> None:
        """Do so no more, and end the workers."""
        decode_without(self)
        self._pool.close()

    def head(self, io: FileIO, path: str) -> OrcHead:
        """What the end of a file tells."""
        answer, _ = self._ask(io, path, [None] * _TRIES)
        return _head(answer)

    def part(self, io: FileIO, path: str, wanted: Wanted) -> OrcPart:
        """Some stripes, or rows; they lie where the worker put them, and are not copied.

        Short of memory ORC's decoder fails, or dies as of damage: then fewer rows are decoded at once.
        """
        fewer = [replace(wanted, together=rows) for rows in FEWER if wanted.together is None or rows < wanted.together]
        answer, buffer = self._ask(io, path, [wanted, *fewer])
        batches = list(ipc.open_stream(buffer))
        for batch in batches:
            batch.validate()
        return OrcPart(head=_head(answer), batches=batches, following=int(answer["following"]), together=answer["together"])

    def _ask(self, io: FileIO, path: str, tries: Sequence[Wanted | None]) -> tuple[dict[str, Any], pa.Buffer]:
        """The first answer to one of the tries; raises what the last one meets."""
        io.arrow_path(path)  # raises where the file is none of the table's
        for left, wanted in zip(reversed(range(len(tries))), tries, strict=True):
            with in_memory() as rows:
                answer = self._answer(_task(path, self._warehouse, wanted), rows.fileno(), path, last=not left)
                if answer is None or (answer.get("memory") and left):
                    continue
                if answer.get("missing"):
                    raise FileNotFoundError(path)
                if answer.get("memory"):
                    raise pa.ArrowCapacityError(f"its rows need more than {self._memory} to be decoded")
                if "problem" in answer:
                    raise ValueError(answer["problem"])
                return answer, pa.py_buffer(mmap.mmap(rows.fileno(), 0, access=mmap.ACCESS_READ))
        raise AssertionError("unreachable")

    def _answer(self, task: bytes, rows: int, path: str, *, last: bool) -> dict[str, Any] | None:
        """What a worker answers; None where it ended, unless this was the last try."""
        try:
            return self._pool.ask(task, rows)
        except WorkerLost as lost:
            _log.warning("A worker ended (%s) while it decoded %s", "it took too long" if lost.late else lost.status, path)
            if lost.late:
                seconds = f"{self._pool.limits.seconds:g} seconds (SLUICE_ROWS_WORKER_SECONDS)"
                raise Unavailable(f"{file_name(path)} was not decoded within {seconds}; it was given up.", place=path) from lost
            if not last:
                return None
            if lost.killed:
                raise Unavailable(f"The process that decoded {file_name(path)} was ended by {lost.status}.", place=path) from lost
            raise ValueError(
                f"the process that decoded it ended ({lost.status}): it is damaged, or a row of it needs more than {self._memory}"
            ) from lost

    @property
    def _memory(self) -> str:
        return f"the {self._pool.limits.memory_bytes >> 20:,} MB a worker may use (SLUICE_ROWS_WORKER_MEMORY)"


def _task(path: str, warehouse: str, wanted: Wanted | None) -> bytes:
    columns = None if wanted is None else asdict(wanted)
    return orjson.dumps({"orc": path, "warehouse": warehouse, "wanted": columns, STORE_SECONDS_LEFT: seconds_left()})


def _head(answer: dict[str, Any]) -> OrcHead:
    schema = ipc.read_schema(pa.py_buffer(base64.b64decode(answer["schema"])))
    return OrcHead(
        size=int(answer["size"]),
        rows=int(answer["rows"]),
        stripes=int(answer["stripes"]),
        schema=schema,
        by_java=bool(answer["by_java"]),
    )


def decoded(task: dict[str, Any], rows: int, store: Callable[[str], FileIO]) -> dict[str, Any]:
    """Do such a task in a worker: write its rows to a file and tell the rest."""
    path = str(task["orc"])
    try:
        io = store(task["warehouse"])
        if task["wanted"] is None:
            part = OrcPart(head=_HERE.head(io, path), batches=(), following=0)
        else:
            part = _HERE.part(io, path, Wanted(**task["wanted"]))
        part.head.schema.names  # noqa: B018 - raises where a name is no text
        with os.fdopen(os.dup(rows), "wb") as sink, ipc.new_stream(sink, _schema(part)) as writer:
            for batch in part.batches:
                writer.write_batch(batch)
    except FileNotFoundError:
        return {"missing": True}
    except LakeError as error:
        return error_answer(error)
    except Exception as problem:  # bytes that were changed make a decoder fail in any way
        if (away := storage_failure(problem, path)) is not None:
            return error_answer(away)
        short = isinstance(problem, MemoryError) or "bad_alloc" in str(problem)
        return {"memory": True} if short else {"problem": str(problem)}
    head = part.head
    schema = base64.b64encode(head.schema.serialize()).decode()
    return {
        "size": head.size,
        "rows": head.rows,
        "stripes": head.stripes,
        "schema": schema,
        "by_java": head.by_java,
        "following": part.following,
        "together": part.together,
    }


def _schema(part: OrcPart) -> pa.Schema:
    return part.batches[0].schema if part.batches else pa.schema([])
