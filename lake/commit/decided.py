"""Around every decision of the catalog that files must follow (`architecture.md`, Decided means on disk).

What the store refuses already is refused before anything is decided. What fails afterwards makes nothing fail: it is on record in
Postgres, and is made up for by whoever needs it next, or when a server starts.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from uuid import uuid4

from model.errors import LakeError, StorageFull
from model.repeats import REPEATS
from table.format.io.beside import begun
from table.format.io.file_io import FileIO
from table.format.store import TableFiles

_log = logging.getLogger(__name__)
_BYTES = b" " * 4096
"""A page: what schemas, tags, snapshots and hints take."""


def probe_in(directory: str) -> str:
    """A small file that is put into a directory for a moment; one that stays is removed as what has no name yet."""
    return f"{directory}/.probe.{uuid4()}.tmp"


def require_writable(io: FileIO, directory: str) -> None:
    """Raise `StorageFull` or `Unavailable` where a small file cannot be put into a directory now; the file is gone again afterwards."""
    path = probe_in(directory)
    io.add(path, _BYTES)
    io.delete(path)


@contextlib.contextmanager
def writable_beside(io: FileIO, directory: str) -> Iterator[Callable[[], None]]:
    """The same beside what the block asks of the store; what it gets waits for the answer, and raises as `require_writable` does.

    The file is gone again when the block has ended.
    """
    path = probe_in(directory)
    written: Future[None] = Future()

    def probe() -> None:
        try:
            io.add(path, _BYTES)
        except BaseException as problem:  # whoever waits for the answer raises it
            written.set_exception(problem)
            return
        written.set_result(None)
        io.delete(path)

    removed = begun(io, probe)
    try:
        yield written.result
    finally:
        if (problem := removed.exception()) is not None:
            _log.warning("A small file that was put there for a moment is left: %s", path, exc_info=problem, extra=REPEATS)


@contextlib.contextmanager
def table_writable_beside(files: TableFiles) -> Iterator[Callable[[], None]]:
    """The same for a table that is about to be changed, as `require_table_writable` has it."""
    files.require_there()
    with writable_beside(files.io, files.layout.manifest_dir()) as require:
        yield require


def require_table_writable(files: TableFiles) -> None:
    """The same for a table that is about to be changed, whose directory is not made anew where it is not there."""
    files.require_there()
    require_writable(files.io, files.layout.manifest_dir())


def require_table_not_read_only(files: TableFiles) -> None:
    """The same for what only takes away, which goes on where the store is full: it is what frees it."""
    with contextlib.suppress(StorageFull):
        require_table_writable(files)


def follow(action: Callable[[], object], what: str) -> bool:
    """Let files follow what was decided; False, with a line in the log, where that failed, and ``what`` is still to be done."""
    try:
        action()
    except Exception as problem:  # a bug, too: what was decided stands, and is not to be repeated
        bug = None if isinstance(problem, LakeError | OSError) else problem
        _log.warning("%s, which is tried again: %s", what, problem, exc_info=bug, extra=REPEATS)
        return False
    return True
