"""Consumers: how far stream readers have come (`paimon-append.md` §1.3, 6.9)."""

from __future__ import annotations

import contextlib
import json
from dataclasses import dataclass

from table.format.store import TableFiles

_PREFIX = "consumer-"
_NO_CONSUMER = (ValueError, KeyError, TypeError)
_ATTEMPTS, _PAUSE_SECONDS = 5, 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """A stream reader's progress; what it has not read yet is kept for it."""

    name: str
    next_snapshot: int
    updated_millis: int
    """When it last told its progress, in milliseconds since the epoch."""


def read_consumers(files: TableFiles) -> list[Consumer]:
    """All consumers of a table, by name; a file being written at this moment is left out."""
    consumers = []
    for status in _files(files):
        with contextlib.suppress(FileNotFoundError, *_NO_CONSUMER):
            following = _next_snapshot(files, status.path)
            name = status.path.rpartition("/")[2].removeprefix(_PREFIX)
            consumers.append(Consumer(name=name, next_snapshot=following, updated_millis=status.mtime_millis))
    return consumers


def told_at(files: TableFiles, name: str) -> int | None:
    """When a consumer last told its progress, in milliseconds since the epoch; None for one that is not there."""
    for status in files.io.list(files.layout.consumer_dir()):
        if not status.is_dir and status.path.rsplit("/", 1)[-1] == f"{_PREFIX}{name}":
            return status.mtime_millis
    return None


def write_consumer(files: TableFiles, name: str, next_snapshot: int) -> None:
    """Note a consumer's progress."""
    files.io.write(files.layout.consumer_file(name), json.dumps({"nextSnapshot": next_snapshot}).encode())


def delete_consumer(files: TableFiles, name: str) -> None:
    """Forget a consumer; one that is not there is fine."""
    files.io.delete(files.layout.consumer_file(name))
