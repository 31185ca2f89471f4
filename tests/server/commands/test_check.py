"""`sluice check`: several tables at once, lists and manifests read ahead, and an end in the middle."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from lake import Lake
from lake.register.check import TableCheck
from lake.register.looks.faults import Fault
from server.commands.check import check_warehouse
from server.settings.settings import Settings, read_settings
from tests.lake.register.damage import data_files, remove
from tests.server.commands.test_standing import sql


@pytest.fixture
def settings(dsn: str, tmp_path: Path) -> Settings:
    return read_settings({"SLUICE_DATA": str(tmp_path), "SLUICE_CATALOG_DSN": dsn, "SLUICE_WAREHOUSE": str(tmp_path / "warehouse")})


@pytest.fixture
def tables(client: FlaskClient, tmp_path: Path) -> list[str]:
    names = [f"t{at}" for at in range(6)]
    for name in names:
        sql(client, f"CREATE TABLE {name} (id INT)", *(f"INSERT INTO {name} VALUES ({at})" for at in range(3)))
    for name in names[::2]:
        remove(data_files(tmp_path / f"warehouse/default.db/{name}")[0])
    return names


def test_several_tables_are_checked_at_once(settings: Settings, tables: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    together, real = threading.Barrier(3), Lake.check_table

    def check_table(self: Lake, *args: Any, **options: Any) -> Iterator[Fault]:
        together.wait(100)
        return real(self, *args, **options)

    monkeypatch.setattr(Lake, "check_table", check_table)
    lines: list[str] = []
    found = [table for table, fault in check_warehouse(settings, deep=True, threads=3, told=lines.append) if fault.problem == "is missing"]
    assert sorted(found) == [f"default.{name}" for name in tables[::2]]
    assert [line.split()[0] for line in lines] == [f"{done}/6" for done in range(1, 7)]
    assert sorted((line.split()[1], line[-9:]) for line in lines) == [
        (f"default.{name}:", f"{int(name in tables[::2])} damaged") for name in tables
    ]


def test_lists_and_manifests_are_read_ahead(settings: Settings, tables: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    lock, at_once, most, real = threading.Lock(), 0, 0, TableCheck._read
    all_there = threading.Event()

    def read(self: TableCheck, name: str, size: int | None) -> bytes | str:
        nonlocal at_once, most
        with lock:
            at_once += 1
            most = max(most, at_once)
        if most == 4:
            all_there.set()
        all_there.wait(1)  # for the other threads, where there is work for them
        with lock:
            at_once -= 1
        return real(self, name, size)

    monkeypatch.setattr(TableCheck, "_read", read)
    monkeypatch.setattr("server.commands.check._AT_ONCE", 1)
    assert len(list(check_warehouse(settings, deep=False, threads=4, told=logging.info))) == 3
    assert most == 4


def test_who_stops_ends_the_check(settings: Settings, tables: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []
    real = Lake.check_table

    def check_table(self: Lake, table: Any, **options: Any) -> Iterator[Fault]:
        looked.append(table.identifier.table)
        return real(self, table, **options)

    monkeypatch.setattr(Lake, "check_table", check_table)
    faults = check_warehouse(settings, deep=False, threads=1, told=logging.info)
    next(faults)
    faults.close()  # type: ignore[attr-defined]
    assert len(looked) < 6
