"""Numbers of thousands of digits are refused before anybody reads their value, wherever they stand: Java needs 10 s for a million."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from model.errors import SqlSyntaxError
from sql.dialect import parse_one

PLACES = [
    "SELECT {}", "SELECT -{}", "SELECT a FROM t WHERE a = {}", "SELECT a FROM t LIMIT {}", "SELECT a FROM t ORDER BY a OFFSET {}",
    "SELECT CAST({} AS DOUBLE)", "SELECT * FROM range({})", "SELECT a FROM t TABLESAMPLE ({} PERCENT)", "VALUES (1), ({})",
    "SELECT INTERVAL {} DAY", "INSERT INTO t VALUES ({}, 'a')", "INSERT INTO t SELECT {}", "UPDATE t SET a = {}",
    "DELETE FROM t WHERE a < {}",
    "CREATE TABLE t (a BIGINT DEFAULT {})", "CREATE VIEW v AS SELECT {} AS a", "CALL sys.compact('t', {})",
    "MERGE INTO t USING u ON t.a = u.a WHEN MATCHED THEN UPDATE SET a = {}", "SELECT a FROM t VERSION AS OF {}",
]  # fmt: skip
DIGITS = "7" * 50_000


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("number", [DIGITS, f"0.{DIGITS}", f"{DIGITS}.5e3", f"{DIGITS}L"])
def test_wherever_it_stands(place: str, number: str) -> None:
    with pytest.raises(SqlSyntaxError, match="is longer than any type holds") as refused:
        parse_one(f"-- first line\n{place.format(number)}")
    assert (refused.value.line, refused.value.column) == (2, len(place.partition("{}")[0]) + 1)
    assert refused.value.fragment is not None
    assert len(refused.value.fragment) < 50


@pytest.mark.parametrize("text", ["SELECT '{}'", "SELECT 1 -- {}", "SELECT 1 /* {} */", "SELECT `{}` FROM t", "SELECT x{} FROM t"])
def test_digits_that_are_no_number(text: str) -> None:
    assert parse_one(text.format(DIGITS))


@pytest.mark.parametrize("number", ["9" * 39, "0." + "0" * 400 + "1E300", "1e-300"])
def test_numbers_that_mean_something_are_spark_s_to_judge(number: str) -> None:
    assert parse_one(f"SELECT {number}")


@pytest.mark.parametrize(
    "text", ["INSERT INTO t VALUES (1, 'a'), ({}, 'b')", "SELECT {}", "SELECT 1; SELECT {}", "SELECT a FROM t WHERE a = {}"]
)
def test_a_statement(gateway: Gateway, text: str) -> None:
    gateway.run("CREATE TABLE t (a BIGINT, s STRING)").close()
    with pytest.raises(SqlSyntaxError, match="of 900,000 characters") as refused:
        gateway.run(text.format("9" * 900_000))
    assert (refused.value.line, refused.value.column) == (1, text.index("{") + 1)
