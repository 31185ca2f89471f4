"""Files copied from one store to another, each whole or not at all."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

from model.errors import LakeError
from table.format.io.file_io import FileIO, local_path
from table.format.io.storage_errors import never_given, never_taken, translating

_CHUNK = 8 << 20
Content = tuple[str, int]
"""The SHA-256 of a file's bytes, in hexadecimal digits, and how many they are."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A file to copy."""

    source: str
    target: str
    changes: bool = False
    """Whether another file may come to have its name, so that one of the same size need not be the same."""
    elsewhere: bool = False
    """Whether its place is not this server's, so that it may be one where nothing can be written."""
    content: Content | None = None
    """What it must hold, and nothing else is put in its place; None where that may be anything."""


@dataclass(slots=True)
class Copied:
    """What was done."""

    files: int = 0
    size: int = 0
    there: int = 0
    """Files that were there already."""
    missing: list[str] = field(default_factory=list)
    """Sources that are not there."""
    unreadable: list[LakeError] = field(default_factory=list)
    """What the source's disk says of files that it does not give."""
    other: list[str] = field(default_factory=list)
    """Sources that hold other bytes than they must."""
    refused: list[tuple[str, LakeError]] = field(default_factory=list)
    """Places elsewhere that take no file, and why."""


def copy_files(copies: Iterable[Copy], *, source: FileIO, target: FileIO, threads: int) -> Copied:
    """Copy all that is not there yet, and flush it.

    What has no source, or one that its disk does not give or that holds other bytes, and what a place elsewhere does not take, is listed
    and passed over.
    Raises `StorageFull` or `Unavailable` naming the path for all else; what was copied by then stays.
    """
    done = Copied()
    durable: set[str] = set()
    todo = list(copies)
    with ThreadPoolExecutor(max(1, threads), thread_name_prefix="copy") as pool:
        for copy, size in zip(todo, pool.map(lambda one: _copied(one, source, target), todo), strict=True):
            if isinstance(size, LakeError) and size.place != local_path(copy.source):
                done.refused.append((copy.target, size))
            elif isinstance(size, LakeError):
                done.unreadable.append(size)
            elif size is None:
                done.missing.append(copy.source)
            elif size == "other":
                done.other.append(copy.source)
            elif size < 0:
                done.there += 1
                durable.add(copy.target.rpartition("/")[0])  # a copy that was killed flushed the file, and not yet its name
            else:
                done.files += 1
                done.size += size
                durable.add(copy.target)
    target.sync(sorted(durable))
    return done


def _copied(copy: Copy, source: FileIO, target: FileIO) -> int | LakeError | Literal["other"] | None:
    """Bytes copied; -1 where it is there, None where its source is not, the error of what is passed over, or that its bytes are others."""
    try:
        if not copy.changes:
            return _copied_once(copy, source, target)
        data = source.read(copy.source)
        target.write(copy.target, data)
    except FileNotFoundError:  # also: gone since it was looked at
        return None
    except _OtherBytes:
        return "other"
    except LakeError as problem:
        if never_given(problem) if problem.place == local_path(copy.source) else copy.elsewhere and never_taken(problem) is not None:
            return problem
        raise
    return len(data)


def _copied_once(copy: Copy, source: FileIO, target: FileIO) -> int:
    """Bytes copied, -1 where as many are there; the target appears whole where a rename is one step, and else goes where it is not."""
    size = source.size(copy.source) if copy.content is None else copy.content[1]
    try:
        if target.size(copy.target) == size and _holds(copy, target):
            return -1
    except FileNotFoundError:
        target.mkdirs(copy.target.rpartition("/")[0])
    if copy.content is not None and source.size(copy.source) != size:
        raise _OtherBytes  # before anything is written: without a rename it would be in the place of what is there
    part = f"{copy.target}.part" if target.atomic_rename else copy.target
    if part != copy.target:
        target.delete(part)  # what was left of another attempt, or a link that somebody put there
    with translating(local_path(copy.source)):  # before anything is written, or removed
        reading = source.arrow().open_input_stream(source.arrow_path(copy.source))
    try:
        _stream(copy, reading, part, target)
    except BaseException:
        with contextlib.suppress(LakeError):  # else a store has half of it under its name
            target.delete(part)
        raise
    if target.atomic_rename:
        target.sync([part])  # what has its name is taken for whole by the next copy, also after a power cut
        target.rename(part, copy.target)
    return size


def _holds(copy: Copy, target: FileIO) -> bool:
    """Whether what is there of the right size is what must be, as far as that is known.

    Without a rename earlier versions wrote bytes under the name before they knew all, and may have been killed before they removed them.
    """
    return copy.content is None or target.atomic_rename or digest_of(target, copy.target) == copy.content


class _OtherBytes(Exception):
    """A file does not hold what it must."""


def _stream(copy: Copy, reading: pa.NativeFile, to: str, target: FileIO) -> None:
    """Copy the bytes, and close what is read; errors name the file they are about.

    The end is written once all is known to be what it must be: whoever is killed before has left fewer bytes, which are copied again.
    """
    digest = hashlib.sha256()
    with reading, translating(to), target.arrow().open_output_stream(target.arrow_path(to)) as writing:
        data = _next(reading, copy.source)
        while True:
            if copy.content is not None:
                digest.update(data)
            following = _next(reading, copy.source) if data else b""
            if not following and copy.content is not None and digest.hexdigest() != copy.content[0]:
                raise _OtherBytes
            writing.write(data)
            if not following:
                return
            data = following


def digest_of(io: FileIO, path: str) -> Content:
    """What a file holds; raises `FileNotFoundError`."""
    digest, size = hashlib.sha256(), 0
    with translating(local_path(path)), io.arrow().open_input_stream(io.arrow_path(path)) as reading:
        while data := _next(reading, path):
            digest.update(data)
            size += len(data)
    return digest.hexdigest(), size


def _next(reading: pa.NativeFile, path: str) -> bytes:
    with translating(local_path(path)):
        return bytes(reading.read(_CHUNK))
