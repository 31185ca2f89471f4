"""Postgres without a free connection, killed and stopped while it commits: errors say why, nothing is lost, all goes on by itself."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from server.process.postgres import EmbeddedPostgres
from tests.e2e.agreement import assert_agreement, embedded_dsn
from tests.e2e.load import Insert, Load, create, insert_until_known, whole_inserts
from tests.fix_server import StartServer
from tests.running import RunningServer
from tests.waiting import eventually

TABLE = "default.t"
Catalog = tuple[RunningServer, str]
"""A server, and the DSN of the Postgres its catalog lies in."""


@pytest.fixture(params=["embedded", pytest.param("external", marks=pytest.mark.torture)])
def catalog(request: pytest.FixtureRequest, start_server: StartServer, tmp_path: Path) -> Iterator[Catalog]:
    if request.param == "embedded":
        server = start_server()
        yield server, embedded_dsn(server)
        return
    postgres = EmbeddedPostgres(tmp_path / "elsewhere")
    dsn = postgres.start()
    try:
        server = start_server(SLUICE_CATALOG_DSN=dsn)
        yield server, dsn
        server.stop()
    finally:
        postgres.stop()


def take_all(dsn: str, taken: list[psycopg.Connection]) -> None:
    """Take every connection that Postgres has left."""
    while True:
        try:
            taken.append(psycopg.connect(dsn, autocommit=True, application_name="others"))
        except psycopg.OperationalError:
            return


def push_out(dsn: str, taken: list[psycopg.Connection]) -> None:
    """Take every connection, those of the server, too.

    Only the number of our own shows that none is left: a server's connection that is being made has its slot before
    `pg_stat_activity` names it.
    """
    until = time.monotonic() + 120
    end_others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sluice'"
    all_are_ours = """
        SELECT count(*) = current_setting('max_connections')::int FROM pg_stat_activity WHERE application_name = 'others'
    """
    while True:
        take_all(dsn, taken)
        if taken[0].execute(all_are_ours).fetchone() == (True,):
            return
        taken[0].execute(end_others)
        assert time.monotonic() < until


def settled(server: RunningServer, dsn: str, load: Load, *, more: set[Insert]) -> None:
    """Repeat what nobody knows of, and look at all that is there."""
    refused = {_of(problem) for problem in load.book.problems}
    possible = load.book.acknowledged | load.book.unknown | refused | more
    found = whole_inserts(server, TABLE)
    certain = load.book.acknowledged | more
    assert certain <= found, f"acknowledged and lost: {sorted(certain - found)[:5]}"
    assert found <= possible
    for what in sorted(possible - certain)[::2]:
        insert_until_known(server, TABLE, what)
        certain = certain | {what}
    assert certain <= whole_inserts(server, TABLE)
    assert_agreement(dsn, server, TABLE)


def _of(problem: str) -> Insert:
    """The insert a refusal was for, which must be one of an absent catalog."""
    assert problem.startswith("insert ")
    assert ": 503: " in problem or ": 409: " in problem, problem
    client, n = problem.removeprefix("insert ").split(":")[0].split("-")
    return int(client), int(n)


def test_others_have_all_connections(catalog: Catalog) -> None:
    server, dsn = catalog
    create(server, TABLE)
    load = Load(server, TABLE, clients=8, inserts=1_000_000, readers=0).start()
    taken: list[psycopg.Connection] = []
    try:
        assert eventually(lambda: len(load.book.acknowledged) > 5)
        push_out(dsn, taken)
        load.stop()
        answer = server.post(f"INSERT INTO {TABLE} VALUES (99, 0, 0)", timeout=60)
        assert answer.status_code == 503
        assert "no free connection" in answer.json()["detail"], answer.text
        assert int(answer.headers["Retry-After"]) > 0
        assert httpx.get(f"{server.url}/livez", timeout=30).status_code == 200
        ready = httpx.get(f"{server.url}/readyz", timeout=60)
        assert ready.status_code == 503
        assert "max_connections" in ready.json()["postgres"]["detail"], ready.text
    finally:
        for connection in taken:
            connection.close()
        load.stop()
    more = {(98, 0)}
    insert_until_known(server, TABLE, (98, 0))
    settled(server, dsn, load, more=more)
    assert "Traceback" not in server.log.read_text()


@pytest.mark.parametrize(
    "how",
    [
        pytest.param("a backend is killed", marks=pytest.mark.torture),
        "the postmaster is killed",
        pytest.param("stopped at once", marks=pytest.mark.torture),
        pytest.param("connections are ended", marks=pytest.mark.torture),
    ],
)
def test_postgres_ends_while_it_commits(start_server: StartServer, how: str) -> None:
    server = start_server()
    dsn = embedded_dsn(server)
    create(server, TABLE)
    moments = random.Random(how)
    load = Load(server, TABLE, clients=8, inserts=1_000_000, readers=0).start()
    try:
        for _ in range(4):
            known = len(load.book.acknowledged)
            assert eventually(lambda known=known: len(load.book.acknowledged) > known + 5), server.words()  # type: ignore[misc]
            time.sleep(moments.uniform(0, 0.3))
            with contextlib.suppress(psycopg.OperationalError, ProcessLookupError):
                _end(how, server, dsn)
    finally:
        load.stop()
    assert eventually(lambda: server.post("SHOW TABLES", timeout=60).status_code == 200)
    settled(server, dsn, load, more=set())
    assert "Traceback" not in server.log.read_text()


def _end(how: str, server: RunningServer, dsn: str) -> None:
    postmaster = server.postgres_pid()
    assert postmaster is not None
    busy = "FROM pg_stat_activity WHERE application_name = 'sluice' ORDER BY state = 'active' DESC, query_start DESC"
    ways: dict[str, Callable[[], None]] = {
        "the postmaster is killed": lambda: os.kill(postmaster, signal.SIGKILL),
        "stopped at once": lambda: os.kill(postmaster, signal.SIGQUIT),
    }
    if how in ways:
        ways[how]()
        return
    with psycopg.connect(dsn, autocommit=True) as conn:
        if how == "connections are ended":
            conn.execute(f"SELECT pg_terminate_backend(pid) {busy}")
            return
        row = conn.execute(f"SELECT pid {busy} LIMIT 1").fetchone()
    if row is not None:
        os.kill(row[0], signal.SIGKILL)
