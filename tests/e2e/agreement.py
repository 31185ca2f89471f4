"""Files and Postgres say the same about a table."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import psycopg

from tests.running import RunningServer

_MERGING_SECONDS = 60.0


def embedded_dsn(server: RunningServer) -> str:
    """DSN of the Postgres that a server started for itself."""
    lines = (server.data / "postgres" / "postmaster.pid").read_text().splitlines()
    return f"host={lines[4]} port={lines[3]} user=postgres dbname=postgres"


def assert_agreement(dsn: str, server: RunningServer, table: str) -> int:
    """Every snapshot of Postgres is a file with the same words, no other file is there, and the hint names the last; returns its id.

    A merge that is committed while this looks is seen in the one and not yet in the other: there it looks again.
    """
    until = time.monotonic() + _MERGING_SECONDS
    while True:
        before = _newest(dsn, table)
        try:
            return _agreement(dsn, server, table)
        except (AssertionError, OSError, ValueError):
            after = _newest(dsn, table)
            if (before == after and "COMPACT" not in after) or time.monotonic() > until:
                raise
        time.sleep(0.2)


def _newest(dsn: str, table: str) -> tuple[object, ...]:
    """Number and kind of the newest snapshot of a table, as Postgres has them; empty where there is none."""
    query = """
        SELECT p.snapshot_id, p.body->>'commitKind' FROM sluice_table t JOIN table_snapshot p USING (table_id)
        WHERE t.database = %s AND t.name = %s AND p.branch = 'main' ORDER BY p.snapshot_id DESC LIMIT 1
    """
    with psycopg.connect(dsn) as conn:
        return conn.execute(query, tuple(table.split("."))).fetchone() or ()


def _agreement(dsn: str, server: RunningServer, table: str) -> int:
    database, name = table.split(".")
    query = """
        SELECT s.snapshot_id, s.body, p.snapshot_id AS latest
        FROM sluice_table t JOIN snapshot_pointer p USING (table_id)
        JOIN table_snapshot s ON s.table_id = p.table_id AND s.branch = p.branch
        WHERE t.database = %s AND t.name = %s ORDER BY s.snapshot_id
    """
    with psycopg.connect(dsn) as conn:
        rows = conn.execute(query, (database, name)).fetchall()
    assert rows, f"{table} has no snapshot in Postgres"
    ids = [row[0] for row in rows]
    latest = rows[0][2]
    assert ids == list(range(1, latest + 1))
    directory = server.table_path(table) / "snapshot"
    files = {int(file.name.removeprefix("snapshot-")): json.loads(file.read_text()) for file in directory.glob("snapshot-*")}
    assert sorted(files) == ids
    for snapshot_id, body, _ in rows:
        assert files[snapshot_id] == body, f"snapshot {snapshot_id}"
    assert int((directory / "LATEST").read_text()) == latest
    assert int((directory / "EARLIEST").read_text()) == 1
    assert_sums(server.table_path(table), [files[snapshot_id] for snapshot_id in ids])
    return int(latest)


def assert_sums(path: Path, snapshots: list[dict[str, Any]]) -> None:
    """Totals follow from deltas where every snapshot appends, and every manifest named is there."""
    total = 0
    for snapshot in snapshots:
        for key in ("baseManifestList", "deltaManifestList"):
            assert (path / "manifest" / snapshot[key]).exists(), f"{snapshot[key]} of snapshot {snapshot['id']}"
        if snapshot["commitKind"] == "APPEND":
            total += snapshot["deltaRecordCount"]
            assert snapshot["totalRecordCount"] == total, f"snapshot {snapshot['id']}"
        else:
            total = snapshot["totalRecordCount"]
