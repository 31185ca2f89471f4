"""``python -m workers SOCKET JOURNAL MEMORY``: reads tasks from a socket until it is closed, one after another."""

from __future__ import annotations

import contextlib
import os
import resource
import socket
import sys
import traceback
from functools import lru_cache
from typing import IO, Any

import orjson
import pyarrow as pa

from model.errors import InvalidData, LakeError
from table.format.io.file_io import FileIO, file_io_for
from table.format.io.patience import STORE_SECONDS, begin_patience
from table.format.store import TableFiles
from table.write.writer import write_batches
from workers.arrow import rewritten
from workers.memory import limit_memory
from workers.orc import decoded
from workers.readers import batches_of, readable
from workers.task import STORE_SECONDS_LEFT, BodyTask, error_answer, files_answer
from workers.wire import Gone, receive, send


def main() -> None:
    """Serve the socket until the server closes it, or is gone."""
    end = socket.socket(fileno=int(sys.argv[1]))
    journal = os.fdopen(int(sys.argv[2]), "r+b", buffering=0)
    memory = int(sys.argv[3])
    pa.array([])  # loads what is loaded late, before the limit is set
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit_memory(memory)
    with contextlib.suppress(Gone, ConnectionError):
        send(end, b"{}")
        while True:
            task, file = receive(end)
            journal.write(b"\n")
            try:
                send(end, orjson.dumps(answer(journal, task, file, memory)))
            finally:
                if file is not None:
                    os.close(file)


def answer(journal: IO[bytes], raw_task: bytes, file: int | None, memory: int) -> dict[str, Any]:
    """Do a task; whatever goes wrong is told, so that only a crash ends the worker."""
    try:
        if file is None:
            raise ValueError("a task without a file")
        document = orjson.loads(raw_task)
        begin_patience(float(document.get(STORE_SECONDS_LEFT, STORE_SECONDS)))
        if "orc" in document:
            return decoded(document, file, _store)
        if "arrow" in document:
            return rewritten(document, file)
        task = BodyTask.of(document)
        files = TableFiles(_store(task.warehouse), task.location, task.branch)
        with os.fdopen(os.dup(file), "rb", buffering=1 << 20) as body:
            batches = readable(batches_of(task, body))
            written = write_batches(files, task.schema, batches, opening=lambda path: journal.write(f"{path}\n".encode()))
        return files_answer(written)
    except LakeError as error:
        return error_answer(error)
    except (MemoryError, pa.ArrowMemoryError):
        return error_answer(too_much_memory(memory))
    except Exception:  # told to the server, which logs it as the bug it is
        return {"bug": traceback.format_exc()}


@lru_cache(maxsize=4)
def _store(warehouse: str) -> FileIO:
    return file_io_for(warehouse)


def too_much_memory(memory: int) -> InvalidData:
    """The refusal of a body that grows past the limit."""
    return InvalidData(
        f"The body's rows need more than the {memory >> 20} MB a worker may use (SLUICE_ROWS_WORKER_MEMORY) to be decoded; "
        "send them in smaller parts, or in smaller batches or row groups."
    )


if __name__ == "__main__":
    main()
