"""Inputs that are almost right: real files of every column type, with parts flipped, cut, spliced and written over."""

from __future__ import annotations

import datetime as dt
import io
import json
import os
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq

from tests.running import ARROW, PARQUET

SEED = int(os.environ.get("SLUICE_TEST_SEED", "0"))
"""Moves every campaign to other inputs; 0 are those of `make test`."""
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
CSV, NDJSON = "text/csv", "application/x-ndjson"
_ROW = pa.struct([("x", pa.int32()), ("y", pa.list_(pa.binary()))])
COLUMNS: dict[str, tuple[str, pa.DataType, list[Any]]] = {
    "b": ("BOOLEAN", pa.bool_(), [True, None, False]),
    "i1": ("TINYINT", pa.int8(), [1, None, -128]),
    "i4": ("INT", pa.int32(), [1, None, -(2**31)]),
    "i8": ("BIGINT", pa.int64(), [1, None, 2**63 - 1]),
    "f4": ("FLOAT", pa.float32(), [1.5, None, float("inf")]),
    "f8": ("DOUBLE", pa.float64(), [1.5, None, float("nan")]),
    "n": ("DECIMAL(10, 2)", pa.decimal128(10, 2), [Decimal("1.25"), None, Decimal("-99999999.99")]),
    "s": ("STRING", pa.string(), ["a longer text than twelve bytes", None, ""]),
    "c": ("VARCHAR(3)", pa.string(), ["abc", None, ""]),
    "x": ("BYTES", pa.binary(), [b"\x00\xff", None, b""]),
    "d": ("DATE", pa.date32(), [dt.date(2024, 2, 29), None, dt.date(1, 1, 1)]),
    "t": ("TIME", pa.time32("ms"), [dt.time(1, 2, 3), None, dt.time(0)]),
    "ts": ("TIMESTAMP(6)", pa.timestamp("us"), [dt.datetime(2024, 1, 1, 1), None, dt.datetime(1, 1, 1)]),
    "lz": ("TIMESTAMP_LTZ(3)", pa.timestamp("ms", "UTC"), [_EPOCH + dt.timedelta(days=1), None, _EPOCH]),
    "a": ("ARRAY<STRING>", pa.list_(pa.string()), [["x", None], None, []]),
    "m": ("MAP<STRING, BYTES>", pa.map_(pa.string(), pa.binary()), [[("k", b"v")], None, []]),
    "r": ("ROW<x INT, y ARRAY<BYTES>>", _ROW, [{"x": 1, "y": [b"z"]}, None, {"x": None, "y": None}]),
}  # fmt: skip
DDL = ", ".join(f"{name} {sql}" for name, (sql, _, _) in COLUMNS.items())
_OTHER = {
    "s": [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())],
    "x": [pa.large_binary(), pa.binary_view()],
    "a": [pa.large_list(pa.string()), pa.list_view(pa.string())],
    "i4": [pa.uint8(), pa.float16(), pa.int64()],
}
_ALIEN = [
    pa.RunEndEncodedArray.from_arrays(pa.array([3], pa.int32()), pa.array(["x"])),
    pa.UnionArray.from_sparse(pa.array([0, 0, 0], pa.int8()), [pa.array([1, 2, 3])]),
    pa.array([pa.MonthDayNano([1, 2, 3])] * 3),
    pa.ExtensionArray.from_storage(pa.uuid(), pa.array([b"0" * 16] * 3, pa.binary(16))),
    pa.array([1, 2, 3], pa.duration("s")),
    pa.nulls(3),
]


def drawn(kind: str, seed: int) -> random.Random:
    """What makes the input of a campaign that has this number."""
    return random.Random(f"{kind} {seed}" if not SEED else f"{kind} {SEED} {seed}")


def rows(rng: random.Random, *, alien: bool = True) -> pa.Table:
    """Some of the columns, some in other types that fit, now and then one that fits nowhere."""
    columns: dict[str, Any] = {}
    for name in rng.sample(sorted(COLUMNS), rng.randint(1, 4)):
        _, type_, values = COLUMNS[name]
        made = pa.array(rng.sample(values, 3), type_)
        if alien and name in _OTHER and rng.random() < 0.3:
            other = rng.choice(_OTHER[name])
            made = (
                made.cast(other) if pa.types.is_dictionary(other) else pa.array([1, None, 3] if name == "i4" else made.to_pylist(), other)
            )
        columns[name] = rng.choice(_ALIEN) if alien and rng.random() < 0.05 else made
    return pa.table(columns)


def arrow(rng: random.Random) -> bytes:
    """An Arrow stream."""
    table, sink = rows(rng), io.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression=rng.choice([None, None, "lz4", "zstd"]))
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        for _ in range(rng.choice([0, 1, 1, 2])):
            writer.write_table(table)
    return sink.getvalue()


def parquet(rng: random.Random) -> bytes:
    """A Parquet file."""
    table, sink = rows(rng, alien=False), io.BytesIO()
    codec = rng.choice(["none", "snappy", "gzip", "zstd", "lz4", "brotli"])
    version = rng.choice(["1.0", "2.0"])
    pq.write_table(table, sink, compression=codec, use_dictionary=rng.random() < 0.5, data_page_version=version)
    return sink.getvalue()


def csv(rng: random.Random) -> bytes:
    """A CSV of the columns it can write."""
    table, sink = rows(rng, alien=False), io.BytesIO()
    kept = [field.name for field in table.schema if not pa.types.is_nested(field.type) and not pa.types.is_binary(field.type)]
    pacsv.write_csv(table.select(kept), sink)
    return sink.getvalue()


def ndjson(rng: random.Random) -> bytes:
    """Objects, some of them odd."""
    found = [json.dumps(row, default=str) for row in rows(rng, alien=False).to_pylist()]
    if rng.random() < 0.4:
        found.append(json.dumps({rng.choice(sorted(COLUMNS)): value(rng)}))
    return "\n".join(found).encode("utf-8", "surrogatepass")


BODIES = {ARROW: arrow, PARQUET: parquet, CSV: csv, NDJSON: ndjson}


def value(rng: random.Random, depth: int = 0) -> Any:
    """Any JSON value, most of them where nobody expects them."""
    kind = rng.randrange(16)
    if kind == 0 and depth < 4:
        return [value(rng, depth + 1) for _ in range(rng.randrange(4))]
    if kind == 1 and depth < 4:
        return {rng.choice(["a", "type", "value", "", "\x00", "é"]): value(rng, depth + 1) for _ in range(rng.randrange(3))}
    plain = [
        None, True, False, 0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**40, 1.5, -0.0, 1e308, "", "x", "\x00", "é😀", "../../x", "a.b",
        "`", "'", "%s", "9999-12-31", "99999-01-01", "NaN", "1e999", "-1", "x" * 5000, "file:///etc/passwd", "2024-01-01T00:00:00Z",
        "%2e%2e", "${x}", "{{x}}",
    ]  # fmt: skip
    return rng.choice(plain)


def deep(rng: random.Random) -> bytes:
    """Brackets in brackets."""
    count = rng.choice([100, 1000, 3000, 100_000])
    opened, closed = rng.choice([(b"[", b"]"), (b'{"a":', b"}")])
    return opened * count + b"1" + closed * count


def mutated(rng: random.Random, data: bytes, other: bytes = b"") -> bytes:
    """The same bytes with some of them flipped, cut out, doubled, taken from another input, or replaced by telling numbers."""
    found = bytearray(data)
    for _ in range(rng.choice([0, 1, 1, 1, 2, 4])):
        if not found:
            return bytes(found)
        at = rng.randrange(len(found))
        match rng.randrange(8):
            case 0:
                found[at] ^= 1 << rng.randrange(8)
            case 1:
                found[at] = rng.choice([0, 1, 0x22, 0x5B, 127, 128, 255])
            case 2:
                at &= ~3
                found[at : at + 4] = rng.choice([0, 1, -1, 2**31 - 1, -(2**31), rng.randrange(64)]).to_bytes(4, "little", signed=True)
            case 3:
                at &= ~7
                found[at : at + 8] = rng.choice([0, 1, -1, 2**63 - 1, -(2**63), 2**40]).to_bytes(8, "little", signed=True)
            case 4:
                del found[at : at + rng.choice([1, 4, 8, 64])]
            case 5:
                found[at:at] = found[at : at + rng.choice([1, 8, 64])]
            case 6:
                begin = rng.randrange(len(other)) if other else 0
                found[at : at + 16] = other[begin : begin + 16]
            case _:
                del found[at:]
    return bytes(found)


def most_held() -> int:
    """The most this program held, in bytes; what `getrusage` tells has in it what began it, as large as a test's process is by then."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) << 10
