"""Every kind of table made over SQL is read by pypaimon and by Java Paimon with the same rows, buckets and usable statistics."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.interop import canonical
from tests.interop.conftest import READERS, Reader
from tests.running import Refused, RunningServer
from tests.short import diagonal
from tests.table.format.test_parquet_footer import all_ids

pytestmark = [pytest.mark.interop, pytest.mark.spark]

SCALARS = """b BOOLEAN, t TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, n9 DECIMAL(9,2), n18 DECIMAL(18,4), n38 DECIMAL(38,10),
    c CHAR(4), v VARCHAR(20), x STRING, bin BINARY(3), vb VARBINARY(8), by BYTES, da DATE, ti TIME,
    t0 TIMESTAMP(0), t3 TIMESTAMP(3), t6 TIMESTAMP(6), z3 TIMESTAMP_LTZ(3), z6 TIMESTAMP_LTZ(6)"""
ONE_ROW = """(TRUE, 127, -32768, 2147483647, -9223372036854775808, CAST(1.5 AS FLOAT), CAST(-0.25 AS DOUBLE),
    1234567.89, -12345678901234.5678, 1234567890123456789012345678.0123456789,
    'abcd', 'grün', 'a long string of more than sixteen bytes', X'010203', X'00ff', X'', DATE '1969-12-31', TIME '12:34:56',
    TIMESTAMP '2024-02-29 12:34:56', TIMESTAMP '1965-01-01 00:00:00.123', TIMESTAMP '2024-02-29 12:34:56.123456',
    TIMESTAMP '2024-02-29 12:34:56.123', TIMESTAMP '1969-12-31 23:59:59.999999')"""
NULL_ROW = "(" + ", ".join(["NULL"] * 23) + ")"
MODES = {
    "queue": "",
    "unordered": "WITH ('bucket'='-1')",
    "buckets": "WITH ('bucket'='4','bucket-key'='l')",
    "orc": "WITH ('bucket'='2','bucket-key'='i','file.format'='orc')",
}


def same_rows(server: RunningServer, table: str, reader: Reader) -> dict[str, Any]:
    """The reader's answer, once it is sure that its rows are those of SELECT and each lies in the bucket Paimon would choose."""
    ours = canonical.rows(server.arrow(f"SELECT * FROM {table}"))
    theirs = reader.read(server.table_path(table))
    assert sorted(map(json.dumps, theirs["rows"])) == sorted(map(json.dumps, ours))
    assert theirs["misplaced"] == 0
    return theirs


@pytest.mark.parametrize(("reader", "mode"), diagonal(READERS, MODES), indirect=["reader"])
def test_all_scalar_types(server: RunningServer, database: str, reader: Reader, mode: str) -> None:
    table = f"{database}.t"
    server.sql(f"CREATE TABLE {table} ({SCALARS}) {MODES[mode]}")
    row = ONE_ROW
    if mode == "orc":  # where a fraction of a second before 1970 is refused, as Arrow would write what no reader takes
        with pytest.raises(Refused) as refused:
            server.sql(f"INSERT INTO {table} VALUES {row}")
        assert refused.value.status == 400
        row = row.replace("1965-01-01 00:00:00.123", "1965-01-01 00:00:00").replace("23:59:59.999999", "23:59:59")
    server.sql(f"INSERT INTO {table} VALUES {row}, {NULL_ROW}")  # by pyarrow, in the gateway
    server.sql(f"INSERT INTO {table} SELECT * FROM {table}")  # by Spark
    assert same_rows(server, table, reader)["count"] == 4


@pytest.mark.parametrize(("reader", "mode"), diagonal(READERS, ["unordered", "orc"]), indirect=["reader"])
def test_nested_types(server: RunningServer, database: str, reader: Reader, mode: str) -> None:
    table = f"{database}.t"
    server.sql(
        f"CREATE TABLE {table} (i INT, a ARRAY<INT>, m MAP<STRING, BIGINT>, r ROW<x INT, y STRING>, aa ARRAY<ARRAY<STRING>>) {MODES[mode]}"
    )
    values = "1, ARRAY(1, NULL, 3), MAP('k', 2L), NAMED_STRUCT('x', 1, 'y', 'z'), ARRAY(ARRAY('a'), NULL)"
    server.sql(f"INSERT INTO {table} SELECT {values}")
    server.sql(f"INSERT INTO {table} VALUES (2, NULL, NULL, NULL, NULL)")
    assert same_rows(server, table, reader)["count"] == 2


@pytest.mark.parametrize(
    ("reader", "mode"), diagonal(READERS, ["WITH ('bucket'='2','bucket-key'='id')", "WITH ('bucket'='-1')", ""]), indirect=["reader"]
)
def test_partitioned(server: RunningServer, database: str, reader: Reader, mode: str) -> None:
    table = f"{database}.t"
    server.sql(f"CREATE TABLE {table} (id BIGINT, dt DATE, region STRING, flag BOOLEAN) PARTITIONED BY (dt, region, flag) {mode}")
    server.sql(
        f"INSERT INTO {table} VALUES (1, DATE '2024-01-01', 'a b', TRUE), (2, NULL, NULL, NULL), (3, DATE '1969-12-31', 'x=y/z', FALSE)"
    )
    server.sql(f"INSERT INTO {table} SELECT id + 10, dt, region, flag FROM {table}")
    theirs = same_rows(server, table, reader)
    assert theirs["count"] == 6
    pruned = reader.read(server.table_path(table), where=[("region", "=", "a b")])
    assert pruned["count"] == 2
    assert pruned["files"] < theirs["files"]


def test_evolved_schemas(server: RunningServer, database: str, reader: Reader) -> None:
    table = f"{database}.t"
    server.sql(
        f"CREATE TABLE {table} (id INT, gone STRING, was STRING) WITH ('bucket'='2','bucket-key'='id')".replace(
            "id INT", "id BIGINT, small INT"
        )
    )
    server.sql(f"INSERT INTO {table} VALUES (1, 7, 'old', 'name'), (2, NULL, NULL, NULL)")
    for change in ("ADD (added STRING)", "DROP (gone)", "RENAME was TO is_now", "MODIFY small BIGINT", "ADD (gone INT)"):
        server.sql(f"ALTER TABLE {table} {change}")
    server.sql(f"INSERT INTO {table} (id, small, is_now, added, gone) VALUES (3, 5000000000, 'n', 'a', 9)")
    assert sorted(server.sql(f"SELECT id, small, is_now, added, gone FROM {table}")) == [
        [1, 7, "name", None, None],
        [2, None, None, None, None],
        [3, 5000000000, "n", "a", 9],
    ]
    assert same_rows(server, table, reader)["count"] == 3


@pytest.mark.parametrize(("reader", "format_"), diagonal(READERS, ["orc", "parquet"]), indirect=["reader"])
def test_days_before_the_gregorian_calendar(server: RunningServer, database: str, reader: Reader, format_: str) -> None:
    table = f"{database}.t"
    server.sql(f"CREATE TABLE {table} (d DATE, t TIMESTAMP(3), z TIMESTAMP_LTZ(6)) WITH ('file.format'='{format_}')")
    times = "NULL, NULL" if format_ == "orc" else "TIMESTAMP '1066-10-14 09:00:00', TIMESTAMP '1500-02-28 12:00:00'"
    server.sql(f"INSERT INTO {table} VALUES (DATE '0001-01-01', {times})")
    server.sql(f"INSERT INTO {table} SELECT * FROM {table}")  # by Spark, which read them, too
    wanted = (-719162, *((None, None) if format_ == "orc" else (-28502722800000000, -14826715200000000)))
    assert {tuple(row) for row in same_rows(server, table, reader)["rows"]} == {wanted}
    assert server.sql(f"SELECT DISTINCT CAST(d AS STRING) FROM {table}") == [["0001-01-01"]]


@pytest.mark.parametrize(("reader", "emptied"), diagonal(READERS, [False, True]), indirect=["reader"])
def test_empty(server: RunningServer, database: str, reader: Reader, emptied: bool) -> None:
    table = f"{database}.t"
    server.sql(f"CREATE TABLE {table} (id BIGINT, note STRING)")
    if emptied:
        server.sql(f"INSERT INTO {table} VALUES (1, 'x')")
        server.sql(f"TRUNCATE TABLE {table}")
    assert reader.read(server.table_path(table))["rows"] == []


@pytest.mark.parametrize(("reader", "format_"), diagonal(READERS, ["parquet", "orc"]), indirect=["reader"])
def test_statistics_keep_readers_from_files(server: RunningServer, database: str, reader: Reader, format_: str) -> None:
    table = f"{database}.t"
    columns = "id BIGINT, amount DECIMAL(20,2), at TIMESTAMP(3), day DATE, name STRING"
    server.sql(f"CREATE TABLE {table} ({columns}) WITH ('bucket'='-1','file.format'='{format_}')")
    for n in range(4):  # four files with ranges apart, two written in the gateway and two by Spark
        row = f"{n * 100}, {n * 100}.50, TIMESTAMP '2024-01-0{n + 1} 00:00:00', DATE '2024-01-0{n + 1}', 'name {n}'"
        server.sql(f"INSERT INTO {table} " + (f"VALUES ({row})" if n % 2 else f"SELECT {row}"))
    path = server.table_path(table)
    assert reader.read(path)["files"] == 4
    for where in (("id", ">", 250), ("name", "=", "name 2"), ("id", "<", 50)):
        found = reader.read(path, where=[where])
        assert (found["files"], found["count"]) == (1, 1), where
    assert reader.read(path, where=[("name", "is null", None)])["files"] == 0


def test_java_uses_the_file_indexes(server: RunningServer, database: str, java_paimon: Reader) -> None:
    """Paimon's scan looks into indexes that lie in the manifest; its reader into all of them."""
    table = f"{database}.t"
    indexed = "'file-index.bloom-filter.columns'='id,name,at', 'file-index.bitmap.columns'='kind'"
    sizes = ", ".join(f"'file-index.bloom-filter.{c}.items'='100', 'file-index.bloom-filter.{c}.fpp'='0.001'" for c in ("id", "name", "at"))
    server.sql(
        f"CREATE TABLE {table} (id BIGINT, name STRING, at TIMESTAMP(6), kind INT) "
        f"WITH ('bucket'='-1', 'write-only'='true', 'metadata.stats-mode'='none', {indexed}, {sizes}, "
        "'file-index.in-manifest-threshold'='100 kb')"
    )
    for n in range(4):  # two files written in the gateway and two by Spark
        row = f"id, CONCAT('name ', id), TIMESTAMP '2024-01-01 00:00:00.123456' + MAKE_INTERVAL(0, 0, 0, CAST(id AS INT)), {n} * 7"
        values = f"({500 + n}, 'name {500 + n}', TIMESTAMP '2025-01-01 00:00:0{n}', {n} * 7)"
        server.sql(f"INSERT INTO {table} " + (f"VALUES {values}" if n % 2 else f"SELECT {row} FROM range({n}, 100, 4)"))
    path = server.table_path(table)

    def files(*condition: object) -> int:
        return int(java_paimon.read(path, where=[condition])["files"])  # type: ignore[list-item]

    total = java_paimon.read(path)["files"]
    assert total >= 4
    assert files("id", "=", 2) == files("name", "=", "name 50") == files("name", "=", "name 503") == 1
    assert files("kind", "=", 7) == 1
    assert files("id", "=", -1) == 0
    server.sql(f"ALTER TABLE {table} SET ('file-index.in-manifest-threshold'='0 b')")
    assert server.sql(f"CALL sys.rewrite_file_index('{table}')")[0][1] == total
    # In files of their own the indexes are the reader's to use, file by file and, with bitmaps, row by row.
    for n in (0, 2, 4, 50, 98, 501, 503):
        found = java_paimon.read(path, where=[("id", "=", n)])
        assert n in [row[0] for row in found["rows"]], n
        assert found["count"] < 30, n
    assert java_paimon.read(path, where=[("kind", "=", 7)])["count"] == 1
    assert server.sql(f"SELECT COUNT(*) FROM {table} WHERE id = 4 AND kind = 0") == [[1]]


def test_a_queue_is_read_in_write_order(server: RunningServer, database: str, reader: Reader) -> None:
    table = f"{database}.t"
    server.sql(f"CREATE TABLE {table} (id BIGINT)")
    server.sql(f"INSERT INTO {table} SELECT id FROM range(0, 1000) ORDER BY id DESC")
    server.sql(f"INSERT INTO {table} VALUES (-1), (-2)")
    assert [row[0] for row in same_rows(server, table, reader)["rows"]] == [*range(999, -1, -1), -1, -2]


def test_real_data(server: RunningServer, database: str, reader: Reader, tpch: Path) -> None:
    table = f"{database}.orders"
    server.sql(
        f"""CREATE TABLE {table} (o_orderkey BIGINT NOT NULL, o_custkey BIGINT NOT NULL, o_orderstatus STRING NOT NULL,
        o_totalprice DECIMAL(15,2) NOT NULL, o_orderdate DATE NOT NULL, o_orderpriority STRING NOT NULL, o_clerk STRING NOT NULL,
        o_shippriority INT NOT NULL, o_comment STRING NOT NULL) WITH ('bucket'='8','bucket-key'='o_custkey')"""
    )
    server.append(table, (tpch / "orders.parquet").read_bytes())
    found = reader.read(server.table_path(table), rows=False)
    assert (found["count"], found["misplaced"]) == (150_000, 0)


def test_files_say_the_same_of_themselves_whoever_wrote_them(server: RunningServer, database: str, reader: Reader) -> None:
    """Readers of bare files go by ids and annotations: Spark's own had no ids, and other annotations of times."""
    table = f"{database}.t"
    nested = "a ARRAY<TIMESTAMP(3)>, m MAP<STRING, ROW<x TIMESTAMP_LTZ(6), y ARRAY<INT>>>, r ROW<x INT, w TIMESTAMP_LTZ(3)>"
    server.sql(f"CREATE TABLE {table} ({SCALARS}, {nested}) WITH ('bucket'='-1', 'write-only'='true')")
    server.sql(f"INSERT INTO {table} VALUES {ONE_ROW[:-1]}, NULL, NULL, NULL)")  # by pyarrow, in the gateway
    some = "ARRAY(t3), MAP('k', NAMED_STRUCT('x', z6, 'y', ARRAY(1))), NAMED_STRUCT('x', 1, 'w', z3)"
    server.sql(f"INSERT INTO {table} SELECT {', '.join(re.findall(r'([a-z0-9]+) [A-Z]', SCALARS))}, {some} FROM {table}")  # by Spark
    ours, spark = sorted(server.table_path(table).rglob("*.parquet"), key=lambda path: path.stat().st_mtime_ns)
    assert all_ids(ours) == all_ids(spark)
    assert len(all_ids(ours)) == 23 + 3 + 6 + 2
    types = [[re.sub(r" not null| \('\w+'\)", "", str(field.type)) for field in pq.read_schema(path)] for path in (ours, spark)]
    assert types[0] == types[1]
    by_spark = canonical.rows(server.arrow(f"SELECT * FROM {table} ORDER BY SIZE(a) + 0"))
    assert sorted(by_spark, key=str) == sorted(canonical.rows(server.arrow(f"SELECT * FROM {table}")), key=str)
    assert pq.read_table(spark).select(range(23)).to_pylist() == pq.read_table(ours).select(range(23)).to_pylist()
    assert same_rows(server, table, reader)["count"] == 2
