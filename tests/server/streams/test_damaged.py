"""Damage of a table that Spark streams: its query tells it as every other reader does. Of jobs tells `test_failed_jobs.py`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from tests.e2e.agreement import embedded_dsn
from tests.following import streamed
from tests.lake.register.damage import BREAKS, data_files, metadata_files
from tests.running import RunningServer
from tests.short import short
from tests.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow]
FROM_THE_START = "/*+ OPTIONS('scan.mode' = 'latest-full') */"
FILES: dict[str, Callable[[Path], Path]] = {
    "data": lambda place: data_files(place)[0],
    "manifest": lambda place: metadata_files(place, "manifest")[0],
}


@pytest.fixture
def place(server: RunningServer, database: str) -> Path:
    server.sql(f"CREATE TABLE {database}.t (id INT, s STRING) WITH ('bucket' = '1', 'bucket-key' = 'id')")
    for number in (1, 2):
        server.sql(f"INSERT INTO {database}.t VALUES ({number}, 'a')")
    return server.table_path(f"{database}.t")


def told(server: RunningServer, database: str, text: str) -> Any:
    """The error a stream ends with; asked again while it is that the machine is too busy to start a process."""
    found: list[Any] = []

    def ended() -> bool:
        answer = httpx.post(f"{server.url}/sql?mode=streaming&database={database}", content=text.encode(), timeout=120)
        last = json.loads([line for line in answer.text.splitlines() if line][-1])
        found.append(last.get("$error", last))
        return bool(found[-1]["errorClass"] != "Unavailable")

    assert eventually(ended, 180), found
    return found[-1]


def all_noted(server: RunningServer) -> None:
    """Wait until the server's catalog knows that each snapshot's file is there; until then one that goes is written anew."""
    with psycopg.connect(embedded_dsn(server), autocommit=True) as conn:
        assert eventually(lambda: conn.execute("SELECT 1 FROM table_snapshot WHERE NOT published").fetchone() is None)


@pytest.mark.parametrize(("what", "how"), short([("data", "missing"), ("manifest", "cut")], [("data", "missing")]))
def test_a_query_that_spark_streams_tells_it(server: RunningServer, database: str, place: Path, what: str, how: str) -> None:
    file = FILES[what](place)
    BREAKS[how](file)
    error = told(server, database, f"SELECT id, upper(s) FROM t {FROM_THE_START} LIMIT 2")
    assert (error["errorClass"], error["status"]) == ("TableDamaged", 503), error
    assert file.name in error["detail"]
    assert f"CALL sys.check_table('{database}.t')" in error["detail"]
    assert [row for row in server.sql("SELECT * FROM sys.damaged_tables") if row[0] == database]


def test_a_hole_in_history_is_damage_and_a_missing_beginning_is_expiry(server: RunningServer, database: str, place: Path) -> None:
    server.sql(f"INSERT INTO {database}.t VALUES (3, 'a')")
    text = "SELECT id, upper(s) FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */ LIMIT 3"
    all_noted(server)
    (place / "snapshot/snapshot-2").unlink()
    error = told(server, database, text)
    assert (error["errorClass"], error["status"]) == ("TableDamaged", 503), error
    assert "snapshot-2 is missing between snapshots that are there" in error["detail"]
    server.sql(f"CALL sys.repair_table('{database}.t')")
    assert ids_of(server, database, text) == [1, 2, 3]
    (place / "snapshot/snapshot-1").unlink()
    assert ids_of(server, database, text.replace("LIMIT 3", "LIMIT 2")) == [2, 3]  # it begins at the oldest that is left


def ids_of(server: RunningServer, database: str, text: str) -> list[int]:
    return sorted(row["id"] for row in streamed(server.url, text, database=database))
