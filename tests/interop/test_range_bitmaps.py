"""Range-bitmap indexes as Java Paimon lays them out: the same values give the same bytes."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from model.options.option import memory_size
from model.schema.schema import column
from table.format.rows.arrow import arrow_type
from table.index.range_bitmap import RangeBitmapBuilder
from tests.interop.conftest import with_paimon

pytestmark = pytest.mark.interop
NUMBERS: dict[str, tuple[pa.DataType, int]] = {
    "TINYINT": (pa.int8(), 100),
    "SMALLINT": (pa.int16(), 3000),
    "INT": (pa.int32(), 1 << 30),
    "BIGINT": (pa.int64(), 1 << 60),
    "DATE": (pa.int32(), 20_000),
    "DECIMAL(9, 2)": (pa.int64(), 10**8),
    "TIMESTAMP(3)": (pa.int64(), 1 << 40),
    "TIMESTAMP(6)": (pa.int64(), 1 << 50),
}


def case(rng: random.Random, spelled: str) -> tuple[pa.Array, list[str]]:
    """Values as Java is told them, and as a column."""
    count = rng.choice([0, 1, 2, 40, 300])
    type_ = arrow_type(column("x", spelled).type)
    show: Callable[[Any], str] = str
    if spelled == "BOOLEAN":
        values: list[Any] = [rng.choice([None, 0, 1]) for _ in range(count)]
        array = pa.array([None if value is None else bool(value) for value in values], type_)
    elif spelled in ("FLOAT", "DOUBLE"):
        values = [rng.choice([None, float("nan"), 0.0, -0.0, float("-inf"), rng.randrange(-99, 99) / 4]) for _ in range(count)]
        array = pa.array(values, type_)
        show = _float
    elif spelled == "STRING":
        values = [rng.choice([None, "", "aé😀"[: rng.randrange(4)] * rng.randrange(9), str(rng.randrange(999))]) for _ in range(count)]
        array = pa.array(values, type_)
        show = _hex
    else:
        stored, most = NUMBERS[spelled]
        most = rng.choice([3, most])
        values = [rng.choice([None, rng.randrange(-most, most)]) for _ in range(count)]
        array = pa.array(values, stored)
        array = pa.array([None if v is None else _decimal(v) for v in values], type_) if "DEC" in spelled else array.cast(type_)
    return array, ["~" if value is None else show(value) for value in values]


def _float(value: float) -> str:
    return {"nan": "NaN", "-inf": "-Infinity"}.get(str(value), str(value))


def _hex(value: str) -> str:
    return "x" + value.encode().hex()


def _decimal(unscaled: int) -> Decimal:
    return Decimal(unscaled).scaleb(-2)


def test_the_bytes_are_javas() -> None:
    rng = random.Random(27)
    lines, expected = [], []
    for spelled in ("BOOLEAN", "FLOAT", "DOUBLE", "STRING", *NUMBERS):
        for chunk in ("", "0 b", "20 b", "1 kb"):
            for _ in range(4):
                array, told = case(rng, spelled)
                lines.append(f"{spelled};{chunk};{','.join(told)}")
                size = memory_size().parse(chunk) if chunk else None
                builder = RangeBitmapBuilder(column("x", spelled).type, {"chunk-size": size})
                builder.add(array)
                expected.append(builder.body().hex())
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", with_paimon("RangeBitmaps"), "RangeBitmaps"]
    done = subprocess.run(command, input="\n".join(lines), capture_output=True, text=True, timeout=300, check=True)
    found = done.stdout.split("\n")[: len(lines)]
    assert len(set(found)) > 100
    for line, java, ours in zip(lines, found, expected, strict=True):
        assert ours == java, line
