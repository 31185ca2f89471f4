"""A real, migrated Postgres database for each test, cloned from a template in milliseconds."""

from __future__ import annotations

import select
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo
from psycopg.pq import ExecStatus

from migrations import upgrade
from server.process.postgres import EmbeddedPostgres
from tests.fix_memory import memory

_ROOM_BYTES = 2 << 30
ADVISORY_LOCKS = """
    FROM pg_locks WHERE locktype = 'advisory' AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
"""
"""Those of the database that is asked: Postgres lists each one's to all."""


@pytest.fixture(scope="session")
def server_dsn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A superuser's DSN: the one given by ``--test-dsn``, or that of a cluster of our own."""
    if dsn := request.config.getoption("--test-dsn"):
        yield str(dsn)
        return
    with _directory(tmp_path_factory) as directory:
        postgres = EmbeddedPostgres(directory)
        made = postgres.start()
        with psycopg.connect(made, autocommit=True) as conn:
            # Tests kill servers, never the machine; waiting for its disk would only make every cloned database slow.
            conn.execute("ALTER SYSTEM SET fsync = off")
            conn.execute("ALTER SYSTEM SET max_wal_size = '128MB'")
            conn.execute("SELECT pg_reload_conf()")
        yield made
        postgres.stop()


@contextmanager
def _directory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the cluster lies: in memory where there is space; a database is 300 files, whose making takes 0.3 s of CPU on a disk."""
    if (place := memory(_ROOM_BYTES)) is None:
        yield tmp_path_factory.mktemp("pg")
        return
    with tempfile.TemporaryDirectory(prefix="sluice-tests-pg-", dir=place) as name:
        Path(name).chmod(0o755)  # Postgres runs as another user
        yield Path(name)


@contextmanager
def database(server_dsn: str, template: str) -> Iterator[str]:
    """A database cloned from ``template``, dropped with whoever is still connected when the block ends."""
    name, create = _clone(template)
    with psycopg.connect(server_dsn, autocommit=True) as conn:
        conn.execute(create)
    try:
        yield make_conninfo(server_dsn, dbname=name)
    finally:
        with psycopg.connect(server_dsn, autocommit=True) as conn:
            conn.execute(_drop(name))


def _clone(template: str) -> tuple[str, bytes]:
    """A new name and the statement that makes a database of it."""
    name = f"t{uuid4().hex}"
    return name, f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy".encode()


def _drop(name: str) -> bytes:
    return f"DROP DATABASE IF EXISTS {name} WITH (FORCE)".encode()


class _Background:
    """Runs a statement while something else is done, each on one connection that is made anew where Postgres has come back."""

    def __init__(self, server_dsn: str) -> None:
        self._server_dsn = server_dsn
        self._connection = self._connected()

    def _connected(self) -> psycopg.Connection:
        return psycopg.connect(self._server_dsn, autocommit=True)

    def begin(self, statement: bytes) -> None:
        """Send one; the last is done."""
        if self._connection.closed:
            self._connection = self._connected()
        self._connection.pgconn.send_query(statement)
        self._connection.pgconn.flush()

    def wait(self) -> None:
        """Until what was sent is done; raises `RuntimeError` with Postgres's words where it failed."""
        connection, problem = self._connection.pgconn, ""
        while True:
            while connection.is_busy():
                select.select([connection.socket], [], [])
                connection.consume_input()
            if (result := connection.get_result()) is None:
                break
            if result.status != ExecStatus.COMMAND_OK:
                problem = result.get_error_message()
        if problem:
            raise RuntimeError(problem)

    def close(self) -> None:
        self._connection.close()


class _Databases:
    """Databases cloned from one template: the next one is made, and the last one dropped, while a test runs."""

    def __init__(self, server_dsn: str, template: str) -> None:
        self._server_dsn, self._template = server_dsn, template
        self._making, self._dropping = _Background(server_dsn), _Background(server_dsn)
        self._next = self._begin()

    def _begin(self) -> str:
        name, create = _clone(self._template)
        self._making.begin(create)
        return name

    @contextmanager
    def database(self) -> Iterator[str]:
        """The DSN of one that is nobody else's."""
        try:
            self._making.wait()
        finally:  # also where that one could not be made: the next test is to have its own
            name, self._next = self._next, self._begin()
        yield make_conninfo(self._server_dsn, dbname=name)
        self._drop(name)

    def _drop(self, name: str) -> None:
        try:
            self._dropping.wait()
        finally:
            self._dropping.begin(_drop(name))

    def close(self) -> None:
        """Drop the one that nobody took."""
        self._making.wait()
        self._drop(self._next)
        self._dropping.wait()
        self._making.close()
        self._dropping.close()


@pytest.fixture(scope="session")
def template(server_dsn: str) -> Iterator[str]:
    """Name of a database migrated once in the run."""
    with database(server_dsn, "template0") as dsn:
        upgrade(dsn)
        yield psycopg.conninfo.conninfo_to_dict(dsn)["dbname"]  # type: ignore[misc]


@pytest.fixture(scope="session")
def _databases(server_dsn: str, template: str) -> Iterator[_Databases]:
    made = _Databases(server_dsn, template)
    yield made
    made.close()


@pytest.fixture
def dsn(_databases: _Databases) -> Iterator[str]:
    """DSN of a migrated database that only this test sees."""
    with _databases.database() as made:
        yield made


@pytest.fixture(scope="module")
def module_dsn(server_dsn: str, template: str) -> Iterator[str]:
    """DSN of a migrated database that the tests of a module share."""
    with database(server_dsn, template) as made:
        yield made


@pytest.fixture
def empty_dsn(server_dsn: str) -> Iterator[str]:
    """DSN of a database without a single table."""
    with database(server_dsn, "template0") as made:
        yield made
