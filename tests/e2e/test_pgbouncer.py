"""Whole servers behind PgBouncer in transaction mode, and the commands beside them."""

from __future__ import annotations

from itertools import cycle
from pathlib import Path

import httpx
import pytest

from model.errors import IllegalMove, InvalidOption
from server.commands.backup import backup
from server.commands.restore import restore
from server.settings.settings import read_settings
from tests.fix_server import StartServer


def test_two_servers_and_the_commands_work_through_pgbouncer(pooled_dsn: str, dsn: str, start_server: StartServer, tmp_path: Path) -> None:
    warehouse = str(tmp_path / "warehouse")
    through = {"SLUICE_CATALOG_DSN": pooled_dsn, "SLUICE_CATALOG_POOLER": "transaction", "SLUICE_WAREHOUSE": warehouse}
    servers = [start_server("first", **through), start_server("second", **through, SLUICE_CATALOG_DIRECT_DSN=dsn)]
    turns = cycle(servers)
    for text in (
        "CREATE DATABASE d", "CREATE TABLE d.t (id INT, part INT) PARTITIONED BY (part)", "ALTER TABLE d.t ADD COLUMN x INT",
        "CREATE TABLE d.u (id INT)", "ALTER TABLE d.u RENAME TO v", "DROP TABLE d.v",
    ):  # fmt: skip
        next(turns).sql(text)
    view = {"fields": [{"id": 0, "name": "id", "type": "INT"}], "query": "SELECT id FROM d.t"}  # whose columns no Spark has to tell
    body = {"identifier": {"database": "d", "object": "w"}, "schema": view}
    httpx.post(f"{next(turns).url}/v1/sluice/databases/d/views", json=body).raise_for_status()
    assert next(turns).sql("SHOW VIEWS IN d") == [["w"]]
    for number in range(8):
        for _ in range(2):  # each is repeated on the other server
            next(turns).sql(f"INSERT INTO d.t VALUES ({number}, {number % 3}, 0)", timeout=300, **{"Idempotency-Key": f"key-{number}"})
    rows = next(turns).sql("SELECT id FROM d.t WHERE id >= 0")
    assert sorted(number for (number,) in rows) == list(range(8))

    settings = read_settings({"SLUICE_DATA": str(tmp_path / "data"), **through})
    summary, _ = backup(settings, tmp_path / "backup")
    assert "revision" in summary
    with pytest.raises(IllegalMove, match="SLUICE_CATALOG_DIRECT_DSN"):
        restore(settings, tmp_path / "backup", replace=True)
    direct = read_settings({"SLUICE_DATA": str(tmp_path / "data"), **through, "SLUICE_CATALOG_DIRECT_DSN": dsn})
    with pytest.raises(IllegalMove, match="Servers hold 2 connections"):
        restore(direct, tmp_path / "backup", replace=True)
    for server in servers:
        assert server.terminate() == 0
    restore(direct, tmp_path / "backup", replace=True)  # PgBouncer's own connections still bear the servers' name
    assert start_server("third", **through).value("SELECT count(*) FROM d.t") == 8


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"SLUICE_CATALOG_POOLER": "transaction"}, "needs SLUICE_CATALOG_DSN"),
        ({"SLUICE_CATALOG_DSN": "host=x", "SLUICE_CATALOG_DIRECT_DSN": "host=y"}, "SLUICE_CATALOG_POOLER=transaction"),
        ({"SLUICE_CATALOG_DSN": "host=x", "SLUICE_CATALOG_POOLER": "session"}, "none"),
    ],
)
def test_settings_that_make_no_sense_are_refused(given: dict[str, str], said: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidOption, match=said):
        read_settings({"SLUICE_DATA": str(tmp_path), **given})
