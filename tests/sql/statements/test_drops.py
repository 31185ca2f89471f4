"""DROP, UNDROP, PURGE TABLE and SHOW DROPPED through SQL."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.access import Access, table_resource
from model.catalog_errors import DropNotExist
from model.errors import AnalysisError, Forbidden, InvalidName, SqlSyntaxError, TableAlreadyExist, TableNotExist
from model.identifier import Identifier
from model.schema.types import Field, IntType
from model.view import View
from model.work.job import JobState
from tests.lake.access.test_access import as_user, give, user

Ask = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def ask(gateway: Gateway, lake: Lake) -> Ask:
    lake.drop_retention = timedelta(days=7)

    def run(text: str) -> list[tuple[Any, ...]]:
        with gateway.run(text) as result:
            return result.collect()

    for text in ("CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)"):
        run(text)
    return run


def test_a_table_comes_back(ask: Ask) -> None:
    ask("CALL sys.create_tag('t', 'one', 1)")
    ask("DROP TABLE t")
    with pytest.raises(TableNotExist):
        ask("SELECT * FROM t")
    assert ask("SHOW TABLES") == []
    assert ask("SELECT table_name FROM sys.tables") == []
    ((id_, database, table, _, by, expires, rows, size),) = ask("SHOW DROPPED TABLES")
    assert (database, table, by, rows) == ("default", "t", "anonymous", 2)
    assert size > 0
    assert ask("SELECT drop_id, table_name, record_count, file_size_in_bytes, expires_at FROM sys.dropped_tables") == [
        (id_, "t", 2, size, expires)
    ]
    assert ask("SHOW DROPPED TABLES IN `default`") == ask("SHOW DROPPED TABLES")
    assert ask("SHOW DROPPED TABLES IN other") == ask("SHOW DROPPED DATABASES") == []
    assert ask("UNDROP TABLE t") == [("table", "default.t")]
    assert ask("SELECT id FROM t") == [(1,), (2,)]
    assert ask("SELECT tag_name, snapshot_id FROM t$tags") == [("one", 1)]
    with pytest.raises(DropNotExist):
        ask("UNDROP TABLE t")


def test_drops_of_one_name_and_other_names(ask: Ask) -> None:
    ask("DROP TABLE t")
    ask("CREATE TABLE t (id INT)")
    with pytest.raises(TableAlreadyExist, match="AS … brings it back under another name"):
        ask("UNDROP TABLE t")
    ask("DROP TABLE t")
    newest, oldest = (row[0] for row in ask("SHOW DROPPED TABLES"))
    ask("CREATE DATABASE d")
    assert ask(f"UNDROP TABLE t WITH ID {oldest} AS d.old") == [("table", "d.old")]
    assert ask(f"UNDROP TABLE t WITH ID {newest} AS new") == [("table", "default.new")]
    assert ask("SELECT id FROM d.old") == [(1,), (2,)]
    assert ask("SELECT id FROM new") == []


def test_a_database_comes_back(ask: Ask) -> None:
    for text in ("CREATE DATABASE d", "CREATE TABLE d.t (id INT)", "INSERT INTO d.t VALUES (3)"):
        ask(text)
    ask("DROP DATABASE d CASCADE")
    assert ask("SHOW DATABASES") == [("default",)]
    ((id_, name, _, _, _, tables),) = ask("SHOW DROPPED DATABASES")
    assert (name, tables) == ("d", 1)
    assert ask("SELECT dropped_with FROM sys.dropped_tables") == [(id_,)]
    assert ask(f"UNDROP DATABASE d WITH ID {id_}") == [("table", "d.t")]
    assert ask("SELECT id FROM d.t") == [(3,)]
    ask("DROP DATABASE d CASCADE")
    ask("CREATE DATABASE d")
    assert ask("UNDROP DATABASE d AS e") == [("table", "e.t")]
    assert ask("SELECT id FROM e.t") == [(3,)]


def test_purge(ask: Ask, warehouse: Path) -> None:
    ask("DROP TABLE t PURGE")
    assert ask("SHOW DROPPED TABLES") == []
    assert not (warehouse / "default.db/t").exists()
    ask("CREATE TABLE t (id INT)")
    ask("DROP TABLE t")
    ((id_, *_),) = ask("SHOW DROPPED TABLES")
    ask(f"PURGE TABLE t WITH ID {id_}")
    assert ask("SHOW DROPPED TABLES") == []
    ask("CREATE DATABASE d")
    ask("CREATE TABLE d.t (id INT)")
    ask("DROP DATABASE d CASCADE PURGE")
    assert ask("SHOW DROPPED DATABASES") == ask("SHOW DROPPED TABLES") == []
    ask("CREATE TABLE t (id INT) WITH ('drop.retention' = '0 s')")
    ask("DROP TABLE t")
    assert ask("SHOW DROPPED TABLES") == []


def test_purge_is_a_right_of_its_own(ask: Ask, lake: Lake, gateway: Gateway) -> None:
    secret = user(lake, "ann")
    table = table_resource(Identifier("default", "t"))
    give(lake, Access.DROP, table, "ann")

    def ann(text: str) -> None:
        gateway.run(text, caller=as_user(lake, secret).caller).close()

    with pytest.raises(Forbidden, match="takes PURGE on table"):
        ann("DROP TABLE t PURGE")
    ann("DROP TABLE t")
    with pytest.raises(Forbidden, match="PURGE"):
        ann("PURGE TABLE t")
    ann("UNDROP TABLE t")
    ask("GRANT PURGE ON TABLE t TO ann")
    ann("DROP TABLE t PURGE")


def test_a_dropped_tables_place_is_not_registered(ask: Ask, warehouse: Path) -> None:
    ask("DROP TABLE t")
    with pytest.raises(InvalidName, match="UNDROP TABLE brings that one back with its grants, policies and tags"):
        ask(f"CALL sys.register_table('copy', '{warehouse}/default.db/t')")


def test_jobs_of_the_table_start_again_where_asked(ask: Ask, lake: Lake) -> None:
    ask("CREATE TABLE other (id INT)")
    reads = "INSERT INTO `other` SELECT id FROM sluice.`default`.t"
    jobs = {
        text: lake.jobs.create(name="j", statement=text, database="default", settings={}, tables={})
        for text in ("INSERT INTO t SELECT id FROM other", reads, "INSERT INTO `other` SELECT id FROM v", "INSERT INTO o SELECT id FROM w")
    }
    for name, query in (("inner_v", "SELECT id FROM t"), ("v", "SELECT id FROM inner_v"), ("w", "SELECT id FROM `other`")):
        lake.views.create(Identifier("default", name), View(fields=(Field(id=0, name="id", type=IntType()),), query=query))
    with lake.catalog.transaction() as tx:
        tx.drops._conn.execute("UPDATE stream_job SET state = 'FAILED', ended_at = now()")
    ask("DROP TABLE t")
    assert ask("UNDROP TABLE t") == [("table", "default.t")]
    ask("DROP TABLE t")
    of_t = {str(id_) for text, id_ in jobs.items() if "INTO o " not in text}
    assert set(ask("UNDROP TABLE t RESTART JOBS")) == {("table", "default.t")} | {("job", id_) for id_ in of_t}
    assert {str(job.job_id) for job in lake.jobs.all() if job.state is JobState.RESTARTING} == of_t


def test_jobs_do_not_start_again_for_what_comes_back_under_another_name(ask: Ask) -> None:
    ask("CREATE DATABASE d")
    ask("DROP DATABASE d")
    ask("DROP TABLE t")
    for text in ("UNDROP TABLE t AS t2 RESTART JOBS", "UNDROP DATABASE d AS d2 RESTART JOBS"):
        with pytest.raises(AnalysisError, match="under its own name"):
            ask(text)
    assert ask("UNDROP TABLE t AS t RESTART JOBS") == [("table", "default.t")]


def test_jobs_that_name_what_it_comes_back_as_start_again(ask: Ask, lake: Lake) -> None:
    """A table that was renamed before it was dropped comes back as what they have named all along."""
    ask("CREATE DATABASE d")
    ask("CREATE TABLE d.s (id INT)")
    ask("CREATE TABLE other (id INT)")
    texts = ("INSERT INTO t SELECT id FROM `other`", "INSERT INTO `other` SELECT id FROM d.s")
    writes, reads = (str(lake.jobs.create(name="j", statement=text, database="default", settings={}, tables={})) for text in texts)
    ask("ALTER TABLE t RENAME TO t_old")
    ask("DROP TABLE t_old")
    ask("DROP DATABASE d CASCADE")
    with lake.catalog.transaction() as tx:
        tx.drops._conn.execute("UPDATE stream_job SET state = 'FAILED', ended_at = now()")
    with pytest.raises(AnalysisError, match="there is none"):
        ask("UNDROP TABLE t_old AS t2 RESTART JOBS")
    assert ask("SHOW DROPPED TABLES"), "what is refused brings nothing back"
    assert ask("UNDROP TABLE t_old AS t RESTART JOBS") == [("table", "default.t"), ("job", writes)]
    assert ask("UNDROP DATABASE d RESTART JOBS") == [("table", "d.s"), ("job", reads)]


@pytest.mark.parametrize("text", ["UNDROP t", "UNDROP TABLE t WITH ID x", "UNDROP TABLE t WITH 3", "PURGE t", "SHOW DROPPED VIEWS"])
def test_what_cannot_be_read_is_told(ask: Ask, text: str) -> None:
    with pytest.raises(SqlSyntaxError):
        ask(text)
