"""Rows from outside: what fits a column, what is refused, and by which place."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from model.errors import InvalidData
from model.schema.schema import Schema, column, new_schema
from model.schema.types import ArrayType, Field, IntType, MapType, RowType, VarCharType
from table.format.rows.cast import Fitting, fit

TEXT = Fitting(from_text=True)


def one(text: str) -> Schema:
    return new_schema([column("x", text)], options={"bucket": "-1"})


def fitted(values: pa.Array, text: str, how: Fitting | None = None) -> list[Any]:
    found: list[Any] = fit(pa.RecordBatch.from_arrays([values], ["x"]), one(text), how).column(0).to_pylist()
    return found


def test_whole_numbers_fit_a_decimal_by_their_value_not_their_type() -> None:
    assert fitted(pa.array([1, 99, None]), "DECIMAL(4, 2)") == [Decimal(1), Decimal(99), None]
    assert fitted(pa.array([-(2**63), 2**63 - 1]), "DECIMAL(38, 19)") == [Decimal(-(2**63)), Decimal(2**63 - 1)]
    with pytest.raises(InvalidData, match="Column x, row 2: 100 does not fit"):
        fitted(pa.array([1, 100]), "DECIMAL(4, 2)")


@pytest.mark.parametrize("text", ["0e-600000000", "0E600000000", "0." + "0" * 10_000_000, "-0e50", "00e-999999999999"])
def test_a_zero_is_one_however_it_is_spelled(text: str) -> None:
    """Arrow ends the process, or reads what lies behind its tables, where it is given such an exponent."""
    assert fitted(pa.array([text, None, "1.5"]), "DECIMAL(10, 2)", TEXT) == [Decimal("0.00"), None, Decimal("1.50")]


@pytest.mark.parametrize("text", ["1e-600000000", "1e600000000", "1e-70", "0." + "0" * 10_000_000 + "1", "1E-2147483648", "1e-3", "12e7"])
def test_a_number_no_decimal_holds_is_refused_however_far_off_it_is(text: str) -> None:
    with pytest.raises(InvalidData, match=r"Column x, row 2: .* does not fit DECIMAL\(10, 2\)"):
        fitted(pa.array(["1.5", text]), "DECIMAL(10, 2)", TEXT)


@pytest.mark.parametrize(("text", "value"), [("1.5e3", "1500"), ("125E-2", "1.25"), ("1." + "0" * 80, "1"), ("+.5e1", "5"), ("1.e0", "1")])
def test_numbers_with_exponents_fit_by_their_value(text: str, value: str) -> None:
    assert fitted(pa.array([text]), "DECIMAL(10, 2)", TEXT) == [Decimal(value)]


def test_a_double_beyond_a_float_is_refused_and_infinity_is_not() -> None:
    assert fitted(pa.array([1.5, float("inf"), None]), "FLOAT") == [1.5, float("inf"), None]
    with pytest.raises(InvalidData, match=r"Column x, row 2: 1e\+300 does not fit FLOAT"):
        fitted(pa.array([1.5, 1e300]), "FLOAT")


@pytest.mark.parametrize(
    ("text", "type_", "value"),
    [
        ("7", "INT", 7),
        ("1.25", "DECIMAL(4, 2)", Decimal("1.25")),
        ("true", "BOOLEAN", True),
        ("2024-02-29", "DATE", dt.date(2024, 2, 29)),
        ("01:02:03", "TIME(3)", dt.time(1, 2, 3)),
        ("01:02:03.004", "TIME(3)", dt.time(1, 2, 3, 4000)),
        ("2024-01-01 10:00:00", "TIMESTAMP(3)", dt.datetime(2024, 1, 1, 10)),
        ("2024-01-01 10:00:00", "TIMESTAMP_LTZ(3)", dt.datetime(2024, 1, 1, 10, tzinfo=dt.UTC)),
        ("2024-01-01T10:00:00+02:00", "TIMESTAMP_LTZ(6)", dt.datetime(2024, 1, 1, 8, tzinfo=dt.UTC)),
        ("2024-01-01T10:00:00Z", "TIMESTAMP_LTZ(6)", dt.datetime(2024, 1, 1, 10, tzinfo=dt.UTC)),
    ],
)
def test_text_bodies_are_parsed_by_the_column(text: str, type_: str, value: object) -> None:
    assert fitted(pa.array([text, None]), type_, TEXT) == [value, None]
    if type_ != "STRING":
        with pytest.raises(InvalidData, match="Column x"):
            fitted(pa.array([text]), type_)


@pytest.mark.parametrize(("text", "type_"), [("1e300", "FLOAT"), ("-1e39", "FLOAT"), ("1e400", "DOUBLE")])
def test_a_number_that_a_float_makes_infinite_is_refused_by_row(text: str, type_: str) -> None:
    values = pa.array(["Infinity", "-inf", "NaN", None, "1.5", text])
    with pytest.raises(InvalidData, match=rf"row 6: '{text}' does not fit {type_}"):
        fitted(values, type_, TEXT)
    assert fitted(values[:5], type_, TEXT)[:2] == [float("inf"), float("-inf")]


@pytest.mark.parametrize("type_", ["INT", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", "DECIMAL(4, 2)", "BOOLEAN"])
def test_text_that_means_nothing_is_refused_by_row(type_: str) -> None:
    with pytest.raises(InvalidData, match="Column x, row 3: 'fish' does not fit"):
        fitted(pa.array([None, None, "fish"]), type_, TEXT)


def test_lengths_count_code_points() -> None:
    assert fitted(pa.array(["é😀"]), "VARCHAR(2)") == ["é😀"]
    with pytest.raises(InvalidData, match="row 1: a value of length 3"):
        fitted(pa.array(["é😀a"]), "VARCHAR(2)")


REQUIRED = IntType(nullable=False)
SHORT = VarCharType(length=2)


@pytest.mark.parametrize(
    ("type_", "values", "says"),
    [
        (RowType(fields=(Field(id=-1, name="y", type=REQUIRED),)), [None, {"y": 1}, {"y": None}], r"Column x, row 3: .* does not fit ROW"),
        (ArrayType(element=REQUIRED), [[1, 2, 3], None, [4, None]], r"x\.element, row 3: NULL"),
        (ArrayType(element=SHORT), [["a"] * 9, ["abc"]], r"x\.element, row 2: a value of length 3"),
        (MapType(key=SHORT, value=IntType()), [{}, None, {"abc": 1}], r"x\.key, row 3: a value of length 3"),
        (MapType(key=VarCharType(), value=REQUIRED), [{"a": 1, "b": 2}, {"abc": None}], r"x\.value, row 2: NULL"),
    ],
)
def test_values_inside_values_are_refused_by_the_row_they_stand_in(type_: Any, values: list[Any], says: str) -> None:
    schema = new_schema([Field(id=-1, name="x", type=type_)], options={"bucket": "-1"})
    if isinstance(type_, MapType):
        values = [None if v is None else list(v.items()) for v in values]
    loose = {
        RowType: pa.struct([("y", pa.int32())]),
        ArrayType: pa.list_(pa.int32() if getattr(type_, "element", None) == REQUIRED else pa.string()),
        MapType: pa.map_(pa.string(), pa.int32()),
    }[type(type_)]
    padded = pa.array([values[0], *values], loose)
    batch = pa.RecordBatch.from_arrays([padded.slice(1)], ["x"])
    with pytest.raises(InvalidData, match=says):
        fit(batch, schema)


def test_rows_are_counted_through_the_body() -> None:
    with pytest.raises(InvalidData, match="row 1002: NULL"):
        fit(pa.RecordBatch.from_pydict({"x": [1, None]}), one("INT NOT NULL"), Fitting(first_row=1000))


def test_a_long_value_is_quoted_by_its_beginning() -> None:
    with pytest.raises(InvalidData) as refused:
        fitted(pa.array(["x" * 100_000]), "INT", TEXT)
    assert len(refused.value.message) < 200
