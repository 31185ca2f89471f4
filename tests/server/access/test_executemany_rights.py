"""Who may only write a table sends the Python client many rows at once, as one by one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import sluice
from sluice.plain_insert import PlainInsert
from tests.server.flight.conftest import Endpoint


@contextlib.contextmanager
def connected(endpoint: Endpoint, token: str | None = None) -> Iterator[sluice.Connection]:
    """A connection to the endpoint's app, by no network."""
    with sluice.connect() as conn:
        conn.http().close()
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        conn._http = httpx.Client(transport=httpx.WSGITransport(endpoint.app), base_url="http://127.0.0.1", headers=headers)
        yield conn


def test_rows_are_taken_from_who_may_not_read_the_table(dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = Endpoint(dsn, tmp_path)
    try:
        asking = endpoint.app.test_client()
        root = asking.post("/tokens", json={"name": "root", "administrator": True}).get_json()["token"]
        anna = asking.post("/tokens", json={"name": "anna"}, headers={"Authorization": f"Bearer {root}"}).get_json()["token"]
        with connected(endpoint, root) as conn:
            conn.execute("CREATE TABLE t (a INT, s STRING)")
            conn.execute("CREATE TABLE u (a INT, s STRING)")
            conn.execute("GRANT INSERT ON t TO anna")
            conn.execute("GRANT INSERT, SELECT (a) ON u TO anna")
        with connected(endpoint, anna) as hers:
            cursor = hers.cursor()
            with pytest.raises(sluice.OperationalError, match="Forbidden"):
                hers.execute("SELECT * FROM t")
            for table in ("t", "u"):
                cursor.executemany(f"INSERT INTO {table} VALUES (?, ?)", [(1, "a"), (2, None)])
                assert cursor.rowcount == 2
                with pytest.raises(sluice.ProgrammingError, match="columns"):
                    cursor.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", [(1, "a", 3)])
            with pytest.raises(sluice.ProgrammingError, match="nothing"):
                cursor.executemany("INSERT INTO nothing VALUES (?)", [(1,), (2,)])
        with connected(endpoint, root) as conn:
            assert conn.execute("SELECT COUNT(*) FROM t").fetchone() == (2,)
            assert conn.execute("SELECT COUNT(*) FROM u").fetchone() == (2,)
            assert conn.execute("SELECT COUNT(*) FROM t$snapshots").fetchone() == (1,)
            conn.execute("CREATE TABLE made_up (id BIGINT) WITH ('connector' = 'datagen')")
            monkeypatch.setattr(PlainInsert, "asking_types", lambda _: "SELECT a FROM t LIMIT 0")
            with pytest.raises(sluice.OperationalError, match="no Spark"):  # which writes to connectors
                conn.cursor().executemany("INSERT INTO made_up VALUES (?)", [(1,), (2,)])
    finally:
        endpoint.close()
