"""Thousands of random keys of each type lie in the buckets that Java Paimon and pypaimon would have chosen."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from tests.interop.conftest import Reader
from tests.running import ARROW, RunningServer
from tests.short import one_in

pytestmark = pytest.mark.interop

KEYS = [pytest.param(3_000, id="short"), pytest.param(100_000, id="whole", marks=pytest.mark.torture)]
Random = np.random.Generator


def whole(bits: int) -> Callable[[Random, int], pa.Array]:
    """Integers of a width, its ends among them."""

    def draw(random: Random, count: int) -> pa.Array:
        low, high = -(1 << bits - 1), (1 << bits - 1) - 1
        values = random.integers(low, high, count, dtype=f"int{bits}", endpoint=True)
        values[:4] = low, high, 0, -1
        return pa.array(values)

    return draw


def numbers(kind: str) -> Callable[[Random, int], pa.Array]:
    """Floating-point numbers of any size, the odd ones among them."""

    def draw(random: Random, count: int) -> pa.Array:
        values = (random.standard_normal(count) * 10.0 ** random.integers(-30, 30, count)).astype(kind)
        values[:5] = 0.0, -0.0, np.nan, np.inf, -np.inf
        return pa.array(values)

    return draw


def decimals(precision: int, scale: int) -> Callable[[Random, int], pa.Array]:
    """Decimals of any length up to a precision."""

    def draw(random: Random, count: int) -> pa.Array:
        digits = random.integers(1, precision, count, endpoint=True)
        values = [int.from_bytes(random.bytes(16), "big") % 10 ** int(n) * (-1) ** (i % 2) for i, n in enumerate(digits)]
        return pa.array([Decimal(value).scaleb(-scale) for value in values], pa.decimal128(precision, scale))

    return draw


def texts(longest: int) -> Callable[[Random, int], pa.Array]:
    """Texts in several alphabets, short ones that lie inside the row's slot and longer ones that do not."""
    alphabet = np.array(list("abcxyz0189 _-éß中文😀"))

    def draw(random: Random, count: int) -> pa.Array:
        lengths = random.integers(0, longest, count, endpoint=True)
        return pa.array(["".join(random.choice(alphabet, n)) for n in lengths])

    return draw


def blobs(longest: int) -> Callable[[Random, int], pa.Array]:
    """Any bytes."""
    return lambda random, count: pa.array([random.bytes(int(n)) for n in random.integers(0, longest, count, endpoint=True)], pa.binary())


def moments(unit: str, zone: str | None = None) -> Callable[[Random, int], pa.Array]:
    """Times between the years 1 and 9999."""
    per_second = {"ms": 10**3, "us": 10**6}[unit]

    def draw(random: Random, count: int) -> pa.Array:
        values = random.integers(-62_135_596_800 * per_second, 253_402_300_799 * per_second, count)
        return pa.array(values, pa.int64()).cast(pa.timestamp(unit, tz=zone))

    return draw


TYPES: dict[str, Callable[[Random, int], pa.Array]] = {
    "BOOLEAN": lambda random, count: pa.array(random.integers(0, 2, count).astype(bool)),
    "TINYINT": whole(8),
    "SMALLINT": whole(16),
    "INT": whole(32),
    "BIGINT": whole(64),
    "FLOAT": numbers("float32"),
    "DOUBLE": numbers("float64"),
    "DECIMAL(9,2)": decimals(9, 2),
    "DECIMAL(18,4)": decimals(18, 4),
    "DECIMAL(38,10)": decimals(38, 10),
    "CHAR(12)": texts(12),
    "VARCHAR(20)": texts(20),
    "STRING": texts(40),
    "BYTES": blobs(24),
    "DATE": lambda random, count: pa.array(random.integers(-719_162, 2_932_896, count, dtype="int32")).cast(pa.date32()),
    "TIME(3)": lambda random, count: pa.array(random.integers(0, 86_400_000, count, dtype="int32")).cast(pa.time32("ms")),
    "TIMESTAMP(3)": moments("ms"),
    "TIMESTAMP(6)": moments("us"),
    "TIMESTAMP_LTZ(3)": moments("ms", "UTC"),
    "TIMESTAMP_LTZ(6)": moments("us", "UTC"),
}
WRONG_NULLS = {"TIMESTAMP(6)", "TIMESTAMP_LTZ(6)", "DECIMAL(38,10)"}
"""Where pypaimon 2.1 hashes a NULL otherwise than Java (`paimon-append.md` §5.3)."""
WRONG_VALUES = {"DECIMAL(38,10)"}
"""Where pypaimon 2.1 hashes some values otherwise than Java: long negative decimals (same place)."""


def stored(server: RunningServer, table: str, kind: str, count: int, *, nulls: bool) -> None:
    """A table of 16 buckets with the random keys of a type."""
    keys = TYPES[kind](np.random.default_rng(len(kind)), count)
    if nulls:
        keys = pa.concat_arrays([keys.slice(0, count - 100), pa.nulls(100, keys.type)])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([("k", keys.type)])) as writer:
        writer.write_table(pa.table({"k": keys}))
    server.sql(f"CREATE TABLE {table} (k {kind}) WITH ('bucket'='16','bucket-key'='k')")
    assert server.append(table, bytes(sink.getvalue()), ARROW)["rows"] == count


@pytest.mark.parametrize("count", KEYS)
@pytest.mark.parametrize("kind", one_in(3, TYPES))
def test_java_finds_every_key_where_it_would_have_put_it(
    server: RunningServer, database: str, java_paimon: Reader, kind: str, count: int
) -> None:
    stored(server, f"{database}.t", kind, count, nulls=True)
    found = java_paimon.read(server.table_path(f"{database}.t"), rows=False)
    assert (found["count"], found["misplaced"]) == (count, 0)


@pytest.mark.parametrize("count", KEYS)
@pytest.mark.parametrize("kind", one_in(3, [kind for kind in TYPES if kind not in WRONG_VALUES]))
def test_pypaimon_finds_every_key_where_it_would_have_put_it(
    server: RunningServer, database: str, pypaimon: Reader, kind: str, count: int
) -> None:
    stored(server, f"{database}.t", kind, count, nulls=kind not in WRONG_NULLS)
    found = pypaimon.read(server.table_path(f"{database}.t"), rows=False)
    assert (found["count"], found["misplaced"]) == (count, 0)
