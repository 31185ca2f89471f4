"""Single tables and databases of an archive: what it says of them, and putting them into a catalog that goes on."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, LiteralString
from uuid import UUID

from psycopg import Connection, errors, sql

from catalog.backup.archive import WRITTEN_ANEW, ArchivedTable, ArchiveHead, connected, copy_in, head_of, opened
from model.errors import IllegalMove, InvalidData
from model.identifier import Identifier

Row = Mapping[str, str | None]
"""A row by column, in COPY's text form."""
_ESCAPES = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_ELEMENT = re.compile(r'"((?:[^"\\]|\\.)*)"|([^",]+)')
_OF_A_TABLE = (
    "table_schema", "table_snapshot", "snapshot_pointer", "table_branch", "table_tag", "table_partition", "table_policy", "access_grant",
    "stream_consumer", "compaction_run", "expired_snapshot",
)  # fmt: skip
"""What goes with a table, by its id."""
_CHANGED: dict[str, LiteralString] = {**WRITTEN_ANEW, "snapshot_pointer": "reserved_by = NULL, reserved_until = NULL"}
"""What is said anew of the rows that come back: nobody's turn is theirs any more."""


@dataclass(slots=True, kw_only=True)
class PartTable:
    """A table as an archive has it."""

    table_id: UUID
    name: Identifier
    location: str
    external: bool
    schemas: dict[str, dict[int, Mapping[str, Any]]] = field(default_factory=dict)
    """By branch and id."""
    snapshots: dict[str, list[Mapping[str, Any]]] = field(default_factory=dict)
    """By branch, in order."""
    tags: list[tuple[str, Mapping[str, Any]]] = field(default_factory=list)
    """Branch and snapshot."""
    allowed: Sequence[str] | None = ()
    """Where files of it may lie besides its directory; None for all import directories."""
    consumers: dict[str, dict[str, int]] = field(default_factory=dict)
    """How far those are that told a stream's progress, by branch and name."""
    dropped: bool = False
    """Whether it was dropped, and is kept."""

    @property
    def told(self) -> str:
        """What people call it."""
        return f"{self.name} (dropped)" if self.dropped else str(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A table of an archive, and what it shall be in the catalog."""

    of: PartTable
    table_id: UUID
    name: Identifier
    location: str


def archived_tables(path: Path, *, dropped: bool = False) -> list[PartTable]:
    """The tables an archive holds, on demand with those that were dropped and are kept.

    Raises `InvalidData`, also for one of an older schema.
    """
    with opened(path) as tar:
        head = head_of(tar, path)
        if not any(table.name == "table_entry" for table in head.tables):
            raise InvalidData(f"{path} was written by an older Sluice: restore it into an empty SLUICE_DATA and make a backup there.")
        parts = {_text(row, "table_id"): row for row in _rows(tar, head, "table_entry") if dropped or row["drop_id"] is None}
        called = _databases_called(tar, head) if dropped else {}  # once, as going back in the file unpacks it from its beginning
        tables = {table_id: _part(row, called) for table_id, row in parts.items()}
        for name, add in _ADDED.items():
            for row in _rows(tar, head, name):
                if (table := tables.get(_text(row, "table_id"))) is not None:
                    add(table, row)
    for table in tables.values():
        for line in table.snapshots.values():
            line.sort(key=lambda body: int(body["id"]))
    return sorted(tables.values(), key=lambda table: (table.name.database, table.name.table))


def archived_databases(path: Path) -> set[str]:
    """The databases an archive holds, but for those that were dropped; raises `InvalidData`."""
    with opened(path) as tar:
        rows = _rows(tar, head_of(tar, path), "database_entry")
        return {_text(row, "name") for row in rows if row["drop_id"] is None}


def no_database(name: str) -> IllegalMove:
    """The refusal of what would come into a database that is nowhere."""
    return IllegalMove(f"Neither the backup nor the catalog has a database {name}; nothing was changed.")


def _part(row: Row, called: Mapping[str, str]) -> PartTable:
    database, allowed = _text(row, "database"), row["allowed_locations"]
    return PartTable(
        table_id=UUID(row["table_id"]),
        name=Identifier(called.get(database, database), _text(row, "name")),
        location=_text(row, "location"),
        external=row["external"] == "t",
        allowed=None if allowed is None else _array(allowed),
        dropped=row["drop_id"] is not None,
    )


def _databases_called(tar: tarfile.TarFile, head: ArchiveHead) -> dict[str, str]:
    """What dropped databases were called, by the names that they are kept under."""
    names = {row["drop_id"]: row["database"] for row in _rows(tar, head, "drop_record")}
    dropped = [row for row in _rows(tar, head, "database_entry") if row["drop_id"] is not None]
    return {_text(row, "name"): name for row in dropped if (name := names.get(row["drop_id"])) is not None}


def _add_schema(table: PartTable, row: Row) -> None:
    table.schemas.setdefault(_text(row, "branch"), {})[int(_text(row, "schema_id"))] = json.loads(_text(row, "body"))


def _add_snapshot(table: PartTable, row: Row) -> None:
    table.snapshots.setdefault(_text(row, "branch"), []).append(json.loads(_text(row, "body")))


def _add_tag(table: PartTable, row: Row) -> None:
    table.tags.append((_text(row, "branch"), json.loads(_text(row, "snapshot"))))


def _add_consumer(table: PartTable, row: Row) -> None:
    if (following := row["next_snapshot"]) is not None:
        table.consumers.setdefault(_text(row, "branch"), {})[_text(row, "name")] = int(following)


_ADDED: dict[str, Callable[[PartTable, Row], None]] = {
    "table_schema": _add_schema,
    "table_snapshot": _add_snapshot,
    "table_tag": _add_tag,
    "stream_consumer": _add_consumer,
}
"""What is read of a table from each of the archive's."""


def restore_tables(
    dsn: str, path: Path, parts: Sequence[Part], *, databases: Sequence[str] = (), require_kept: Callable[[], object] = lambda: None
) -> None:
    """Add tables of an archive to a catalog, with their schemas, snapshots, branches, tags, grants and policies, all or none.

    Of ``databases`` come the views, functions and grants on the database, too. Databases that are not there are made. What was filled
    for a table in a directory of its own goes off the record of garbage; ``require_kept`` raises where that may be gone. Raises
    `IllegalMove` where a name, an id or a place is taken, and `InvalidData` for an archive that is damaged or of another schema.
    """
    with opened(path) as tar, connected(dsn) as conn, conn.transaction():
        head = head_of(tar, path)
        revision = conn.execute("SELECT version_num FROM alembic_version").fetchone()
        if revision is None or revision[0] != head.revision:
            raise IllegalMove(
                f"The backup is of the schema {head.revision} and the catalog of another: restore the backup into an empty SLUICE_DATA and "
                "make one there."
            )
        tables = {table.name: table for table in head.tables}
        try:
            _databases(conn, tables, tar, path, sorted({part.name.database for part in parts} | set(databases)))
            _entries(conn, tables["table_entry"], tar, path, parts, require_kept)
            for name in _OF_A_TABLE:
                _of_tables(conn, tables[name], tar, path, parts)
            for name in databases:
                _of_database(conn, tables, tar, path, name)
        except errors.UniqueViolation as taken:
            raise IllegalMove(f"Something of that name is there already ({taken.diag.constraint_name}); nothing was changed.") from None


def _loaded(conn: Connection, table: ArchivedTable, tar: tarfile.TarFile, path: Path) -> sql.Identifier:
    """A temporary table with what the archive has."""
    name = f"archived_{table.name}"
    query = "CREATE TEMP TABLE IF NOT EXISTS {} (LIKE {}) ON COMMIT DROP"
    conn.execute(sql.SQL(query).format(sql.Identifier(name), sql.Identifier(table.name)))
    conn.execute(sql.SQL("TRUNCATE {}").format(sql.Identifier(name)))
    # Columns that Postgres counts up are NOT NULL in the copy, and the archive fills them.
    copy_in(conn, table, tar, path, into=name)
    return sql.Identifier(name)


def _insert(conn: Connection, table: ArchivedTable, loaded: sql.Identifier, *, rest: LiteralString = "") -> None:
    """Add the rows of a temporary table; what Postgres counts up is counted anew."""
    query = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attidentity <> ''"
    counted = {column for (column,) in conn.execute(query, (table.name,))}
    fields = sql.SQL(", ").join(sql.Identifier(column) for column in table.columns if column not in counted)
    into = sql.Identifier(table.name)
    conn.execute(sql.SQL("INSERT INTO {} ({}) SELECT {} FROM {}").format(into, fields, fields, loaded) + sql.SQL(rest))


def _databases(conn: Connection, tables: Mapping[str, ArchivedTable], tar: tarfile.TarFile, path: Path, names: Sequence[str]) -> None:
    loaded = _loaded(conn, tables["database_entry"], tar, path)
    conn.execute(sql.SQL("DELETE FROM {} WHERE drop_id IS NOT NULL OR NOT name = ANY(%s)").format(loaded), (list(names),))
    missing = set(names) - {name for (name,) in conn.execute(sql.SQL("SELECT name FROM {}").format(loaded))}
    there = {name for (name,) in conn.execute("SELECT name FROM sluice_database")}
    if missing - there:
        raise no_database(min(missing - there))
    _insert(conn, tables["database_entry"], loaded, rest=" ON CONFLICT (name) DO NOTHING")


def _entries(
    conn: Connection, table: ArchivedTable, tar: tarfile.TarFile, path: Path, parts: Sequence[Part], require_kept: Callable[[], object]
) -> None:
    loaded = _loaded(conn, table, tar, path)
    _keep_only(conn, loaded, parts)
    _change(conn, table, loaded)
    for part in parts:
        moved = part.location != part.of.location
        conn.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (part.location,))
        if moved:  # by whoever removes garbage nothing is removed any more, and nothing was before where it was kept until now
            require_kept()
            if not conn.execute("DELETE FROM dropped_directory WHERE location = %s", (part.location,)).rowcount:
                raise IllegalMove(f"{part.location}, which was filled for {part.name}, was removed meanwhile: repeat the command.")
        query = """
            SELECT 'another table' FROM table_entry WHERE location = %(at)s OR moving_from = %(at)s
            UNION ALL SELECT 'a directory that is being removed' FROM dropped_directory WHERE location = %(at)s
        """
        if (taken := conn.execute(query, {"at": part.location}).fetchone()) is not None:
            raise IllegalMove(f"{part.location}, where {part.name} lay, is {taken[0]} now; nothing was changed.")
        conn.execute(
            sql.SQL(
                "UPDATE {} SET table_id = %s, database = %s, name = %s, location = %s, moving_from = NULL, diverged_at = NULL, "
                "external = external AND NOT %s, allowed_locations = CASE WHEN %s THEN '{{}}' ELSE allowed_locations END "
                "WHERE table_id = %s"
            ).format(loaded),
            (part.table_id, part.name.database, part.name.table, part.location, moved, moved, part.of.table_id),
        )
    _insert(conn, table, loaded)


def _of_tables(conn: Connection, table: ArchivedTable, tar: tarfile.TarFile, path: Path, parts: Sequence[Part]) -> None:
    loaded = _loaded(conn, table, tar, path)
    _keep_only(conn, loaded, parts)
    _change(conn, table, loaded)
    for part in parts:
        if part.table_id != part.of.table_id:
            conn.execute(sql.SQL("UPDATE {} SET table_id = %s WHERE table_id = %s").format(loaded), (part.table_id, part.of.table_id))
    _insert(conn, table, loaded)


def _change(conn: Connection, table: ArchivedTable, loaded: sql.Identifier) -> None:
    if (change := _CHANGED.get(table.name)) is not None:
        conn.execute(sql.SQL("UPDATE {} SET ").format(loaded) + sql.SQL(change))


def _keep_only(conn: Connection, loaded: sql.Identifier, parts: Sequence[Part]) -> None:
    ids = [part.of.table_id for part in parts]
    conn.execute(sql.SQL("DELETE FROM {} WHERE table_id IS NULL OR NOT table_id = ANY(%s)").format(loaded), (ids,))


def _of_database(conn: Connection, tables: Mapping[str, ArchivedTable], tar: tarfile.TarFile, path: Path, name: str) -> None:
    for kind in ("view_entry", "function_entry"):
        loaded = _loaded(conn, tables[kind], tar, path)
        conn.execute(sql.SQL("DELETE FROM {} WHERE drop_id IS NOT NULL OR database <> %s").format(loaded), (name,))
        _insert(conn, tables[kind], loaded)
    loaded = _loaded(conn, tables["access_grant"], tar, path)
    conn.execute(sql.SQL("DELETE FROM {} WHERE table_id IS NOT NULL OR database IS DISTINCT FROM %s").format(loaded), (name,))
    _insert(conn, tables["access_grant"], loaded, rest=" ON CONFLICT ON CONSTRAINT access_grant_key DO NOTHING")


def _rows(tar: tarfile.TarFile, head: ArchiveHead, name: str) -> Iterator[Row]:
    """The rows of a table in COPY's text form."""
    table = next(table for table in head.tables if table.name == name)
    source = tar.extractfile(f"{name}.copy")
    assert source is not None
    for line in source:
        values = line.decode().rstrip("\n").split("\t")
        yield dict(zip(table.columns, map(_value, values), strict=True))


def _value(text: str) -> str | None:
    if text == r"\N":
        return None
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), text) if "\\" in text else text


def _array(text: str) -> list[str]:
    """The texts of an array as Postgres writes it."""
    return [re.sub(r"\\(.)", r"\1", quoted) if quoted else plain for quoted, plain in _ELEMENT.findall(text[1:-1])]


def _text(row: Row, column: str) -> str:
    value = row[column]
    assert value is not None
    return value
