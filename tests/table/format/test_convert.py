"""Values of an old type under the new one, as Java's readers make them; `tests/interop/test_casts.py` asks Java."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from model.errors import InvalidData
from model.predicate import Compare, IsNull, Op
from model.schema.change import UpdateColumnType, apply_changes
from model.schema.schema import column, new_schema
from model.schema.types import parse_type
from table.format.io.file_io import LocalFileIO
from table.format.rows.arrow import arrow_type
from table.format.rows.convert import converted
from table.format.store import TableFiles
from table.index.skip import without_skipped
from table.scan.aggregates import Aggregate, Function, exact_aggregates
from table.scan.planning.entry_scan import plan_scan
from tests.table.scan.test_files import insert, select

LATE = dt.datetime(1969, 12, 31, 23, 59, 58, 567890)
NAN, INFINITE = float("nan"), float("inf")


def cast(values: list[Any], old: str, new: str) -> list[Any]:
    source, target = parse_type(old), parse_type(new)
    made = converted(pa.array([*values, None], arrow_type(source)), source, target, "c")
    assert made.type == arrow_type(target)
    assert made[-1].as_py() is None
    found: list[Any] = made.to_pylist()
    return found[:-1]


@pytest.mark.parametrize(
    ("old", "new", "values", "wanted"),
    [
        ("INT", "TINYINT", [1, 300, -129], [1, 44, 127]),
        ("BIGINT", "INT", [2**40 + 5], [5]),
        ("DOUBLE", "INT", [1.9, -1.9, 1e20, -1e20, NAN, INFINITE], [1, -1, 2**31 - 1, -(2**31), 0, 2**31 - 1]),
        ("DOUBLE", "BIGINT", [1e20, -1e20, 300.7], [2**63 - 1, -(2**63), 300]),
        ("FLOAT", "TINYINT", [300.7, 1e20], [44, -1]),
        ("DECIMAL(38, 0)", "BIGINT", [Decimal(10**23)], [200376420520689664]),
        ("DECIMAL(9, 3)", "DECIMAL(4, 2)", [Decimal("-1.995"), Decimal("99.999")], [Decimal("-2.00"), None]),
        ("DOUBLE", "DECIMAL(9, 2)", [0.1, 1e10, 2.675], [Decimal("0.10"), None, Decimal("2.68")]),
        ("STRING", "DECIMAL(4, 2)", ["1.005", "1e2", "1e-999999"], [Decimal("1.01"), None, Decimal("0.00")]),
        ("STRING", "BOOLEAN", ["t", "FALSE", "1"], [True, False, True]),
        ("STRING", "INT", ["1", "+7", "-3.9", ".5"], [1, 7, -3, 0]),
        ("STRING", "DOUBLE", [" 1.5 ", "1e3", "-Infinity", "2f"], [1.5, 1000.0, -INFINITE, 2.0]),
        ("DOUBLE", "STRING", [1.0, 1e7, 1e-3, 1e-4, -0.0, NAN], ["1.0", "1.0E7", "0.001", "1.0E-4", "-0.0", "NaN"]),
        ("FLOAT", "STRING", [0.1, 16777216.0], ["0.1", "1.6777216E7"]),
        ("DECIMAL(38, 18)", "STRING", [Decimal("1E-18")], ["0.000000000000000001"]),
        ("INT", "VARCHAR(3)", [12345], ["123"]),
        ("STRING", "CHAR(3)", ["é", "abcd"], ["é  ", "abc"]),
        ("BYTES", "STRING", [b"a\xff"], ["a\ufffd"]),
        ("STRING", "BINARY(4)", ["é"], [b"\xc3\xa9\0\0"]),
        ("TIME(3)", "STRING", [dt.time(1, 2, 3), dt.time(0, 0, 0, 120000)], ["01:02:03.0", "00:00:00.12"]),
        ("TIMESTAMP(3)", "STRING", [dt.datetime(2024, 1, 2, 3, 4, 5, 600000)], ["2024-01-02 03:04:05.600"]),
        ("TIMESTAMP(6)", "DATE", [LATE], [dt.date(1969, 12, 31)]),
        ("TIMESTAMP(6)", "BIGINT", [LATE], [-1]),
        ("TIMESTAMP(6)", "TIMESTAMP(0)", [LATE], [dt.datetime(1969, 12, 31, 23, 59, 59)]),
        ("TIMESTAMP(6)", "TIMESTAMP(4)", [LATE], [dt.datetime(1969, 12, 31, 23, 59, 58, 567800)]),
        ("TIMESTAMP_LTZ(6)", "TIMESTAMP(6)", [LATE.replace(tzinfo=dt.UTC)], [LATE]),
        ("INT", "TIMESTAMP(6)", [-1], [dt.datetime(1969, 12, 31, 23, 59, 59)]),
        ("STRING", "DATE", ["2024-2-9 10:00:00", "2024-3", "1"], [dt.date(2024, 2, 9), dt.date(2024, 3, 1), dt.date(1970, 1, 2)]),
        ("STRING", "TIME(3)", ["1:2", "01:02:03.4567", "1:00:00+2"], [dt.time(1, 2), dt.time(1, 2, 3, 457000), dt.time(3)]),
        ("STRING", "TIMESTAMP(3)", ["2024-02-30", "1700000000000"], [dt.datetime(2024, 2, 29), dt.datetime(2023, 11, 14, 22, 13, 20)]),
    ],
)  # fmt: skip
def test_values_become_what_java_makes_of_them(old: str, new: str, values: list[Any], wanted: list[Any]) -> None:
    assert repr(cast(values, old, new)) == repr(wanted)


@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ("STRING", "INT", " 1"), ("STRING", "TINYINT", "128"), ("STRING", "BOOLEAN", "ja"), ("STRING", "DOUBLE", "1_0"),
        ("STRING", "DECIMAL(9, 2)", ""), ("STRING", "DATE", "2023-02-29"), ("STRING", "TIME(3)", "25:00:00"),
        ("STRING", "TIMESTAMP(3)", "2024-01-02 25:00:00"), ("STRING", "TIMESTAMP_LTZ(3)", "1700000000000"),
        ("DOUBLE", "DECIMAL(9, 2)", NAN), ("BIGINT", "TIMESTAMP(6)", 2**62),
    ],
)  # fmt: skip
def test_what_has_no_form_in_the_new_type_is_told_by_its_column(old: str, new: str, value: Any) -> None:
    with pytest.raises(InvalidData, match=r"^Column c was .* no .*old type again"):
        cast([value], old, new)


@pytest.mark.parametrize(
    ("old", "new", "stored", "asked", "found"),
    [("STRING", "BIGINT", ["9", "10", "300", None], 10, [9, 10, 300, None]), ("INT", "TINYINT", [300, None], 44, [44, None])],
)
def test_bounds_and_indexes_of_the_old_type_rule_nothing_out(
    tmp_path: Path, old: str, new: str, stored: list[Any], asked: int, found: list[int | None]
) -> None:
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    first = new_schema([column("v", old)], options={"bucket": "-1", "file-index.bitmap.columns": "v"})
    snapshot = insert(files, first, None, [{"v": v} for v in stored])
    now = apply_changes(first, [UpdateColumnType(name="v", type=parse_type(new))], table="t", has_snapshot=True, time_millis=1)
    wanted = Compare("v", Op.EQ, asked)
    assert [row["v"] for row in select(files, now, snapshot, wanted)] == found, "the file is read"
    assert [row["v"] for row in select(files, now, snapshot, IsNull("v"))] == found
    plan = plan_scan(files, now, snapshot, wanted)
    assert len(without_skipped(files, now, plan.files, wanted)) == 1
    assert exact_aggregates(files, now, plan_scan(files, now, snapshot), [Aggregate(Function.MIN, "v")]) is None
