"""Tables that Paimon's clients read together with a branch: of the table alone rows would be missing, without a word."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import UnsupportedType
from model.identifier import Identifier
from model.schema.change import SetOption
from tests.sql.tables import make_table

T = Identifier("default", "t")


@pytest.fixture(params=["scan.fallback-branch", "scan.primary-branch"])
def option(request: pytest.FixtureRequest, lake: Lake, gateway: Gateway) -> str:
    """Of a table with a row, and of its branch with another."""
    make_table(lake, options={"bucket": "-1"}, partition="p", id="INT", p="STRING")
    for text in ("INSERT INTO t VALUES (1, 'a')", "CALL sys.create_branch('t', 'batch')", "INSERT INTO t$branch_batch VALUES (2, 'b')"):
        gateway.run(text).close()
    lake.alter_table(T, [SetOption(key=str(request.param), value="batch")])
    return str(request.param)


@pytest.mark.parametrize("text", ["SELECT * FROM t", "SELECT COUNT(*) FROM t", "SELECT id FROM t WHERE p = 'a'", "SELECT * FROM t$ro"])
def test_they_are_not_read_by_halves(gateway: Gateway, option: str, text: str) -> None:
    with pytest.raises(UnsupportedType, match=rf"{option}.*t\$branch_batch"):
        gateway.run(text).collect()
    gateway.run("INSERT INTO t VALUES (3, 'a')").close()
    assert gateway.run("SELECT * FROM t$branch_batch").collect() == [(2, "b")]


def test_a_branch_that_is_not_there_is_no_other_half(lake: Lake, gateway: Gateway, option: str) -> None:
    """As in Paimon; nor is a table its own."""
    lake.alter_table(Identifier("default", "t", "batch"), [SetOption(key=option, value="batch")])
    assert gateway.run("SELECT * FROM t$branch_batch").collect() == [(2, "b")]
    lake.alter_table(T, [SetOption(key=option, value="gone")])
    assert gateway.run("SELECT * FROM t").collect() == [(1, "a")]
