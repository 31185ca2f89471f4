"""Whether what lies in a table's directory is the table's: another one's rows would stand under its name, grants and policies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from catalog import CatalogTransaction
from catalog.records import SnapshotRow
from lake.register.readable_line import read_snapshot
from lake.tables.handle import LakeTable
from model.errors import TableDamaged
from model.identifier import Identifier
from model.schema.schema import Schema
from model.snapshot import Snapshot
from model.text.sql_text import literal
from table.format.json_document import parse_json
from table.format.schema_file import NO_SCHEMA, made_millis
from table.format.store import TableFiles

_Schemas = Mapping[int, Mapping[str, Any]]


def require_own(
    tx: CatalogTransaction,
    table: LakeTable,
    registered: Iterable[Snapshot],
    history: Sequence[SnapshotRow],
    schemas: _Schemas,
    *,
    has_later: bool,
) -> None:
    """Raise `TableDamaged` where snapshots or later schemas that are to be registered are another table's, or written by other schemas.

    The files of those are all that tells how the snapshots are read, and would be written again as the catalog has them.
    """
    files, known = table.files, {row.snapshot_uuid for row in history}
    foreign = {snapshot.key: snapshot for snapshot in registered if snapshot.key not in known}
    if not foreign and not has_later:
        return
    is_own = has_own(files, history)
    if foreign and not is_own and (other := tx.snapshots.whose(list(foreign), but=table.table_id)) is not None:
        raise files.damaged(
            files.layout.snapshot_dir(),
            f"holds the snapshots of table {other} and none of its own; nothing was changed. Put the table's own directory back",
        )
    if not is_own and (path := other_schema(files, schemas)) is not None:
        place, register = way_out(table.identifier, table.location)
        raise files.damaged(
            path,
            "is another table's schema, and no snapshot here is of this one, which was dropped since or never lay here; nothing was "
            f"changed. Move the directory to {place} and {register}; what is left of this table can be dropped",
        )
    for snapshot in foreign.values():
        body = schemas.get(snapshot.schema_id)
        if body is not None and _is_other(files, snapshot.schema_id, body):
            raise files.damaged(
                files.layout.schema_file(snapshot.schema_id),
                f"is another schema than the catalog's, and snapshot {snapshot.id}, which the catalog lacks, was written by one of that "
                "number; nothing was changed. Where the file was changed since, remove it, and the catalog's is written again",
                snapshot_id=snapshot.id,
            )


def has_own(files: TableFiles, history: Sequence[SnapshotRow]) -> bool:
    """Whether one of the catalog's snapshots is among the files."""
    stored = ((row, read_snapshot(files, row.snapshot_id)) for row in reversed(history))
    return any(snapshot is not None and snapshot.key == row.snapshot_uuid for row, snapshot in stored)


def others_schema(tx: CatalogTransaction, table_id: UUID, branch: str, files: TableFiles) -> str | None:
    """The file of a schema that shows that another table lies in the place of a table or branch, which has no snapshot there."""
    path = other_schema(files, dict(tx.tables.schemas(table_id, branch)))
    return None if path is None or has_own(files, tx.snapshots.history(table_id, branch)) else path


def other_schema(files: TableFiles, schemas: _Schemas) -> str | None:
    """The file of the oldest schema where it is another table's; None where it is the catalog's, or none is there."""
    oldest = min(schemas, default=None)
    is_other = oldest is not None and _is_other(files, oldest, schemas[oldest])
    return files.layout.schema_file(oldest) if oldest is not None and is_other else None


def way_out(table: Identifier, location: str) -> tuple[str, str]:
    """Where a directory that is another table's may go, and the statement that registers it there."""
    place = f"{location.rstrip('/')}_found"
    other = Identifier(table.database, f"{table.table}_found")
    return place, f"CALL sys.register_table({literal(other.written())}, {literal(place)})"


def _is_other(files: TableFiles, schema_id: int, body: Mapping[str, Any]) -> bool:
    ours = Schema.from_json(body)
    try:
        stored = parse_json(files.io.read(files.layout.schema_file(schema_id)))
        return made_millis(stored) != ours.time_millis or Schema.from_json(stored).fields != ours.fields
    except (FileNotFoundError, TableDamaged, *NO_SCHEMA):  # damage, of whichever table
        return False
