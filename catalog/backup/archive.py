"""The catalog as one file: every table's rows as of one moment, by COPY (`docs/decisions/catalog-backup.md`)."""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import hashlib
import io
import json
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, LiteralString

import psycopg
from psycopg import Connection, errors, sql

from catalog.away import away
from catalog.backup.own_objects import own_tables
from catalog.connection import connect
from catalog.damage import telling_damage
from catalog.store import APPLICATION, POOLED_APPLICATION
from catalog.work.servers import ServerRepository
from model.errors import IllegalMove, InvalidData
from model.work.job import JobState

FORMAT = 1
_HEAD = "catalog.json"
_COPY = "copy.json"
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


def write_archive(dsn: str, path: Path, *, warehouse: str, copy_id: str | None = None) -> ArchiveHead:
    """Write the catalog to a file, which is there whole or not at all; servers go on meanwhile.

    ``copy_id``: under what a copy of the files that are copied after it will say that it has all of them.

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
            for name in own_tables(conn):
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
        _write_file(path, head, [part for _, part in parts], copy_id)
    return head


def read_head(path: Path) -> ArchiveHead:
    """What an archive says of itself; raises `InvalidData` for a file that is none, or of a newer Sluice."""
    with opened(path) as tar:
        return head_of(tar, path)


def copy_id_of(path: Path) -> str | None:
    """Under what a copy says that it has all files of an archive; None for one without a copy, or of an earlier version."""
    with opened(path) as tar:
        if _COPY not in tar.getnames():
            return None
        source = tar.extractfile(_COPY)
        assert source is not None
        return str(json.loads(source.read())["id"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A streaming job that is in a catalog."""

    id: str
    name: str
    state: JobState
    leaving: bool
    """Whether somebody has asked that it stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogJobs:
    """The jobs of a catalog, and which catalog that is."""

    catalog_id: str | None
    """None for one of before catalogs had an identity."""
    jobs: list[Job]


def jobs_of(dsn: str) -> CatalogJobs | None:
    """The jobs of a catalog; None where nothing is in it, or a newer version's cannot be read."""
    with connected(dsn) as conn:
        try:
            return _jobs(conn) if contents_in(conn) else None
        except (errors.UndefinedColumn, ValueError):  # of a column, or a state, that is called otherwise there
            return None


def _jobs(conn: Connection) -> CatalogJobs:
    own = own_tables(conn)
    row = conn.execute("SELECT catalog_id::text FROM catalog_state").fetchone() if "catalog_state" in own else None
    rows = []
    if "stream_job" in own:
        query = "SELECT job_id::text, name, state, coalesce(wish IN ('STOP', 'DRAIN'), false) FROM stream_job ORDER BY name, job_id"
        rows = conn.execute(query).fetchall()
    return CatalogJobs(
        catalog_id=None if row is None else str(row[0]),
        jobs=[Job(id=job_id, name=name, state=JobState(state), leaving=leaving) for job_id, name, state, leaving in rows],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PutBack:
    """What of an archive is not in the catalog as it was."""

    stopped: list[Job]
    """Jobs that ran, and were stopped or gone in the catalog that was replaced, or had finished there."""
    failed: list[Job]
    """Jobs that run again, and had failed there."""
    left_out: list[ArchivedTable]
    """Tables that are not the catalog's: earlier versions put all of a schema that is shared into an archive."""


def restore_archive(
    dsn: str, path: Path, *, require: Callable[[Connection], object] | None = None, jobs: CatalogJobs | None = None
) -> PutBack:
    """Put an archive's rows in the place of all the catalog's, in one transaction; its schema must be at the archive's revision.

    ``require`` may refuse once nobody else reaches the catalog. Of the archive's jobs that run those stay stopped that were stopped or
    gone, or had finished, among the ``jobs`` of the catalog it replaces. Raises `InvalidData` for an archive that is damaged, and
    changes nothing then.
    """
    with opened(path) as tar, connected(dsn) as conn, conn.transaction():
        head = head_of(tar, path)
        ((revision,),) = conn.execute("SELECT version_num FROM alembic_version").fetchall()
        if revision != head.revision:
            raise IllegalMove(f"The catalog is at revision {revision} and the archive at {head.revision}.")
        names = sql.SQL(", ").join(sql.Identifier(name) for name in own_tables(conn))
        conn.execute(sql.SQL("LOCK TABLE {} IN ACCESS EXCLUSIVE MODE").format(names))
        if require is not None:
            require(conn)
        try:
            conn.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY").format(names))
        except errors.FeatureNotSupported as refers:
            raise IllegalMove(
                f"A table in this Postgres database that is not the catalog's refers to it ({refers.diag.message_detail}): drop that "
                "reference, or restore into an empty database. Nothing was changed."
            ) from refers
        own = set(own_tables(conn))
        for table in head.tables:
            if table.name in own:
                copy_in(conn, table, tar, path)
        left_out = [table for table in head.tables if table.name not in own]
        stopped, failed = ([], []) if jobs is None else _keep_stopped(conn, jobs)
        return PutBack(stopped=stopped, failed=failed, left_out=left_out)


def _keep_stopped(conn: Connection, before: CatalogJobs) -> tuple[list[Job], list[Job]]:
    """Stop what ran in an archive and does not any more, and return it; and what runs again although it had failed."""
    archived = _jobs(conn)
    if None not in (archived.catalog_id, before.catalog_id) and archived.catalog_id != before.catalog_id:
        return [], []  # another catalog never had these jobs: nobody stopped them there
    since = {job.id: job for job in before.jobs}
    stopped, failed = list[Job](), list[Job]()
    for job in archived.jobs:
        if job.state.ended:
            continue
        now = since.get(job.id)
        if now is None or now.leaving or now.state in (JobState.STOPPED, JobState.FINISHED):
            stopped.append(job)
        elif now.state is JobState.FAILED:
            failed.append(job)
    if stopped:
        query = "UPDATE stream_job SET state = 'STOPPED', wish = NULL, ended_at = now(), updated_at = now() WHERE job_id::text = ANY(%s)"
        conn.execute(query, ([job.id for job in stopped],))
    return stopped, failed


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
        return contents_in(conn)


def contents_in(conn: Connection) -> int:
    """The same as the connection's transaction sees it."""
    total = 0
    for name in own_tables(conn):
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
    with connected(dsn) as conn:
        return servers_in(conn)


def servers_in(conn: Connection) -> int:
    """The same, asked by a connection."""
    conn.execute("SELECT pg_stat_clear_snapshot()")  # in a transaction those stay that were there at its first look
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = %s"
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


def _write_file(path: Path, head: ArchiveHead, parts: list[IO[bytes]], copy_id: str | None) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}.new")
    try:
        with fresh.open("xb") as file:
            os.fchmod(file.fileno(), 0o600)  # hashes of tokens are in it
            with tarfile.open(fileobj=file, mode="w:gz", compresslevel=6) as tar:
                _add(tar, _HEAD, io.BytesIO(json.dumps(asdict(head), indent=1).encode()))
                if copy_id is not None:  # not in the head, which earlier versions hold to what they know
                    _add(tar, _COPY, io.BytesIO(json.dumps({"id": copy_id}).encode()))
                for table, part in zip(head.tables, parts, strict=True):
                    _add(tar, f"{table.name}.copy", part)
            file.flush()
            os.fsync(file.fileno())
        put_in_place(fresh, path)
    finally:
        fresh.unlink(missing_ok=True)


def put_in_place(fresh: Path, path: Path) -> None:
    """Give a file that was flushed its name, in the place of what had it; a power cut takes it away no more."""
    fresh.replace(path)
    directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    except OSError as problem:
        if problem.errno != errno.EINVAL:  # some shared file systems flush no directories
            raise
    finally:
        os.close(directory)


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
