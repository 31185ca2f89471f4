"""Rows with NULL where a type is NOT NULL by now: they are read, and whatever writes their files anew keeps them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from lake import Lake
from model.identifier import Identifier
from model.schema.schema import Schema
from model.schema.type_parts import nullable_throughout
from tests.fix_gateway import Ask
from tests.short import diagonal
from tests.sql.tables import put_unchecked

T = Identifier("default", "t")
TYPES: dict[str, tuple[str, Any]] = {
    "column": ("INT NOT NULL", None),
    "part": ("ROW<a INT NOT NULL, b STRING>", {"a": None, "b": "x"}),
    "row": ("ROW<a INT NOT NULL, b STRING> NOT NULL", None),
    "element": ("ARRAY<INT NOT NULL>", [1, None]),
    "mapped": ("MAP<STRING, INT NOT NULL>", [("k", None)]),
    "deep": ("ARRAY<ROW<m MAP<STRING, ROW<a INT NOT NULL> NOT NULL>>>", [None, {"m": [("k", None), ("l", {"a": None})]}]),
}
REWRITES: dict[str, Callable[[list[Any]], list[Any]]] = {
    "DELETE FROM t WHERE id = 1": lambda rows: [row for row in rows if row[0] != 1],
    "UPDATE t SET n = 7 WHERE id = 1": lambda rows: [(1, 7, row[2]) if row[0] == 1 else row for row in rows],
    "UPDATE t SET n = 7": lambda rows: [(row[0], 7, row[2]) for row in rows],
    "CALL sys.compact('t', compact_strategy => 'full')": lambda rows: rows,
    "ALTER TABLE t SET ('bucket' = '3'); CALL sys.rescale('t')": lambda rows: rows,
    "CALL sys.erase(`table` => 't', `where` => 'id = 1')": lambda rows: [row for row in rows if row[0] != 1],
}


def nullable(schema: Schema) -> Schema:
    return replace(schema, fields=tuple(replace(field, type=nullable_throughout(field.type)) for field in schema.fields))


@pytest.mark.parametrize(("statement", "format_"), diagonal(REWRITES, ["parquet", "orc"]))
def test_every_rewrite_keeps_them(ask: Ask, lake: Lake, statement: str, format_: str) -> None:
    options = f"'bucket' = '2', 'bucket-key' = 'n', 'file.format' = '{format_}', 'rows.erasable' = 'true', 'write-only' = 'true'"
    options += ", 'compaction.force-rewrite-all-files' = 'true'"
    for name, (type_, bad) in TYPES.items():
        ask(f"DROP TABLE IF EXISTS t; CREATE TABLE t (id INT, n INT, x {type_}) WITH ({options})")
        for first in (0, 3):  # in the second file behind rows that have none
            good = {"column": 5, "row": {"a": 1, "b": "y"}}.get(name)
            column = [bad, good, good] if first else [good, good, bad]
            put_unchecked(lake, {"id": [first, first + 1, first + 2], "n": [1, 1, 1], "x": column}, as_in=nullable)
        before = sorted(ask("SELECT * FROM t"), key=lambda row: row[0])
        assert len(before) == 6
        assert [row[2] for row in before].count(before[2][2]) == 2
        files = set(ask("SELECT file_path FROM t$files"))
        ask(statement)
        assert not files <= set(ask("SELECT file_path FROM t$files"))
        assert sorted(ask("SELECT * FROM t"), key=lambda row: row[0]) == REWRITES[statement](before), name
        assert ask("CALL sys.check_table('t', deep => true)") == []


def test_new_rows_are_still_refused(ask: Ask, lake: Lake) -> None:
    ask("CREATE TABLE t (id INT, x INT NOT NULL, r ROW<a INT NOT NULL>) WITH ('bucket' = '-1', 'rows.erasable' = 'true')")
    put_unchecked(lake, {"id": [1], "x": [None], "r": [{"a": None}]}, as_in=nullable)
    for statement in (
        "INSERT INTO t VALUES (2, NULL, ROW(1))",
        "INSERT INTO t VALUES (2, 1, ROW(NULL))",
        "UPDATE t SET x = NULL",
    ):
        with pytest.raises(Exception, match="NULL"):
            ask(statement)
    assert len(ask("SELECT * FROM t")) == 1
