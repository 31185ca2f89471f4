"""The round trips to Postgres that each statement's answer waits for, as docs/scaling.md tells them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gateway.gateway import Gateway
from lake import EVERYBODY
from model.access import Access, table_resource
from model.identifier import Identifier
from tests.fix_postgres_proxy import PostgresProxy
from tests.lake.access.test_access import give, user

_DOC = Path(__file__).parents[2] / "docs" / "scaling.md"
NOT_WAITED_FOR = (
    r"pg_notify|FROM access_token|^\(prepares\)$|^UPDATE idempotency_key SET lease_until|^DELETE FROM idempotency_key WHERE created_at"
    r"|^SELECT clock_timestamp|^UPDATE catalog_state SET clock_seen_at"
)
"""What threads of their own send, and what is sent once for many statements."""
_TEN = ", ".join(f"({number}, {number})" for number in range(10))


def told() -> dict[str, int]:
    """The table of the document: statement, and how many round trips it takes now."""
    rows = re.findall(r"^\| (?!statement|---)(.+?) \| *\d+ \| *(\d+) \|$", _DOC.read_text(), re.MULTILINE)
    found: dict[str, int] = {}
    for name, count in rows:
        found[name if name not in found else f"{name} (partitions)"] = int(count)
    return found


def test_every_statement_takes_the_round_trips_that_the_document_tells(far: Gateway, postgres_proxy: PostgresProxy) -> None:
    asked: dict[str, list[str]] = {}

    def run(name: str, text: str, key: str | None = None) -> None:
        postgres_proxy.reset()
        far.run(text, idempotency_key=key, caller=EVERYBODY).close()
        asked[name] = postgres_proxy.asked(without=NOT_WAITED_FOR)

    run("`CREATE DATABASE`", "CREATE DATABASE d")
    run("`CREATE TABLE`", "CREATE TABLE t (id INT)")
    run("the first `INSERT`", "INSERT INTO t VALUES (0)")
    run("`INSERT INTO t VALUES (1)`", "INSERT INTO t VALUES (1)")
    run("the same with an `Idempotency-Key`", "INSERT INTO t VALUES (2)", "k")
    run("its repeat, answered from the key", "INSERT INTO t VALUES (2)", "k")
    run("`SELECT` of a table", "SELECT id FROM t WHERE id > 0")
    run("another `CREATE TABLE`", "CREATE TABLE p (id INT, d INT) PARTITIONED BY (d)")
    run("the first into partitions", f"INSERT INTO p VALUES {_TEN}")
    run("`INSERT` into 10 partitions", f"INSERT INTO p VALUES {_TEN}")
    run("the same with an `Idempotency-Key` (partitions)", f"INSERT INTO p VALUES {_TEN}", "k2")
    run("`CREATE TABLE` with an `Idempotency-Key`", "CREATE TABLE keyed (id INT)", "k3")
    run("its removal", "DROP TABLE keyed PURGE")
    run("`ALTER TABLE … ADD COLUMN`", "ALTER TABLE t ADD COLUMN x INT")
    run("`ALTER TABLE … RENAME TO`", "ALTER TABLE t RENAME TO u")
    run("`DROP TABLE`, kept for `drop.retention`", "DROP TABLE p")
    run("`DROP TABLE … PURGE`", "DROP TABLE u PURGE")
    wanted = told()
    assert {name: len(asked[name]) for name in wanted} == wanted, asked
    assert far.run("SHOW TABLES").collect() == []


def test_who_did_not_wait_is_not_looked_up_again(far: Gateway, postgres_proxy: PostgresProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lake.access.remembered.TRUSTED_SECONDS", 600.0)
    far.run("CREATE TABLE t (id INT)").close()
    secret = user(far.lake, "ada")
    give(far.lake, Access.SELECT, table_resource(Identifier("default", "t")), "ada")
    caller = far.lake.access.caller(secret)
    postgres_proxy.reset()
    far.run("SELECT id FROM t", caller=caller).close()
    asked = postgres_proxy.asked(without=r"^$")
    assert asked
    assert not [one for one in asked if "access_token" in one], asked


def test_a_look_around_asks_the_same_however_many_tables_there_are(far: Gateway, postgres_proxy: PostgresProxy) -> None:
    """A server looks at some tables each five seconds, also while nobody wants anything."""
    counts = []
    for number in range(3):
        far.run(f"CREATE TABLE t{number} (id INT)").close()
        far.run(f"INSERT INTO t{number} VALUES (1)").close()
        far._lake.standing.look_around(tables=None)  # the first look at a table, and one an hour, holds its listings against the catalog
        postgres_proxy.reset()
        far._lake.standing.look_around(tables=None)
        counts.append(len(postgres_proxy.asked(without=NOT_WAITED_FOR)))
    assert counts == [2, 2, 2]
