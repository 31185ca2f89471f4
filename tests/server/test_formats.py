"""Results as bytes: each format read back by a reader that is not ours."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import AnalysisError, InvalidData, NotAcceptable
from model.schema.schema import new_schema
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
    SmallIntType,
    TimestampType,
    TimeType,
    TinyIntType,
    VarBinaryType,
    VarCharType,
)
from server.formats import FORMATS, negotiate
from server.formats.parquet import PARQUET
from server.formats.writers import ARROW, CSV, JSON, NDJSON, BrokenStream, Format, pieces
from sql.execution.results import ResultColumn, batch_of_rows
from workers.readers import READERS


def tell(failure: Exception) -> dict[str, Any]:
    return {"errorClass": type(failure).__name__, "detail": str(failure)}


def write(format_: Format, columns: list[ResultColumn], batches: Iterator[pa.RecordBatch]) -> bytes:
    return b"".join(format_.write(columns, batches, tell))


def values_of(type_: DataType, values: list[Any]) -> tuple[list[Any], list[str]]:
    """The values of one column as JSON rows and as CSV fields."""
    columns = [ResultColumn("c", type_), ResultColumn("n", IntType())]
    batch = batch_of_rows(columns, [(value, 0) for value in values])
    rows = json.loads(write(JSON, columns, iter([batch])))["rows"]
    lines = list(csv.reader(io.StringIO(write(CSV, columns, iter([batch])).decode(), newline="")))
    return [row[0] for row in rows], [line[0] for line in lines[1:]]


ENCODINGS: list[tuple[DataType, Any, Any, str]] = [
    (BooleanType(), True, True, "true"),
    (TinyIntType(), -128, -128, "-128"),
    (SmallIntType(), 7, 7, "7"),
    (IntType(), 2**31 - 1, 2**31 - 1, "2147483647"),
    (BigIntType(), 2**53, 2**53, "9007199254740992"),
    (BigIntType(), 2**53 + 1, "9007199254740993", "9007199254740993"),
    (BigIntType(), -(2**63), "-9223372036854775808", "-9223372036854775808"),
    (FloatType(), 1.5, 1.5, "1.5"),
    (DoubleType(), 1.0, 1.0, "1.0"),
    (DoubleType(), 1e300, 1e300, "1e+300"),
    (DoubleType(), math.nan, "NaN", "NaN"),
    (DoubleType(), -math.inf, "-Infinity", "-Infinity"),
    (DecimalType(precision=5, scale=2), Decimal("1.10"), 1.1, "1.10"),
    (DecimalType(precision=38, scale=10), Decimal("1E-10"), 1e-10, "0.0000000001"),
    (DecimalType(precision=38, scale=2), Decimal("9999999999999.99"), 9999999999999.99, "9999999999999.99"),
    (DecimalType(precision=38, scale=2), Decimal("99999999999999.99"), "99999999999999.99", "99999999999999.99"),
    (DecimalType(precision=38, scale=0), Decimal("-" + "9" * 38), "-" + "9" * 38, "-" + "9" * 38),
    (CharType(length=3), "ab ", "ab ", "ab "),
    (VarCharType(), 'say "hi"\\\n\x01, ü🎈\u2028', 'say "hi"\\\n\x01, ü🎈\u2028', 'say "hi"\\\n\x01, ü🎈\u2028'),
    (VarCharType(), "", "", ""),
    (BinaryType(length=2), b"\x00\xff", "AP8=", "AP8="),
    (VarBinaryType(), b"", "", ""),
    (DateType(), date(2024, 2, 29), "2024-02-29", "2024-02-29"),
    (TimeType(precision=0), time(12, 34, 56), "12:34:56", "12:34:56"),
    (TimeType(precision=3), time(12, 34, 56, 7000), "12:34:56.007", "12:34:56.007"),
    (TimestampType(precision=0), datetime(2024, 2, 29, 12), "2024-02-29T12:00:00", "2024-02-29T12:00:00"),
    (TimestampType(precision=3), datetime(2024, 2, 29, 12, 0, 0, 5000), "2024-02-29T12:00:00.005", "2024-02-29T12:00:00.005"),
    (TimestampType(precision=6), datetime(1, 1, 1, 0, 0, 0, 1), "0001-01-01T00:00:00.000001", "0001-01-01T00:00:00.000001"),
    (LocalZonedTimestampType(precision=3), datetime(1970, 1, 1, tzinfo=UTC), "1970-01-01T00:00:00.000Z", "1970-01-01T00:00:00.000Z"),
    (IntervalDayTimeType(), timedelta(days=1, milliseconds=5), 86400005, "86400005"),
    (IntervalYearMonthType(), 14, 14, "14"),
    (ArrayType(element=IntType()), [1, None], [1, None], "[1,null]"),
    (ArrayType(element=VarCharType()), [], [], "[]"),
    (MapType(key=IntType(), value=VarCharType()), [(1, "a"), (2, None)], [[1, "a"], [2, None]], '[[1,"a"],[2,null]]'),
    (
        RowType(fields=(Field(id=1, name='a"b', type=IntType()), Field(id=2, name="c", type=DateType()))),
        {'a"b': 1, "c": date(2024, 1, 1)},
        {'a"b': 1, "c": "2024-01-01"},
        '{"a\\"b":1,"c":"2024-01-01"}',
    ),
]


@pytest.mark.parametrize(("type_", "value", "in_json", "in_csv"), ENCODINGS, ids=lambda v: str(v)[:30])
def test_every_type_is_written_as_documented_beside_nulls(type_: DataType, value: Any, in_json: Any, in_csv: str) -> None:
    assert values_of(type_, [value, None, value]) == ([in_json, None, in_json], [in_csv, "", in_csv])


_STORED = [(type_, value) for type_, value, *_ in ENCODINGS if not isinstance(type_, IntervalDayTimeType | IntervalYearMonthType)]
_INSIDE: list[Callable[[DataType, Any], tuple[DataType, list[Any]]]] = [
    lambda type_, value: (type_, [value, None]),
    lambda type_, value: (ArrayType(element=type_), [[value, None], [], None]),
    lambda type_, value: (MapType(key=VarCharType(nullable=False), value=type_), [[('a,"', value), ("", None)], [], None]),
    lambda type_, value: (RowType(fields=(Field(id=1, name='p,"', type=type_), Field(id=2, name="q", type=type_))), [(value, None), None]),
]


@pytest.mark.parametrize("inside", _INSIDE, ids=["columns", "ARRAY", "MAP", "ROW"])
@pytest.mark.parametrize("format_", [CSV, NDJSON], ids=["CSV", "NDJSON"])
def test_a_result_sent_back_as_a_body_is_the_same_rows(
    format_: Format, inside: Callable[[DataType, Any], tuple[DataType, list[Any]]]
) -> None:
    """What is written and what is read are spelled alike, for every type, also inside others, empty and NULL."""
    number = Field(id=0, name="n", type=IntType())
    for type_, values in (inside(*stored) for stored in _STORED):
        columns = [ResultColumn("c", type_), ResultColumn("n", IntType())]
        written = batch_of_rows(columns, [(value, 0) for value in values])
        body = write(format_, columns, iter([written]))
        schema = new_schema([replace(number, name="c", type=type_), number], options={"bucket": "-1"})
        (read,) = READERS[format_.media_type](io.BytesIO(body), schema, "t")
        assert repr(read.column("c").to_pylist()) == repr(written.column("c").to_pylist()), (type_.sql(), body)


def test_a_bare_null_is_null() -> None:
    assert values_of(NullType(), [None, None]) == ([None, None], ["", ""])


def test_csv_tells_null_from_an_empty_string() -> None:
    columns = [ResultColumn("a", VarCharType()), ResultColumn("b,c", VarCharType())]
    assert write(CSV, columns, iter([batch_of_rows(columns, [(None, "")])])) == b'a,"b,c"\n,""\n'


_leaf = st.one_of(st.none(), st.integers(-(2**31), 2**31 - 1))
_nested = st.lists(
    st.one_of(st.none(), st.lists(st.one_of(st.none(), st.lists(st.tuples(st.text(max_size=3), _leaf), max_size=3)), max_size=3))
)


@given(_nested, st.integers(0, 5))
def test_nested_values_survive_slicing(values: list[Any], start: int) -> None:
    """The texts of a slice are the values of that slice, whatever lies before it in memory."""
    columns = [ResultColumn("c", ArrayType(element=MapType(key=VarCharType(nullable=False), value=IntType())))]
    batch = batch_of_rows(columns, [(value,) for value in values]).slice(start)
    rows = json.loads(write(JSON, columns, iter([batch])))["rows"]
    assert rows == [[None if v is None else [None if m is None else [list(p) for p in m] for m in v]] for v in values[start:]]


@given(st.lists(st.one_of(st.none(), st.text())))
def test_any_text_comes_back_from_json_ndjson_and_csv(values: list[str | None]) -> None:
    columns = [ResultColumn("c", VarCharType()), ResultColumn("n", IntType())]
    batch = batch_of_rows(columns, [(value, 1) for value in values])
    assert [row[0] for row in json.loads(write(JSON, columns, iter([batch])))["rows"]] == values
    lines = write(NDJSON, columns, iter([batch])).split(b"\n")
    assert lines.pop() == b""
    assert [json.loads(line)["c"] for line in lines] == values
    fields = list(csv.reader(io.StringIO(write(CSV, columns, iter([batch])).decode(), newline="")))[1:]
    assert [field[0] for field in fields] == [value or "" for value in values]


def test_arrow_streams_hold_the_batches_and_their_types() -> None:
    columns = [ResultColumn("id", BigIntType(nullable=False)), ResultColumn("t", TimestampType(precision=3))]
    batch = batch_of_rows(columns, [(1, datetime(2024, 1, 1)), (2, None)])
    table = pa.ipc.open_stream(write(ARROW, columns, iter([batch]))).read_all()
    assert table.schema == batch.schema
    assert table.to_pylist() == batch.to_pylist()


@pytest.mark.parametrize("format_", FORMATS.values(), ids=list(FORMATS))
def test_a_result_without_rows_keeps_its_columns(format_: Format) -> None:
    columns = [ResultColumn("id", IntType())]
    expected = {
        "application/json": b'{"columns":[{"name":"id","type":"INT"}],"rows":[\n]}\n',
        "application/x-ndjson": b"",
        "text/csv": b"id\n",
        "text/event-stream": b"event: end\ndata: {}\n\n",
        "application/vnd.apache.arrow.stream": pa.schema([("id", pa.int32())]).empty_table(),
        "application/vnd.apache.parquet": pa.schema([("id", pa.int32())]).empty_table(),
    }[format_.media_type]
    body = write(format_, columns, iter([]))
    read = {ARROW: lambda: pa.ipc.open_stream(body).read_all(), PARQUET: lambda: pq.read_table(io.BytesIO(body))}
    assert read.get(format_, lambda: body)() == expected


def test_parquet_in_several_row_groups_keeps_order_names_and_nulls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("server.formats.parquet._GROUP_BYTES", 64)
    columns = [ResultColumn("id", BigIntType()), ResultColumn("id", VarCharType())]
    batches = [batch_of_rows(columns, [(10 * n + m, None if m else "é") for m in range(10)]) for n in range(5)]
    body = write(PARQUET, columns, iter(batches))
    file = pq.ParquetFile(io.BytesIO(body))
    assert file.num_row_groups == 5
    assert file.read().column(0).to_pylist() == list(range(50))
    assert file.read().column(1).null_count == 45


def test_each_json_row_has_a_line_of_its_own() -> None:
    columns = [ResultColumn("id", IntType())]
    batches = [batch_of_rows(columns, [(1,), (2,)]), batch_of_rows(columns, [(3,)])]
    assert write(JSON, columns, iter(batches)).split(b"\n")[1:] == [b"[1],", b"[2],", b"[3]", b"]}", b""]


def failing(columns: list[ResultColumn]) -> Iterator[pa.RecordBatch]:
    yield batch_of_rows(columns, [(1,)])
    raise InvalidData("the file is corrupt")


def test_late_failures_are_told_in_json_and_ndjson_and_cut_the_others() -> None:
    columns = [ResultColumn("id", IntType())]
    error = {"errorClass": "InvalidData", "detail": "the file is corrupt"}
    assert json.loads(write(JSON, columns, failing(columns))) == {
        "columns": [{"name": "id", "type": "INT"}],
        "rows": [[1]],
        "error": error,
    }
    assert [json.loads(line) for line in write(NDJSON, columns, failing(columns)).splitlines()] == [{"id": 1}, {"$error": error}]
    for format_ in (CSV, ARROW):
        with pytest.raises(BrokenStream):
            write(format_, columns, failing(columns))


def test_an_arrow_stream_that_failed_has_no_end_mark() -> None:
    columns = [ResultColumn("id", IntType())]
    chunks = ARROW.write(columns, failing(columns), tell)
    sent = next(chunks)
    with pytest.raises(BrokenStream):
        next(chunks)
    assert not sent.endswith(b"\xff\xff\xff\xff\x00\x00\x00\x00")
    assert pa.ipc.open_stream(sent).read_next_batch().num_rows == 1


def test_names_that_would_collide_in_an_object_are_refused() -> None:
    with pytest.raises(AnalysisError, match="Two columns are called 'a'"):
        NDJSON.check([ResultColumn("a", IntType()), ResultColumn("a", IntType())])
    JSON.check([ResultColumn("a", IntType()), ResultColumn("a", IntType())])


def test_large_batches_are_written_in_small_pieces() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([b"x" * 1000] * 20_000)], names=["c"])
    cut = list(pieces(batch))
    assert sum(piece.num_rows for piece in cut) == 20_000
    assert max(piece.nbytes for piece in cut) < 2 << 20


@pytest.mark.parametrize(
    ("accept", "chosen"),
    [
        (None, "application/json"),
        ("", "application/json"),
        ("*/*", "application/json"),
        ("application/*", "application/json"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "application/json"),
        ("text/csv", "text/csv"),
        ("text/*", "text/csv"),
        ("application/json;q=0.2, application/x-ndjson", "application/x-ndjson"),
        ("application/vnd.apache.arrow.stream, application/json;q=0.5", "application/vnd.apache.arrow.stream"),
    ],
)
def test_the_client_chooses_the_format(accept: str | None, chosen: str) -> None:
    assert negotiate(accept).media_type == chosen


@pytest.mark.parametrize("accept", ["text/html", "image/png, text/plain", "application/json;q=0"])
def test_what_is_not_written_here_is_refused_with_what_is(accept: str) -> None:
    with pytest.raises(NotAcceptable, match="text/csv"):
        negotiate(accept)


def test_binary_is_base64() -> None:
    values, _ = values_of(VarBinaryType(), [bytes(range(256))])
    assert base64.b64decode(values[0]) == bytes(range(256))
