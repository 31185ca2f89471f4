"""Many writers and readers on one table: nothing lost, nothing doubled, every read sees a committed snapshot."""

from __future__ import annotations

import pytest

from tests.e2e.agreement import assert_agreement, embedded_dsn
from tests.e2e.load import Load, create, whole_inserts
from tests.fix_server import StartServer
from tests.running import RunningServer


def test_sixteen_clients_and_readers(server: RunningServer, database: str) -> None:
    table = f"{database}.t"
    create(server, table)
    load = Load(server, table, clients=16, inserts=6, readers=3).start()
    load.join()
    assert not load.book.problems
    assert load.book.reads > 3
    assert load.book.acknowledged == {(client, n) for client in range(16) for n in range(6)}
    assert whole_inserts(server, table) == load.book.acknowledged
    assert server.value(f"SELECT COUNT(*) FROM {table}") == 16 * 6 * 3
    assert_agreement(embedded_dsn(server), server, table)


@pytest.mark.torture
def test_two_gateways_on_one_postgres_and_warehouse(start_server: StartServer, dsn: str, tmp_path_factory: object) -> None:
    first = start_server("first", SLUICE_CATALOG_DSN=dsn)
    second = start_server("second", SLUICE_CATALOG_DSN=dsn, SLUICE_WAREHOUSE=str(first.warehouse))
    create(first, "default.t")
    loads = [
        Load(gateway, "default.t", clients=4, inserts=8, readers=1, first=100 * n).start() for n, gateway in enumerate((first, second))
    ]
    for load in loads:
        load.join()
        assert not load.book.problems
    everything = loads[0].book.acknowledged | loads[1].book.acknowledged
    assert len(everything) == 64
    assert whole_inserts(first, "default.t") == whole_inserts(second, "default.t") == everything
    assert_agreement(dsn, first, "default.t")

    second.sql("ALTER TABLE t ADD (note STRING)")
    first.sql("INSERT INTO t VALUES (7, 7, 7, 'seen')")
    assert second.sql("SELECT note FROM t WHERE client = 7") == [["seen"]]
    second.sql("ALTER TABLE t RENAME TO moved")
    assert first.value("SELECT COUNT(*) FROM moved") == 64 * 3 + 1
    first.sql("DROP TABLE moved")
    assert second.sql("SHOW TABLES") == []
