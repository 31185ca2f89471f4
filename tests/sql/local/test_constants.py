"""Rows of plain literals, which clients send to see whether anybody is there: answered without Spark, as Spark answers them."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from model.errors import Unavailable

PLAIN = [
    "1", "-1", "0", "007", "2147483647", "-2147483647", "2147483648", "-9223372036854775807",
    "'a'", "''", "'it''s'", "'ä 中 🦆'", "'a\\tb'", "TRUE", "false", "NULL",
]  # fmt: skip
NAMED = ["1.50", "0.5", ".5", "-0.001", "00.10", "12345678901234567890.5", "1E3", "-1.5e-3"]
ELSEWHERE = [
    "1 + 1", "CAST(1 AS BIGINT)", "current_date()", "1e400", "1.5", "9223372036854775808", "DATE '2024-02-29'", "'a' 'b'", "-'1'",
    "(SELECT 1)",
]  # fmt: skip


@pytest.fixture(scope="module")
def gateway(module_gateway: Gateway) -> Gateway:
    """One for all: they use no table."""
    return module_gateway


@pytest.mark.spark
@pytest.mark.parametrize("literals", [[text] for text in PLAIN] + [[f"{text} AS a"] for text in NAMED] + [PLAIN, ["1 AS `ü`", "1 AS a"]])
def test_names_types_and_values_are_sparks(on_spark: Gateway, gateway: Gateway, literals: list[str]) -> None:
    row = ", ".join(literals)
    theirs = on_spark.run(f"SELECT * FROM (SELECT {row})")
    for ours in (gateway.run(f"SELECT {row}"), gateway.run(f"SELECT {row};", max_rows=1)):
        assert ours.columns == theirs.columns
        assert (ours.is_query, ours.kind) == (theirs.is_query, theirs.kind)
    ours = gateway.run(f"SELECT {row}")
    assert ours.collect() == theirs.collect() == gateway.run(f"SELECT {row} LIMIT 5").collect()


@pytest.mark.parametrize("text", ELSEWHERE)
def test_what_is_not_a_plain_literal_goes_to_spark(gateway: Gateway, text: str) -> None:
    with pytest.raises(Unavailable, match="There is no Spark"):
        gateway.run(f"SELECT {text}")


def test_limits_parameters_and_descriptions(gateway: Gateway) -> None:
    assert gateway.run("SELECT 1, 'a' LIMIT 0").collect() == []
    described = gateway.run("SELECT 1 AS one, NULL", describe=True)
    assert [column.name for column in described.columns] == ["one", "NULL"]
    assert described.collect() == []
    picture = gateway.run("EXPLAIN JSON_EXECUTION_PLAN SELECT 1").collect()[0][0]
    assert '"answeredIn": "gateway"' in picture or '"answeredIn":"gateway"' in picture
