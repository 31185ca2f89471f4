"""Snapshot and tag files whose operation Paimon cannot parse are written again (`docs/decisions/snapshot-operations.md`).

Versions up to 0.1 wrote words of their own into ``operation``, and readers since Paimon 2.0 fail on a table that has one such file.
This is the one case in which the file of a decided snapshot is overwritten: the snapshot stays the same, its uuid and manifests too.
The file comes first and the row in Postgres after it: a row that still holds the old word is what is left to do, so whoever was killed
in between is followed by somebody who finds the file done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from catalog import CatalogStore
from lake.tables.handle import LakeTable
from model.errors import TableNotExist
from model.identifier import Identifier
from model.snapshot import OPERATION, Operation, Snapshot
from table.format.json_document import parse_json
from table.format.store import TableFiles

_BATCH = 200
"""Files that are written under one lock of the table's retention: an expiry waits for no more."""


def rewrite_operations(files: TableFiles, snapshots: Iterable[Snapshot]) -> None:
    """Write the files of those snapshots again whose operation only their properties may hold, where they still say otherwise."""
    for snapshot in snapshots:
        if OPERATION in snapshot.properties:
            rewrite_operation(files, files.layout.snapshot_file(snapshot.id), snapshot)


def rewrite_all(catalog: CatalogStore, table: LakeTable, step: Callable[[str], object]) -> int:
    """Bring a table's or branch's files and rows to words of Paimon; returns how many rows were otherwise.

    ``step`` is called after each file. Raises `TableNotExist` where the table is dropped, renamed or moved meanwhile.
    """
    done = 0
    while changed := _rewrite_some(catalog, table, step):
        done += changed
    return done


def _rewrite_some(catalog: CatalogStore, table: LakeTable, step: Callable[[str], object]) -> int:
    files, name, id_ = table.files, table.identifier, table.table_id
    with catalog.transaction() as tx:
        # Nothing expires, is rolled back, dropped or moved meanwhile: no file is written that is no more.
        if tx.tables.lock_retention(Identifier(name.database, name.table)) != (id_, table.location):
            raise TableNotExist(str(name))
        snapshots = tx.snapshots.told_otherwise(id_, name.branch, tuple(Operation), most=_BATCH)
        tags = tx.tags.told_otherwise(id_, name.branch, tuple(Operation)) if not snapshots else []
        for row in snapshots:
            snapshot = Snapshot.from_json(row.body)
            if rewrite_operation(files, files.layout.snapshot_file(snapshot.id), snapshot):
                step("operation rewritten")
            tx.snapshots.tell(id_, name.branch, snapshot_id=snapshot.id, body=snapshot.to_json())
        for tag in tags:
            snapshot = Snapshot.from_json(tag.snapshot)
            if rewrite_operation(files, files.layout.tag_file(tag.name), snapshot):
                step("tag's operation rewritten")
            tx.tags.tell(id_, name.branch, tag.name, snapshot.to_json())
    return len(snapshots) + len(tags)


def rewrite_operation(files: TableFiles, path: str, snapshot: Snapshot) -> bool:
    """Write a snapshot's or tag's file again where its operation is none of Paimon's; False for one that is right, gone or another's."""
    try:
        body = parse_json(files.io.read(path))
        if not _told_otherwise(body):
            return False
        stored = Snapshot.from_json(body)
    except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):  # expired, or no snapshot
        return False
    if stored.key != snapshot.key:
        return False
    files.io.write(path, json.dumps(stored.to_json(), indent=2, ensure_ascii=False).encode())
    return True


def _told_otherwise(body: dict[str, Any]) -> bool:
    return body.get("operation") is not None and body["operation"] not in Operation.__members__
