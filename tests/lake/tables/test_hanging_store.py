"""Whoever waits for a store that hangs leaves the connections to Postgres to those who ask it for nothing."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from catalog import CatalogStore
from lake import Lake
from model.identifier import Identifier
from model.schema.change import SetOption
from table.format.io.file_io import LocalFileIO
from tests.lake.tables.test_drops import make
from tests.lake.test_commit import append
from tests.short import one_in
from tests.waiting import eventually

_TABLES = [Identifier("default", f"t{number}") for number in range(20)]


class _Hanging(LocalFileIO):
    """A store that answers no more once it hangs."""

    def __init__(self) -> None:
        super().__init__()
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.asked = threading.Semaphore(0)

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name not in ("write", "create", "delete_tree"):
            return found

        def hangs(*arguments: Any, **named: Any) -> Any:
            if not self.goes_on.is_set():
                self.asked.release()
                self.goes_on.wait(600)
            return found(*arguments, **named)

        return hangs


_WORK: dict[str, Callable[[Lake, Identifier], object]] = {
    "purge": lambda lake, table: lake.drop_table(table, purge=True),
    "branch": lambda lake, table: lake.branches.drop(lake.open(table), ["b"]),
    "tag": lambda lake, table: lake.tags.create(lake.open(table), "later"),
    "schema": lambda lake, table: lake.alter_table(table, [SetOption(key="snapshot.num-retained.max", value="77")]),
}


@pytest.fixture
def hanging(catalog: CatalogStore, warehouse: Path) -> Iterator[tuple[Lake, _Hanging]]:
    store = _Hanging()
    with contextlib.closing(Lake(catalog, str(warehouse), file_io=store)) as lake:
        yield lake, store
        store.goes_on.set()


@pytest.mark.parametrize("work", one_in(2, _WORK))
def test_a_store_that_hangs_leaves_connections_to_others(hanging: tuple[Lake, _Hanging], catalog: CatalogStore, work: str) -> None:
    lake, store = hanging
    for identifier in _TABLES:
        table = make(lake, identifier, "a")
        if work == "branch":
            lake.branches.create(table, "b")
    store.goes_on.clear()
    threads = [threading.Thread(target=_quietly, args=(_WORK[work], lake, identifier)) for identifier in _TABLES]
    for thread in threads:
        thread.start()
    try:
        assert store.asked.acquire(timeout=60)
        for _ in range(100):
            with catalog.reading(seconds=20.0) as tx:
                assert tx.databases is not None
            store.asked.acquire(timeout=0.02)
        assert eventually(lambda: _left(catalog) >= 8)
    finally:
        store.goes_on.set()
        for thread in threads:
            thread.join(120)
    assert lake.finish_half_done().failed == 0
    for identifier in _TABLES:
        if work != "purge":
            found = lake.open(identifier)
            lake.commit(found, append("b"))
    assert eventually(lambda: lake.finish_half_done().left == 0)


def _left(catalog: CatalogStore) -> float:
    """How many connections nobody uses, made or not."""
    stats = catalog.pool_stats()
    return stats["available"] + stats["most"] - stats["size"]


def _quietly(work: Callable[[Lake, Identifier], object], lake: Lake, table: Identifier) -> None:
    with contextlib.suppress(Exception):
        work(lake, table)
