"""There are few places beside the store, for all tables: who waits for a table keeps none from the others."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest

from catalog import CatalogStore, CatalogTransaction
from lake import Lake, LakeTable
from lake.store_places import locked_beside_store
from model.errors import Unavailable
from tests.lake.rewrite.test_compaction import append
from tests.sql.tables import make_table

_PLACES = 4
"""Of sixteen connections."""
_WAITING = 6
"""More than there are places."""


def _tag(lake: Lake, table: LakeTable) -> None:
    (tag,) = lake.tags.look(table).rows
    lake.tags.publish(table, tag)


def _schema(lake: Lake, table: LakeTable) -> None:
    lake._publisher.schemas(table.table_id, table.files, table.identifier.branch)


@contextlib.contextmanager
def _held(dsn: str, table: LakeTable) -> Iterator[None]:
    """While somebody else changes the table, or stands still in it."""
    with psycopg.connect(dsn) as conn:
        conn.execute("SELECT 1 FROM table_entry WHERE table_id = %s FOR UPDATE", (table.table_id,))
        yield


@pytest.mark.parametrize("work", [_tag, _schema])
def test_a_table_that_is_held_keeps_the_files_of_no_other_table_waiting(
    lake: Lake, dsn: str, work: Callable[[Lake, LakeTable], None]
) -> None:
    held, free = (make_table(lake, name, id="INT") for name in ("held", "free"))
    for table in (held, free):
        append(lake, table, [0])
        lake.tags.create(table, "kept")
    done: list[str] = []

    def wait() -> None:
        with contextlib.suppress(Unavailable):
            work(lake, held)
            done.append("held")

    threads = [threading.Thread(target=wait) for _ in range(_WAITING)]
    with _held(dsn, held):
        for thread in threads:
            thread.start()
        time.sleep(1.0)
        begin = time.monotonic()
        for _ in range(5):
            work(lake, free)
        took = time.monotonic() - begin
        assert not done
    for thread in threads:
        thread.join(60)
    assert took < 10.0, "five of them waited for places that the other table's had"
    assert done == ["held"] * _WAITING, "they are done once the table is free"


def test_what_stays_somebodys_is_told_in_time(lake: Lake, dsn: str, catalog: CatalogStore) -> None:
    table = make_table(lake, "held", id="INT")
    begin = time.monotonic()

    def lock(tx: CatalogTransaction) -> None:
        tx.tables.hold(table.table_id)
        assert tx.tables.by_id(table.table_id) is not None

    waits = locked_beside_store(catalog, lock, patience=1.0)
    with _held(dsn, table), pytest.raises(Unavailable), waits:
        pytest.fail("it was held")
    assert 0.9 < time.monotonic() - begin < 15.0


def _lock_nothing(_: CatalogTransaction) -> None:
    """What is to be locked is free."""


def test_a_place_that_does_not_come_is_waited_for_once(catalog: CatalogStore) -> None:
    with contextlib.ExitStack() as slow:
        for _ in range(_PLACES):
            slow.enter_context(catalog.beside_store())
        begin = time.monotonic()
        waits = locked_beside_store(catalog, _lock_nothing, place_seconds=0.4, patience=8.0)
        with pytest.raises(Unavailable, match="The store answers slowly"), waits:
            pytest.fail("no place was free")
        assert 0.35 < time.monotonic() - begin < 7.0


def test_places_that_are_taken_while_a_table_is_held_add_nothing_to_the_wait_for_it(lake: Lake, dsn: str, catalog: CatalogStore) -> None:
    table = make_table(lake, "held", id="INT")
    slow = contextlib.ExitStack()
    tries: list[float] = []

    def lock(tx: CatalogTransaction) -> None:
        if not tries:
            for _ in range(_PLACES - 1):
                slow.enter_context(catalog.beside_store())
            threading.Thread(target=lambda: slow.enter_context(catalog.beside_store())).start()  # once this one's is free
        tries.append(time.monotonic())
        tx.tables.hold(table.table_id)
        assert tx.tables.by_id(table.table_id) is not None

    waits = locked_beside_store(catalog, lock, place_seconds=30.0, patience=2.0)
    with slow, _held(dsn, table), pytest.raises(Unavailable), waits:
        pytest.fail("it was held")
    assert 1.5 < time.monotonic() - tries[0] < 15.0
