"""Values and types as Flink's clients were seen to read them (`gateway.md` 1.3)."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InvalidOption
from model.schema.types import (
    ArrayType,
    BigIntType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    Field,
    FloatType,
    IntervalDayTimeType,
    IntervalYearMonthType,
    IntType,
    LocalZonedTimestampType,
    MapType,
    NullType,
    RowType,
    TimestampType,
    TimeType,
    VarBinaryType,
    VarCharType,
)
from server.flink.rows import RowFormat, java_number, row_objects
from server.flink.wire import json_type, logical_type
from sql.execution.results import ResultColumn, batch_of_rows

AB = RowType(fields=(Field(id=1, name="a", type=IntType()), Field(id=2, name="b", type=VarCharType())))
STRING_MAP = MapType(key=VarCharType(nullable=False), value=IntType())
DAY = datetime(2024, 2, 29, 12, 34, 56)

ENCODINGS: list[tuple[DataType, Any, str, str]] = [
    (BigIntType(), 9007199254740993, "9007199254740993", "9007199254740993"),
    (FloatType(), 1.1, "1.1", "1.1"),
    (DoubleType(), 1.5, "1.5", "1.5"),
    (DoubleType(), 1e300, "1.0E300", "1.0E300"),
    (DoubleType(), 123456789.0, "1.23456789E8", "1.23456789E8"),
    (DoubleType(), 1e-4, "1.0E-4", "1.0E-4"),
    (DoubleType(), math.nan, '"NaN"', "NaN"),
    (DoubleType(), math.inf, '"Infinity"', "Infinity"),
    (DecimalType(precision=5, scale=2), Decimal("1.10"), "1.1", "1.10"),
    (DecimalType(precision=3, scale=0), Decimal(100), "1E+2", "100"),
    (DecimalType(precision=38, scale=10), Decimal("1E-10"), "1E-10", "0.0000000001"),
    (DecimalType(precision=38, scale=2), Decimal("0.00"), "0", "0.00"),
    (CharType(length=3), "a", '"a  "', "a  "),
    (VarCharType(), 'a"b', '"a\\"b"', 'a"b'),
    (BooleanType(), True, "true", "TRUE"),
    (BooleanType(), False, "false", "FALSE"),
    (BinaryType(length=2), b"\x00\xff", '"AP8="', "x'00ff'"),
    (VarBinaryType(), b"\x00\xff", '"AP8="', "x'00ff'"),
    (DateType(), date(2024, 2, 29), '"2024-02-29"', "2024-02-29"),
    (TimeType(), time(12, 34, 56), '"12:34:56"', "12:34:56"),
    (TimestampType(precision=6), DAY.replace(microsecond=123456), '"2024-02-29T12:34:56.123456"', "2024-02-29 12:34:56.123456"),
    (TimestampType(precision=3), DAY, '"2024-02-29T12:34:56"', "2024-02-29 12:34:56.000"),
    (TimestampType(precision=3), DAY.replace(microsecond=500000), '"2024-02-29T12:34:56.500"', "2024-02-29 12:34:56.500"),
    (TimestampType(precision=0), DAY, '"2024-02-29T12:34:56"', "2024-02-29 12:34:56"),
    (LocalZonedTimestampType(precision=3), datetime(1970, 1, 1, tzinfo=UTC), '"1970-01-01T09:00:00Z"', "1970-01-01 09:00:00.000"),
    (IntervalDayTimeType(), timedelta(days=1), "86400000", "+1 00:00:00.000"),
    (IntervalDayTimeType(), timedelta(days=-1, milliseconds=-1), "-86400001", "-1 00:00:00.001"),
    (IntervalYearMonthType(), 14, "14", "+1-02"),
    (ArrayType(element=IntType()), [1, 2, None], "[1,2,null]", "[1, 2, NULL]"),
    (STRING_MAP, [("a", 1), ("b", None)], '{"a":1,"b":null}', "{a=1, b=NULL}"),
    (AB, {"a": 1, "b": "a"}, '{"a":1,"b":"a"}', "(1, a)"),
    (AB, {"a": None, "b": None}, '{"a":null,"b":null}', "(NULL, NULL)"),
]


def fields(type_: DataType, value: Any, format_: RowFormat, zone: str | None = "Asia/Tokyo") -> str:
    """The text of the one field of one row."""
    columns = [ResultColumn("c", type_)]
    text = row_objects(batch_of_rows(columns, [(value,)]), columns, format_, zone).decode()
    json.loads(text)
    return text.removeprefix('{"kind":"INSERT","fields":[').removesuffix("]}")


@pytest.mark.parametrize(("type_", "value", "in_json", "in_text"), ENCODINGS, ids=lambda v: str(v)[:30])
def test_every_type_as_flink_writes_it(type_: DataType, value: Any, in_json: str, in_text: str) -> None:
    assert fields(type_, value, RowFormat.JSON) == in_json
    assert json.loads(fields(type_, value, RowFormat.PLAIN_TEXT)) == in_text
    assert fields(type_, None, RowFormat.JSON) == fields(type_, None, RowFormat.PLAIN_TEXT) == "null"


def test_rows_are_parted_by_commas() -> None:
    columns = [ResultColumn("a", IntType()), ResultColumn("b", NullType())]
    rows = row_objects(batch_of_rows(columns, [(1, None), (2, None)]), columns, RowFormat.JSON, None)
    assert rows == b'{"kind":"INSERT","fields":[1,null]},{"kind":"INSERT","fields":[2,null]}'


def test_in_json_map_keys_and_nulls_without_type_are_strings() -> None:
    """Flink's JDBC driver has no other keys, and throws at a column of the NULL type."""
    type_ = MapType(key=DateType(nullable=False), value=ArrayType(element=MapType(key=IntType(nullable=False), value=IntType())))
    value = [(date(2024, 2, 29), [[(1, None)]])]
    assert fields(type_, value, RowFormat.JSON) == '{"2024-02-29":[{"1":null}]}'
    assert fields(type_, value, RowFormat.PLAIN_TEXT) == '"{2024-02-29=[{1=NULL}]}"'
    inner = MapType(key=VarCharType(nullable=False), value=IntType())
    assert json_type(type_) == MapType(key=VarCharType(nullable=False), value=ArrayType(element=inner))
    assert json_type(RowType(fields=(Field(id=1, name="a", type=type_),))).fields[0].type == json_type(type_)  # type: ignore[attr-defined]
    assert (json_type(STRING_MAP), json_type(NullType())) == (STRING_MAP, VarCharType())


@pytest.mark.parametrize("format_", RowFormat)
def test_a_moment_beyond_the_calendar_moves_no_other(format_: RowFormat) -> None:
    """A page with the year 9999 told all its moments in UTC."""
    columns = [ResultColumn("at", LocalZonedTimestampType(precision=3)), ResultColumn("all", ArrayType(element=LocalZonedTimestampType()))]
    days = [datetime(2024, 1, day, tzinfo=UTC) for day in range(1, 8)]
    far = datetime(9999, 12, 31, 23, 59, tzinfo=UTC)
    told = []
    for moments in (days, [*days[:3], far, *days[3:]]):
        batch = batch_of_rows(columns, [(moment, [moment]) for moment in moments])
        rows = json.loads(f"[{row_objects(batch, columns, format_, 'Asia/Tokyo').decode()}]")
        told.append([row["fields"] for row in rows])
    assert [told[1][at] for at in range(8) if at != 3] == told[0]
    assert told[1][3][0].startswith("9999-12-31T23:59")


def test_an_unknown_zone_is_told() -> None:
    with pytest.raises(InvalidOption, match="There is no time zone 'Moon/Base'"):
        fields(IntType(), 1, RowFormat.JSON, "Moon/Base")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_java_numbers_read_back_as_themselves(value: float) -> None:
    text = java_number(value)
    assert float(text) == value
    assert math.copysign(1, float(text)) == math.copysign(1, value)
    assert "." in text
    mantissa = abs(float(text.split("E")[0]))
    assert ("E" in text) == (value != 0 and not 1e-3 <= abs(value) < 1e7)
    assert "E" not in text or 1 <= mantissa < 10


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_java_floats_need_no_more_digits_than_a_float_has(value: float) -> None:
    import numpy as np

    text = java_number(value, single=True)
    assert np.float32(text) == np.float32(value)
    assert len(text.split("E")[0].strip("-").replace(".", "").strip("0")) <= 9


LOGICAL: list[tuple[DataType, dict[str, Any]]] = [
    (IntType(nullable=False), {"type": "INTEGER", "nullable": False}),
    (BigIntType(), {"type": "BIGINT", "nullable": True}),
    (VarCharType(), {"type": "VARCHAR", "nullable": True, "length": 2147483647}),
    (CharType(length=3), {"type": "CHAR", "nullable": True, "length": 3}),
    (VarBinaryType(), {"type": "VARBINARY", "nullable": True, "length": 2147483647}),
    (DecimalType(precision=5, scale=2), {"type": "DECIMAL", "nullable": True, "precision": 5, "scale": 2}),
    (TimeType(precision=3), {"type": "TIME_WITHOUT_TIME_ZONE", "nullable": True, "precision": 3}),
    (TimestampType(precision=3), {"type": "TIMESTAMP_WITHOUT_TIME_ZONE", "nullable": True, "precision": 3}),
    (LocalZonedTimestampType(), {"type": "TIMESTAMP_WITH_LOCAL_TIME_ZONE", "nullable": True, "precision": 6}),
    (
        IntervalDayTimeType(),
        {"type": "INTERVAL_DAY_TIME", "nullable": True, "precision": 6, "fractionalPrecision": 3, "resolution": "DAY_TO_SECOND"},
    ),
    (IntervalYearMonthType(), {"type": "INTERVAL_YEAR_MONTH", "nullable": True, "precision": 4, "resolution": "YEAR_TO_MONTH"}),
    (NullType(), {"type": "NULL"}),
    (ArrayType(element=IntType()), {"type": "ARRAY", "nullable": True, "elementType": {"type": "INTEGER", "nullable": True}}),
    (
        STRING_MAP,
        {
            "type": "MAP",
            "nullable": True,
            "keyType": {"type": "VARCHAR", "nullable": False, "length": 2147483647},
            "valueType": {"type": "INTEGER", "nullable": True},
        },
    ),
    (
        RowType(fields=(Field(id=1, name="a", type=IntType(), description="first"),)),
        {
            "type": "ROW",
            "nullable": True,
            "fields": [{"name": "a", "fieldType": {"type": "INTEGER", "nullable": True}, "description": "first"}],
        },
    ),
]


@pytest.mark.parametrize(("type_", "expected"), LOGICAL, ids=lambda v: str(v)[:30])
def test_every_attribute_flinks_client_needs_is_there(type_: DataType, expected: dict[str, Any]) -> None:
    assert logical_type(type_) == expected
