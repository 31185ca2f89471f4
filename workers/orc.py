"""ORC files of tables decoded by workers: Arrow's reader can die of a changed bit, and then only the read fails."""

from __future__ import annotations

import base64
import logging
import mmap
import os
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.ipc as ipc
from pyarrow import orc

from model.errors import LakeError, Unavailable
from model.file_name import file_name
from table.format.io.file_io import FileIO
from table.format.io.storage_errors import storage_failure
from table.format.orc import OrcHead, OrcPart, Wanted, decode_with, decode_without, head_of, opened, part_of
from workers.pool import WorkerLimits, WorkerLost, WorkerPool
from workers.spool import in_memory
from workers.task import error_answer

_log = logging.getLogger(__name__)
_TRIES = 2


class OrcProcesses:
    """An `OrcDecoder` whose files are decoded by workers, which start when the first file is read."""

    def __init__(self, limits: WorkerLimits, warehouse: str) -> None:
        # Each is busy for moments only. Short of memory ORC's decoder dies as of damage, so they are given what the machine has.
        memory = max(limits.memory_bytes, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
        self._pool = WorkerPool(replace(limits, wait_seconds=limits.seconds, memory_bytes=memory), what="ORC files")
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
        answer, _ = self._ask(io, path, None)
        return _head(answer)

    def part(self, io: FileIO, path: str, wanted: Wanted) -> OrcPart:
        """Some stripes; their rows lie where the worker put them, and are not copied."""
        answer, buffer = self._ask(io, path, wanted)
        batches = list(ipc.open_stream(buffer))
        for batch in batches:
            batch.validate()
        return OrcPart(head=_head(answer), batches=batches, following=int(answer["following"]))

    def _ask(self, io: FileIO, path: str, wanted: Wanted | None) -> tuple[dict[str, Any], pa.Buffer]:
        io.arrow_path(path)  # raises where the file is none of the table's
        task: dict[str, Any] = {"orc": path, "warehouse": self._warehouse, "stripe": None, "atOnce": False}
        if wanted is not None:
            task |= {"columns": wanted.columns, "stripe": wanted.stripe, "atOnce": wanted.at_once}
        with in_memory() as rows:
            answer = self._answer(orjson.dumps(task), rows.fileno(), path)
            if answer.get("missing"):
                raise FileNotFoundError(path)
            if "problem" in answer:
                raise ValueError(answer["problem"])
            return answer, pa.py_buffer(mmap.mmap(rows.fileno(), 0, access=mmap.ACCESS_READ))

    def _answer(self, task: bytes, rows: int, path: str) -> dict[str, Any]:
        for tried in range(_TRIES):
            try:
                os.ftruncate(rows, 0)
                os.lseek(rows, 0, os.SEEK_SET)
                return self._pool.ask(task, rows)
            except WorkerLost as lost:
                _log.warning("A worker ended (%s) while it decoded %s", "it took too long" if lost.late else lost.status, path)
                if lost.late:
                    seconds = f"{self._pool.limits.seconds:g} seconds (SLUICE_ROWS_WORKER_SECONDS)"
                    raise Unavailable(f"{file_name(path)} was not decoded within {seconds}; it was given up.", place=path) from lost
                if tried + 1 < _TRIES:
                    continue
                if lost.killed:
                    raise Unavailable(f"The process that decoded {file_name(path)} was ended by {lost.status}.", place=path) from lost
                raise ValueError(f"the process that decoded it ended ({lost.status})") from lost
        raise AssertionError("unreachable")


def _head(answer: dict[str, Any]) -> OrcHead:
    schema = ipc.read_schema(pa.py_buffer(base64.b64decode(answer["schema"])))
    return OrcHead(size=int(answer["size"]), rows=int(answer["rows"]), stripes=int(answer["stripes"]), schema=schema)


def decoded(task: dict[str, Any], rows: int, store: Callable[[str], FileIO]) -> dict[str, Any]:
    """Do such a task in a worker: write its rows to a file and tell the rest."""
    path = str(task["orc"])
    try:
        io = store(task["warehouse"])
        with opened(io, path, at_once=bool(task["atOnce"])) as source:
            if task["stripe"] is None:
                part = OrcPart(head=head_of(source, orc.ORCFile(source)), batches=(), following=0)
            else:
                part = part_of(source, Wanted(columns=task["columns"], stripe=task["stripe"]))
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
        return {"problem": str(problem)}
    head = part.head
    schema = base64.b64encode(head.schema.serialize()).decode()
    return {"size": head.size, "rows": head.rows, "stripes": head.stripes, "schema": schema, "following": part.following}


def _schema(part: OrcPart) -> pa.Schema:
    return part.batches[0].schema if part.batches else pa.schema([])
