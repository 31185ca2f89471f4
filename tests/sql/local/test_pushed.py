"""A predicate pushed to a table's planner never costs a row: what is pruned and filtered is what is filtered."""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sql.local.scan
from gateway.gateway import Gateway
from lake import Lake
from model.access import WHOLE
from model.predicate import Predicate
from model.schema.schema import Schema, column, new_schema
from sql.analysis.predicates import pushed
from sql.analysis.references import table_references
from sql.dialect import parse_one
from sql.execution.writing import append_batches
from table.format.rows.arrow import arrow_schema
from table.scan.planning.entry_scan import exactly, only_columns
from table.scan.skipping.prune import may_match
from tests.short import one_in, share
from tests.sql.local.test_scan import COLUMNS, CONDITIONS, ROWS, Condition
from tests.sql.tables import make_table

SHAPES: dict[str, tuple[str, dict[str, str]]] = {
    "values": ("", {"bucket": "-1", "metadata.stats-mode": "full"}),
    "shortened": ("", {"bucket": "-1", "metadata.stats-mode": "truncate(1)"}),
    "buckets": ("", {"bucket": "7", "bucket-key": "i"}),
    "texts": ("s", {"bucket": "-1"}),
    "days": ("a", {"bucket": "3", "bucket-key": "s"}),
    "indexed": (
        "",
        {
            "bucket": "-1",
            "metadata.stats-mode": "none",
            "file-index.bloom-filter.columns": "k,y,d,f,s,a,t",
            "file-index.bitmap.columns": "i,y,d,s,b",
            **{f"file-index.bloom-filter.{c}.items": "10" for c in "kydfsat"},
        },
    ),
    "orc": ("b", {"bucket": "-1", "file.format": "orc"}),
}


@pytest.mark.parametrize("shape", one_in(2, SHAPES))
def test_pruning_changes_no_result(gateway: Gateway, lake: Lake, monkeypatch: pytest.MonkeyPatch, shape: str) -> None:
    """The local executor, once with files skipped and once reading all of them; and what the condition is of each row."""
    partition, options = SHAPES[shape]
    table = make_table(lake, options=options, partition=partition, **COLUMNS)
    rows = [row for row in ROWS[:36] if options.get("file.format") != "orc" or row["t"] is None or row["t"].year >= 1970]
    for at in range(0, len(rows), 3):  # many small files: the statistics of large ones rule out nothing
        append_batches(lake, table, [pa.RecordBatch.from_pylist(rows[at : at + 3], schema=arrow_schema(table.schema.fields))])
    skipped = 0

    def selected(condition: Condition) -> list[int]:
        return sorted(k for (k,) in gateway.run(f"SELECT k FROM t WHERE {condition.sql}").collect())

    @settings(deadline=None, max_examples=share(40), suppress_health_check=[HealthCheck.too_slow])
    @given(condition=CONDITIONS)
    def check(condition: Condition) -> None:
        nonlocal skipped
        (reference,) = table_references(parse_one(f"SELECT k FROM t WHERE {condition.sql}"))
        skipped += pushed(reference, table.schema, WHOLE) is not None
        pruned = selected(condition)
        with monkeypatch.context() as patch:
            patch.setattr(sql.local.scan, "pushed", lambda *_: None)
            assert pruned == selected(condition)
        assert pruned == [row["k"] for row in rows if condition.of(row) is True]

    check()
    assert skipped


T = new_schema([column("a", "INT"), column("b", "INT")], options={"bucket": "-1"})
NUMBERS = st.sampled_from([None, 0, 1, 2, 3])
TABLE = st.lists(st.tuples(NUMBERS, NUMBERS), max_size=5)
# SQLite before 3.39 has no other joins to compare with.
JOINS = ["JOIN", "LEFT JOIN", *(["RIGHT JOIN", "FULL JOIN"] if sqlite3.sqlite_version_info >= (3, 39) else [])]


@st.composite
def simple(draw: st.DrawFn, names: str) -> str:
    """A condition on some columns of the joined tables."""
    left = f"{draw(st.sampled_from(names))}.{draw(st.sampled_from('ab'))}"
    right = draw(st.one_of(st.integers(0, 3).map(str), st.sampled_from([f"{name}.a" for name in names])))
    low, high = sorted((draw(st.integers(0, 3)), draw(st.integers(0, 3))))
    return draw(
        st.sampled_from(
            [
                *(f"{left} {op} {right}" for op in ("=", "<>", "<", "<=", ">", ">=")),
                f"{right} < {left}",
                f"{left} IS NULL",
                f"{left} IS NOT NULL",
                f"{left} IN ({low}, {high})",
                f"{left} NOT IN ({low}, NULL)",
                f"{left} BETWEEN {low} AND {high}",
                f"COALESCE({left}, 1) = {low}",
            ]
        )
    )


def conditions(names: str) -> st.SearchStrategy[str]:
    return st.recursive(
        simple(names),
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda p: f"({p[0]}) {p[1]} ({p[2]})"), inner.map("NOT ({})".format)
        ),
        max_leaves=5,
    )


@st.composite
def queries(draw: st.DrawFn) -> str:
    names = draw(st.sampled_from(["t", "tu", "tuv"]))
    text = "SELECT * FROM t"
    for at, name in enumerate(names[1:], start=2):
        text += f" {draw(st.sampled_from(JOINS))} {name} ON {draw(conditions(names[:at]))}"
    return f"{text} WHERE {draw(conditions(names))}" if draw(st.booleans()) else text


def answer(query: str, tables: dict[str, list[tuple[Any, ...]]]) -> Counter[tuple[Any, ...]]:
    """What SQLite, a stranger to all of this, says."""
    with sqlite3.connect(":memory:") as database:
        for name, rows in tables.items():
            database.execute(f"CREATE TABLE {name} (a INT, b INT)")
            database.executemany(f"INSERT INTO {name} VALUES (?, ?)", rows)
        found = Counter(database.execute(query).fetchall())
    database.close()
    return found


def kept(rows: list[tuple[Any, ...]], predicate: Predicate | None, schema: Schema) -> list[tuple[Any, ...]]:
    """The rows that stay when each lies in a file of its own."""
    predicate = only_columns(predicate, lambda name: schema.find(name) is not None)
    if predicate is None:
        return rows
    return [row for row in rows if may_match(predicate, {name: exactly(v) for name, v in zip("ab", row, strict=True)}, 1)]


@settings(deadline=None, max_examples=share(600))
@given(query=queries(), t=TABLE, u=TABLE, v=TABLE)
def test_a_join_of_what_pruning_leaves_is_the_join(query: str, t: Any, u: Any, v: Any) -> None:
    tables = {"t": t, "u": u, "v": v}
    pruned = dict(tables)
    for reference in table_references(parse_one(query)):
        name = reference.parts[-1]
        pruned[name] = kept(tables[name], pushed(reference, T, WHOLE), T)
    assert answer(query, pruned) == answer(query, tables), pruned
