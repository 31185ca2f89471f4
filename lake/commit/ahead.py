"""Whether a table's files tell of snapshots or schemas that the catalog lacks: it is older than its warehouse, or somebody wrote past it.

Later snapshots tell it, and so does another one in the place of the catalog's newest, or a newest one of the files that lies before it:
a newer catalog went back in history, or forward to a branch. A version of the schema alone tells of an ALTER: were its number given to
another, Paimon's readers would take the columns of the one for those of the other.

And whether they lack what was published: the newest snapshot's file is one that no client removes. Once a later one lies there, those that
are missing before it count as expired by a client (`lake.register.expired`), and what a consumer has not read of them would go.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future, wait
from functools import partial
from itertools import takewhile
from typing import Any, Literal
from uuid import UUID

from catalog import CatalogStore, CatalogTransaction
from catalog.records import SnapshotRow
from model.errors import TableDamaged
from model.schema.schema import DIRECTORY_KINDS, Schema, other_kind
from model.snapshot import Snapshot
from table.format.io.beside import begun
from table.format.io.directory import Directory
from table.format.schema_file import read_schema_file, tells_schema
from table.format.snapshot_file import same_snapshot, snapshot_bytes
from table.format.store import TableFiles

_log = logging.getLogger(__name__)


def later_file(files: TableFiles, newest: int) -> str | None:
    """The file of a snapshot after the newest one known: the next, or the one the hint names."""
    for snapshot_id in (newest + 1, files.read_hint(files.layout.latest_hint()) or 0):
        if snapshot_id > newest and files.io.file_exists(path := files.layout.snapshot_file(snapshot_id)):
            return path
    return None


def other_file(files: TableFiles, snapshot_id: int, key: str) -> str | None:
    """What tells that the published snapshot of this key is not the files' newest any more: another in its place, or an older one's hint.

    A file that is gone, or none at all, is damage and no other history.
    """
    stored = _stored(files, snapshot_id)
    return _other(files, snapshot_id, key, stored, None)


def _stored(files: TableFiles, snapshot_id: int) -> Snapshot | Literal["damaged"] | None:
    try:
        return files.read_snapshot(snapshot_id)
    except TableDamaged:
        return "damaged"


def _other(files: TableFiles, snapshot_id: int, key: str, stored: Snapshot | Literal["damaged"] | None, hint: int | None) -> str | None:
    """The same by the file of the snapshot, and by the hint of the newest one; it is read where it is None."""
    if stored == "damaged":
        return None
    if stored is not None:
        return files.layout.snapshot_file(snapshot_id) if stored.id == snapshot_id and stored.key != key else None
    if hint is None:
        hint = files.read_hint(files.layout.latest_hint()) or 0
    is_before = 0 < hint < snapshot_id and files.io.file_exists(files.layout.snapshot_file(hint))
    return files.layout.latest_hint() if is_before else None


def later_schemas(files: TableFiles, known: int) -> list[Schema]:
    """The versions of a branch's schema that files tell of numbers above one, oldest first, up to one that tells none.

    A number in between may be another branch's.
    """
    schemas: list[Schema] = []
    for schema_id in files.schema_ids():
        if schema_id > known:
            schema = read_schema_file(files.layout.schema_file(schema_id), files.io)
            if schema is None or schema.id != schema_id:
                break
            schemas.append(schema)
    return schemas


def may_be_ahead(files: TableFiles, newest: Snapshot | None, top_schema: int, *, listed: bool) -> bool:
    """Whether anything tells so at a first look, by what the catalog had a moment ago: the newest snapshot and the highest schema's number.

    Where schemas are not ``listed`` the next number alone is looked for.
    """
    io, newest_id = files.io, newest.id if newest else 0
    following = files.layout.snapshot_file(newest_id + 1)
    next_schema = files.layout.schema_file(top_schema + 1)
    later = begun(io, lambda: may_have_later_schema(files, top_schema) if listed else io.file_exists(next_schema))
    hint = begun(io, partial(files.read_hint, files.layout.latest_hint()))
    follows = begun(io, partial(io.file_exists, following))
    stored = None if newest is None else begun(io, partial(_stored, files, newest.id))
    looks: list[Future[Any]] = [later, hint, follows, *([] if stored is None else [stored])]
    wait(looks)
    if later.result() or follows.result():
        return True
    named = hint.result() or 0
    if named > newest_id + 1 and io.file_exists(files.layout.snapshot_file(named)):
        return True
    return newest is not None and stored is not None and _other(files, newest.id, newest.key, stored.result(), named) is not None


def may_have_later_schema(files: TableFiles, top_schema: int) -> bool:
    """The same of a branch's schemas alone."""
    return any(schema_id > top_schema for schema_id in files.schema_ids())


def ahead_of(tx: CatalogTransaction, table_id: UUID, files: TableFiles, row: SnapshotRow | None) -> str | None:
    """The file that tells of snapshots or schemas the catalog lacks, ``row`` being its newest snapshot; None where none does."""
    return _ahead_by_snapshots(tx, table_id, files, row) or _later_schema(tx, table_id, files)


def _later_schema(tx: CatalogTransaction, table_id: UUID, files: TableFiles) -> str | None:
    """The first file of a branch's schema whose number the catalog has given to none of the table's."""
    table, (top, _) = tx.tables.by_id(table_id), tx.tables.numbering(table_id)
    if table is None or other_kind(table.schema["options"]) in DIRECTORY_KINDS:  # what lies in such a directory is no table's
        return None
    first = next((schema_id for schema_id in files.schema_ids() if schema_id > top), None)
    if first is None:
        return None
    path = files.layout.schema_file(first)
    return path if tells_schema(first, path, files.io) else None


def _ahead_by_snapshots(tx: CatalogTransaction, table_id: UUID, files: TableFiles, row: SnapshotRow | None) -> str | None:
    """The file that tells of snapshots the catalog lacks.

    Of one whose publication is not noted another's file is no sign: whoever publishes it next looks into that. Nor is the file of a
    snapshot that is no more, whoever wrote it late or has still to remove it.
    """
    path = later_file(files, row.snapshot_id if row else 0)
    if path is not None or row is None or not row.published or (path := other_file(files, row.snapshot_id, row.snapshot_uuid)) is None:
        return path
    if path != files.layout.snapshot_file(row.snapshot_id):
        return path
    stored = files.read_snapshot(row.snapshot_id)
    if stored is None or same_snapshot(stored, Snapshot.from_json(row.body)) or is_no_more(tx, table_id, files, stored):
        return None
    return path


def is_no_more(tx: CatalogTransaction, table_id: UUID, files: TableFiles, stored: Snapshot) -> bool:
    """Whether a file is of a snapshot that is on record as rolled back: it is still to be removed, or was written late."""
    below = files.layout.below(files.layout.snapshot_file(stored.id))
    removed = tx.stale.mark_of_removed(table_id, below)
    is_late = removed is not None and all(stored.to_json().get(name) == value for name, value in removed.items())
    return is_late or below in tx.stale.paths(table_id)


def keep_aside(files: TableFiles, snapshot: Snapshot) -> None:
    """Keep a copy of a snapshot that the catalog has lost where a repair puts such."""
    directory = files.layout.set_aside_dir(str(time.time_ns() // 1_000_000))
    path = files.layout.reach.named(directory, files.layout.snapshot_name(snapshot.id))
    files.io.write(path, snapshot_bytes(snapshot))
    _log.warning(
        "The catalog has lost the commit of snapshot %d at %s, as in a failover, and decided another one, whose file is in place again; "
        "the lost one is kept as %s",
        snapshot.id, files.layout.snapshot_dir(), path,
    )  # fmt: skip


def with_lost(
    catalog: CatalogStore, table_id: UUID, files: TableFiles, branch: str, place: Directory, waiting: list[SnapshotRow]
) -> list[SnapshotRow]:
    """The snapshots that wait to be published, oldest first, with those that were, and whose files are lost with the newest's.

    Of the lost ones those behind the last that lacks its lists: nothing could be read of it, and there a client's expiry ends, though tags
    keep lists of some before it. ``waiting`` has at least one.
    """
    with catalog.reading() as tx:
        newest = tx.publications.newest_published([(table_id, branch)]).get((table_id, branch))
    if newest is None or place.exists(files.layout.snapshot_name(newest)) or not _note_lost(catalog, table_id, files, branch):
        return waiting
    with catalog.reading() as tx:
        return tx.publications.unpublished(table_id, branch, location=files.location)


def _note_lost(catalog: CatalogStore, table_id: UUID, files: TableFiles, branch: str) -> bool:
    with catalog.reading() as tx:
        rows = tx.snapshots.history(table_id, branch)
    there = set(files.snapshot_ids())
    newest = max((row.snapshot_id for row in rows if row.published), default=0)
    if max(there, default=0) >= newest:  # of a later one only the note is missing: who took those before it is not known
        return False
    earliest = files.read_hint(files.layout.earliest_hint()) or 0  # those before it a client expired, though a tag keeps their lists
    missing = [row for row in rows if row.published and row.snapshot_id not in there and row.snapshot_id >= earliest]
    lost = list(takewhile(lambda row: _has_lists(files, Snapshot.from_json(row.body)), reversed(missing)))  # a hint may be lost, too
    if lost:
        with catalog.transaction() as tx:
            tx.publications.lost(table_id, branch, [row.snapshot_uuid for row in lost])
        first, last = lost[-1].snapshot_id, lost[0].snapshot_id
        _log.warning("Files of snapshots %d to %d of %s were lost, also the newest's: they are written again", first, last, files.name)
    return bool(lost)


def _has_lists(files: TableFiles, snapshot: Snapshot) -> bool:
    names = (snapshot.base_manifest_list, snapshot.delta_manifest_list, snapshot.index_manifest)
    return all(files.io.file_exists(files.layout.manifest(name)) for name in names if name is not None)
