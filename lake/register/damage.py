"""Whether a file that is not there is missed: by a snapshot, a tag or a branch that is alive, or by nobody any more."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from uuid import UUID

from catalog import CatalogStore
from lake.register.known_lines import known_lines
from model.errors import LakeError
from model.identifier import MAIN_BRANCH
from model.snapshot import Snapshot
from model.text.whole_number import whole_number
from table.format.io.file_io import FileIO
from table.format.layout import TableLayout
from table.format.manifests.entries import EntryKind
from table.format.store import TableFiles

_SCHEMA, _SNAPSHOT = "schema-", "snapshot-"


def live_name(catalog: CatalogStore, io: FileIO, table_id: UUID, location: str, path: str) -> int | None:
    """The snapshot alive now that names a file, 0 where the file is named otherwise; None where it may have expired.

    The catalog is asked anew: an expiry forgets its snapshots before their files go, so that what a reader misses because of
    one is named by nothing any more.
    """
    name = path.rpartition("/")[2]
    with catalog.consistent() as tx:
        if tx.tables.by_id(table_id) is None:
            return None
        if name.startswith(_SCHEMA):
            branches = [MAIN_BRANCH, *tx.branches.names(table_id)]
            number = whole_number(name.removeprefix(_SCHEMA), most=2**31 - 1)
            # Each branch has schemas of its own: another's of that number says nothing of this one.
            known = number is not None and any(
                TableLayout(location, branch).schema_file(number) == path and tx.tables.schema(table_id, number, branch) is not None
                for branch in branches
            )
            return 0 if known else None
        number = whole_number(name.removeprefix(_SNAPSHOT), most=2**63 - 1) if name.startswith(_SNAPSHOT) else None
        if number is not None:
            branches = [MAIN_BRANCH, *tx.branches.names(table_id)]
            of = [branch for branch in branches if TableLayout(location, branch).snapshot_file(number) == path]
            return 0 if any(tx.snapshots.get(table_id, branch, number) is not None for branch in of) else None
        lines = known_lines(tx, table_id)
    files = TableFiles(io, location)  # one that asks nobody: what else is missing is not the question
    for line in lines:
        for snapshot in reversed(line):
            if name in metadata_names(snapshot) or name in _manifests(files, snapshot):
                return snapshot.id
    return next(filter(None, (_holds(files, line, name) for line in lines if line)), None)


def metadata_names(snapshot: Snapshot) -> list[str]:
    """The files a snapshot itself names."""
    named = (
        snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list,
        snapshot.index_manifest, snapshot.statistics,
    )  # fmt: skip
    return [name for name in named if name is not None]


def _manifests(files: TableFiles, snapshot: Snapshot) -> Iterator[str]:
    for name in (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.changelog_manifest_list):
        with contextlib.suppress(LakeError):
            yield from (meta.file_name for meta in (files.manifest_list(name) if name else ()))
    with contextlib.suppress(LakeError):
        yield from (
            str(entry["_FILE_NAME"]) for entry in (files.index_manifest(snapshot.index_manifest) if snapshot.index_manifest else ())
        )


def _holds(files: TableFiles, line: Sequence[Snapshot], name: str) -> int | None:
    """The newest snapshot of a line that has a data file: the last one of all, or the one before the commit that removed it."""
    newest = line[-1]
    for lists in (newest.base_manifest_list, newest.delta_manifest_list):
        with contextlib.suppress(LakeError):
            for meta in files.manifest_list(lists):
                with contextlib.suppress(LakeError):
                    for entry in files.manifest(meta):
                        if name in (entry.file.file_name, *entry.file.extra_files) and not _removed(files, newest, name):
                            return newest.id
    for before, snapshot in zip(line[-2::-1], line[:0:-1], strict=True):
        with contextlib.suppress(LakeError):
            if any(entry.kind is EntryKind.DELETE and entry.file.file_name == name for entry in files.delta_entries(snapshot)):
                return before.id
    return None


def _removed(files: TableFiles, snapshot: Snapshot, name: str) -> bool:
    with contextlib.suppress(LakeError):
        return all(name not in (entry.file.file_name, *entry.file.extra_files) for entry in files.live_entries(snapshot))
    return False
