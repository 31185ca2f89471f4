"""Idempotency keys: a statement under one happens once."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from gateway.gateway import Gateway
from lake import Caller, Lake
from lake.commit.idempotency import Idempotency
from model.errors import (
    BadRequest,
    IdempotencyInProgress,
    IdempotencyMismatch,
    LakeError,
    TableNotExist,
    Unavailable,
)
from model.identifier import Identifier
from sql.execution.results import ResultSet
from tests.fix_gateway import NoSpark
from tests.gateway.held import Held, in_background
from tests.sql.tables import make_table

T = Identifier("default", "t")
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


def test_requests_of_one_key_that_run_at_once_land_once(gateway: Gateway, lake: Lake) -> None:
    """Neither sees the other before its commit: one of them decides, and the others answer what it did."""
    make_table(lake, id="INT")
    text = "INSERT INTO t VALUES (1), (2)"
    with ThreadPoolExecutor(8) as threads:
        answers = list(threads.map(lambda _: gateway.run(text, idempotency_key="k", caller=ME).collect(), range(24)))
    assert answers == [[(2, 1)]] * 24
    assert gateway.run("SELECT COUNT(*) FROM t").collect() == [(2,)]


def test_a_repeat_is_answered_where_it_could_not_be_done_again(gateway: Gateway, lake: Lake) -> None:
    make_table(lake, id="INT")
    text = "INSERT INTO t VALUES (1)"
    first = gateway.run(text, idempotency_key="k", caller=ME).collect()
    gateway.run("DROP TABLE t").close()
    assert gateway.run(text, idempotency_key="k", caller=ME).collect() == first
    with pytest.raises(IdempotencyMismatch):
        gateway.run("INSERT INTO t VALUES (2)", idempotency_key="k", caller=ME)
    with pytest.raises(TableNotExist):
        gateway.run(text, idempotency_key="other", caller=ME)


def test_rows_for_partitions_under_keys_are_counted_once(gateway: Gateway, lake: Lake) -> None:
    table = make_table(lake, id="INT", d="INT", partition="d", options={})
    for key in ("a", "b", "a", "b"):
        gateway.run("INSERT INTO t VALUES (1, 1), (2, 1), (3, 2)", idempotency_key=key, caller=ME).close()
    rows = {row.name: (row.record_count, row.file_count) for row in lake.partition_page(table)}
    assert rows == {"d=1": (4, 2), "d=2": (2, 2)}


def test_a_key_that_is_claimed_in_a_lost_race_is_kept_for_the_next_try(gateway: Gateway, lake: Lake) -> None:
    """The first try claims the key and moves nothing: another process has committed meanwhile."""
    make_table(lake, id="INT")
    gateway.run("INSERT INTO t VALUES (0)").close()
    other = Lake(lake.catalog, lake.warehouse)
    theirs = Gateway(other, NoSpark())
    for number in range(3):
        theirs.run(f"INSERT INTO t VALUES ({number})", idempotency_key=f"theirs {number}", caller=ME).close()
        for _ in range(2):
            gateway.run(f"INSERT INTO t VALUES ({number})", idempotency_key=f"ours {number}", caller=ME).close()
    assert gateway.run("SELECT COUNT(*) FROM t").collect() == [(7,)]
    theirs.close()
    other.close()


def test_a_dead_servers_key_is_taken_over_by_a_short_insert(gateway: Gateway, lake: Lake) -> None:
    make_table(lake, id="INT")
    text = "INSERT INTO t VALUES (1)"
    gateway.run(text, idempotency_key="k", caller=ME).close()
    with lake.catalog.transaction() as tx:
        tx.idempotency._conn.execute("UPDATE idempotency_key SET answer = NULL, owner = gen_random_uuid()")
    with pytest.raises(IdempotencyInProgress):
        gateway.run(text, idempotency_key="k", caller=ME)
    with lake.catalog.transaction() as tx:
        tx.idempotency._conn.execute("UPDATE idempotency_key SET lease_until = now() - interval '1 s'")
    assert gateway.run(text, idempotency_key="k", caller=ME).collect() == [(1, 2)]


@pytest.mark.parametrize(
    "text",
    [
        "TRUNCATE TABLE t",
        "ALTER TABLE t DROP PARTITION (p = 20010101), PARTITION (p = 20020202)",
        "CALL sys.drop_partition('t', 'p=20010101;p=20020202')",
        "CALL sys.expire_partitions('t', expiration_time => '1 d', timestamp_formatter => 'yyyyMMdd')",
    ],
)
def test_rows_are_removed_once_also_where_the_server_dies_before_its_answer(
    gateway: Gateway, lake: Lake, spark_stub: NoSpark, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    gateway.run("CREATE TABLE t (id INT, p INT) PARTITIONED BY (p)").close()
    gateway.run("INSERT INTO t VALUES (1, 20010101), (2, 20020202)").close()
    _die_after(gateway, lake, monkeypatch, text)
    assert gateway.run("SELECT * FROM t").collect() == []
    gateway.run("INSERT INTO t VALUES (3, 20010101)").close()
    restarted = Gateway(Lake(lake.catalog, lake.warehouse), spark_stub)
    assert restarted.run(text, idempotency_key="k", caller=ME).collect() == [("OK",)]
    restarted.close()
    assert gateway.run("SELECT * FROM t").collect() == [(3, 20010101)]


DROPS = [
    "ALTER TABLE t DROP PARTITION (p = 20010101), PARTITION (p = 20020202)",
    "CALL sys.drop_partition('t', 'p=20010101;p=20020202')",
]


def _with_a_partition_made_by_name(gateway: Gateway, lake: Lake, *, rows: bool) -> None:
    gateway.run("CREATE TABLE t (id INT, p INT) PARTITIONED BY (p)").close()
    lake.create_partitions(lake.open(T), [{"p": "20010101"}, *([] if rows else [{"p": "20020202"}])])
    if rows:
        gateway.run("INSERT INTO t VALUES (2, 20020202)").close()


@pytest.mark.parametrize("rows", [True, False], ids=["one with rows", "none with rows"])
@pytest.mark.parametrize("text", DROPS)
def test_partitions_made_by_name_are_dropped_once_also_where_the_server_dies_before_its_answer(
    gateway: Gateway, lake: Lake, monkeypatch: pytest.MonkeyPatch, text: str, rows: bool
) -> None:
    _with_a_partition_made_by_name(gateway, lake, rows=rows)
    _die_after(gateway, lake, monkeypatch, text)
    assert lake.partition_page(lake.open(T)) == []
    gateway.run("INSERT INTO t VALUES (3, 20010101)").close()
    assert gateway.run(text, idempotency_key="k", caller=ME).collect() == [("OK",)]
    assert gateway.run("SELECT * FROM t").collect() == [(3, 20010101)]


@pytest.mark.parametrize("failure", [Unavailable("Postgres is away."), None], ids=["Postgres away", "killed"])
@pytest.mark.parametrize("text", DROPS)
def test_partitions_of_both_kinds_are_dropped_or_not_whatever_ends_it_between(
    gateway: Gateway, lake: Lake, monkeypatch: pytest.MonkeyPatch, text: str, failure: LakeError | None
) -> None:
    """The names without rows were gone before those with rows, and each repeat was told that there are none."""

    def fail(*_: object, **__: object) -> None:
        raise failure or _DeadError

    _with_a_partition_made_by_name(gateway, lake, rows=True)
    with monkeypatch.context() as failing:
        failing.setattr(Lake, "drop_partitions", fail)
        failing.setattr(Idempotency, "abandon", Idempotency.release)
        with pytest.raises(_DeadError) if failure is None else contextlib.nullcontext():
            gateway.run(text, idempotency_key="k", caller=ME).close()
    with lake.catalog.deciding() as tx:
        tx.idempotency._conn.execute("UPDATE idempotency_key SET lease_until = now() - INTERVAL '1' MINUTE")
    gateway.run(text, idempotency_key="k", caller=ME).close()
    assert gateway.run("SELECT * FROM t").collect() == []
    gateway.run("ALTER TABLE t DROP IF EXISTS PARTITION (p = 20010101)").close()
    assert lake.partition_page(lake.open(T)) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({}, {"execution.runtime-mode": "streaming"}),
        ({"table.local-time-zone": "Asia/Tokyo"}, {}),
        ({"table.local-time-zone": "Asia/Tokyo"}, {"table.local-time-zone": "Europe/Berlin"}),
    ],
)
def test_the_same_text_with_other_settings_is_other_work(
    gateway: Gateway, lake: Lake, first: dict[str, str], second: dict[str, str]
) -> None:
    make_table(lake, id="INT")
    text = "INSERT INTO t VALUES (1)"
    for _ in range(2):
        gateway.run(text, settings=first, idempotency_key="k", caller=ME).close()
    with pytest.raises(IdempotencyMismatch):
        gateway.run(text, settings=second, idempotency_key="k", caller=ME)
    gateway.run(text, settings={**first, "statement.timeout": "1 min"}, idempotency_key="k", caller=ME).close()
    assert gateway.run("SELECT COUNT(*) FROM t").collect() == [(1,)]


@pytest.mark.parametrize(
    ("text", "meanwhile", "rows"),
    [
        ("CALL sys.rollback_to('t', 'x')", "INSERT INTO t VALUES (3)", [(1,), (3,)]),
        ("CALL sys.rollback_to('t', 1)", "INSERT INTO t VALUES (3)", [(1,), (3,)]),
        ("CALL sys.fast_forward('t', 'b')", "INSERT INTO t VALUES (3)", [(1,), (7,), (3,)]),
        ("DROP TABLE t", "CREATE TABLE t (id INT); INSERT INTO t VALUES (3)", [(3,)]),
        ("ALTER TABLE t RENAME TO u", "CREATE TABLE t (id INT); INSERT INTO t VALUES (3)", [(3,)]),
    ],
)
def test_a_table_is_taken_back_dropped_or_renamed_once_also_where_the_server_dies_before_its_answer(
    gateway: Gateway, lake: Lake, spark_stub: NoSpark, monkeypatch: pytest.MonkeyPatch, text: str, meanwhile: str, rows: list[tuple[int]]
) -> None:
    for made in (
        "CREATE TABLE t (id INT)",
        "INSERT INTO t VALUES (1)",
        "CALL sys.create_tag('t', 'x')",
        "CALL sys.create_branch('t', 'b', 'x')",
        "INSERT INTO t$branch_b VALUES (7)",
        "INSERT INTO t VALUES (2)",
    ):
        gateway.run(made).close()
    _die_after(gateway, lake, monkeypatch, text)
    gateway.run(meanwhile).close()
    restarted = Gateway(Lake(lake.catalog, lake.warehouse), spark_stub)
    assert restarted.run(text, idempotency_key="k", caller=ME).collect() == [("OK",)]
    restarted.close()
    assert gateway.run("SELECT * FROM t").collect() == rows


def _die_after(gateway: Gateway, lake: Lake, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Run a statement under a key on a server that is killed before its answer, and let its claim run out."""
    with monkeypatch.context() as dying:  # what is decided is decided, and nothing comes after it
        dying.setattr(Idempotency, "finish", _dead)
        dying.setattr(Idempotency, "abandon", Idempotency.release)
        with pytest.raises(_DeadError):
            gateway.run(text, idempotency_key="k", caller=ME)
    with lake.catalog.deciding() as tx:
        tx.idempotency._conn.execute("UPDATE idempotency_key SET lease_until = now() - INTERVAL '1' MINUTE")


class _DeadError(Exception):
    """The server is gone."""


def _dead(*_: object, **__: object) -> None:
    raise _DeadError


def test_a_truncation_under_a_key_is_answered_as_done(gateway: Gateway) -> None:
    gateway.run("CREATE TABLE t (id INT)").close()
    for rows in ([], [(1,)]):
        assert gateway.run("TRUNCATE TABLE t", idempotency_key="k").collect() == [("OK",)]
        assert gateway.run("SELECT * FROM t").collect() == rows
        gateway.run("INSERT INTO t VALUES (1)").close()


def test_a_repeat_with_fewer_rights_is_told_no_rows(gateway: Gateway, lake: Lake) -> None:
    """Of a principal, whose keys are one, several tokens speak."""
    make_table(lake, id="INT")
    gateway.run("INSERT INTO t VALUES (1)").close()
    text = "CALL sys.create_tag('t', 'x')"
    first = gateway.run(text, idempotency_key="k", caller=ME).collect()
    assert first[0][:2] == ("x", 1)
    assert gateway.run(text, idempotency_key="k", caller=replace(ME, administrator=False)).collect() == [("OK",)]
    assert gateway.run(text, idempotency_key="k", caller=ME).collect() == first
