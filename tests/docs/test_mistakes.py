"""Every command of *I made a mistake* is run after the mistake it is for."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway.gateway import Gateway
from lake import Lake
from sql.dialect import split
from tests.fix_gateway import gateway as gateway
from tests.fix_gateway import spark_stub as spark_stub

PAGE = Path(__file__).parents[2] / "docs" / "operations.md"
Ask = Callable[[str], list[tuple[Any, ...]]]


def blocks() -> list[list[str]]:
    section = PAGE.read_text().partition("## I made a mistake\n")[2].partition("\n## ")[0]
    return [[statement.text for statement in split(block)] for block in re.findall(r"^```sql\n(.*?)^```$", section, re.M | re.S)]


@pytest.fixture
def ask(gateway: Gateway, lake: Lake) -> Ask:
    lake.drop_retention = timedelta(days=7)

    def run(text: str) -> list[tuple[Any, ...]]:
        with gateway.run(text) as result:
            return result.collect()

    for text in (
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id INT, note STRING)",
        "INSERT INTO shop.orders VALUES (1, 'a')",
        "INSERT INTO shop.orders VALUES (2, 'b')",
    ):
        run(text)
    return run


def test_every_mistake_has_its_way_back(ask: Ask) -> None:
    whole = [(1, "a"), (2, "b")]
    dropped, truncated, tagged, altered, renamed, registered = blocks()

    def after(mistake: list[str], way_back: list[str]) -> None:
        for statement in (*mistake, *way_back):
            ask(statement)
        assert sorted(ask("SELECT id, note FROM shop.orders")) == whole, mistake

    after(["DROP TABLE shop.orders"], dropped[:2])
    after(["DROP DATABASE shop CASCADE"], dropped[2:])
    after(["TRUNCATE TABLE shop.orders"], truncated)
    after(["INSERT INTO shop.orders VALUES (3, 'wrong')"], truncated)
    after(["INSERT INTO shop.orders VALUES (3, 'wrong')"], tagged)
    after(["ALTER TABLE shop.orders DROP note", "INSERT INTO shop.orders VALUES (3)"], altered)
    after(["ALTER TABLE shop.orders RENAME TO orders_2"], renamed)
    assert ask(registered[0]) == []
    assert len(registered) == 2
    ask(registered[1])
