"""What is stored of a query's rows, and that whatever writes rows anew leaves them as they are."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from lake import Lake, LakeTable
from model.identifier import Identifier
from model.schema.schema import Schema
from model.snapshot import CommitKind
from table.format.rows.arrow import arrow_schema
from table.scan.planning.entry_scan import PlannedFile, plan_scan
from table.scan.read import read_batches
from table.write.bucket import bucket_of, internal_values
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches
from tests.short import diagonal, short
from tests.sql.spark.conftest import Run

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


def put(lake: Lake, values: dict[str, list[Any]], change: Callable[[Schema], Schema] = lambda schema: schema) -> None:
    """Commit rows as they are, unchecked, as another client or an earlier version may have; ``change``: what its schema was."""
    table = lake.open(T)
    schema = change(table.schema)
    batch = pa.RecordBatch.from_pydict(values, schema=arrow_schema(schema.fields))
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=tuple(write_batches(table.files, schema, [batch])), commit_user="other"))


EXCESS = dt.datetime(2024, 2, 29, 12, 34, 56, 789_123)


@pytest.mark.parametrize(("strategy", "format_"), diagonal(["order", "zorder"], FORMATS))
def test_sorting_keeps_every_value(run: Run, lake: Lake, strategy: str, format_: str) -> None:
    """NULLs of columns that have a default by now, and digits that bodies stored beyond a precision, among them."""
    run(
        "CREATE TABLE t (id INT, s STRING, r ROW<a INT, b STRING>, l ARRAY<INT>, m MAP<STRING, INT>, t0 TIMESTAMP(0), t4 TIMESTAMP(4), "
        f"z TIMESTAMP_LTZ(2), c TIME) WITH ('bucket' = '-1', 'file.format' = '{format_}', 'write-only' = 'true')"
    )
    times = {"t0": EXCESS.replace(microsecond=789_000), "t4": EXCESS, "z": EXCESS.replace(microsecond=789_000, tzinfo=dt.UTC)}
    given = {"s": "x", "r": {"a": 1, "b": None}, "l": [1, None], "m": [("k", None)], **times, "c": dt.time(1, 2, 3, 4000)}
    put(lake, {"id": [3, 1, 2], **{name: [value, None, value] for name, value in given.items()}})
    run("ALTER TABLE t ADD later STRING")
    defaults = {"s": "'n/a'", "r": "'{7, z}'", "l": "'[7]'", "m": "'{q -> 7}'", "t0": "'2000-01-01 00:00:00'", "later": "'now'"}
    for name, text in defaults.items():
        run(f"ALTER TABLE t ALTER COLUMN {name} SET DEFAULT {text}")
    before = sorted(rows_of(lake.open(T)), key=lambda row: int(row["id"]))
    run(f"CALL sys.compact(`table` => 't', order_strategy => '{strategy}', order_by => 'id')")
    assert [row["id"] for row in rows_of(lake.open(T))] == [1, 2, 3], "sorted anew"
    assert rows_of(lake.open(T)) == before


KEYS = ["TIMESTAMP(0)", "TIMESTAMP(1)", "TIMESTAMP(3)", "TIMESTAMP(4)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(0)", "TIMESTAMP_LTZ(5)", "TIME"]


@pytest.mark.parametrize(("partitioned", "format_"), diagonal([False, True], FORMATS))
def test_a_row_lies_where_its_stored_values_belong(run: Run, lake: Lake, format_: str, *, partitioned: bool) -> None:
    """A query's times have microseconds: what a key's type cuts off must be cut before the row is given its bucket."""
    by = " PARTITIONED BY (p)" if partitioned else ""
    for key in KEYS:
        options = f"'bucket' = '8', 'bucket-key' = 'k', 'file.format' = '{format_}', 'write-only' = 'true'"
        run(f"DROP TABLE IF EXISTS t; CREATE TABLE t (k {key}, n BIGINT, p {key}){by} WITH ({options})")
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
    "TIME": ("TIME '01:02:03.456789'", dt.time(1, 2, 3, 456_000)),
}
NOT_IN_ORC = ("TIMESTAMP(3)", "orc")
"""A fraction of a second before 1970, which no ORC file holds."""
CHOSEN = [*(("TIMESTAMP(3)", "parquet"), ("TIMESTAMP(5)", "parquet"), ("TIME", "parquet")), *(("TIMESTAMP_LTZ(3)", "orc"), ("TIME", "orc"))]
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
