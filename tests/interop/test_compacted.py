"""Tables read by pypaimon and Java Paimon after every kind of maintenance: same rows, same order, same buckets."""

from __future__ import annotations

import pytest

from tests.interop import canonical
from tests.interop.conftest import READERS, Reader
from tests.interop.test_tables import same_rows
from tests.running import RunningServer
from tests.short import diagonal

pytestmark = [pytest.mark.interop, pytest.mark.spark]

COLUMNS = "id BIGINT, s STRING, n DECIMAL(10,2), at TIMESTAMP(3), z TIMESTAMP_LTZ(6), l ARRAY<INT>"


def fill(server: RunningServer, table: str, commits: int, *, extra: str = "") -> None:
    for n in range(commits):
        values = ", ".join(
            f"({i}, 's{i}', {i}.25, TIMESTAMP '2024-01-01 00:00:0{i % 10}.123', NULL, ARRAY[{i}]{extra})" for i in range(n * 4, n * 4 + 4)
        )
        server.sql(f"INSERT INTO {table} VALUES {values}")


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_a_compacted_queue_is_read_in_order(
    server: RunningServer, database: str, pypaimon: Reader, java_paimon: Reader, format_: str
) -> None:
    """pypaimon reads files as manifests list them, and so in order only where one file is left; Java sorts them by sequence."""
    table = f"{database}.q"
    server.sql(f"CREATE TABLE {table} ({COLUMNS}) WITH ('compaction.max.file-num' = '4', 'file.format' = '{format_}')")
    fill(server, table, 6)
    assert server.sql(f"CALL sys.compact('{table}', '', 'minor')")[0][1] in (0, 6)  # the coordinator may have been first
    fill(server, table, 1)
    same_rows(server, table, pypaimon)
    assert same_rows(server, table, java_paimon)["rows"] == canonical.rows(server.arrow(f"SELECT * FROM {table}"))
    server.sql(f"CALL sys.compact('{table}')")
    for reader in (pypaimon, java_paimon):
        assert same_rows(server, table, reader)["rows"] == canonical.rows(server.arrow(f"SELECT * FROM {table}"))


def test_compacted_buckets_and_partitions(server: RunningServer, database: str, reader: Reader) -> None:
    table = f"{database}.t"
    server.sql(f"CREATE TABLE {table} ({COLUMNS}, p STRING) PARTITIONED BY (p) WITH ('bucket' = '3', 'bucket-key' = 'id')")
    for extra in (", 'a'", ", 'b c'", ", NULL"):
        fill(server, table, 4, extra=extra)
    (done,) = server.sql(f"CALL sys.compact(`table` => '{table}', compact_strategy => 'full')")
    assert done[0] > 5
    server.sql(f"CALL sys.compact_manifest('{table}')")
    same_rows(server, table, reader)


@pytest.mark.parametrize(("reader", "strategy"), diagonal(READERS, ["order", "zorder", "hilbert"]), indirect=["reader"])
def test_sorted_tables(server: RunningServer, database: str, reader: Reader, strategy: str) -> None:
    table = f"{database}.t"
    server.sql(f"CREATE TABLE {table} ({COLUMNS}, p INT) PARTITIONED BY (p) WITH ('bucket' = '-1')")
    fill(server, table, 5, extra=", 1")
    server.sql(f"CALL sys.compact(`table` => '{table}', order_strategy => '{strategy}', order_by => 'n,s')")
    same_rows(server, table, reader)


def test_clustered_tables(server: RunningServer, database: str, reader: Reader) -> None:
    """Files at levels above 0 are read as any other."""
    table = f"{database}.t"
    clustered = "'clustering.incremental' = 'true', 'clustering.columns' = 'n,s'"
    server.sql(f"CREATE TABLE {table} ({COLUMNS}, p INT) PARTITIONED BY (p) WITH ('bucket' = '-1', {clustered})")
    fill(server, table, 2, extra=", 1")
    server.sql(f"CALL sys.compact(`table` => '{table}', compact_strategy => 'full')")
    fill(server, table, 1, extra=", 1")
    assert server.sql(f"SELECT MIN(level), MAX(level) FROM {table}$files") == [[0, 5]]
    same_rows(server, table, reader)


def test_after_expiry_rollback_and_tags(server: RunningServer, database: str, reader: Reader) -> None:
    table = f"{database}.t"
    server.sql(f"CREATE TABLE {table} ({COLUMNS})")
    fill(server, table, 6)
    server.sql(f"CALL sys.create_tag(`table` => '{table}', tag => 'kept', snapshot_id => 2, time_retained => '1 d')")
    server.sql(f"CALL sys.expire_snapshots(`table` => '{table}', retain_max => 2)")
    same_rows(server, table, reader)
    server.sql(f"CALL sys.rollback_to('{table}', 5)")
    assert same_rows(server, table, reader)["count"] == 20
    server.sql(f"CALL sys.rollback_to('{table}', 'kept')")
    assert same_rows(server, table, reader)["count"] == 8
    fill(server, table, 1)
    assert same_rows(server, table, reader)["count"] == 12
