"""Rows from outside: what fits a column, what is refused, and by which place."""

from __future__ import annotations

import datetime as dt
import io
import math
import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from model.errors import InvalidData
from model.schema.schema import Schema, column, new_schema
from model.schema.types import ArrayType, DataType, Field, IntType, MapType, RowType, VarCharType, parse_type
from table.format.rows.arrow import arrow_type
from table.format.rows.cast import Fitting, default_of, fit
from workers.readers import csv_batches

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


@pytest.mark.parametrize(
    ("type_", "fine", "unlike"),
    [
        ("BOOLEAN", {"true": True, "FALSE": False}, ["1", "0"]),
        ("INT", {"7": 7, "-007": -7}, ["0x10", "0X1f"]),
        ("BIGINT", {"0": 0}, ["0x0"]),
        ("DOUBLE", {"Infinity": math.inf, "-Infinity": -math.inf, "1e3": 1000.0, "inf": math.inf, "-inf": -math.inf}, []),
    ],
)
def test_csv_takes_no_value_from_a_text_that_others_read_otherwise(type_: str, fine: dict[str, Any], unlike: list[str]) -> None:
    """Flink takes 1 for FALSE and refuses the others; as a DEFAULT, which Paimon reads, some were stored."""

    def read(text: str) -> list[Any]:
        body = f"x,id\n{next(iter(fine))},1\n,2\n{text},3\n".encode()
        schema = new_schema([column("x", type_), column("id", "INT")], options={"bucket": "-1"})
        return [value for batch in csv_batches(io.BytesIO(body), schema, "t") for value in batch.column(0).to_pylist()]

    for text, value in fine.items():
        assert read(text) == [next(iter(fine.values())), None, value]
    for text in unlike:
        with pytest.raises(InvalidData, match=rf"Column x, row 3: '{re.escape(text)}' does not fit {type_}"):
            read(text)
        assert default_of(replace(one(type_).fields[0], default_value=text)) is not None


def test_not_a_number_in_csv_is_read_as_results_and_python_write_it() -> None:
    batches = csv_batches(io.BytesIO(b"x\nNaN\nnan\n"), one("DOUBLE"), "t")
    assert all(math.isnan(value.as_py()) for value in next(batches).column(0))


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
        ("2024-01-01 10:00:00Z", "TIMESTAMP_LTZ(3)", dt.datetime(2024, 1, 1, 10, tzinfo=dt.UTC)),
        ("2024-01-01T10:00:00+02:00", "TIMESTAMP_LTZ(6)", dt.datetime(2024, 1, 1, 8, tzinfo=dt.UTC)),
        ("2024-01-01T10:00:00Z", "TIMESTAMP_LTZ(6)", dt.datetime(2024, 1, 1, 10, tzinfo=dt.UTC)),
    ],
)
def test_text_bodies_are_parsed_by_the_column(text: str, type_: str, value: object) -> None:
    assert fitted(pa.array([text, None]), type_, TEXT) == [value, None]
    if type_ != "STRING":
        with pytest.raises(InvalidData, match="Column x"):
            fitted(pa.array([text]), type_)


@pytest.mark.parametrize(
    ("type_", "moment", "digits"),
    [
        ("TIMESTAMP(0)", dt.datetime(1969, 12, 31, 23, 59, 59, 500_000), 1),
        ("TIMESTAMP_LTZ(1)", dt.datetime(2024, 1, 1, 0, 0, 0, 120_000, dt.UTC), 2),
        ("TIMESTAMP(4)", dt.datetime(2024, 1, 1, 0, 0, 0, 123_450), 5),
        ("TIME(0)", dt.time(10, 0, 0, 1000), 3),
        ("TIME(2)", dt.time(10, 0, 0, 127_000), 3),
    ],
)
def test_digits_that_a_type_has_not_are_refused_and_those_of_a_default_cut(type_: str, moment: dt.datetime | dt.time, digits: int) -> None:
    """What was told of a row is not left out; a default was taken by earlier versions, and is what a cast makes of it."""
    cut = moment.replace(microsecond=moment.microsecond // 10 ** (7 - digits) * 10 ** (7 - digits))
    sent = pa.array([None, cut, moment])
    text = moment.isoformat(timespec="microseconds" if digits > 3 else "milliseconds")
    assert fitted(sent[:2], type_) == [None, cut]
    for values, how in ((sent, None), (pa.array([None, None, text]), TEXT)):
        with pytest.raises(InvalidData, match=r"Column x, row 3"):
            fitted(values, type_, how)
    lists = pa.RecordBatch.from_pydict({"x": pa.array([[cut], [cut, moment]], pa.list_(arrow_type(parse_type(type_))))})
    if lists.column(0).to_pylist()[1][1] == moment:  # its unit has the digits
        schema = Schema(id=0, fields=(Field(id=0, name="x", type=ArrayType(element=parse_type(type_))),), highest_field_id=0)
        with pytest.raises(InvalidData, match=r"x\.element, row 2: .* does not fit"):
            fit(lists, schema)
    default = default_of(Field(id=0, name="x", type=parse_type(type_), default_value=text.replace("T", " ")))
    assert default is not None
    assert default.as_py() == cut


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
        (RowType(fields=(Field(id=-1, name="y", type=REQUIRED),)), [None, {"y": 1}, {"y": None}], r"x\.y, row 3: NULL"),
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


TOKYO = "Asia/Tokyo"
SAMPLES = [
    pa.array([1, None, 127], pa.int8()),
    pa.array([1, 2**60 + 1], pa.int64()),
    pa.array([2**32 - 1], pa.uint32()),
    pa.array([1.0, 1e300]),
    pa.array([1.239, float("nan"), float("-inf")], pa.float32()),
    pa.array([Decimal("1.20"), None, Decimal("7.00")], pa.decimal128(20, 2)),
    pa.array([Decimal("1.239")], pa.decimal256(60, 3)),
    pa.array(["12", "01", None]),
    pa.array(["1", "1e400", "x"], pa.large_string()),
    pa.array(["2024-01-01 10:00:00"], pa.string_view()),
    pa.array([b"ab", None], pa.binary()),
    pa.array([b"ab"], pa.binary(2)),
    pa.array([True, None, False]),
    pa.array([0, None, 19_000], pa.date32()),
    pa.array([86_400_000], pa.date64()),
    pa.array([1, 1000], pa.timestamp("us")),
    pa.array([1000, None], pa.timestamp("ns")),
    pa.array([1], pa.timestamp("us", TOKYO)),
    pa.array([2**62], pa.timestamp("us", "UTC")),
    pa.array([1000, None], pa.time64("us")),
    pa.array([1, 86_399_999], pa.time32("ms")),
    pa.array(["a", None, "b", "a"]).dictionary_encode(),
    pa.nulls(2),
    pa.array([[1, None], None, []], pa.list_(pa.int64())),
    pa.array([{"a": 1}, None], pa.struct([("a", pa.int64())])),
]
TARGETS = [
    *("TINYINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 2)", "DECIMAL(38, 0)", "STRING", "VARCHAR(1)", "BYTES", "BINARY(1)"),
    *("BOOLEAN", "DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP_LTZ(3)", "TIMESTAMP_LTZ(6)", "INT NOT NULL"),
]


def _as_rows(values: pa.Array) -> pa.Array:
    return pa.StructArray.from_arrays([values], ["p"])


def _as_lists(values: pa.Array, kind: Callable[[pa.DataType], pa.DataType] = pa.list_) -> pa.Array:
    rows = len(values)
    plain = pa.ListArray.from_arrays(pa.array([0, *range(rows + 1)], pa.int32()), values, mask=pa.array([True] + [False] * rows))
    return plain.cast(kind(values.type))


def _as_items(values: pa.Array) -> pa.Array:
    return pa.MapArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), pa.array([str(n) for n in range(len(values))]), values)


def _as_keys(values: pa.Array) -> pa.Array:
    return pa.MapArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), values, pa.nulls(len(values)))


AROUND: dict[str, tuple[Callable[[DataType], DataType], Callable[[pa.Array], pa.Array], Callable[[list[Any]], list[Any]]]] = {
    "ROW": (lambda t: RowType(fields=(Field(id=-1, name="p", type=t),)), _as_rows, lambda found: [row["p"] for row in found]),
    "ARRAY": (lambda t: ArrayType(element=t), _as_lists, lambda found: [row[0] for row in found[1:]]),
    "large ARRAY": (lambda t: ArrayType(element=t), lambda v: _as_lists(v, pa.large_list), lambda found: [row[0] for row in found[1:]]),
    "MAP": (lambda t: MapType(key=VarCharType(), value=t), _as_items, lambda found: [row[0][1] for row in found]),
    "key": (lambda t: MapType(key=t, value=IntType()), _as_keys, lambda found: [row[0][0] for row in found]),
    "ARRAY<ROW>": (
        lambda t: ArrayType(element=RowType(fields=(Field(id=-1, name="p", type=t),))),
        lambda v: _as_lists(_as_rows(v)),
        lambda found: [row[0]["p"] for row in found[1:]],
    ),
}


def _taken(values: pa.Array, type_: DataType) -> list[Any] | None:
    """What is stored of the values; None where they are refused."""
    schema = new_schema([Field(id=-1, name="x", type=type_)], options={"bucket": "-1"})
    try:
        stored = fit(pa.RecordBatch.from_arrays([values], ["x"]), schema).column(0)
    except InvalidData:
        return None
    stored.validate(full=True)
    found: list[Any] = stored.to_pylist()
    return found


@pytest.mark.parametrize("around", AROUND)
@pytest.mark.parametrize("values", SAMPLES, ids=lambda values: str(values.type))
def test_a_value_inside_others_is_taken_as_a_column_of_its_type_takes_it(values: pa.Array, around: str) -> None:
    wrap, inside, unwrap = AROUND[around]
    if around == "key" and values.null_count:
        values = values.filter(values.is_valid())  # a key is never NULL
    for text in TARGETS:
        type_ = one(text).fields[0].type
        alone = [_taken(values, type_), *(_taken(values.slice(n, 1), type_) for n in range(len(values)))]
        wrapped = [_taken(inside(values), wrap(type_)), *(_taken(inside(values.slice(n, 1)), wrap(type_)) for n in range(len(values)))]
        assert [repr(found) for found in alone] == [repr(found and unwrap(found)) for found in wrapped], text


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (pa.array([{"a": 1, "note": "lost"}]), r"Column x: the ROW has no part note; it has a, b\."),
        (pa.array([{"A": 1, "B": 2}]), r"Column x: the ROW has no part A; it has a, b\."),
        (pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"]), r"Column x: the part a stands twice"),
    ],
    ids=["more", "renamed", "twice"],
)
def test_a_part_the_row_lacks_is_named_and_never_dropped(given: pa.Array, says: str) -> None:
    row = RowType(fields=(Field(id=-1, name="a", type=IntType()), Field(id=-1, name="b", type=IntType())))
    for type_, values, where in (
        (row, given, "x"),
        (ArrayType(element=row), _as_lists(given), r"x\.element"),
        (MapType(key=VarCharType(), value=row), _as_items(given), r"x\.value"),
        (RowType(fields=(Field(id=-1, name="p", type=row),)), _as_rows(given), r"x\.p"),
    ):
        schema = new_schema([Field(id=-1, name="x", type=type_)], options={"bucket": "-1"})
        with pytest.raises(InvalidData, match=says.replace("Column x", f"Column {where}")):
            fit(pa.RecordBatch.from_arrays([values], ["x"]), schema)


def test_parts_go_by_name_and_those_a_body_lacks_are_null() -> None:
    type_ = RowType(fields=(Field(id=-1, name="a", type=IntType()), Field(id=-1, name="b", type=REQUIRED)))
    assert _taken(pa.array([{"b": 2, "a": 1}, None]), type_) == [{"a": 1, "b": 2}, None]
    assert _taken(pa.array([{"b": 2}]), type_) == [{"a": None, "b": 2}]
    assert _taken(pa.array([{"a": 1}]), type_) is None


def test_what_lies_below_lists_that_are_null_is_no_value() -> None:
    hidden, absent = pa.array([1e300, 1.5]), pa.array([True, False])
    lists = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), hidden, mask=absent)
    maps = pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array(["a", "b"]), hidden, mask=absent)
    rows = pa.StructArray.from_arrays([hidden], ["p"], mask=absent)
    single = one("FLOAT").fields[0].type
    assert _taken(lists, ArrayType(element=single)) == [None, [1.5]]
    assert _taken(maps, MapType(key=VarCharType(), value=single)) == [None, [("b", 1.5)]]
    assert _taken(rows, AROUND["ROW"][0](single)) == [None, {"p": 1.5}]
