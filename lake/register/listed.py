"""What a table's listings tell of damage: files of snapshots and schemas that are missing or changed, lists and manifests that are cut off.

It costs three listings, and reads the newest snapshot with its two lists; nobody need read the table for it. Data files are not looked at:
that is `sys.check_table`'s, and `sluice check`'s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from catalog import CatalogStore
from catalog.records import SnapshotRow
from lake.register.changed import changed_schemas, changed_snapshot
from lake.register.damage import live_name
from model.damage import MISSING
from model.errors import TableDamaged
from model.schema.schema import DIRECTORY_KINDS, other_kind
from model.snapshot import Snapshot
from table.format.schema_file import schema_bytes
from table.format.store import TableFiles


def listed_damage(catalog: CatalogStore, table_id: UUID, files: TableFiles) -> tuple[str, str, int | None] | None:
    """The first file of a table's branch that is not as the catalog has it, what is wrong with it, and the snapshot that names it.

    What the catalog has is asked for before a listing, and again before anything is told: files may expire in between, and a snapshot may
    be rolled back and another one get its id. Raises `TableDamaged` for a list that cannot be read.
    """
    branch = files.layout.branch
    with catalog.consistent() as tx:
        row = tx.tables.by_id(table_id)
        if row is None or row.moving_from is not None or other_kind(row.schema["options"]) in DIRECTORY_KINDS:
            return None
        unpublished = tx.tables.unpublished_schemas(table_id, branch)
        schemas = tx.tables.schemas(table_id, branch)
        ids = [snapshot_id for snapshot_id, published in tx.snapshots.ids(table_id, branch) if published]
        newest = tx.snapshots.latest(table_id, branch)
    on_their_way = {int(body["id"]) for body in unpublished.bodies} if unpublished is not None else set()
    published = [(number, body) for number, body in schemas if number not in on_their_way]
    faults = [*_of_schemas(files, published), *_of_snapshots(files, ids, newest)]
    if newest is not None and newest.published:
        try:
            faults += _of_manifests(files, Snapshot.from_json(newest.body))
        except TableDamaged:
            if _stands(catalog, table_id, branch, newest.snapshot_id, key=newest.snapshot_uuid):
                raise
    for path, problem, snapshot_id in faults:
        if path == row.diverged_at:  # the catalog stops commits over it, and `Standing` tells so
            continue
        key = newest.snapshot_uuid if newest is not None and newest.snapshot_id == snapshot_id else None
        if snapshot_id is not None and not _stands(catalog, table_id, branch, snapshot_id, key=key):
            continue
        if live_name(catalog, files.io, table_id, files.location, path) is not None and (
            problem != MISSING or not files.io.file_exists(path)
        ):
            return path, problem, snapshot_id
    return None


def _stands(catalog: CatalogStore, table_id: UUID, branch: str, snapshot_id: int, *, key: str | None) -> bool:
    """Whether the catalog has a snapshot of that id still, of that ``key``, and its file was there."""
    with catalog.reading() as tx:
        row = tx.snapshots.get(table_id, branch, snapshot_id)
    return row is not None and row.published and (key is None or row.snapshot_uuid == key)


_Found = Iterator[tuple[str, str, int | None]]


def _of_schemas(files: TableFiles, schemas: list[tuple[int, Mapping[str, Any]]]) -> _Found:
    sizes = {status.path.rpartition("/")[2]: status.size for status in files.io.list(files.layout.schema_dir())}
    for number, body in schemas:
        path = files.layout.schema_file(number)
        size = sizes.get(path.rpartition("/")[2])
        if size is None:
            yield path, MISSING, None
        elif size != len(schema_bytes(body)):  # one that Paimon wrote may be, too
            yield from ((changed.path, changed.problem, None) for changed in changed_schemas(files, [(number, body)]))


def _of_snapshots(files: TableFiles, ids: list[int], newest: SnapshotRow | None) -> _Found:
    """A missing beginning is what a client expired, who never takes the newest."""
    there = set(files.snapshot_ids())
    first = min((snapshot_id for snapshot_id in ids if snapshot_id in there), default=None)  # older files are of what the catalog forgot
    for snapshot_id in ids:
        is_newest = newest is not None and snapshot_id == newest.snapshot_id
        if snapshot_id not in there and (is_newest or (first is not None and snapshot_id > first)):
            yield files.layout.snapshot_file(snapshot_id), MISSING, snapshot_id
    if newest is not None and newest.published and newest.snapshot_id in there:
        yield from ((changed.path, changed.problem, changed.snapshot_id) for changed in changed_snapshot(files, newest))


def _of_manifests(files: TableFiles, newest: Snapshot) -> _Found:
    sizes = {status.path.rpartition("/")[2]: status.size for status in files.io.list(files.layout.manifest_dir())}
    lists = ((newest.base_manifest_list, newest.base_manifest_list_size), (newest.delta_manifest_list, newest.delta_manifest_list_size))
    expected: dict[str, int | None] = dict(lists)
    if all(name in sizes and size in (None, sizes[name]) for name, size in lists):
        expected |= {meta.file_name: meta.file_size for name, size in lists for meta in files.apart().manifest_list(name, size)}
    if newest.index_manifest is not None:
        expected[newest.index_manifest] = None
    for name, size in expected.items():
        if name not in sizes:
            yield files.layout.manifest(name), MISSING, newest.id
        elif size is not None and sizes[name] != size:
            yield files.layout.manifest(name), f"has {sizes[name]:,} bytes and is to have {size:,}", newest.id
