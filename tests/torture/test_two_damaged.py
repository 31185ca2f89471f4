"""Two damaged tables among many, on a server whose coordinator looks after all of them: told once, and nobody else is held up."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from tests.fix_server import StartServer
from tests.running import Refused, RunningServer
from tests.torture.job_campaign import until

SMALL_FILES = 6
"""Commits that make a table worth merging."""


def _insert(server: RunningServer, table: str, times: int = 1) -> None:
    for _ in range(times):
        server.sql(f"INSERT INTO {table} VALUES (1)")


def _merged(server: RunningServer, table: str) -> bool:
    return bool(server.value(f"SELECT COUNT(*) FROM `{table}$snapshots` WHERE commit_kind = 'COMPACT'"))


def _trouble(server: RunningServer) -> str:
    answer = httpx.get(f"{server.url}/readyz", timeout=60).json()
    return str(answer["tables"].get("detail", ""))


def _told(server: RunningServer, table: str) -> int:
    """Lines of the log about a table; its file's name may stand in more than one place of a line."""
    return sum(f"default.{table} " in line for line in server.log.read_text().splitlines())


@pytest.mark.slow
@pytest.mark.parametrize("tables", [8, pytest.param(1000, marks=[pytest.mark.torture, pytest.mark.timeout(3600)])])
def test_the_others_do_not_feel_it(start_server: StartServer, tmp_path: Path, tables: int) -> None:
    server = start_server()
    names = [f"t{number:04}" for number in range(tables)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: server.sql(f"CREATE TABLE {name} (id INT) WITH ('bucket' = '-1')"), names))
        list(pool.map(lambda name: _insert(server, name), names))
    no_list, no_data = names[tables // 3], names[tables // 2]
    kept = tmp_path / "kept"
    for name, files in ((no_list, "manifest/manifest-list-*"), (no_data, "bucket-0/*")):
        place = server.table_path(f"default.{name}")
        shutil.copytree(place, kept / name)
        for file in place.glob(files):
            file.unlink()
    _insert(server, no_data, SMALL_FILES)  # its merge meets what is gone
    until(
        lambda: all(f"default.{name}: " in _trouble(server) for name in (no_list, no_data)), what=lambda: (_trouble(server), server.words())
    )
    assert "2 tables need a hand" in _trouble(server)
    until(lambda: httpx.get(f"{server.url}/readyz", timeout=60).json()["status"] == "degraded")
    for _ in range(5):  # what the other lacks is still in the server's memory
        with pytest.raises(Refused) as refused:
            server.sql(f"SELECT * FROM {no_data}")
        told = refused.value.document
        assert told.get("error", told)["errorClass"] == "TableDamaged"
    others = [name for name in names if name not in (no_list, no_data)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda name: _insert(server, name), others))
        assert set(pool.map(lambda name: len(server.sql(f"SELECT * FROM {name}")), others)) == {2}
        busy = others[:: max(1, tables // 20)]
        list(pool.map(lambda name: _insert(server, name, SMALL_FILES), busy))
    for name in busy:
        until(lambda name=name: _merged(server, name), what=lambda: server.words())  # type: ignore[misc]
    assert {name: _told(server, name) for name in (no_list, no_data)} == {no_list: 1, no_data: 1}
    for name in (no_list, no_data):
        shutil.copytree(kept / name, server.table_path(f"default.{name}"), dirs_exist_ok=True)
    until(lambda: not _trouble(server), what=lambda: _trouble(server))
    assert server.value(f"SELECT COUNT(*) FROM {no_list}") == 1
    assert len(server.sql(f"SELECT * FROM {no_data}")) == 1 + SMALL_FILES
