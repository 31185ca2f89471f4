"""Directories of partitions without a file: their names are values of rows that were there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from model.schema.schema import Schema
from table.format.io.file_io import FileStatus
from table.format.store import TableFiles

_MARKERS = frozenset({"_SUCCESS", "._SUCCESS.crc", "_SUCCESS.crc"})
"""What says that no more rows come to a partition, and Hadoop's checksum of it."""


@dataclass(slots=True)
class EmptyDirectories:
    """Partitions without a file, as their directories are called."""

    gone: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    """Those of which the directory cannot be removed where it lies."""


def remove_empty_directories(
    files: TableFiles, schema: Schema, *, kept: Collection[str], dry_run: bool, check: Callable[[], None]
) -> EmptyDirectories:
    """Remove the directories of partitions in which no file lies, a marker apart, beside those that are ``kept``.

    Only a directory that holds nothing at that moment is removed: a writer whose directory goes before it has made its file makes
    it again.
    """
    sweep = _Sweep(files, kept, dry_run, check)
    if schema.partition_keys:
        sweep.partitions(files.layout.data_dir(schema), "", len(schema.partition_keys))
    return sweep.found


def remove_emptied(files: TableFiles, schema: Schema, paths: Iterable[str]) -> None:
    """Remove the directories of buckets and partitions in which deleted files lay and nothing lies any more.

    As Paimon's expiry does it (`FileDeletionBase.cleanEmptyDirectories`): a marker keeps its partition's directory.
    """
    emptied = {path.rpartition("/")[0] for path in paths}
    for _ in range(len(schema.partition_keys) + 1):
        below = (path for path in emptied if files.layout.is_below_data_dir(schema, path))
        emptied = {path.rpartition("/")[0] for path in below if files.io.remove_empty(path)}


class _Sweep:
    def __init__(self, files: TableFiles, kept: Collection[str], dry_run: bool, check: Callable[[], None]) -> None:
        self._io, self._kept, self._dry_run, self._check = files.io, frozenset(kept), dry_run, check
        self.found = EmptyDirectories()

    def partitions(self, directory: str, above: str, levels: int) -> bool:
        """Sweep what lies below a directory of so many levels of partitions; False where something stays in it."""
        everything = True
        for status in self._io.list(directory):
            name = status.path.rpartition("/")[2]
            if not status.is_dir or "=" not in name:
                everything = False
                continue
            self._check()
            partition = f"{above}{name}"
            if levels > 1:
                empty = self.partitions(status.path, f"{partition}/", levels - 1)
                everything &= empty and self._removed(status.path, partition)
            else:
                everything &= partition not in self._kept and self._partition(status.path, partition)
        return everything

    def _partition(self, directory: str, partition: str) -> bool:
        markers, buckets = [], []
        for status in self._io.list(directory):
            name = status.path.rpartition("/")[2]
            if not status.is_dir and name in _MARKERS:
                markers.append(status.path)
            elif status.is_dir and name.startswith("bucket-") and not self._io.list(status.path):
                buckets.append(status.path)
            else:
                return False
        if not self._dry_run:
            if not all(self._io.remove_empty(bucket) for bucket in buckets):
                return self._stays(directory, partition)
            for marker in markers:
                self._io.delete(marker)
        return self._removed(directory, partition)

    def _removed(self, directory: str, partition: str) -> bool:
        if not self._dry_run and not self._io.remove_empty(directory):
            return self._stays(directory, partition)
        self.found.gone.add(partition)
        return True

    def _stays(self, directory: str, partition: str) -> bool:
        """It is told of unless it has a file by now."""
        if all(status.is_dir for status in self._below(directory)):
            self.found.left.add(partition)
        return False

    def _below(self, directory: str) -> list[FileStatus]:
        statuses = self._io.list(directory)
        return [*statuses, *(below for status in statuses if status.is_dir for below in self._io.list(status.path))]
