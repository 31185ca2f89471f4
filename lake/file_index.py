"""Giving the files of a table the indexes its options declare, without rewriting a row (`paimon-append.md` §9.1)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import uuid4

from lake.compaction import Commit
from lake.table import LakeTable
from model.errors import LakeError, OutcomeUnknown
from model.snapshot import CommitKind, Snapshot
from table.commit import CommitRequest
from table.file_index.build import FileIndexes, attached, index_of_file
from table.file_index.container import SUFFIX
from table.manifest import ManifestEntry, NewFile
from table.rewrite import Check, planned


def to_index(table: LakeTable, entries: Sequence[ManifestEntry]) -> list[ManifestEntry]:
    """The files that get another index: all the options declare one for, and those that lose theirs."""
    declared = {
        schema_id: FileIndexes.declared(table.schema, table.files.read_schema(schema_id)) is not None
        for schema_id in {entry.file.schema_id for entry in entries}
    }
    return [entry for entry in entries if declared[entry.file.schema_id] or _has_index(entry)]


def _has_index(entry: ManifestEntry) -> bool:
    return entry.file.embedded_file_index is not None or any(name.endswith(SUFFIX) for name in entry.file.extra_files)


def rebuild(commit: Commit, table: LakeTable, entries: Sequence[ManifestEntry], *, threads: int, check: Check) -> Snapshot:
    """Index the files anew and commit that as one rewrite; raises `RewriteConflict` where one of them is gone meanwhile."""
    made: list[NewFile] = []

    def one(entry: ManifestEntry) -> None:
        check()
        made.append(_indexed(table, entry))

    with ThreadPoolExecutor(threads, thread_name_prefix="file-index") as workers:
        running = [workers.submit(one, entry) for entry in entries]
    try:
        for future in running:
            future.result()
        check()
        request = CommitRequest(
            kind=CommitKind.COMPACT, adds=tuple(made), deletes=tuple(entries), commit_user=str(uuid4()), operation="REWRITE_FILE_INDEX"
        )
        return commit(table, request)
    except OutcomeUnknown:
        raise  # the snapshot may be there, and it may name these indexes
    except (LakeError, OSError):
        _discard(table, entries, made)
        raise


def _indexed(table: LakeTable, entry: ManifestEntry) -> NewFile:
    (file,) = planned(table.files, table.schema, [entry])
    container = index_of_file(table.files, table.schema, file)
    # A name of its own: two calls at once must not write, or remove, one file.
    name = f"{entry.file.file_name}-{uuid4()}{SUFFIX}"
    described = attached(table.files, table.schema, file.path, entry.file, container, name=name)
    return NewFile(partition=entry.partition, bucket=entry.bucket, file=described)


def _discard(table: LakeTable, entries: Sequence[ManifestEntry], made: Sequence[NewFile]) -> None:
    """Remove the new index files; the data files are the table's."""
    before = {entry.file.file_name: entry for entry in entries}
    for new in made:
        entry = before[new.file.file_name]
        fresh = set(new.file.extra_files) - set(entry.file.extra_files)
        for path in table.files.extra_paths(table.schema, replace(entry, file=replace(entry.file, extra_files=tuple(fresh)))):
            table.files.io.delete(path)
