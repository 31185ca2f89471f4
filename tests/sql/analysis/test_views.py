"""What views stand for is bounded before the server builds it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from sqlglot import exp

from lake import Lake
from model.errors import AnalysisError, StatementCanceled, StatementTooLarge
from model.identifier import Identifier
from model.schema.types import Field, IntType
from model.view import View
from sql.analysis import views
from sql.analysis.references import table_references
from sql.analysis.views import expand_views
from sql.dialect import parse_one
from tests.sql.tables import context_of


def create_view(lake: Lake, name: str, query: str) -> None:
    lake.views.create(Identifier("default", name), View(fields=(Field(id=0, name="a", type=IntType()),), query=query))


def _mentions(name: str, count: int) -> str:
    return " UNION ALL ".join([f"SELECT * FROM {name}"] * count)


def test_views_of_views_are_counted_before_they_are_copied(lake: Lake) -> None:
    """Thousands of mentions of a view of thousands of mentions would hold a server's Python for hours."""
    create_view(lake, "v0", "SELECT 1 AS a")
    create_view(lake, "v1", _mentions("v0", 200))
    create_view(lake, "v2", _mentions("v1", 200))
    with pytest.raises(StatementTooLarge, match=r"100000 words.*most of them by default\.v1: write what it gives into a table"):
        expand_views(context_of(lake), parse_one("SELECT * FROM v2"))
    assert len(table_references(expand_views(context_of(lake), parse_one(f"SELECT a FROM ({_mentions('v1', 2)})")))) == 0


def test_where_hints_are_switched_off_a_view_with_one_is_not_read(lake: Lake) -> None:
    create_view(lake, "v0", "SELECT a FROM t /*+ OPTIONS('scan.snapshot-id' = '1') */")
    context = context_of(lake)
    assert len(table_references(expand_views(context, parse_one("SELECT a FROM v0")))) == 1
    off = replace(context, settings={"table.dynamic-table-options.enabled": "false"})
    with pytest.raises(AnalysisError, match="has an OPTIONS hint"):
        expand_views(off, parse_one("SELECT a FROM v0"))


def test_a_view_is_parsed_once_for_all_its_mentions(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[str] = []
    real = parse_one

    def parse(text: str, **more: Any) -> exp.Expr:
        parsed.append(text)
        return real(text, **more)

    monkeypatch.setattr(views, "parse_one", parse)
    create_view(lake, "v0", "SELECT default.t.a FROM default.t")
    create_view(lake, "v1", _mentions("v0", 50))
    expanded = expand_views(context_of(lake), parse_one("SELECT default.v1.a FROM default.v1 JOIN v0 ON true"))
    assert len(parsed) == 2
    assert len(table_references(expanded)) == 51
    assert expanded.expressions[0].sql() == "v1.a"


def test_a_canceled_statement_looks_no_further_into_views(lake: Lake) -> None:
    create_view(lake, "v0", "SELECT 1 AS a")
    context = context_of(lake)
    context.cancellation.cancel()
    with pytest.raises(StatementCanceled):
        expand_views(context, parse_one("SELECT * FROM v0"))
