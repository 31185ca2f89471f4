"""Files of schemas, snapshots and tags that are there and are not what the catalog has under their names: cut off, changed, replaced.

SQL does not need them, whoever reads the files past the catalog does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from catalog.records import SnapshotRow, TagRow
from lake.tables.tag_files import tag_bytes, tag_in
from model.errors import TableDamaged
from model.schema.schema import Schema
from model.snapshot import Snapshot
from table.format.json_document import parse_json
from table.format.schema_file import schema_bytes
from table.format.snapshot_file import same_snapshot, snapshot_bytes
from table.format.store import TableFiles

_NOT_WHAT_IT_WAS = (ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """A file that holds something else, or nothing, and what it held."""

    path: str
    data: bytes
    problem: str
    number: int
    """Of the schema or snapshot that it told."""
    snapshot_id: int | None = None
    """The snapshot that it is the file of."""


def changed_schemas(files: TableFiles, schemas: Iterable[tuple[int, Mapping[str, Any]]]) -> Iterator[ChangedFile]:
    """Of a branch's schemas those whose files tell another one, or none."""
    for schema_id, body in schemas:
        path = files.layout.schema_file(schema_id)
        try:
            same = Schema.from_json(parse_json(files.io.read(path))) == Schema.from_json(body)
        except FileNotFoundError:
            if not files.io.exists(path):
                continue
            same = False  # a directory
        except (*_NOT_WHAT_IT_WAS, TableDamaged):
            same = False
        if not same:
            yield ChangedFile(path=path, data=schema_bytes(body), problem="is not the catalog's schema", number=schema_id)


def changed_snapshots(files: TableFiles, history: Sequence[SnapshotRow]) -> Iterator[ChangedFile]:
    """Of a branch's snapshots, as far as they are published, those in whose place another one or none lies."""
    there = set(files.snapshot_ids())
    for row in history:
        if row.published and row.snapshot_id in there:
            yield from changed_snapshot(files, row)


def changed_snapshot(files: TableFiles, row: SnapshotRow) -> Iterator[ChangedFile]:
    """The file in a snapshot's place, where it is another one's or none."""
    snapshot, problem = Snapshot.from_json(row.body), "is no snapshot"
    try:
        stored = files.read_snapshot(row.snapshot_id)
        if stored == snapshot:
            return
        if stored is not None:
            problem = "is not as the catalog has it" if same_snapshot(stored, snapshot) else "is another snapshot than the catalog's"
    except TableDamaged:
        pass
    path = files.layout.snapshot_file(row.snapshot_id)
    yield ChangedFile(path=path, data=snapshot_bytes(snapshot), problem=problem, number=snapshot.id, snapshot_id=snapshot.id)


def changed_tags(files: TableFiles, tags: Sequence[TagRow]) -> Iterator[ChangedFile]:
    """Of a branch's tags those whose files are none or missing; another snapshot in one is a client's change.

    Those that clients removed are the catalog's no more once `lake.tables.tags` has taken that in.
    """
    for tag in tags:
        path = files.layout.tag_file(tag.name)
        if tag.published and not _is_tag(files, tag.name):
            number, problem = int(tag.snapshot["id"]), "is no tag" if files.io.exists(path) else "is missing"
            yield ChangedFile(path=path, data=tag_bytes(tag), problem=problem, number=number, snapshot_id=number)


def _is_tag(files: TableFiles, name: str) -> bool:
    try:
        return tag_in(files, name) is not None
    except TableDamaged:  # such as a link that leads out of the table
        return False
