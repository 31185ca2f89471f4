"""Files copied from one store to another, each whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from table.format.io.file_io import FileIO
from table.format.io.storage_errors import translating

_CHUNK = 8 << 20


@dataclass(frozen=True, slots=True)
class Copy:
    """A file to copy."""

    source: str
    target: str
    changes: bool = False
    """Whether another file may come to have its name, so that one of the same size need not be the same."""


@dataclass(slots=True)
class Copied:
    """What was done."""

    files: int = 0
    size: int = 0
    there: int = 0
    """Files that were there already."""
    missing: list[str] = field(default_factory=list)
    """Sources that are not there."""


def copy_files(copies: Iterable[Copy], *, source: FileIO, target: FileIO, threads: int) -> Copied:
    """Copy all that is not there yet, and flush it; what has no source is listed and passed over.

    Raises `StorageFull` or `Unavailable` naming the path; what was copied by then stays.
    """
    done = Copied()
    written: list[str] = []
    todo = list(copies)
    with ThreadPoolExecutor(max(1, threads), thread_name_prefix="copy") as pool:
        for copy, size in zip(todo, pool.map(lambda one: _copied(one, source, target), todo), strict=True):
            if size is None:
                done.missing.append(copy.source)
            elif size < 0:
                done.there += 1
            else:
                done.files += 1
                done.size += size
                written.append(copy.target)
    target.sync(written)
    return done


def _copied(copy: Copy, source: FileIO, target: FileIO) -> int | None:
    """Bytes copied; -1 where it is there, None where its source is not."""
    try:
        size = source.size(copy.source)
    except FileNotFoundError:
        return None
    if copy.changes:
        target.write(copy.target, source.read(copy.source))
        return size
    try:
        if target.size(copy.target) == size:
            return -1
    except FileNotFoundError:
        target.mkdirs(copy.target.rpartition("/")[0])
    part = f"{copy.target}.part" if target.atomic_rename else copy.target
    try:
        if part != copy.target:
            target.delete(part)  # what was left of another attempt, or a link that somebody put there
        with (
            translating(copy.source),
            source.arrow().open_input_stream(source.arrow_path(copy.source)) as reading,
            translating(copy.target),
            target.arrow().open_output_stream(target.arrow_path(part)) as writing,
        ):
            while data := reading.read(_CHUNK):
                writing.write(data)
    except FileNotFoundError:  # gone since it was looked at
        return None
    if target.atomic_rename:
        target.rename(part, copy.target)
    return size
