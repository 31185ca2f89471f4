"""Idempotency keys: a statement under one happens once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lake import Caller, Lake
from model.errors import (
    BadRequest,
    IdempotencyInProgress,
    IdempotencyMismatch,
    TableNotExist,
)
from sql.gateway import Gateway
from sql.results import ResultSet
from tests.sql.conftest import NoSpark
from tests.sql.held import Held, in_background
from tests.sql.tables import make_table

ME = Caller(principal="me", administrator=True)


def test_an_insert_under_a_key_lands_once_also_after_a_restart(gateway: Gateway, lake: Lake, spark_stub: NoSpark) -> None:
    make_table(lake, id="INT")
    text = "INSERT INTO t VALUES (1), (2)"
    first = gateway.run(text, idempotency_key="k", caller=ME).collect()
    assert gateway.run(text, idempotency_key="k", caller=ME).collect() == first == [(2, 1)]
    restarted = Gateway(Lake(lake.catalog, lake.warehouse), spark_stub)
    assert restarted.run(text, idempotency_key="k", caller=ME).collect() == first
    restarted.close()
    assert gateway.run("SELECT COUNT(*) FROM t").collect() == [(2,)]


def test_another_body_under_the_same_key_is_refused(gateway: Gateway, lake: Lake) -> None:
    make_table(lake, id="INT")
    gateway.run("INSERT INTO t VALUES (1)", idempotency_key="k").close()
    with pytest.raises(IdempotencyMismatch):
        gateway.run("INSERT INTO t VALUES (2)", idempotency_key="k")


def test_a_key_whose_statement_runs_is_refused_meanwhile(gateway: Gateway, lake: Lake, held: Callable[..., Held]) -> None:
    stuck = held()
    make_table(lake, id="INT")
    text = "INSERT INTO t SELECT held()"
    outcome = in_background(lambda: gateway.run(text, idempotency_key="k"))
    assert stuck.reached.wait(60)
    with pytest.raises(IdempotencyInProgress):
        gateway.run(text, idempotency_key="k")
    stuck.let_go.set()
    assert isinstance(outcome(), ResultSet)


def test_a_failed_statement_gives_its_key_back(gateway: Gateway, lake: Lake) -> None:
    for _ in range(2):
        with pytest.raises(TableNotExist):
            gateway.run("INSERT INTO t VALUES (1)", idempotency_key="k")
    make_table(lake, id="INT")
    assert gateway.run("INSERT INTO t VALUES (1)", idempotency_key="k").collect() == [(1, 1)]


def test_a_key_covers_one_statement(gateway: Gateway) -> None:
    with pytest.raises(BadRequest, match="covers one statement, and the text holds 2"):
        gateway.run("SHOW DATABASES; SHOW DATABASES", idempotency_key="k")


def test_a_query_may_have_a_key_which_changes_nothing(gateway: Gateway, lake: Lake) -> None:
    make_table(lake, id="INT")
    for rows in ([], [(1,)]):
        assert gateway.run("SELECT * FROM t", idempotency_key="k").collect() == rows
        gateway.run("INSERT INTO t VALUES (1)").close()


def test_a_definition_under_a_key_is_answered_again(gateway: Gateway) -> None:
    for _ in range(2):
        assert gateway.run("CREATE DATABASE d", idempotency_key="k").collect() == [("OK",)]
