"""Files of a table's directories that nothing refers to (`paimon-append.md` §6.8)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from model.schema.schema import Schema
from model.snapshot import Snapshot
from table.format.io.file_io import FileStatus
from table.format.io.patience import carried
from table.format.manifests.entries import EntryKind
from table.format.store import TableFiles
from table.retention.named_files import metadata_of
from table.scan.going_on import Check

_KEPT_IN_SNAPSHOT_DIR = ("snapshot-", "changelog-", "EARLIEST", "LATEST")


def names_in_use(files: TableFiles, snapshots: Iterable[Snapshot], check: Check) -> set[str]:
    """Names of every file any of the snapshots needs: a name in use is never removed, wherever it lies.

    Unlike Paimon, which takes every name a manifest still mentions for used, a file deleted before the earliest
    snapshot is an orphan: one is left where an expiry was killed.
    """
    used: set[str] = set()
    before: Snapshot | None = None
    for snapshot in sorted(snapshots, key=lambda s: s.id):
        check()
        used.update(path.rpartition("/")[2] for path, _ in metadata_of(files, snapshot))
        # What a snapshot has is what the one before it had and what it added itself; where none is before it, all it has.
        follows = before is not None and snapshot.id == before.id + 1
        entries = files.delta_entries(snapshot) if follows else files.live_entries(snapshot)
        for entry in entries:
            if entry.kind is EntryKind.ADD:
                used.add(entry.file.file_name)
                used.update(entry.file.extra_files)
        before = snapshot
    return used


def candidates(files: TableFiles, schema: Schema, *, threads: int, check: Check) -> Iterator[FileStatus]:
    """Every file that lies where only files in use may lie, whatever its age."""
    layout, io = files.layout, files.io
    for directory in (layout.manifest_dir(), layout.index_dir(), layout.statistics_dir()):
        yield from (status for status in io.list(directory) if not status.is_dir)
    for status in io.list(layout.snapshot_dir()):
        if not status.is_dir and not _name(status).startswith(_KEPT_IN_SNAPSHOT_DIR):
            yield status
    for directory in (layout.tag_dir(), layout.schema_dir(), layout.consumer_dir()):
        yield from (status for status in io.list(directory) if not status.is_dir and _is_half_written(_name(status)))
    yield from _below(files, layout.staging_dir())
    with ThreadPoolExecutor(max(1, threads), thread_name_prefix="orphans") as pool:
        for statuses in pool.map(carried(io.list), _bucket_dirs(files, layout.data_dir(schema), len(schema.partition_keys))):
            check()
            yield from (status for status in statuses if not status.is_dir)


def _name(status: FileStatus) -> str:
    return status.path.rpartition("/")[2]


def _is_half_written(name: str) -> bool:
    """Whether a file waits for its name, which a write that was killed did not give it."""
    return name.startswith(".") and name.endswith(".tmp")


def _below(files: TableFiles, directory: str) -> Iterator[FileStatus]:
    for status in files.io.list(directory):
        if status.is_dir:
            yield from _below(files, status.path)
        else:
            yield status


def _bucket_dirs(files: TableFiles, directory: str, levels: int) -> Iterator[str]:
    for status in files.io.list(directory):
        if not status.is_dir:
            continue
        if levels and "=" in _name(status):
            yield from _bucket_dirs(files, status.path, levels - 1)
        elif not levels and _name(status).startswith("bucket-"):
            yield status.path
