"""Giving the files of a table the indexes its options declare, without rewriting a row (`paimon-append.md` §9.1)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import uuid4

from lake.commit.write_context import Write
from lake.rewrite.compaction import Commit, in_order
from lake.tables.handle import LakeTable
from model.snapshot import CommitKind, Snapshot
from table.compaction.rewrite import planned
from table.format.io.patience import carried
from table.format.manifests.entries import ManifestEntry, NewFile
from table.index.build import FileIndexes, attached, index_of_file
from table.index.checksum import CHECKSUM_ALONE_BYTES
from table.index.container import SUFFIX
from table.scan.going_on import Check


def to_index(table: LakeTable, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """The files that get another index: all the options declare one for, and those that lose theirs."""
    declared = {
        schema_id: FileIndexes.declared(table.schema, table.files.read_schema(schema_id)) is not None
        for schema_id in {entry.file.schema_id for entry in entries}
    }
    return [entry for entry in entries if declared[entry.file.schema_id] or _has_index(entry)]


def _has_index(entry: ManifestEntry) -> bool:
    embedded = entry.file.embedded_file_index
    return (embedded is not None and len(embedded) != CHECKSUM_ALONE_BYTES) or any(name.endswith(SUFFIX) for name in entry.file.extra_files)


def rebuild(commit: Commit, table: LakeTable, entries: Sequence[ManifestEntry], *, threads: int, check: Check) -> Snapshot:
    """Index the files anew and commit that as one rewrite, which names them in the order of the entries.

    Raises `RewriteConflict` where one of them is gone meanwhile.
    """
    with table.write() as write:

        def one(entry: ManifestEntry) -> NewFile:
            check()
            return _indexed(table, write, entry)

        with ThreadPoolExecutor(threads, thread_name_prefix="file-index") as workers:
            running = [workers.submit(carried(one), entry) for entry in entries]
        made = [future.result() for future in running]
        check()
        request = write.request(CommitKind.COMPACT, adds=made, deletes=tuple(entries), operation="REWRITE_FILE_INDEX")
        return in_order(commit, table, commit(table, request), entries)


def _indexed(table: LakeTable, write: Write, entry: ManifestEntry) -> NewFile:
    (file,) = planned(table.files, table.schema, [replace(entry, vector=None)])  # an index numbers deleted rows, too
    container = index_of_file(table.files, table.schema, file)
    # A name of its own: two calls at once must not write, or remove, one file.
    name = f"{entry.file.file_name}-{uuid4()}{SUFFIX}"
    write.add_paths([f"{file.path.rpartition('/')[0]}/{name}"])  # the data file is the table's, its new index the write's
    described = attached(table.files, table.schema, file.path, entry.file, container, name=name)
    return NewFile(partition=entry.partition, bucket=entry.bucket, file=described)
