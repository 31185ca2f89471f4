"""Random literals into columns of every type: what is stored without Spark is what plain Spark stores."""

from __future__ import annotations

import datetime as dt
import os
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import LakeError, Unavailable
from tests.sql.tables import make_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.torture]
SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261125"))
LITERALS = int(os.environ.get("SLUICE_TEST_LITERALS", "250"))
"""Literals for each type of column."""
# Double quotes and `${…}` are Spark's own; CHAR is stored as it is given, as by Paimon, where plain Spark fills it up.
TYPES: dict[str, str] = {
    "TINYINT": "tinyint",
    "SMALLINT": "smallint",
    "INT": "int",
    "BIGINT": "bigint",
    "FLOAT": "float",
    "DOUBLE": "double",
    "DECIMAL(10, 2)": "decimal(10,2)",
    "DECIMAL(38, 10)": "decimal(38,10)",
    "DECIMAL(3, 3)": "decimal(3,3)",
    "STRING": "string",
    "VARCHAR(3)": "varchar(3)",
    "BYTES": "binary",
    "BOOLEAN": "boolean",
    "DATE": "date",
    "TIME(0)": "time(0)",
    "TIME(3)": "time(3)",
    "TIMESTAMP(6)": "timestamp_ntz",
    "TIMESTAMP_LTZ(6)": "timestamp",
    "ARRAY<DOUBLE>": "array<double>",
    "ARRAY<STRING>": "array<string>",
    "MAP<STRING, DOUBLE>": "map<string,double>",
}
_NUMBERS = (
    "0", "-0", "1", "-1", "+1", "- 1", "-(1)", "-(-1)", "(1)", "007", "127", "128", "-128", "-129", "32767", "-32768", "32768",
    "2147483647", "2147483648", "-2147483648", "-2147483649", "9007199254740993", "9223372036854775807", "9223372036854775808",
    "-9223372036854775808", "-9223372036854775809", "99999999999999999999999999999999999999", "0.0", "-0.0", "0.", ".5", "-.5", "1.0",
    "1.005", "-1.005", "0.995", "0.9995", "99999999.99", "99999999.995", "100000000", "0.1", "16777217", "16777217.0",
    "0.30000001192092896",
    "1e0", "1E5", "-1e-5", "0e0", "-0e0", "-0.0e0", "1e39", "3.4028236e38", "3.4028235677973366e38", "1e-46", "7e-46", "1e308", "1.8e308",
    "1e400", "-1e400", "1e-400", "5e-324", "1.5e+3", "12345678901234567890.5", "0.12345678901234567890123456789012345678",
    "1234567.8901234567890123456789012345678", "1L", "1S", "1Y", "1.5D", "1.5F", "1BD", "1.50BD", "1e2BD", "128Y",
)  # fmt: skip
_STRINGS = (
    "''", "'a'", "'abc'", "'abcd'", "'ab '", "'abc   '", "'   '", "'ä€😀'", "'ä€😀x'", "'it''s'", r"'it\'s'", r"'a\nb'", r"'a\tb'", r"'\\'",
    r"'\u00e4'", r"'\U0001F600'", r"'\101'", r"'\0'", r"'\Z'", r"'\%'", r"'\_'", r"'\q'", "'a' 'b'", "'a'\n'b'", "r'a\\nb'",
    "'1'",
    "' 1 '", "'true'", "'2024-02-29'", "'\u00a0'", "'a\x00b'", "'\ufeffa'", "'--x'", "'/* x */'", "';'", "'$1'", "'?'", "':a'",
)  # fmt: skip
_TEXTS = (
    "'1'", "' 1 '", "'\t1'", "'1\n'", "'+1'", "'-1'", "'1.5'", "'1.'", "'.5'", "'1e2'", "'1E-2'", "'NaN'", "'nan'",
    "'Infinity'", "'-inf'", "'+Inf'",
    "'1d'", "'1f'", "'0x1'", "'１'", "'٣'", "'1_0'", "''", "'true'", "'t'", "'yes'", "'1 2'", "'-0.0'", "'-0'", "'1e400'", "'128'",
    "'99999999999'", "'0001'", "'1e5000'", "'\u00a01'", "'1.005'",
)  # fmt: skip
_DAYS = (
    "2024-02-29", "2024-2-9", "2023-02-29", "0001-01-01", "0000-01-01", "-0001-01-01", "1582-10-10", "9999-12-31", "10000-01-01",
    "+2024-01-01", "2024", "2024-01", "2024-01-01 ", " 2024-01-01", "2024-01-01T", "2024-01-01 x", "02024-01-01", "24-01-01", "2024-13-01",
    "２０２４-01-01", "epoch", "today", "", "2024-1-1 1:2:3", "1900-01-01", "1000-06-01",
)  # fmt: skip
_CLOCKS = (
    "", " 00:00:00", "T00:00:00", " 1:2:3", " 12:34:56.123456", " 12:34:56.1", " 12:34:56.1234567", " 23:59:60",
    " 24:00:00", " 12:34", "T12", " 12:34:56Z",
    " 12:34:56+01:00", " 12:34:56 UTC", " 12:34:56 Europe/Berlin", "t12:34:56", " 12:34:56.", "  12:34:56", "T 12:34:56", " T12:34:56",
    " 12:3:5", " 12:34:56z",
)  # fmt: skip
_TIMES = ("10:00:00", "10:00:00.5", "1:2:3", "23:59:59.999", "10:00:00.1234", "10:00:00.500000", "24:00:00", "10:00", "")
_CASTS = (
    "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL", "DECIMAL(10, 2)", "DECIMAL(38, 38)", "STRING",
    "VARCHAR(2)", "CHAR(3)",
    "BINARY", "BOOLEAN", "DATE", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ",
)  # fmt: skip


def between_floats(rng: random.Random) -> str:
    """A number near the middle between two FLOATs, where rounding it to a DOUBLE first may decide which of them it becomes."""
    low = np.float32(rng.uniform(1, 2) * 2.0 ** rng.randrange(-30, 30))
    middle = (float(low) + float(np.nextafter(low, np.float32(np.inf)))) / 2
    return f"{Decimal(f'{middle:.{rng.choice([9, 13, 15, 17])}g}'):f}"


class Literals:
    """Random literal expressions, each of which Spark can read or refuse."""

    def __init__(self, seed: str) -> None:
        self._rng = random.Random(seed)

    def one(self, depth: int = 0) -> str:
        """A literal, a cast of one, or a list, map or row of them."""
        choose = self._rng.choice
        how = self._rng.random()
        if depth < 2 and how < 0.22:
            word = choose(["CAST", "CAST", "CAST", "TRY_CAST"])
            return f"{word}({self.one(depth + 1)} AS {choose(_CASTS)})"
        if how < 0.32:
            return f"CAST({choose(_TEXTS)} AS {choose(_CASTS)})"
        if depth < 1 and how < 0.40:
            parts = ", ".join(self.one(depth + 1) for _ in range(self._rng.randrange(3)))
            return f"ARRAY({parts})"
        if depth < 1 and how < 0.45:
            return f"MAP({choose(_STRINGS)}, {self.one(1)}, {choose(_STRINGS)}, {self.one(1)})"
        day, clock = choose(_DAYS), choose(_CLOCKS)
        return choose(
            [
                choose(_NUMBERS), choose(_NUMBERS), choose(_NUMBERS), choose(_NUMBERS), choose(_STRINGS), choose(_STRINGS),
                "NULL", choose(["TRUE", "false"]), choose(["X''", "X'00fF'", "x'61'", "X'1'", "X'zz'"]),
                f"DATE '{day}'", f"DATE '{choose(_DAYS[:9])}'", f"TIMESTAMP_NTZ '{day}{clock}'",
                f"TIMESTAMP_NTZ '{choose(_DAYS[:9])}{clock}'",
                f"TIMESTAMP_LTZ '{choose(_DAYS[:9])}{clock}'", f"TIME '{choose(_TIMES)}'", between_floats(self._rng),
                f"'{choose(_DAYS[:9])}{clock}'",
            ]
        )  # fmt: skip

    def rows(self) -> list[str]:
        """The literals of one column: one row mostly, else a few that pass through a type they have in common."""
        if self._rng.random() < 0.75:
            return [self.one()]
        return [self._rng.choice(_NUMBERS) if self._rng.random() < 0.6 else self.one() for _ in range(self._rng.randrange(2, 4))]


def _theirs(spark: SparkSession, type_: str, rows: Sequence[str]) -> list[Any] | str:
    """What plain Spark stores, or the first line of its error."""
    spark.sql("TRUNCATE TABLE theirs")
    try:
        spark.sql(f"INSERT INTO theirs VALUES {', '.join(f'({row})' for row in rows)}")
    except Exception as error:  # whatever Spark says of it
        return str(error).splitlines()[0]
    return sorted(repr(_plain(value)) for value in spark.table("theirs").toArrow().column(0).to_pylist())


def _plain(value: Any) -> Any:
    """An instant as its time in UTC."""
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def _ours(gateway: Gateway, rows: Sequence[str]) -> list[Any] | str | None:
    """What is stored without Spark, or our error; None where the statement is Spark's."""
    try:
        gateway.run(f"INSERT INTO ours VALUES {', '.join(f'({at}, {row})' for at, row in enumerate(rows))}").close()
    except Unavailable:
        return None
    except LakeError as error:
        return str(error)
    with gateway.run("SELECT c FROM ours") as result:
        values = sorted(repr(_plain(value)) for (value,) in result.collect())
    gateway.run("TRUNCATE TABLE ours").close()
    return values


def _cases(type_: str, count: int) -> Iterator[list[str]]:
    literals = Literals(f"{SEED} {type_}")
    for _ in range(count):
        yield literals.rows()


@pytest.mark.parametrize("type_", TYPES)
def test_literals_are_stored_as_spark_stores_them(gateway: Gateway, lake: Lake, spark: SparkSession, type_: str) -> None:
    make_table(lake, "ours", k="INT", c=type_)
    spark.sql("DROP TABLE IF EXISTS theirs")
    spark.sql(f"CREATE TABLE theirs (c {TYPES[type_]}) USING parquet")
    wrong, local = [], 0
    for rows in _cases(type_, LITERALS):
        ours = _ours(gateway, rows)
        if ours is None:
            continue
        local += 1
        theirs = _theirs(spark, type_, rows)
        if isinstance(ours, str) != isinstance(theirs, str) or (isinstance(ours, list) and ours != theirs):
            wrong.append(f"{type_} <- {rows}: ours {ours!r}, Spark {theirs!r}")
    print(type_, local)
    assert not wrong, "\n".join(wrong)
