"""Bodies whose values are named by dictionaries or views become rows a bounded piece at a time, and as what was sent."""

from __future__ import annotations

import datetime as dt
import io
import json
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from model.errors import InvalidData
from model.schema.schema import Schema, column, new_schema
from model.schema.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    Field,
    FloatType,
    IntType,
    MapType,
    RowType,
    TimeType,
    VarBinaryType,
    VarCharType,
)
from workers import readers
from workers.readers import arrow_batches, csv_batches, ndjson_batches, parquet_batches, readable

SCHEMA = Schema(
    id=0,
    highest_field_id=2,
    fields=(
        Field(id=0, name="texts", type=ArrayType(element=VarCharType())),
        Field(id=1, name="text", type=VarCharType()),
        Field(id=2, name="id", type=IntType()),
    ),
)
MOST_BYTES = 9 << 20


def _arrow(batch: pa.RecordBatch) -> io.BytesIO:
    body = io.BytesIO()
    with pa.ipc.new_stream(body, batch.schema) as stream:
        stream.write_batch(batch)
    return io.BytesIO(body.getvalue())


def test_lists_that_are_views_arrive_as_they_were_sent() -> None:
    values = pa.array(["a", "b", "c", "d"])
    views = pa.ListViewArray.from_arrays(
        pa.array([2, 0, 1, 0], pa.int32()), pa.array([2, 3, 0, 1], pa.int32()), values, mask=pa.array([False, False, False, True])
    )
    batch = pa.RecordBatch.from_pydict({"texts": views, "id": pa.array(range(4), pa.int32())})
    rows = [row for part in arrow_batches(_arrow(batch), SCHEMA, "t") for row in part.to_pylist()]
    assert [row["texts"] for row in rows] == [["c", "d"], ["a", "b", "c"], [], None]


def test_a_small_body_that_unpacks_to_much_comes_in_pieces() -> None:
    rows = 5_000
    named = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array(["x" * 200_000]))
    batch = pa.RecordBatch.from_pydict({"text": named, "id": pa.array(range(rows), pa.int32())})
    file = io.BytesIO()
    pq.write_table(pa.Table.from_batches([batch]), file, compression="zstd")
    for batches in (arrow_batches(_arrow(batch), SCHEMA, "t"), parquet_batches(io.BytesIO(file.getvalue()), SCHEMA, "t")):
        seen = 0
        for part in batches:
            assert part.nbytes <= MOST_BYTES
            assert part.column("id").to_pylist() == list(range(seen, seen + part.num_rows))
            seen += part.num_rows
        assert seen == rows


def test_a_row_that_unpacks_to_more_than_a_gigabyte_is_refused() -> None:
    named = pa.DictionaryArray.from_arrays(pa.array(np.zeros(2_000, np.int32)), pa.array(["x" * (1 << 20)]))
    lists = pa.ListArray.from_arrays(pa.array([0, 2_000], pa.int32()), named)
    body = _arrow(pa.RecordBatch.from_pydict({"texts": lists}))
    with pytest.raises(InvalidData, match="1 rows takes 2,"):
        list(readable(arrow_batches(body, SCHEMA, "t")))


def test_a_batch_that_unpacks_to_a_terabyte_is_refused_before_its_first_row() -> None:
    named = pa.DictionaryArray.from_arrays(pa.array(np.zeros(1_000_000, np.int32)), pa.array(["x" * (1 << 20)]))
    batches = readable(arrow_batches(_arrow(pa.RecordBatch.from_pydict({"text": named})), SCHEMA, "t"))
    with pytest.raises(InvalidData, match="a batch of 1,000,000 rows takes 1,048,5"):
        next(batches)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        ("TIMESTAMP(6)", "2024-01-01T00:00:00.123456789"),
        ("TIMESTAMP(3)", "2024-01-01T00:00:00.1230009"),
        ("TIMESTAMP_LTZ(6)", "2024-01-01T00:00:00.1234569Z"),
        ("TIMESTAMP(0)", "2024-01-01T00:00:00.001"),
        ("TIME(3)", "10:00:00.1230009"),
        ("FLOAT", 1e300),
    ],
)
def test_a_value_of_json_that_loses_something_is_refused_by_row(type_: str, value: object) -> None:
    schema = new_schema([column("v", type_)], options={"bucket": "-1"})
    lines = [json.dumps({"v": one}).encode() for one in (None, value)]
    with pytest.raises(InvalidData, match="row 2"):
        list(ndjson_batches(io.BytesIO(b"\n".join(lines)), schema, "t"))


@pytest.mark.parametrize(
    ("type_", "value", "stored"),
    [
        ("TIMESTAMP(6)", "2024-01-01T00:00:00.123456000", dt.datetime(2024, 1, 1, microsecond=123_456)),
        ("TIME(3)", "10:00:00.123000", dt.time(10, microsecond=123_000)),
        ("FLOAT", "Infinity", float("inf")),
        ("FLOAT", 3.4028235677973366e38 * (1 - 2**-24), 3.4028234663852886e38),
    ],
)
def test_a_value_of_json_that_loses_nothing_is_taken(type_: str, value: object, stored: object) -> None:
    schema = new_schema([column("v", type_)], options={"bucket": "-1"})
    (batch,) = ndjson_batches(io.BytesIO(json.dumps({"v": value}).encode()), schema, "t")
    assert batch.column(0).to_pylist() == [stored]


NUMBERS = [
    "1e400",
    "-1e400",
    "1e39",
    "1e38",
    "-0.0",
    "1e-400",
    "NaN",
    "Infinity",
    "-Infinity",
    '"Infinity"',
    '"NaN"',
    "12345678901234567890123",
    "1.5",
]
OTHERS = ["true", '"\\ud800"', '"a\\u0000b"', "[1.5, 1e400]", '{"k": 1e400}', "01", "1.", "", "nul", '"\x01"', "[[1]]", "9" * 400]
CLASSES = ["DOUBLE", "FLOAT", "BIGINT", "STRING", "BOOLEAN"]
INSIDE = [ArrayType(element=DoubleType()), MapType(key=VarCharType(), value=FloatType()), ArrayType(element=IntType())]


@pytest.mark.parametrize("type_", [*(column("v", text).type for text in CLASSES), *INSIDE], ids=lambda type_: str(type_.sql()))
def test_json_means_the_same_in_a_table_with_a_decimal(type_: DataType) -> None:
    """Such a table has another reader of JSON, which takes more, and larger numbers."""
    plain = new_schema([Field(id=-1, name="v", type=type_)], options={"bucket": "-1"})
    exact = new_schema([Field(id=-1, name="v", type=type_), column("d", "DECIMAL(10, 2)")], options={"bucket": "-1"})

    def taken(schema: Schema, text: str) -> str | None:
        try:
            (batch,) = ndjson_batches(io.BytesIO(f'{{"v": {text}}}'.encode()), schema, "t")
        except InvalidData:
            return None
        return repr(batch.column(0).to_pylist())

    outcomes = {text: (taken(plain, text), taken(exact, text)) for text in [*NUMBERS, *OTHERS, "\ufeff1"]}
    assert {text: outcome for text, outcome in outcomes.items() if outcome[0] != outcome[1]} == {}
    assert any(outcome[0] is None for outcome in outcomes.values())


def _csv(rows: list[dict[str, Any]]) -> bytes:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return "\n".join([",".join(names), *(",".join(str(row.get(name, "")) for name in names) for row in rows)]).encode()


def _parquet(rows: list[dict[str, Any]], type_: pa.DataType) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"v": pa.array([row["v"] for row in rows]).cast(type_)}), file)
    return file.getvalue()


@pytest.mark.parametrize("zone", ["", "_LTZ"])
@pytest.mark.parametrize("precision", range(6))
def test_a_time_has_no_more_digits_than_its_type_whatever_it_comes_in(precision: int, zone: str) -> None:
    schema = new_schema([column("v", f"TIMESTAMP{zone}({precision})")], options={"bucket": "-1"})
    arrow = pa.timestamp("us", "UTC" if zone else None)

    def stored(digits: int, year: str) -> list[list[object]]:
        face = f"{year}-02-28T12:34:56"
        text = f"{face}.{'123456'[:digits]}" if digits else face
        moment = dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC if zone else None)
        row = {"v": text + ("Z" if zone else "")}
        bodies = [
            ndjson_batches(io.BytesIO(json.dumps(row).encode()), schema, "t"),
            readable(csv_batches(io.BytesIO(_csv([row])), schema, "t")),
            arrow_batches(_arrow(pa.RecordBatch.from_arrays([pa.array([moment], arrow)], ["v"])), schema, "t"),
            parquet_batches(io.BytesIO(_parquet([{"v": moment}], arrow)), schema, "t"),
        ]
        found = []
        for batches in bodies:
            try:
                found.append([value for batch in batches for value in batch.column(0).to_pylist()])
            except InvalidData:
                found.append([])
        return found

    for year in ("1950", "2024"):
        exact = dt.datetime.fromisoformat(f"{year}-02-28T12:34:56").replace(
            microsecond=int("123456"[:precision].ljust(6, "0")), tzinfo=dt.UTC if zone else None
        )
        assert stored(precision, year) == [[exact]] * 4
        assert stored(precision + 1, year) == [[]] * 4


def test_a_default_stands_where_a_column_is_left_out_whatever_the_rows_come_in() -> None:
    """Of a NOT NULL column there alone: NULL is refused."""
    fields = [column("id", "INT"), *(replace(column(n, t), default_value="7") for n, t in (("n", "INT NOT NULL"), ("d", "DECIMAL(4, 1)")))]
    schema = new_schema(fields, options={"bucket": "-1"})
    ids = pa.RecordBatch.from_pydict({"id": pa.array([1, 2], pa.int32())})
    bodies = [
        ndjson_batches(io.BytesIO(b'{"id": 1}\n{"id": 2}'), schema, "t"),
        csv_batches(io.BytesIO(b"id\n1\n2"), schema, "t"),
        arrow_batches(_arrow(ids), schema, "t"),
    ]
    wanted = [{"id": n, "n": 7, "d": Decimal("7.0")} for n in (1, 2)]
    assert [[row for batch in batches for row in batch.to_pylist()] for batches in bodies] == [wanted] * 3
    mixed = ndjson_batches(io.BytesIO(b'{"id": 1, "n": 3, "d": null}\n{"id": 2}'), schema, "t")
    assert [row for batch in mixed for row in batch.to_pylist()] == [{"id": 1, "n": 3, "d": Decimal("7.0")}, wanted[1]]
    with pytest.raises(InvalidData, match="row 2: NULL"):
        list(ndjson_batches(io.BytesIO(b'{"id": 1}\n{"id": 2, "n": null}'), schema, "t"))


@pytest.mark.parametrize("text", ["2024-03-31T02:30:00", "2024-03-31 02:30:00.5", "2024-03-31"])
def test_an_instant_without_a_zone_is_refused_by_row_in_text(text: str) -> None:
    """Which one its writer means nobody knows; a day alone has no offset, though its end looks like one."""
    schema = new_schema([column("id", "INT"), column("v", "TIMESTAMP_LTZ(3)")], options={"bucket": "-1"})
    rows = [{"id": 1, "v": "2024-03-31T02:30:00+02:00"}, {"id": 2, "v": text}]
    with pytest.raises(InvalidData, match="row 2"):
        list(csv_batches(io.BytesIO(_csv(rows)), schema, "t"))
    with pytest.raises(InvalidData, match="row 2"):
        list(ndjson_batches(io.BytesIO("\n".join(map(json.dumps, rows)).encode()), schema, "t"))


_PARTS = (Field(id=2, name="p", type=IntType()), Field(id=3, name="d", type=DecimalType(precision=4, scale=2)))
NESTED: list[tuple[DataType, list[str]]] = [
    (ArrayType(element=IntType()), ["[1", "[1.5]", '["x"]', "{}", "1", "[[1]]", '""', "[3000000000]", "[" * 3_000 + "]" * 3_000]),
    (MapType(key=VarCharType(), value=IntType()), ['[["a"]]', '{"a": "b"}', "[1]", '[[null, "x"]]']),
    (RowType(fields=_PARTS), ['{"q": 1}', '{"p": true}', "[1]", '{"d": 1.234}', '{"d": 1e400}']),
]


@pytest.mark.parametrize(("type_", "texts"), NESTED, ids=["ARRAY", "MAP", "ROW"])
def test_json_in_a_csv_body_is_refused_by_row_as_ndjson_is(type_: DataType, texts: list[str]) -> None:
    schema = new_schema([Field(id=0, name="a", type=type_), column("n", "INT")], options={"bucket": "-1"})
    for text in texts:
        quoted = text.replace('"', '""')
        for body, read in (
            (f'a,n\n"{quoted}",0\n'.encode(), csv_batches),
            (f'{{"n": 1}}\n{{"a": {text}}}'.encode(), ndjson_batches),
        ):
            with pytest.raises(InvalidData, match=r"row [12]|Row 2"):
                list(read(io.BytesIO(body), schema, "t"))


def test_rows_of_json_in_csv_are_counted_over_its_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readers, "_CSV_BLOCK_BYTES", 100)
    schema = new_schema([Field(id=0, name="a", type=ArrayType(element=IntType())), column("b", "BYTES")], options={"bucket": "-1"})
    lines = [f'"[{n}, {n}]",' for n in range(500)]
    batches = list(csv_batches(io.BytesIO("\n".join(["a,b", *lines]).encode()), schema, "t"))
    assert len(batches) > 1
    assert [value for batch in batches for value in batch.column(0).to_pylist()] == [[n, n] for n in range(500)]
    with pytest.raises(InvalidData, match="Column a, row 501: x does not fit"):
        list(csv_batches(io.BytesIO("\n".join(["a,b", *lines, "x,"]).encode()), schema, "t"))
    with pytest.raises(InvalidData, match="Column b, row 501: '!' is not base64"):
        list(csv_batches(io.BytesIO("\n".join(["a,b", *lines, "[],!"]).encode()), schema, "t"))


@pytest.mark.parametrize("type_", [VarBinaryType(), ArrayType(element=IntType()), IntType(), TimeType(precision=3)], ids=str)
def test_a_column_that_stands_twice_in_csv_is_refused(type_: DataType) -> None:
    schema = new_schema([Field(id=0, name="a", type=type_), column("n", "INT")], options={"bucket": "-1"})
    with pytest.raises(InvalidData, match="stands twice"):
        list(readable(csv_batches(io.BytesIO(b"a,n,a\n,1,\n"), schema, "t")))
