"""NaN in columns and partitions, by writers whose bounds leave it out: each condition keeps the rows that Spark keeps of them."""

from __future__ import annotations

import io
import json
import math
import operator
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.interop.conftest import HERE, ROOT
from tests.running import RunningServer

pytestmark = [pytest.mark.interop, pytest.mark.spark]

NAN, INFINITE = math.nan, math.inf
FILES: tuple[tuple[float | None, ...], ...] = ((NAN, 1.0, 7.0), (1.0, 1.0, NAN), (NAN, NAN, None), (0.0, 3.0))
"""The values of each commit: with NaN first, last, alone, and hidden in bounds that are equal."""
ROWS = list(enumerate(value for values in FILES for value in values))
LITERALS = {"1": 1.0, "CAST('NaN' AS DOUBLE)": NAN}
COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _placed(value: float) -> tuple[bool, float]:
    """Where Spark puts a value: a NaN equals itself and is greater than every number."""
    return (True, 0.0) if math.isnan(value) else (False, value)


def kept(keep: Callable[[tuple[bool, float]], bool]) -> list[int]:
    """The ids of the rows whose value is kept; NULL never is."""
    return [at for at, value in ROWS if value is not None and keep(_placed(value))]


def conditions() -> dict[str, list[int]]:
    """Each condition with the ids of the rows that it keeps."""
    wanted = {
        "v IS NULL": [at for at, value in ROWS if value is None],
        "v IS NOT NULL": kept(lambda v: True),
        "v > 5e0": kept(lambda v: v > _placed(5.0)),
        "NOT (v IS NULL)": kept(lambda v: True),
    }
    one = _placed(1.0)
    for text, literal in LITERALS.items():
        x = _placed(literal)
        for sign, how in COMPARISONS.items():
            wanted[f"v {sign} {text}"] = kept(lambda v, how=how, x=x: how(v, x))  # type: ignore[misc]
            wanted[f"NOT (v {sign} {text})"] = kept(lambda v, how=how, x=x: not how(v, x))  # type: ignore[misc]
        wanted[f"v IN (3, {text})"] = kept(lambda v, x=x: v in (_placed(3.0), x))  # type: ignore[misc]
        wanted[f"v NOT IN (3, {text})"] = kept(lambda v, x=x: v not in (_placed(3.0), x))  # type: ignore[misc]
        wanted[f"v BETWEEN 1 AND {text}"] = kept(lambda v, x=x: one <= v <= x)  # type: ignore[misc]
        wanted[f"v NOT BETWEEN 1 AND {text}"] = kept(lambda v, x=x: not one <= v <= x)  # type: ignore[misc]
    return wanted


def at_once(table: str, texts: list[str]) -> str:
    """Many queries as one statement for Spark; each mention of the table is planned with its own condition."""
    return " UNION ALL ".join(f"SELECT {at} AS q, id FROM {table} WHERE {text}" for at, text in enumerate(texts))


EVERY = pytest.mark.parametrize("every", [pytest.param(17, id="short"), pytest.param(1, id="whole", marks=pytest.mark.torture)])
"""Spark plans each condition for itself: in short it is asked every 17th of them, and each test others."""


def differing(server: RunningServer, table: str, every: int = 1, first: int = 0) -> dict[str, tuple[str, object, list[int]]]:
    """The conditions that keep other rows than they should, all of them here and every so-many-th by Spark."""
    wrong: dict[str, tuple[str, object, list[int]]] = {}
    wanted = conditions()
    texts = list(wanted)
    by_spark: dict[str, list[int]] = {}
    asked = texts[first % every :: every]
    for at, id_ in server.sql(at_once(table, asked)):
        by_spark.setdefault(asked[at], []).append(id_)
    for text in texts:
        found = {"here": sorted(row[0] for row in server.sql(f"SELECT id FROM {table} WHERE {text}"))}
        if text in asked:
            found["by Spark"] = sorted(by_spark.get(text, []))
        for who, ids in found.items():
            if ids != wanted[text]:
                wrong[text] = (who, ids, wanted[text])
    return wrong


PYPAIMON = """
import sys, json, pyarrow as pa
from pypaimon_rest import connect, write
url, name, type_, files = sys.argv[1], sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
table = connect(url).get_table(name)
schema = pa.schema([("id", pa.int64()), ("v", {"FLOAT": pa.float32(), "DOUBLE": pa.float64()}[type_])])
first = 0
for values in files:
    write(table, pa.table({"id": range(first, first + len(values)), "v": [None if v is None else float(v) for v in values]}, schema=schema))
    first += len(values)
"""


def by_pypaimon(python: Path, server: RunningServer, table: str, type_: str) -> subprocess.CompletedProcess[str]:
    files = json.dumps([[None if value is None else str(value) for value in values] for values in FILES])
    return subprocess.run([str(python), "-c", PYPAIMON, server.url, table, type_, files], cwd=HERE, capture_output=True, text=True)


def by_body(server: RunningServer, table: str, type_: str) -> None:
    first = 0
    for values in FILES:
        sink = io.BytesIO()
        column = pa.array(values, {"FLOAT": pa.float32(), "DOUBLE": pa.float64()}[type_])
        pq.write_table(pa.table({"id": pa.array(range(first, first + len(values)), pa.int64()), "v": column}), sink)
        server.append(table, sink.getvalue())
        first += len(values)


def create(server: RunningServer, table: str, type_: str, more: str = "", partitioned: str = "") -> None:
    server.sql(f"CREATE TABLE {table} (id BIGINT, v {type_}) {partitioned} WITH ('bucket' = '-1', 'write-only' = 'true'{more})")


@pytest.mark.parametrize("form", ["parquet", pytest.param("orc", marks=pytest.mark.torture)])
@pytest.mark.parametrize("type_", ["DOUBLE", pytest.param("FLOAT", marks=pytest.mark.torture)])
@EVERY
def test_rows_of_bodies(server: RunningServer, database: str, type_: str, form: str, every: int) -> None:
    table = f"{database}.t"
    create(server, table, type_, f", 'file.format' = '{form}'")
    by_body(server, table, type_)
    assert differing(server, table, every) == {}
    server.sql(f"CALL sys.compact(`table` => '{table}', compact_strategy => 'full')")
    assert differing(server, table, every, first=1) == {}


@pytest.mark.torture
def test_partitions_of_bodies(server: RunningServer, database: str) -> None:
    table = f"{database}.t"
    create(server, table, "DOUBLE", partitioned="PARTITIONED BY (v)")
    by_body(server, table, "DOUBLE")
    assert differing(server, table) == {}


KINDS = {
    "column": "",
    "orc": ", 'file.format' = 'orc'",
    "indexes": ", 'file-index.bloom-filter.columns' = 'v', 'file-index.bitmap.columns' = 'v', 'file-index.range-bitmap.columns' = 'v'",
}


@pytest.mark.parametrize("kind", [kind if kind == "column" else pytest.param(kind, marks=pytest.mark.torture) for kind in KINDS])
@pytest.mark.parametrize("release", ["1.4", pytest.param("2.1", marks=pytest.mark.torture)])
@EVERY
def test_rows_of_pypaimon(server: RunningServer, database: str, old_pypaimon_python: Path, release: str, kind: str, every: int) -> None:
    table = f"{database}.t"
    create(server, table, "DOUBLE", KINDS[kind])
    done = by_pypaimon(python_of(release, old_pypaimon_python), server, table, "DOUBLE")
    assert done.returncode == 0, done.stderr[-3000:]
    assert differing(server, table, every, first=2) == {}


@pytest.mark.torture
@pytest.mark.parametrize("release", ["1.4", "2.1"])
def test_what_pypaimon_puts_into_directories_that_java_calls_otherwise_is_refused(
    server: RunningServer, database: str, old_pypaimon_python: Path, release: str
) -> None:
    """It writes to ``v=nan``, and whoever reads the commit looks into ``v=NaN``."""
    table = f"{database}.t"
    create(server, table, "DOUBLE", partitioned="PARTITIONED BY (v)")
    done = by_pypaimon(python_of(release, old_pypaimon_python), server, table, "DOUBLE")
    assert done.returncode != 0
    assert "which does not exist" in done.stderr
    assert server.sql(f"SELECT * FROM {table}") == []


def python_of(release: str, old: Path) -> Path:
    return old if release == "1.4" else ROOT / ".venv-pypaimon" / "bin" / "python"
