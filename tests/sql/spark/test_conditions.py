"""Hostile values under every way of skipping files: each condition keeps the rows that plain Spark keeps of the same literals."""

from __future__ import annotations

import os
import random
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from gateway.gateway import Gateway
from lake import Lake
from sql.execution.writing import append_batches
from table.format.rows.cast import fit
from tests.short import share, short
from tests.sql.tables import make_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261125"))
CONDITIONS = int(os.environ.get("SLUICE_TEST_CONDITIONS", str(share(60))))
BY_SPARK = int(os.environ.get("SLUICE_TEST_BY_SPARK", str(share(12))))
"""Conditions that are a WHERE for Spark, in one statement; each mention of the table is planned with its own."""
_FLOATS = ("'NaN'", "'-0.0'", "'0.0'", "'Infinity'", "'-Infinity'", "'1'", "'0.1'", "'-1.5'", "'1e-45'", "'16777217'", "'3.4e38'")
_LAST, _ASTRAL = "\uffff", "\U00010000"
_TEXTS = (
    "", "a", "a " * 3, "a" * 16, "a" * 17, "a" * 16 + "b", "ä" * 20, "z" * 15 + "\U0010ffff" * 2, _LAST * 17, _LAST * 16 + _ASTRAL,
    _ASTRAL * 17, "\U0010ffff" * 17, "\U0010ffff" * 16, "\ue000", "\ud7ff" * 18, "Z", "__DEFAULT_PARTITION__", "null", "A", "a\x01",
)  # fmt: skip
_BYTES = ("", "00", "7F", "80", "FF", "FF" * 16, "FF" * 17, "FF" * 15 + "00" * 3, "61" * 20, "FE" + "FF" * 16, "7FFF" * 9)
_TIMES = (
    "0001-01-01 00:00:00", "1969-12-31 23:59:59.999999", "1969-12-31 23:59:59", "1970-01-01 00:00:00", "1582-10-04 12:00:00.5",
    "2024-02-29 12:34:56.123456", "2024-02-29 12:34:56.123", "2024-02-29 12:34:56", "9999-12-31 23:59:59.999999",
)  # fmt: skip
_WIDE = ("0", "1", "-1", "9" * 28, "-" + "9" * 28, "0.0000000001", "-0.0000000001", "12345678901234567890.5", "9223372036854775808")


def _cast(values: Sequence[str], type_: str) -> tuple[str, ...]:
    return tuple(f"CAST({value} AS {type_})" for value in values)


VALUES: dict[str, tuple[str, ...]] = {
    "DOUBLE": _cast(_FLOATS, "DOUBLE"),
    "FLOAT": _cast(_FLOATS, "FLOAT"),
    "STRING": tuple(f"'{text}'" for text in _TEXTS),
    "BYTES": tuple(f"X'{text}'" for text in _BYTES),
    "DECIMAL(38, 10)": _cast([f"'{value}'" for value in _WIDE], "DECIMAL(38, 10)"),
    "DECIMAL(10, 2)": _cast(("'0'", "'-0.01'", "'0.01'", "'99999999.99'", "'-99999999.99'", "'1.5'"), "DECIMAL(10, 2)"),
    "TIMESTAMP(6)": tuple(f"TIMESTAMP_NTZ '{time}'" for time in _TIMES),
    "TIMESTAMP(3)": tuple(f"TIMESTAMP_NTZ '{time[:23]}'" for time in _TIMES),
    "TIMESTAMP(0)": tuple(f"TIMESTAMP_NTZ '{time[:19]}'" for time in _TIMES),
    "TIMESTAMP_LTZ(6)": tuple(f"TIMESTAMP_LTZ '{time}Z'" for time in _TIMES),
    "DATE": tuple(f"DATE '{time[:10]}'" for time in _TIMES),
    "BIGINT": _cast(("0", "-1", "1", "'9223372036854775807'", "'-9223372036854775808'", "2147483648", "9007199254740993"), "BIGINT"),
    "TINYINT": _cast(("0", "-1", "127", "'-128'"), "TINYINT"),
    "BOOLEAN": ("true", "false"),
}
_NO_BOUNDS = {"metadata.stats-mode": "none"}
LAYOUTS: dict[str, dict[str, str]] = {
    "parquet": {},
    "orc": {"file.format": "orc"},
    "short bounds": {"metadata.stats-mode": "truncate(1)"},
    "full bounds": {"metadata.stats-mode": "full"},
    "indexes": {**_NO_BOUNDS, "file-index.bloom-filter.columns": "v", "file-index.bitmap.columns": "v"},
    "range bitmap": {**_NO_BOUNDS, "file-index.range-bitmap.columns": "v"},
    "buckets": {},
    "partitions": {},
}
_NO_INDEX = {"indexes": ("BYTES", "DECIMAL", "BOOLEAN"), "range bitmap": ("BYTES", "DECIMAL(38", "BOOLEAN")}
"""What has no index of a kind."""
_NOT_IN_ORC = re.compile(r"TIMESTAMP\w* '(0001|1582|9999|1969[^']*\.)")
"""Times that ORC files of ours do not hold."""
_NO_KEY = ("BYTES",)


class Conditions:
    """Random conditions on a column ``v`` of a type."""

    def __init__(self, literals: Sequence[str], type_: str, seed: str) -> None:
        self._rng = random.Random(seed)
        self._literals, self._type = list(literals), type_

    def one(self, depth: int = 0) -> str:
        """A condition, of at most four parts."""
        how = self._rng.random()
        if depth < 2 and how < 0.3:
            return f"({self.one(depth + 1)} {self._rng.choice(['AND', 'OR'])} {self.one(depth + 1)})"
        if how < 0.45:
            return f"NOT ({self.one(depth + 1)})"
        return self._simple()

    def _simple(self) -> str:
        x, y, z = (self._rng.choice(self._literals) for _ in range(3))
        sign = self._rng.choice(["=", "<>", "<", "<=", ">", ">=", "<=>"])
        choices = [
            f"v {sign} {x}", f"v {sign} {x}", f"{x} {sign} v", "v IS NULL", "v IS NOT NULL", f"v IN ({x}, {y})",
            f"v NOT IN ({x}, {y}, {z})", f"v BETWEEN {x} AND {y}", f"v NOT BETWEEN {x} AND {y}", f"v IN ({x}, NULL)",
        ]  # fmt: skip
        if self._type in ("DOUBLE", "FLOAT", "BIGINT", "TINYINT") or self._type.startswith("DECIMAL"):
            choices += [f"v {sign} {number}" for number in ("0", "1", "0.1", "-0.0", "0e0", "-0e0", "1.5", "100", "1e-45")]
        if self._type == "STRING":
            text = self._rng.choice(_TEXTS)[: self._rng.randrange(1, 18)].replace("_", "")
            choices += [f"v LIKE '{text}%'", f"v NOT LIKE '{text}%'", f"startswith(v, '{text}')", f"v LIKE '%{text}'"] * 2
        return self._rng.choice(choices)


def kept(gateway: Gateway, text: str) -> list[tuple[int, ...]]:
    """The rows of a query here."""
    return [tuple(row) for row in gateway.run(text).collect()]


def at_once(source: str, texts: Sequence[str]) -> str:
    return " UNION ALL ".join(f"SELECT {at} AS q, id FROM {source} WHERE {text}" for at, text in enumerate(texts))


def differing(gateway: Gateway, spark: SparkSession, table: str, texts: Sequence[str]) -> dict[str, tuple[str, list[int], list[int]]]:
    """The conditions that keep other rows of a table than Spark keeps of the view ``truth``: who said so, what, and what it should be.

    Spark says what all of them are of each row in one query; the first few are a WHERE of its own, too.
    """
    wrong: dict[str, tuple[str, list[int], list[int]]] = {}
    judged = spark.sql(f"SELECT id, {', '.join(f'({text}) AS c{at}' for at, text in enumerate(texts))} FROM truth").collect()
    wanted = {text: sorted(row[0] for row in judged if row[at + 1]) for at, text in enumerate(texts)}
    by_spark: dict[int, list[int]] = {at: [] for at in range(BY_SPARK)}
    for at, id_ in kept(gateway, at_once(table, texts[:BY_SPARK])) if BY_SPARK else ():
        by_spark[at].append(id_)
    for at, text in enumerate(texts):
        here = sorted(id_ for (id_,) in kept(gateway, f"SELECT id FROM {table} WHERE {text}"))
        for who, ids in (("here", here), ("by Spark", sorted(by_spark.get(at, wanted[text])))):
            if ids != wanted[text]:
                wrong[text] = (who, ids, wanted[text])
    return wrong


def rows_of(type_: str, layout: str, seed: str) -> list[list[str]]:
    """The literals of each commit: alone, in pairs that bound each other, with NULL, and all NULL."""
    rng = random.Random(seed)
    literals = [literal for literal in VALUES[type_] if layout != "orc" or not _NOT_IN_ORC.match(literal)]
    commits = [[value] for value in literals] + [["NULL", "NULL"]]
    for _ in range(6):
        commits.append([rng.choice([*literals, "NULL"]) for _ in range(rng.randint(2, 5))])
    return commits


def tell(spark: SparkSession, commits: Sequence[Sequence[str]], type_: str) -> list[pa.RecordBatch]:
    """The rows as a view of plain Spark; those of each commit."""
    spark_type = re.sub(r"\(\d\)", "", type_.replace("BYTES", "BINARY")) if "TIMESTAMP" in type_ or type_ == "BYTES" else type_
    spark_type = "TIMESTAMP_NTZ" if spark_type == "TIMESTAMP" else spark_type
    literals = [literal for commit in commits for literal in commit]
    listed = ", ".join(f"({id_}, CAST({value} AS {spark_type}))" for id_, value in enumerate(literals))
    spark.sql(f"SELECT * FROM VALUES {listed} AS rows(id, v)").createOrReplaceTempView("truth")
    rows = spark.table("truth").toArrow().sort_by("id").combine_chunks()
    starts = [sum(len(commit) for commit in commits[:at]) for at in range(len(commits))]
    return [rows.slice(start, len(commit)).combine_chunks().to_batches()[0] for start, commit in zip(starts, commits, strict=True)]


def check(gateway: Gateway, lake: Lake, spark: SparkSession, type_: str, layout: str) -> None:
    seed = f"{SEED} {type_} {layout}"
    options = {"bucket": "3", "bucket-key": "v"} if layout == "buckets" else {"bucket": "-1"}
    table = make_table(
        lake, "c", options={**options, **LAYOUTS[layout]}, partition="v" if layout == "partitions" else "", id="INT", v=type_
    )
    for batch in tell(spark, rows_of(type_, layout, seed), type_):
        append_batches(lake, table, [fit(batch, table.schema)])
    made = Conditions(VALUES[type_], type_, seed)
    texts = list(dict.fromkeys(made.one() for _ in range(CONDITIONS)))
    assert differing(gateway, spark, "c", texts) == {}
    gateway.run("CALL sys.compact('default.c', '', 'full')").close()
    assert differing(gateway, spark, "c", texts[:20]) == {}


def _cases() -> list[tuple[str, str]]:
    return [
        (type_, layout)
        for type_ in VALUES
        for layout in LAYOUTS
        if not type_.startswith(_NO_INDEX.get(layout, ("-",))) and not (layout in ("buckets", "partitions") and type_.startswith(_NO_KEY))
    ]


@pytest.mark.parametrize(("type_", "layout"), short([("DOUBLE", "orc"), ("STRING", "indexes")], [("DOUBLE", "orc")]))
def test_some_conditions_keep_what_spark_keeps(on_spark: Gateway, lake: Lake, spark: SparkSession, type_: str, layout: str) -> None:
    check(on_spark, lake, spark, type_, layout)


@pytest.mark.torture
@pytest.mark.parametrize(("type_", "layout"), _cases())
def test_conditions_keep_what_spark_keeps(on_spark: Gateway, lake: Lake, spark: SparkSession, type_: str, layout: str) -> None:
    check(on_spark, lake, spark, type_, layout)


def test_a_list_with_null_is_read_from_orc(on_spark: Gateway, lake: Lake) -> None:
    """Spark's own reader of ORC fails on such a list of floating-point numbers."""
    table = make_table(lake, "c", options={"bucket": "-1", "file.format": "orc"}, id="INT", f="FLOAT", d="DOUBLE")
    rows = pa.RecordBatch.from_pydict({"id": [1, 2, 3], "f": [1.0, 2.0, None], "d": [1.0, None, 3.0]})
    append_batches(lake, table, [fit(rows, table.schema)])
    texts = ("f IN (1e0, NULL)", "NOT (d IN (1e0, NULL))", "(d IN (3e0, NULL, 4e0)) IS NULL", "d NOT IN (7e0, NULL)", "f IN (NULL)")
    assert sorted(kept(on_spark, at_once("c", texts))) == [(0, 1), (2, 1), (2, 2)]
