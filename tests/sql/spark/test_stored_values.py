"""What is stored of a query's rows, and that whatever writes rows anew leaves them as they are."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from itertools import pairwise, product
from typing import Any

import pyarrow as pa
import pytest

from lake import Lake, LakeTable
from model.errors import LakeError
from model.identifier import Identifier
from table.format.rows.arrow import arrow_schema
from table.scan.planning.entry_scan import PlannedFile, plan_scan
from table.scan.read import read_batches
from table.write.bucket import bucket_of, internal_values
from tests.short import diagonal, short
from tests.sql.spark.conftest import Run
from tests.sql.statements.test_now_not_null import nullable
from tests.sql.tables import put_unchecked

pytestmark = pytest.mark.spark

T = Identifier("default", "t")
FORMATS = ["parquet", "orc"]
"""Spark's own writer, and the executors' Arrow writer, which object stores have for both formats."""


def planned(table: LakeTable) -> Sequence[PlannedFile]:
    return plan_scan(table.files, table.schema, table.latest()).files


def rows_of(table: LakeTable, files: Sequence[PlannedFile] | None = None) -> list[dict[str, Any]]:
    """The rows as files hold them, read without Spark."""
    batches = read_batches(table.files, table.schema, planned(table) if files is None else files)
    return [row for batch in batches for row in batch.to_pylist()]


EXCESS = dt.datetime(2024, 2, 29, 12, 34, 56, 789_123)


@pytest.mark.parametrize(("strategy", "format_"), diagonal(["order", "zorder"], FORMATS))
def test_sorting_keeps_every_value(run: Run, lake: Lake, strategy: str, format_: str) -> None:
    """NULLs where there is a default or NOT NULL by now, and digits that bodies stored beyond a precision, among them."""
    run(
        "CREATE TABLE t (id INT, s STRING, r ROW<a INT, b STRING>, l ARRAY<INT>, m MAP<STRING, INT>, t0 TIMESTAMP(0), t4 TIMESTAMP(4), "
        "z TIMESTAMP_LTZ(2), c TIME, q INT NOT NULL, w ARRAY<ROW<a INT NOT NULL>>) "
        f"WITH ('bucket' = '-1', 'file.format' = '{format_}', 'write-only' = 'true')"
    )
    times = {"t0": EXCESS.replace(microsecond=789_000), "t4": EXCESS, "z": EXCESS.replace(microsecond=789_000, tzinfo=dt.UTC)}
    given = {"s": "x", "r": {"a": 1, "b": None}, "l": [1, None], "m": [("k", None)], **times, "c": dt.time(1, 2, 3, 4000)}
    columns = {name: [value, None, value] for name, value in [*given.items(), ("w", [{"a": None}])]}
    put_unchecked(lake, {"id": [3, 1, 2], "q": [None, 1, 2], **columns}, as_in=nullable)
    run("ALTER TABLE t ADD later STRING")
    defaults = {"s": "'n/a'", "r": "'{7, z}'", "l": "'[7]'", "m": "'{q -> 7}'", "t0": "'2000-01-01 00:00:00'", "later": "'now'"}
    for name, text in defaults.items():
        run(f"ALTER TABLE t ALTER COLUMN {name} SET DEFAULT {text}")
    before = sorted(rows_of(lake.open(T)), key=lambda row: int(row["id"]))
    run(f"CALL sys.compact(`table` => 't', order_strategy => '{strategy}', order_by => 'id')")
    assert [row["id"] for row in rows_of(lake.open(T))] == [1, 2, 3], "sorted anew"
    assert rows_of(lake.open(T)) == before


KEYS = ["TIMESTAMP(0)", "TIMESTAMP(1)", "TIMESTAMP(3)", "TIMESTAMP(4)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(0)", "TIMESTAMP_LTZ(5)", "TIME"]


LAYOUTS = [
    ("TIMESTAMP(0)", False, "parquet"),
    ("TIMESTAMP(4)", True, "orc"),
    ("TIMESTAMP_LTZ(5)", False, "orc"),
    ("TIME", True, "parquet"),
]


@pytest.mark.parametrize(("key", "partitioned", "format_"), short(product(KEYS, [False, True], FORMATS), LAYOUTS))
def test_a_row_lies_where_its_stored_values_belong(run: Run, lake: Lake, key: str, format_: str, *, partitioned: bool) -> None:
    """A query's times have microseconds: what a key's type cuts off must be cut before the row is given its bucket."""
    by = " PARTITIONED BY (p)" if partitioned else ""
    options = f"'bucket' = '8', 'bucket-key' = 'k', 'file.format' = '{format_}', 'write-only' = 'true'"
    run(f"CREATE TABLE t (k {key}, n BIGINT, p {key}){by} WITH ({options})")
    moment = "timestamp_micros(1709210096000000L + id * 250001)"
    value = f"CAST({moment} AS TIME(6))" if key == "TIME" else f"CAST({moment} AS {key.partition('(')[0]})"
    run(f"INSERT INTO t SELECT {value}, id, {value} FROM range(40)")
    table = lake.open(T)
    (field,) = table.schema.bucket_fields
    places: dict[tuple[object, int], list[tuple[int, int]]] = {}
    for file in planned(table):
        rows = rows_of(table, [file])
        for stored in internal_values(field.type, pa.array([row["k"] for row in rows], arrow_schema([field]).field(0).type)):
            assert bucket_of(table.schema, [stored]) == file.bucket, (key, stored)
        meta = file.file
        places.setdefault((file.partition, file.bucket), []).append((meta.min_sequence_number, meta.max_sequence_number))
    found = rows_of(table)
    assert sorted(row["n"] for row in found) == list(range(40))
    for ranges in places.values():
        ordered = sorted(ranges)
        assert all(low > high for (_, high), (low, _) in pairwise(ordered)), (key, ordered)
    in_order: dict[object, list[int]] = {}
    for row in found:
        in_order.setdefault(row["k"], []).append(row["n"])
    assert all(numbers == sorted(numbers) for numbers in in_order.values()), key


TIMES = {
    "TIMESTAMP(0)": ("TIMESTAMP_NTZ '2024-02-29 12:34:56.789123'", EXCESS.replace(microsecond=0)),
    "TIMESTAMP(3)": ("TIMESTAMP_NTZ '1969-12-31 23:59:59.999999'", dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)),
    "TIMESTAMP(2)": ("TIMESTAMP_NTZ '2024-02-29 12:34:56.789123'", EXCESS.replace(microsecond=780_000)),
    "TIMESTAMP(5)": ("TIMESTAMP_NTZ '2024-02-29 12:34:56.789123'", EXCESS.replace(microsecond=789_120)),
    "TIMESTAMP(6)": ("TIMESTAMP_NTZ '2024-02-29 12:34:56.789123'", EXCESS),
    "TIMESTAMP_LTZ(3)": ("TIMESTAMP_LTZ '2024-02-29 12:34:56.789123Z'", EXCESS.replace(microsecond=789_000, tzinfo=dt.UTC)),
    "TIME(3)": ("TIME '01:02:03.456789'", dt.time(1, 2, 3, 456_000)),
}
NOT_IN_ORC = ("TIMESTAMP(3)", "orc")
"""A fraction of a second before 1970, which no ORC file holds."""
CHOSEN = [("TIMESTAMP(3)", "parquet"), ("TIME(3)", "orc")]
SHAPES: dict[str, tuple[str, str, Callable[[Any], Any]]] = {
    "value": ("{type}", "{value}", lambda value: value),
    "row": ("ROW<a {type}, b STRING>", "named_struct('a', {value}, 'b', 'x')", lambda value: {"a": value, "b": "x"}),
    "element": ("ARRAY<{type}>", "array({value}, NULL)", lambda value: [value, None]),
    "mapped": ("MAP<STRING, {type}>", "map('k', {value})", lambda value: [("k", value)]),
    "key": ("MAP<{type}, INT>", "map({value}, 1)", lambda value: [(value, 1)]),
    "both": ("MAP<{type}, {type}>", "map({value}, {value})", lambda value: [(value, value)]),
    "deep": (
        "ARRAY<MAP<{type}, ROW<a {type}>>>",
        "array(map({value}, named_struct('a', {value})))",
        lambda value: [[(value, {"a": value})]],
    ),
    "in_key": ("MAP<ROW<a {type}>, INT>", "map(named_struct('a', {value}), 1)", lambda value: [({"a": value}, 1)]),
}


@pytest.mark.parametrize(("type_", "format_"), short([(t, f) for t in TIMES for f in FORMATS if (t, f) != NOT_IN_ORC], CHOSEN))
def test_times_are_stored_alike_wherever_they_stand_in_a_value(run: Run, lake: Lake, type_: str, format_: str) -> None:
    """And every lane reads them, in files that compaction takes."""
    value, stored = TIMES[type_]
    columns = ", ".join(f"{name} {shape[0].format(type=type_)}" for name, shape in SHAPES.items())
    run(f"CREATE TABLE t (id INT, {columns}) WITH ('bucket' = '-1', 'file.format' = '{format_}', 'write-only' = 'true')")
    values = ", ".join(shape[1].format(value=value) for shape in SHAPES.values())
    run(f"INSERT INTO t SELECT id, {values} FROM range(2)")
    run("INSERT INTO t (id) SELECT 2")
    wanted = {name: shape[2](stored) for name, shape in SHAPES.items()}

    def check() -> None:
        assert sorted(rows_of(lake.open(T)), key=lambda row: int(row["id"])) == [
            {"id": 0, **wanted},
            {"id": 1, **wanted},
            {"id": 2, **dict.fromkeys(SHAPES)},
        ]
        assert run("SELECT count(*) FROM t WHERE key IS NOT NULL AND id + 0 < 9 GROUP BY id") == [(1,), (1,)]

    check()
    (on_spark,) = run("SELECT * FROM t WHERE id + 0 = 1 ORDER BY id + 0")
    (local,) = run("SELECT * FROM t WHERE id = 1 LIMIT 1")
    assert on_spark == local
    run("CALL sys.compact('t', compact_strategy => 'full')")
    check()
    run("CALL sys.compact(`table` => 't', order_strategy => 'order', order_by => 'id')")
    check()


LIMITED: dict[str, tuple[str, str, str, str]] = {
    "part": ("ROW<a INT NOT NULL, b STRING>", "named_struct('a', {}, 'b', 'x')", "INT", "x.a"),
    "element": ("ARRAY<INT NOT NULL>", "array(1, {})", "INT", "x.element"),
    "mapped": ("MAP<STRING, INT NOT NULL>", "map('k', {})", "INT", "x.value"),
    "deep": ("ARRAY<MAP<INT, ROW<a INT NOT NULL>>>", "array(map(1, named_struct('a', {})), NULL)", "INT", "x.element.value.a"),
    "text part": ("ROW<a VARCHAR(2), b STRING>", "named_struct('a', {}, 'b', 'x')", "STRING", "x.a"),
    "text": ("ARRAY<VARCHAR(2)>", "array('ab', {})", "STRING", "x.element"),
    "bytes": ("MAP<INT, VARBINARY(2)>", "map(1, CAST({} AS BINARY))", "STRING", "x.value"),
    "key": ("MAP<CHAR(2), INT>", "map({}, 1)", "STRING", "x.key"),
}
SAY = {"INT": "NULL, but the column is NOT NULL", "STRING": "a value of length 3 does not fit"}


@pytest.mark.parametrize("where", short(LIMITED, ["deep", "bytes"]))
def test_what_a_part_may_not_be_is_refused_wherever_a_query_gives_it(run: Run, lake: Lake, where: str) -> None:
    type_, shape, simple, place = LIMITED[where]
    run(f"CREATE TABLE t (id INT, x {type_}) WITH ('bucket' = '-1', 'rows.erasable' = 'true', 'write-only' = 'true')")
    run(f"CREATE TABLE s (id INT, good {simple}, bad {simple})")
    run("INSERT INTO s VALUES (1, 7, NULL)" if simple == "INT" else "INSERT INTO s VALUES (1, 'ab', 'abc')")
    good, bad = shape.format("s.good"), shape.format("s.bad")
    run(f"INSERT INTO t SELECT id, {good} FROM s")
    run("INSERT INTO t SELECT 2, NULL")
    before = run("SELECT * FROM t")
    merge = "MERGE INTO t USING s ON t.id = s.id"
    for statement in (
        f"INSERT INTO t SELECT id, {bad} FROM s",
        f"INSERT OVERWRITE t SELECT id, {bad} FROM s",
        f"UPDATE t SET x = (SELECT any_value({bad}) FROM s) WHERE id = 1",
        f"{merge} WHEN MATCHED THEN UPDATE SET x = {bad}",
        f"{merge} AND t.id > 1 WHEN NOT MATCHED THEN INSERT (id, x) VALUES (s.id, {bad})",
    ):
        with pytest.raises(LakeError, match=f"Column {place}: {SAY[simple]}"):
            run(statement)
        assert run("SELECT * FROM t") == before, statement
    run(f"{merge} WHEN MATCHED THEN UPDATE SET x = {good}")
    assert sorted(run("SELECT * FROM t"), key=repr) == sorted(before, key=repr)


def test_a_part_that_an_update_leaves_out_is_asked_too(run: Run) -> None:
    """Of a ROW that is NULL the other parts are NULL once one is set."""
    run("CREATE TABLE t (id INT, r ROW<a INT NOT NULL, b STRING>) WITH ('bucket' = '-1', 'rows.erasable' = 'true')")
    run("INSERT INTO t SELECT 1, NULL")
    with pytest.raises(LakeError, match=r"Column r\.a: NULL"):
        run("UPDATE t SET r.b = 'x'")
    run("UPDATE t SET r.a = 1, r.b = 'x'")
    assert run("SELECT r.a, r.b FROM t") == [(1, "x")]


def test_a_table_made_of_a_query_takes_null_everywhere(run: Run, lake: Lake) -> None:
    """That its first rows have none is nothing its later ones must be like."""
    run("CREATE TABLE t AS SELECT 1 AS id, array(1, 2) AS l, named_struct('x', 1, 'y', array(1)) AS r, map('k', named_struct('z', 1)) AS m")
    assert nullable(lake.open(T).schema) == lake.open(T).schema
    run("INSERT INTO t SELECT NULL, array(NULL), named_struct('x', NULL, 'y', array(NULL)), map('k', named_struct('z', NULL))")
    assert run("SELECT id, l, r.x, r.y, m['k'].z FROM t WHERE id IS NULL") == [(None, [None], None, [None], None)]


@pytest.mark.parametrize(("type_", "format_"), diagonal(["DATE", "TIMESTAMP(3)", "TIMESTAMP_LTZ(6)"], FORMATS))
def test_a_year_that_no_partition_can_be_is_told_with_its_column_and_value(run: Run, type_: str, format_: str) -> None:
    last = "date_from_unix_date(11248737)"
    far = f"CAST(date_add({last}, CAST(id AS INT)) AS {type_})"
    run(f"CREATE TABLE t (id INT, d {type_}) PARTITIONED BY (d) WITH ('file.format' = '{format_}', 'rows.erasable' = 'true')")
    run(f"INSERT INTO t SELECT CAST(id AS INT), {far.replace('11248737', '83000')} FROM range(2)")
    says = r"Column d: the value \+32768-01-0[12].* is before the year -32767 or after 32767"
    with pytest.raises(LakeError, match=says) as told:
        run(f"INSERT INTO t SELECT CAST(id AS INT), {far} FROM range(1, 3)")
    assert told.value.status == 400
    if format_ == "parquet":
        with pytest.raises(LakeError, match=says):
            run(f"UPDATE t SET d = CAST(date_add({last}, id + 1) AS {type_}) WHERE id >= 0")
    assert run("SELECT count(*) FROM t") == [(2,)]
