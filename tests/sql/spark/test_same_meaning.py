"""Random expressions in Spark's own spelling: what our parser reads and writes again means what plain Spark makes of the same text."""

from __future__ import annotations

import datetime as dt
import os
import random
from typing import TYPE_CHECKING

import pytest

from model.errors import SqlError
from sql.analysis.allow_list import checked_sql
from sql.dialect import parse_one

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261129"))
EXPRESSIONS = int(os.environ.get("SLUICE_TEST_EXPRESSIONS", "150"))
COUNTS = [pytest.param(EXPRESSIONS // 4, id="short"), pytest.param(EXPRESSIONS, id="whole", marks=pytest.mark.torture)]
_UNITS = ("MICROSECONDS", "MILLISECOND", "SECOND", "MINUTES", "HOUR", "HOURS", "DAY", "days", "WEEK")
_MONTHS = ("MONTH", "MONTHS", "YEAR")
_NUMBERS = ("1", "2", "10", "'3'", "'-4'", "1.5", "'.5'", ".25", "0")
_SPANS = ("'1 02:03:04.5' DAY TO SECOND", "'-1 02' DAY TO HOUR", "-'1:30' HOUR TO MINUTE", "'1-2' YEAR TO MONTH", "'+7' DAY")
_TEXTS = (
    "1 day", "1 day 2 hours", "- 1 day", "-1 day", "+1 day", ".5 seconds", "1.5 seconds", "1 day 2", "1 day -2 hours", "interval 1 day",
    " 2 weeks ", "day", "1", "3 months -1 year", "1 day 1 day", "x 1 day", "1.5.5 seconds",
)  # fmt: skip
_ZONES = ("", "", "", "Z", "+02:00", " -01:30", " UTC", " Europe/Berlin", "+2", ".123", ".123456Z", ".5 Asia/Kolkata")
_DAYS = ("2024-06-01", "2024-03-31", "2024-1-9", "1900-01-01")


class Expressions:
    """Random expressions over instants, clock times, days and intervals."""

    def __init__(self, seed: str) -> None:
        self._rng = random.Random(seed)

    def interval(self, months: bool = False) -> str:
        """One of a unit, of several with and without signs, of a span, or a text of them."""
        choose, how = self._rng.choice, self._rng.random()
        if how < 0.2:
            return f"INTERVAL '{choose(_TEXTS)}'"
        if how < 0.3:
            return f"INTERVAL {choose(_SPANS)}"
        units = _MONTHS if months else _UNITS
        parts = [f"{choose(['', '', '', '-', '+ '])}{choose(_NUMBERS)} {choose(units)}" for _ in range(choose([1, 1, 2, 2, 3]))]
        return f"INTERVAL {' '.join(parts)}"

    def moment(self) -> str:
        """A clock time, an instant or a day, most of them typed literals."""
        choose = self._rng.choice
        text = f"{choose(_DAYS)}{choose([' ', 'T'])}{choose(['00:00:00', '02:30:00', '1:2:3'])}{choose(_ZONES)}"
        kind = choose(["TIMESTAMP", "TIMESTAMP", "TIMESTAMP", "TIMESTAMP_LTZ", "DATE", "c", "i", "d"])
        if kind in "cid":
            return kind
        return f"DATE '{choose(_DAYS)}'" if kind == "DATE" else f"{kind} '{text}'"

    def one(self) -> str:
        """An expression of operators around them."""
        choose = self._rng.choice
        months = self._rng.random() < 0.3
        left, right, moment, other = self.interval(months), self.interval(months), self.moment(), self.moment()
        return choose(
            [
                f"{moment} - {left}", f"{moment} + {left}", f"{left} + {moment}", f"{moment} - {left} + {right}",
                f"{moment} - {left} - {right}",
                f"-{left}", f"- {left} + {right}", f"2 * {left}", f"{left} * 2", f"{left} / 2 - {right}", f"3 * {left} * 2",
                f"d - {left} + 2", f"d - {left} - 2 DAYS", f"{left} + '2024-01-01 00:00:00'", f"{left} < {right}",
                f"{moment} < {other}", f"{moment}", f"{moment} = {other} - {left}",
                f"{moment} BETWEEN {other} - {left} AND {other} + {right}",
                f"CASE WHEN {moment} > {other} THEN {left} ELSE {right} END", f"abs({left})", f"array({left}, {right})[1]",
                f"extract(HOUR FROM {moment} - {left})", f"i - c - {left}",
                f"count(1) OVER (ORDER BY c RANGE BETWEEN {left} PRECEDING AND {right} FOLLOWING)",
            ]
        )  # fmt: skip


ROWS = "(SELECT TIMESTAMP_NTZ '2024-06-01 12:00:00' AS c, TIMESTAMP_LTZ '2024-06-01 10:30:00Z' AS i, DATE '2024-06-01' AS d, 7 AS interval)"


def _answer(session: SparkSession, query: str) -> tuple[str, str] | None:
    """The type and the value as text; None where Spark refuses the query."""
    try:
        frame = session.sql(query)
        ((value,),) = frame.selectExpr("CAST(x AS STRING)").collect()
    except Exception:  # whatever is wrong with it
        return None
    return frame.schema.fields[0].dataType.simpleString(), value


def _ours(session: SparkSession, query: str) -> tuple[str, str] | None:
    try:
        text = checked_sql(parse_one(query), ())
    except SqlError:
        return None
    return _answer(session, text)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("count", COUNTS)
def test_what_is_written_for_spark_means_what_was_read(spark: SparkSession, zone: str, count: int) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    expressions = Expressions(f"{SEED} {zone}")
    wrong, same = [], 0
    for _ in range(count):
        query = f"SELECT {expressions.one()} AS x FROM {ROWS}"
        ours, theirs = _ours(session, query), _answer(session, query)
        same += ours is not None
        if ours != theirs:
            wrong.append(f"{query}: ours {ours!r}, Spark {theirs!r}")
    assert same > count / 4
    assert not wrong, "\n".join(wrong)


class Casts:
    """Random casts inside each other, and the value that each has as in Flink: digits beyond the precision are cut on the clock."""

    def __init__(self, seed: str) -> None:
        self._rng = random.Random(seed)

    def one(self, depth: int = 3) -> tuple[str, dt.datetime]:
        """A TIMESTAMP; times before and after 1970, in hours that a zone leaves out as well."""
        if depth == 0:
            day = self._rng.choice(["2024-03-31", "2024-10-27", "1969-12-31", "1900-01-01", "1850-06-01"])
            text = f"{day} 0{self._rng.randrange(4)}:30:{self._rng.randrange(60):02}.{self._rng.randrange(10**6):06}"
            return f"TIMESTAMP_NTZ '{text}'", dt.datetime.fromisoformat(text)
        inner, value = self.one(depth - 1)
        precision = self._rng.randrange(7)
        how = self._rng.choice(["cast", "cast", "later", "subquery"])
        if how == "later":
            return f"({inner} + INTERVAL '0.654321' SECOND)", value + dt.timedelta(microseconds=654321)
        inner = f"(SELECT max({inner}))" if how == "subquery" else inner
        return f"CAST({inner} AS TIMESTAMP({precision}))", cut(value, precision)


def cut(value: dt.datetime, precision: int) -> dt.datetime:
    return value.replace(microsecond=value.microsecond - value.microsecond % 10 ** (6 - precision))


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Africa/Monrovia"])
def test_casts_cut_digits_on_the_clock(spark: SparkSession, zone: str) -> None:
    """Africa/Monrovia was 44 minutes and 30 seconds from UTC in 1970, from where buckets are counted."""
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    casts = Casts(f"{SEED} {zone}")
    wanted = [casts.one() for _ in range(EXPRESSIONS // 3)]
    columns = [f"CAST({text} AS STRING) AS x{at}" for at, (text, _) in enumerate(wanted)]
    row = session.sql(checked_sql(parse_one(f"SELECT {', '.join(columns)}"), ())).collect()[0]
    assert {text: dt.datetime.fromisoformat(shown) for (text, _), shown in zip(wanted, row, strict=True)} == dict(wanted)
    of_instants = [
        (f"TIMESTAMP_LTZ '{year}-03-31 00:30:59.98765 UTC'", precision, f"{year}-03-31 00:30:59.98765"[: 20 + precision])
        for year in (1850, 1900, 1971, 2024) for precision in range(1, 5)
    ]  # fmt: skip
    same = [
        f"CAST({text} AS TIMESTAMP_LTZ({precision})) = CAST('{shown} UTC' AS TIMESTAMP_LTZ) AS x{at}"
        for at, (text, precision, shown) in enumerate(of_instants)
    ]
    row = session.sql(checked_sql(parse_one(f"SELECT {', '.join(same)}"), ())).collect()[0]
    assert [text for text, is_same in zip(same, row, strict=True) if not is_same] == []


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("TIMESTAMP '2024-06-10 00:00:00' - INTERVAL 7 DAYS 12 HOURS", "2024-06-02 12:00:00"),
        ("TIMESTAMP '2024-06-10 00:00:00' - INTERVAL '7' DAY '12' HOUR", "2024-06-02 12:00:00"),
        ("DATE '2024-06-10' - INTERVAL '1' DAY + 2", "2024-06-11"),
        ("interval - 1", "6"),
        ("TIMESTAMP '2024-06-01 00:00:00+02:00'", "2024-05-31 22:00:00"),
        ("CAST(TIME '10:00:00.5' AS TIME(0))", "10:00:00"),
        ("CAST(ARRAY('10:00:00.55') AS ARRAY<TIME(1)>)[0]", "10:00:00.5"),
    ],
)
def test_what_was_once_read_as_something_else(spark: SparkSession, expression: str, value: str) -> None:
    ours = _ours(spark, f"SELECT {expression} AS x FROM {ROWS}")
    assert ours is not None
    assert ours[1] == value
