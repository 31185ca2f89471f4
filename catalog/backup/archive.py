"""The catalog as one file: every table's rows as of one moment, by COPY (`docs/decisions/catalog-backup.md`)."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, LiteralString

import psycopg
from psycopg import Connection, sql

from catalog.connection import connect
from catalog.damage import telling_damage
from catalog.store import APPLICATION, POOLED_APPLICATION, away
from catalog.work.servers import ServerRepository
from model.errors import IllegalMove, InvalidData

FORMAT = 1
_HEAD = "catalog.json"
_EPHEMERAL = frozenset({"maintenance_lease", "maintenance_owner", "maintenance_mark", "quota_usage", "server", "pages_key", "ended_login"})
"""Says who works on what now, and who is logged in; nobody is after a restore."""
_OF_A_SERVER = _EPHEMERAL | {"audit_log", "catalog_state"}
"""Rows of a server which only ran."""
_IN_MEMORY = 16 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedTable:
    """One table's part of an archive."""

    name: str
    columns: list[str]
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveHead:
    """What an archive says of itself, first in the file."""

    format: int
    revision: str
    created_at: str
    warehouse: str
    tables: list[ArchivedTable]
    """In an order in which every row's references are there before it."""

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(table.rows for table in self.tables)


def write_archive(dsn: str, path: Path, *, warehouse: str) -> ArchiveHead:
    """Write the catalog to a file, which is there whole or not at all; servers go on meanwhile.

    Raises `Unavailable` where Postgres is away, `IllegalMove` where there is no catalog, and `OSError` for a file that cannot be written.
    """
    with contextlib.ExitStack() as cleanup:
        parts: list[tuple[ArchivedTable, IO[bytes]]] = []
        with connected(dsn) as conn, conn.transaction():
            conn.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            row = conn.execute("SELECT now(), to_regclass('alembic_version')").fetchone()
            assert row is not None
            if row[1] is None:
                raise IllegalMove("There is no catalog in this database yet.")
            revisions = conn.execute("SELECT version_num FROM alembic_version").fetchall()
            if len(revisions) != 1:
                raise IllegalMove("There is no catalog in this database yet.")
            revision = revisions[0][0]
            for name in _in_order(conn):
                part = cleanup.enter_context(tempfile.SpooledTemporaryFile(_IN_MEMORY))
                parts.append((_copy_out(conn, name, part), part))
        moment: dt.datetime = row[0]
        head = ArchiveHead(
            format=FORMAT,
            revision=str(revision),
            created_at=moment.astimezone(dt.UTC).isoformat(timespec="seconds"),
            warehouse=warehouse,
            tables=[table for table, _ in parts],
        )
        _write_file(path, head, [part for _, part in parts])
    return head


def read_head(path: Path) -> ArchiveHead:
    """What an archive says of itself; raises `InvalidData` for a file that is none, or of a newer Sluice."""
    with opened(path) as tar:
        return head_of(tar, path)


def restore_archive(dsn: str, path: Path) -> ArchiveHead:
    """Put an archive's rows in the place of all the catalog's, in one transaction; its schema must be at the archive's revision.

    Raises `InvalidData` for an archive that is damaged, and changes nothing then.
    """
    with opened(path) as tar, connected(dsn) as conn, conn.transaction():
        head = head_of(tar, path)
        ((revision,),) = conn.execute("SELECT version_num FROM alembic_version").fetchall()
        if revision != head.revision:
            raise IllegalMove(f"The catalog is at revision {revision} and the archive at {head.revision}.")
        names = sql.SQL(", ").join(sql.Identifier(name) for name in _in_order(conn))
        conn.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY CASCADE").format(names))
        for table in head.tables:
            copy_in(conn, table, tar, path)
    return head


def let_go(dsn: str) -> None:
    """Free the jobs of a restored catalog: whoever ran them when it was written does not run them now.

    What was dropped is kept as long again as it was to be, a day at least: it may have been brought back since, which only people know.
    """
    with connected(dsn) as conn, conn.transaction():
        conn.execute(
            "UPDATE drop_record SET expires_at = greatest(expires_at, now() + greatest(expires_at - dropped_at, interval '1 day'))"
        )
        conn.execute("UPDATE stream_job SET owner = NULL, lease_until = NULL, epoch = epoch + 1 WHERE lease_until IS NOT NULL")


WRITTEN_ANEW: dict[str, LiteralString] = {
    "table_entry": "published_schema_id = -1",
    "table_branch": "published_schema_id = -1",
    "table_snapshot": "published = false",
    "table_tag": "published = false",
}
"""By table of the catalog, what lets files of metadata be written by whoever opens the lake's table, unless they lie there."""


def write_files_anew(dsn: str) -> None:
    """Let the files of all schemas, snapshots and tags be written again: what was copied are the files that these name."""
    with connected(dsn) as conn, conn.transaction():
        for name, change in WRITTEN_ANEW.items():
            conn.execute(sql.SQL("UPDATE {} SET ").format(sql.Identifier(name)) + sql.SQL(change))


_DEFAULT_ONLY = "name <> 'default' OR options <> '{}'"
_STARTS_WITH = {"sluice_database": _DEFAULT_ONLY, "database_entry": _DEFAULT_ONLY, "access_role": "name NOT IN ('admin', 'public')"}
"""The rows a new catalog has, by what all others are."""


def contents(dsn: str) -> int:
    """How many rows a catalog holds beyond what a new one does; 0 for a database without one."""
    with connected(dsn) as conn:
        total = 0
        for name in _in_order(conn):
            if name in _OF_A_SERVER:
                continue
            query = sql.SQL("SELECT count(*) FROM {}").format(sql.Identifier(name))
            if name in _STARTS_WITH:
                query += sql.SQL(" WHERE ") + sql.SQL(_STARTS_WITH[name])
            counts = conn.execute(query).fetchone()
            total += int(counts[0]) if counts is not None else 0
        return total


def servers(dsn: str) -> int:
    """Connections of servers to the catalog's database; of those behind a pooler, how many have told lately that they live."""
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"
    with connected(dsn) as conn:
        own, pooled = (sum(count for (count,) in conn.execute(query, (name,))) for name in (APPLICATION, POOLED_APPLICATION))
        return int(own or (pooled and _living(conn)))


def _living(conn: Connection) -> int:
    """Servers that have told lately that they live; a catalog of before they did so has none."""
    row = conn.execute("SELECT to_regclass('server')").fetchone()
    if row is None or row[0] is None:
        return 0
    return sum(server.alive for server in ServerRepository(conn).all())


@contextlib.contextmanager
def connected(dsn: str) -> Iterator[Connection]:
    """A connection; raises `Unavailable` where Postgres is away or goes, and `CatalogDamaged` where it cannot read its files."""
    try:
        with telling_damage(dsn), connect(dsn) as conn:
            yield conn
    except (psycopg.OperationalError, psycopg.InterfaceError) as problem:
        raise away(problem) from problem


def _in_order(conn: Connection) -> list[str]:
    """The catalog's tables, those others refer to first."""
    query = "SELECT c.relname FROM pg_class c WHERE c.relkind = 'r' AND c.relnamespace = current_schema()::regnamespace ORDER BY 1"
    names = [name for (name,) in conn.execute(query) if name != "alembic_version"]
    references = """
        SELECT c.conrelid::regclass::text, c.confrelid::regclass::text FROM pg_constraint c
        WHERE c.contype = 'f' AND c.connamespace = current_schema()::regnamespace AND c.conrelid <> c.confrelid
    """
    needs: dict[str, set[str]] = {name: set() for name in names}
    for name, needed in conn.execute(references):
        needs[name].add(needed)
    ordered: list[str] = []
    while len(ordered) < len(names):
        ordered += [name for name in names if name not in ordered and needs[name] <= set(ordered)]
    return ordered


def _copy_out(conn: Connection, name: str, part: IO[bytes]) -> ArchivedTable:
    generated = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''"
    columns = [column for (column,) in conn.execute(f"{generated} ORDER BY attnum", (name,))]
    seen, rows = hashlib.sha256(), 0
    if name not in _EPHEMERAL:
        fields = sql.SQL(", ").join(map(sql.Identifier, columns))
        with conn.cursor() as cur, cur.copy(sql.SQL("COPY {} ({}) TO STDOUT").format(sql.Identifier(name), fields)) as copy:
            for data in copy:
                seen.update(data)
                part.write(data)
                rows += bytes(data).count(b"\n")  # text COPY writes line feeds of values as \n
    return ArchivedTable(name=name, columns=columns, rows=rows, sha256=seen.hexdigest())


def copy_in(conn: Connection, table: ArchivedTable, tar: tarfile.TarFile, path: Path, *, into: str | None = None) -> None:
    """Put a table's rows into the table of its name or another; raises `InvalidData` where they are not what was written."""
    source = tar.extractfile(f"{table.name}.copy")
    assert source is not None
    seen = hashlib.sha256()
    name, fields = sql.Identifier(into or table.name), sql.SQL(", ").join(map(sql.Identifier, table.columns))
    with conn.cursor() as cur, cur.copy(sql.SQL("COPY {} ({}) FROM STDIN").format(name, fields)) as copy:
        while data := source.read(1 << 20):
            seen.update(data)
            copy.write(data)
    if seen.hexdigest() != table.sha256:
        raise InvalidData(f"{path} is damaged: {table.name} is not what was written.")
    if into is not None:
        return
    identity = "SELECT attname FROM pg_attribute WHERE attrelid = %s::regclass AND attidentity <> ''"
    for (column,) in conn.execute(identity, (table.name,)).fetchall():
        newest = sql.SQL("SELECT setval(pg_get_serial_sequence({}, {}), greatest(max({}), 1), max({}) IS NOT NULL) FROM {}")
        conn.execute(newest.format(sql.Literal(table.name), sql.Literal(column), sql.Identifier(column), sql.Identifier(column), name))


def _write_file(path: Path, head: ArchiveHead, parts: list[IO[bytes]]) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with fresh.open("xb") as file:
            os.fchmod(file.fileno(), 0o600)  # hashes of tokens are in it
            with tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as tar:
                _add(tar, _HEAD, io.BytesIO(json.dumps(asdict(head), indent=1).encode()))
                for table, part in zip(head.tables, parts, strict=True):
                    _add(tar, f"{table.name}.copy", part)
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


def _add(tar: tarfile.TarFile, name: str, data: IO[bytes]) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = data.seek(0, os.SEEK_END), 0o600
    data.seek(0)
    tar.addfile(entry, data)


@contextlib.contextmanager
def opened(path: Path) -> Iterator[tarfile.TarFile]:
    """The archive; raises `InvalidData`, also from the block, where what is read is none."""
    try:
        with tarfile.open(path, "r:gz") as tar:
            yield tar
    except (tarfile.TarError, EOFError, KeyError, ValueError) as problem:
        raise InvalidData(f"{path} is no backup of a catalog, or is damaged: {problem}") from None
    except OSError as problem:
        if problem.errno is None:  # gzip's own
            raise InvalidData(f"{path} is no backup of a catalog, or is damaged: {problem}") from None
        raise


def head_of(tar: tarfile.TarFile, path: Path) -> ArchiveHead:
    """What an open archive says of itself; raises `InvalidData` for one of a newer Sluice."""
    source = tar.extractfile(_HEAD)
    assert source is not None
    head = json.loads(source.read())
    if head.get("format") != FORMAT:
        raise InvalidData(f"{path} is a backup of another Sluice's: its format is {head.get('format')}, and this one reads {FORMAT}.")
    return ArchiveHead(**head | {"tables": [ArchivedTable(**table) for table in head["tables"]]})
