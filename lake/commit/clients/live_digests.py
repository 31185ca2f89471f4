"""What is live in a table where a client's commit is held against it: digests, by which no file is removed or added twice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b

from model.schema.schema import Schema
from model.snapshot import Snapshot
from table.format.layout import has_two_directories
from table.format.manifests.columns import digest_of
from table.format.manifests.entries import ManifestEntry
from table.format.rows import binary_row
from table.format.store import TableFiles

BYTES_A_FILE = 320
"""About what `Live` takes for each."""


class Live:
    """The files of a snapshot, as digests; dictionaries, as of those a copy takes a quarter of a set's time."""

    __slots__ = ("_files_at", "_keys")

    def __init__(self, keys: dict[bytes, bytes] | None = None, files_at: dict[bytes, int] | None = None) -> None:
        self._keys = keys or {}
        """Each entry's key, and the path of its file: what a commit removes is one of them, as it was added."""
        self._files_at = files_at or {}
        """How many entries lead to a path: one, as a file is read once, whatever its entry tells of it, but in tables of old damage."""

    def __len__(self) -> int:
        return len(self._keys)

    def has(self, key: bytes) -> bool:
        """Whether an entry of this key is live."""
        return key in self._keys

    def lies_at(self, path: bytes) -> bool:
        """Whether a live file lies there."""
        return path in self._files_at

    def add(self, key: bytes, path: bytes) -> None:
        """One entry more."""
        self._keys[key] = path
        self._files_at[path] = self._files_at.get(path, 0) + 1

    def remove(self, key: bytes) -> None:
        """One that is live goes."""
        path = self._keys.pop(key)
        self._files_at[path] -= 1
        if not self._files_at[path]:
            del self._files_at[path]

    def copy(self) -> Live:
        """One that may be changed."""
        return Live(self._keys.copy(), self._files_at.copy())


def live_in(files: TableFiles, schema: Schema, snapshot: Snapshot) -> Live:
    """What is live in a snapshot."""
    live = Live()
    for entry, path in data_paths(files, schema, files.live_entries(snapshot)):
        live.add(digest_of(entry), path_digest(path))
    return live


def data_paths(files: TableFiles, schema: Schema, entries: Iterable[ManifestEntry]) -> Iterator[tuple[ManifestEntry, str]]:
    """Entries, each with where its file lies (`TableFiles.data_path`); the directory of a bucket is made out once."""
    types = [field.type for field in schema.partition_fields]
    directories: dict[tuple[bytes, int], str | None] = {}
    for entry in entries:
        bucket = (entry.partition, entry.bucket)
        if bucket not in directories:
            values = binary_row.decode(types, entry.partition)
            directories[bucket] = None if has_two_directories(values) else files.layout.bucket_dir(schema, values, entry.bucket)
        directory = directories[bucket]
        if directory is None or entry.file.external_path is not None:
            yield entry, files.data_path(schema, entry)
        else:
            yield entry, files.reach.named(directory, entry.file.file_name)


def path_digest(path: str) -> bytes:
    """128 bits of where a file lies."""
    return blake2b(path.encode(), digest_size=16).digest()
