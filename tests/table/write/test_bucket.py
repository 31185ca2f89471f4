"""A row's bucket equals the one Java Paimon computes, one by one and by columns."""

from __future__ import annotations

import datetime as dt
import math
import struct
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.schema.schema import Schema, column, new_schema
from table.format.rows import binary_row
from table.format.rows.arrow import arrow_schema
from table.format.rows.murmur import murmur3
from table.write.bucket import bucket_of, buckets_of

VECTORS = [line.split("\t") for line in (Path(__file__).parents[2] / "data" / "bucket-vectors.tsv").read_text().splitlines()]
EPOCH = dt.date(1970, 1, 1)
KINDS: dict[str, tuple[str, ...]] = {
    "bigint": ("BIGINT",),
    "int": ("INT",),
    "string": ("STRING",),
    "int_str": ("INT", "STRING"),
    "str_big": ("STRING", "BIGINT"),
    "str_str": ("STRING", "STRING"),
    "bool": ("BOOLEAN",),
    "tinyint": ("TINYINT",),
    "smallint": ("SMALLINT",),
    "float": ("FLOAT",),
    "double": ("DOUBLE",),
    "date": ("DATE",),
    "ts3": ("TIMESTAMP(3)",),
    "ts6": ("TIMESTAMP(6)",),
    "ltz6": ("TIMESTAMP_LTZ(6)",),
    "dec10": ("DECIMAL(10, 2)",),
    "dec20": ("DECIMAL(20, 2)",),
    "bytes": ("BYTES",),
    "time": ("TIME(3)",),
    "char": ("CHAR(5)",),
}
READ: dict[str, Callable[[str], object]] = {
    "BIGINT": int,
    "INT": int,
    "TINYINT": int,
    "SMALLINT": int,
    "TIME(3)": int,
    "STRING": str,
    "CHAR(5)": str,
    "BOOLEAN": lambda text: text == "true",
    "FLOAT": float,
    "DOUBLE": float,
    "DATE": lambda text: EPOCH + dt.timedelta(days=int(text)),
    "TIMESTAMP(3)": dt.datetime.fromisoformat,
    "TIMESTAMP(6)": dt.datetime.fromisoformat,
    "TIMESTAMP_LTZ(6)": lambda text: dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC),
    "DECIMAL(10, 2)": Decimal,
    "DECIMAL(20, 2)": Decimal,
    "BYTES": lambda text: bytes.fromhex(text.removeprefix("0x").zfill(len(text.removeprefix("0x")) + len(text.removeprefix("0x")) % 2)),
}


def a_table(kinds: tuple[str, ...], buckets: int = 8, function: str = "default") -> Schema:
    names = [f"k{i}" for i in range(len(kinds))]
    options = {"bucket": str(buckets), "bucket-key": ",".join(names), "bucket-function.type": function}
    return new_schema([column(name, kind) for name, kind in zip(names, kinds, strict=True)], options=options)


def values_of(kind: str, text: str) -> tuple[object, ...]:
    parts = text.removeprefix("[").removesuffix("]").split(", ") if len(KINDS[kind]) > 1 else [text.removeprefix("[").removesuffix("]")]
    return tuple(None if part == "null" else READ[type_](part) for type_, part in zip(KINDS[kind], parts, strict=True))


def batch_of(schema: Schema, rows: list[tuple[object, ...]]) -> pa.RecordBatch:
    arrow = arrow_schema(schema.fields)
    columns = []
    for field, values in zip(arrow, zip(*rows, strict=True), strict=True):
        columns.append(pa.array(values, pa.int32()).cast(field.type) if pa.types.is_time(field.type) else pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(columns, names=arrow.names)


@pytest.mark.parametrize(("kind", "text", "hashed", "bucket", "row"), VECTORS, ids=[f"{v[0]}-{v[1]}" for v in VECTORS])
def test_java_vectors(kind: str, text: str, hashed: str, bucket: str, row: str) -> None:
    schema = a_table(KINDS[kind])
    values = values_of(kind, text)
    encoded = binary_row.encode([f.type for f in schema.fields], values)
    assert encoded.hex() == row
    assert murmur3(encoded) == int(hashed)
    assert bucket_of(schema, values) == int(bucket)
    assert buckets_of(schema, batch_of(schema, [values])).tolist() == [int(bucket)]


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_whole_columns_give_what_single_rows_give(kind: str) -> None:
    schema = a_table(KINDS[kind], buckets=13)
    rows = [values_of(kind, vector[1]) for vector in VECTORS if vector[0] == kind] * 3
    assert buckets_of(schema, batch_of(schema, rows)).tolist() == [bucket_of(schema, row) for row in rows]


@given(st.lists(st.tuples(st.text(max_size=20) | st.none(), st.integers(-(2**31), 2**31 - 1) | st.none()), min_size=1, max_size=30))
def test_texts_of_any_length_together(rows: list[tuple[object, ...]]) -> None:
    schema = a_table(("STRING", "INT"), buckets=7)
    assert buckets_of(schema, batch_of(schema, rows)).tolist() == [bucket_of(schema, row) for row in rows]


@pytest.mark.parametrize(
    ("kind", "value", "bucket"),
    [
        ("INT", 0, 0),
        ("INT", 42, 2),
        ("INT", -1, 7),
        ("BIGINT", -1, 0),
        ("BIGINT", 1234567890123, 4),
        ("STRING", "a", 1),
        ("STRING", "abc", 2),
        ("STRING", "hello world", 4),
        ("STRING", "中文", 6),
        ("DOUBLE", 1.5, 0),
        ("INT", None, 0),
        *[
            ("DECIMAL(38, 2)", Decimal(text), bucket)
            for text, bucket in (
                ("100.00", 4), ("-20.00", 4), ("10.00", 6), ("1230.00", 2), ("5.00", 3), ("0.00", 0), ("1.50", 2), ("12.34", 0),
                ("-0.10", 2), ("99999999.99", 5), ("1e30", 6), ("-1e30", 2),
            )
        ],
    ],
)  # fmt: skip
def test_hives_function(kind: str, value: object, bucket: int) -> None:
    schema = a_table((kind,), function="hive")
    assert bucket_of(schema, (value,)) == bucket
    assert buckets_of(schema, batch_of(schema, [(value,)])).tolist() == [bucket]


@pytest.mark.parametrize(("value", "bucket"), [(-1, 7), (-3, 5), (None, 0), (-(2**63), 0), (9, 1)])
def test_the_modulo_function(value: int | None, bucket: int) -> None:
    assert bucket_of(a_table(("BIGINT",), function="mod"), (value,)) == bucket


OTHER_NANS = {"FLOAT": struct.unpack("<f", b"\x01\0\xc0\xff")[0], "DOUBLE": struct.unpack("<d", b"\x01\0\0\0\0\0\xf8\xff")[0]}
"""With a sign, and with bits that nobody reads."""


@pytest.mark.parametrize(("kind", "buckets"), [("FLOAT", (1, 1, 0, 0, 2, 12)), ("DOUBLE", (0, 0, 0, 0, 1, 12))])
def test_hives_function_has_one_zero_and_one_nan(kind: str, buckets: tuple[int, ...]) -> None:
    schema = a_table((kind,), buckets=13, function="hive")
    values = (math.nan, OTHER_NANS[kind], 0.0, -0.0, 1.5, -2.0)
    assert tuple(bucket_of(schema, (value,)) for value in values) == buckets
    assert tuple(buckets_of(schema, batch_of(schema, [(value,) for value in values])).tolist()) == buckets
