"""Skipping is only allowed where no row can match, whatever the type, the statistics or who wrote the file."""

from __future__ import annotations

import datetime as dt
import io
import math
import operator
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.predicate import Compare, In, Op
from model.schema.schema import Schema, column, new_schema
from table.format.manifests.entries import within
from table.format.rows.arrow import arrow_schema
from table.format.rows.cast import fit
from table.format.rows.stats import ColumnStats, StatsModes, column_stats, merge_stats, stats_from_parquet, stats_of_batches
from table.scan.skipping.prune import may_match

TIMES = st.datetimes(dt.datetime(1960, 1, 1), dt.datetime(2030, 1, 1))
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "BOOLEAN": st.booleans(),
    "BIGINT": st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3) | st.sampled_from([2**53, 2**53 + 1]),
    "FLOAT": st.floats(width=32) | st.sampled_from([0.0, -0.0, 0.5, float("nan")]),
    "DOUBLE": st.floats() | st.sampled_from([0.0, -0.0, 0.1, float("nan")]),
    "STRING": st.text("aé\U0010ffff😀", max_size=20),
    "BYTES": st.binary(max_size=20) | st.integers(0, 20).map(lambda n: b"\xff" * n),
    "DECIMAL(9, 2)": st.decimals(-99, 99, places=2),
    "DECIMAL(38, 10)": st.decimals(-(10**20), 10**20, places=10),
    "DATE": st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1)),
    "TIMESTAMP(3)": TIMES.map(lambda t: t.replace(microsecond=t.microsecond // 1000 * 1000)),
    "TIMESTAMP_LTZ(6)": TIMES.map(lambda t: t.replace(tzinfo=dt.UTC)),
}
MODES = ["none", "counts", "full", "truncate(1)", "truncate(16)"]


def stored(schema: Schema, pieces: list[list[Any]], format_: str) -> dict[str, ColumnStats]:
    """What a manifest would hold and give back for a file of these row groups."""
    modes = StatsModes(schema)
    loose = pa.schema([pa.field(f.name, f.type) for f in arrow_schema(schema.fields)])
    batches = [fit(pa.RecordBatch.from_pylist([{"x": v} for v in piece], schema=loose), schema) for piece in pieces]
    if format_ == "orc":
        found = merge_stats([stats_of_batches({"x": (schema.fields[0].type, [b.column(0)])}) for b in batches])
    else:
        sink = io.BytesIO()
        with pq.ParquetWriter(sink, arrow_schema(schema.fields), store_decimal_as_integer=True) as writer:
            for batch in batches:
                writer.write_batch(batch)
        found = stats_from_parquet(pq.read_metadata(io.BytesIO(sink.getvalue())), modes.collected())
    kept, cols = modes.store(found)
    return column_stats(kept, cols, schema)


def matches(have: Any, op: Op, value: Any) -> bool:
    """As Spark compares: NaN equals itself and is above everything."""
    if have is None:
        return False
    if isinstance(have, float) or isinstance(value, float):
        have, value = float(have), float(value)
        if have != have or value != value:
            have, value = (1 if have != have else 0), (1 if value != value else 0)
    if op is Op.STARTS_WITH:
        return bool(have.startswith(value))
    tests = {"=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
    return bool(tests[op](have, value))


@pytest.mark.parametrize("type_", VALUES)
@given(st.data())
def test_a_file_with_a_matching_row_is_never_skipped(type_: str, data: st.DataObject) -> None:
    values = VALUES[type_]
    pieces = data.draw(st.lists(st.lists(values | st.none(), min_size=1, max_size=4), min_size=1, max_size=3))
    mode, format_ = data.draw(st.sampled_from(MODES)), data.draw(st.sampled_from(["parquet", "orc"]))
    schema = new_schema([column("x", type_)], options={"bucket": "-1", "metadata.stats-mode": mode})
    rows = [value for piece in pieces for value in piece]
    known = stored(schema, pieces, format_)
    there = [value for value in rows if value is not None]
    wanted = data.draw(st.sampled_from(there) | values if there else values)
    ops = [op for op in Op if op is not Op.STARTS_WITH or isinstance(wanted, str)]
    for op in ops:
        if any(matches(have, op, wanted) for have in rows):
            assert may_match(Compare("x", op, wanted), known, len(rows)), (op, known)
    if isinstance(wanted, str) and any(have.startswith(wanted[:2]) for have in there):
        assert may_match(Compare("x", Op.STARTS_WITH, wanted[:2]), known, len(rows))
    if there:
        assert may_match(In("x", (wanted, there[0])), known, len(rows))


def java(values: list[float]) -> tuple[float, float]:
    ordered = sorted(values, key=lambda value: (math.isnan(value), value))
    return ordered[0], ordered[-1]


def orc(values: list[float]) -> tuple[float, float]:
    """A NaN that comes first stays; later ones compare with nothing."""
    low = high = values[0]
    for value in values[1:]:
        low, high = value if value < low else low, value if value > high else high
    return low, high


def arrow(values: list[float]) -> tuple[float, float]:
    numbers = [value for value in values if not math.isnan(value)]
    return min(numbers, default=math.inf), max(numbers, default=-math.inf)


CLIENTS_BOUNDS: dict[str, Callable[[list[float]], tuple[float, float]]] = {
    "java": java, "java's ORC": orc, "pypaimon's manifests": lambda values: (min(values), max(values)), "pypaimon": arrow,
}  # fmt: skip


@pytest.mark.parametrize("writer", CLIENTS_BOUNDS)
@given(st.data())
def test_bounds_that_clients_give_columns_with_nan_skip_no_matching_row(writer: str, data: st.DataObject) -> None:
    values = st.sampled_from([math.nan, -math.inf, -1.0, -0.0, 0.0, 1.0, 3.0, math.inf])
    rows, wanted = data.draw(st.lists(values, min_size=1, max_size=4)), data.draw(values)
    low, high = CLIENTS_BOUNDS[writer](rows)
    known = {"x": ColumnStats(min=low, max=high, null_count=0)}
    for op in (Op.EQ, Op.NE, Op.LT, Op.LE, Op.GT, Op.GE):
        if any(matches(have, op, wanted) for have in rows):
            assert may_match(Compare("x", op, wanted), known, len(rows)), (op, known)
    for value in rows:
        assert within(value, low, high, unbounded=False)


@given(VALUES["BIGINT"] | VALUES["DECIMAL(9, 2)"] | VALUES["DOUBLE"], VALUES["BIGINT"] | VALUES["DECIMAL(9, 2)"] | VALUES["DOUBLE"])
def test_numbers_of_two_kinds_compare_as_doubles(have: Any, wanted: Any) -> None:
    if have != have:
        return
    known = {"x": ColumnStats(min=have, max=have, null_count=0)}
    for op in Op:
        if op is not Op.STARTS_WITH and matches(have, op, wanted):
            assert may_match(Compare("x", op, wanted), known, 1), op


def test_a_decimal_asked_of_a_double_is_that_double() -> None:
    assert may_match(Compare("x", Op.EQ, Decimal("0.1")), {"x": ColumnStats(min=0.1, max=0.1, null_count=0)}, 1)
    assert may_match(Compare("x", Op.LT, 10**400), {"x": ColumnStats(min=0.1, max=0.1, null_count=0)}, 1)


def test_statistics_do_skip() -> None:
    schema = new_schema([column("x", "STRING")], options={"bucket": "-1"})
    known = stored(schema, [["bb", "c"], ["d", None]], "parquet")
    for op, value, kept in [
        (Op.EQ, "a", False), (Op.EQ, "c", True), (Op.LT, "bb", False), (Op.LE, "bb", True), (Op.GT, "d", False),
        (Op.GE, "d", True), (Op.STARTS_WITH, "e", False), (Op.STARTS_WITH, "b", True),
    ]:  # fmt: skip
        assert may_match(Compare("x", op, value), known, 4) is kept, (op, value)


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_bounds_that_a_footer_lacks_or_python_cannot_hold_are_unknown(format_: str) -> None:
    text = new_schema([column("x", "STRING")], options={"bucket": "-1", "metadata.stats-mode": "full"})
    long = stored(text, [["a"], ["z" * 6000]], format_)
    assert may_match(Compare("x", Op.GT, "y"), long, 2)
    far = new_schema([column("x", "DATE")], options={"bucket": "-1"})
    days = pa.array([400_000_000, None], pa.date32())
    if format_ == "orc":
        found = stats_of_batches({"x": (far.fields[0].type, [days])})
    else:
        sink = io.BytesIO()
        pq.write_table(pa.table({"x": days}), sink)
        found = stats_from_parquet(pq.read_metadata(io.BytesIO(sink.getvalue())), far.fields)
    kept, cols = StatsModes(far).store(found)
    assert column_stats(kept, cols, far) == {"x": ColumnStats(null_count=1)}
