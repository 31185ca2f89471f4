"""Consumers: how far stream readers have come (`paimon-append.md` §1.3, 6.9)."""

from __future__ import annotations

import contextlib
import json
import time
from dataclasses import dataclass

from table.format.io.file_io import FileStatus
from table.format.json_document import parse_json
from table.format.store import TableFiles

_PREFIX = "consumer-"
_NO_CONSUMER = (ValueError, KeyError, TypeError, OverflowError)
_ATTEMPTS, _PAUSE_SECONDS = 5, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A stream reader's progress; what it has not read yet is kept for it."""

    name: str
    next_snapshot: int
    updated_millis: int
    """When it last told its progress, in milliseconds since the epoch."""


def read_consumers(files: TableFiles, *, settled: bool = False) -> list[Consumer]:
    """All consumers of a table, by name; a file being written at this moment is left out.

    ``settled``: none is left out. Raises `TableDamaged` then for a file that tells none, also a moment later: Java's clients write
    over theirs, which is cut off meanwhile.
    """
    consumers = []
    for status in _files(files):
        with contextlib.suppress(FileNotFoundError, *(() if settled else _NO_CONSUMER)):
            following = _settled(files, status.path) if settled else _next_snapshot(files, status.path)
            name = status.path.rpartition("/")[2].removeprefix(_PREFIX)
            consumers.append(Consumer(name=name, next_snapshot=following, updated_millis=status.mtime_millis))
    return consumers


def _settled(files: TableFiles, path: str) -> int:
    """What a file tells once it is written."""
    for attempt in range(_ATTEMPTS):
        try:
            return _next_snapshot(files, path)
        except _NO_CONSUMER as problem:
            if attempt == _ATTEMPTS - 1:
                untold = "tells no consumer, so which snapshots it has not read is not known. CALL sys.reset_consumer sets or removes it"
                raise files.damaged(path, untold) from problem
            time.sleep(_PAUSE_SECONDS)
    raise AssertionError("attempts must be positive")


def _files(files: TableFiles) -> list[FileStatus]:
    listed = files.io.list(files.layout.consumer_dir())
    return [status for status in listed if not status.is_dir and status.path.rpartition("/")[2].startswith(_PREFIX)]


def _next_snapshot(files: TableFiles, path: str) -> int:
    return int(parse_json(files.io.read(path))["nextSnapshot"])


def told_at(files: TableFiles, name: str) -> int | None:
    """When a consumer last told its progress, in milliseconds since the epoch; None for one that is not there."""
    for status in _files(files):
        if status.path.rpartition("/")[2] == f"{_PREFIX}{name}":
            return status.mtime_millis
    return None


def write_consumer(files: TableFiles, name: str, next_snapshot: int, *, restored: bool = False) -> None:
    """Note a consumer's progress; raises `Unavailable` where the table's directory is not there.

    The schemas of one that is being ``restored`` are written after all else, by who opens it.
    """
    if not restored:
        files.require_there()
    files.io.write(files.layout.consumer_file(name), json.dumps({"nextSnapshot": next_snapshot}).encode())


def delete_consumer(files: TableFiles, name: str) -> None:
    """Forget a consumer; one that is not there is fine."""
    files.io.delete(files.layout.consumer_file(name))
