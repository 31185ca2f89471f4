"""Partitions that are written anew or dropped, and tables that are purged, by statements that need no Spark."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from lake import Lake
from lake.rewrite.rescale import outgrown, rescale
from model.errors import AnalysisError, InvalidOption, RewriteConflict, SqlSyntaxError
from model.identifier import Identifier
from table.format.consumers import write_consumer
from table.scan.time_travel import plan_batch
from tests.fix_gateway import Ask

T = Identifier("default", "t")


@pytest.fixture
def outgrown_table(ask: Ask) -> None:
    """Twenty keys with five rows each in two partitions of 4 buckets, and a table that is to have 3."""
    options = "'bucket' = '4', 'bucket-key' = 'id', 'target-file-row-num' = '7'"
    ask(f"CREATE TABLE t (id INT, n INT, p STRING) PARTITIONED BY (p) WITH ({options})")
    for n in range(5):
        ask("INSERT INTO t VALUES " + ", ".join(f"({id_}, {n}, '{p}')" for p in "ab" for id_ in range(20)))
    ask("ALTER TABLE t SET ('bucket' = '3')")


@pytest.mark.usefixtures("outgrown_table")
def test_a_rescaled_partition_keeps_each_key_in_order_and_takes_rows_again(ask: Ask) -> None:
    with pytest.raises(InvalidOption, match=r"CALL sys\.rescale"):
        ask("INSERT INTO t VALUES (1, 5, 'a')")
    (told,) = ask("CALL sys.rescale(`table` => 't', partition => 'p=a', dry_run => true)")
    (done,) = ask("CALL sys.rescale(`table` => 't', partition => 'p=a')")
    assert told[:-1] == done[:-1]
    assert (done[:3], done[4]) == (("p=a", 4, 3), 100)
    assert sorted(ask("SELECT partition, total_buckets FROM t$partitions")) == [("p=a", 3), ("p=b", 4)]
    ask("INSERT INTO t VALUES " + ", ".join(f"({id_}, 5, 'a')" for id_ in range(20)))
    rows = ask("SELECT id, n, p FROM t")
    for p, most in (("a", 6), ("b", 5)):
        for id_ in range(20):
            assert [n for one, n, part in rows if (one, part) == (id_, p)] == list(range(most))
    assert [row[0] for row in ask("CALL sys.rescale('t')")] == ["p=b"]
    assert ask("CALL sys.rescale('t')") == []
    assert len(ask("SELECT id FROM t")) == 220


@pytest.mark.usefixtures("outgrown_table")
def test_tags_from_before_and_after_are_not_told_apart(ask: Ask, lake: Lake) -> None:
    """All rows would be new (Paimon's `InconsistentTagBucketException`)."""
    ask("CALL sys.create_tag('t', 'before')")
    ask("CALL sys.rescale(`table` => 't', partition => 'p=a')")
    for tag in ("after", "now"):
        ask(f"CALL sys.create_tag('t', '{tag}')")
        ask("INSERT INTO t VALUES (1, 5, 'a')")
    table = lake.open(T)
    for mode in ({"incremental-between": "before,now"}, {"incremental-between": "5,6", "incremental-between-scan-mode": "diff"}):
        with pytest.raises(InvalidOption, match="told apart: partition p=a had 4 buckets and has 3"):
            plan_batch(table.files, table.schema, lake.scan(table, mode))
    plan = plan_batch(table.files, table.schema, lake.scan(table, {"incremental-between": "after,now"}))
    assert sum(planned.file.row_count for planned in plan.files) == 1


@pytest.mark.usefixtures("outgrown_table")
def test_what_happened_meanwhile_is_not_lost(ask: Ask, lake: Lake) -> None:
    table = lake.open(T)
    first, second = outgrown(table, table.latest())
    ask("ALTER TABLE t DROP PARTITION (p = 'a')")
    with pytest.raises(RewriteConflict):
        rescale(lake, lake.open(T), first, check=lambda: None)
    rescale(lake, lake.open(T), second, check=lambda: None)
    assert {p for (p,) in ask("SELECT p FROM t")} == {"b"}


@pytest.mark.usefixtures("outgrown_table")
def test_a_number_that_is_not_the_tables_is_taken_and_told(ask: Ask, gateway: Gateway) -> None:
    ask("ALTER TABLE t SET ('bucket' = '4')")
    with gateway.run("CALL sys.rescale(`table` => 't', bucket_num => 2, partitions => 'p=a')") as result:
        assert [row[:3] for row in result.collect()] == [("p=a", 4, 2)]
        assert any("ALTER TABLE default.t SET ('bucket' = '2')" in notice for notice in result.notices)
    assert sorted(ask("SELECT partition, total_buckets FROM t$partitions")) == [("p=a", 2), ("p=b", 4)]
    assert ask("CALL sys.rescale('t', 2, 'p=a')") == []
    with pytest.raises(InvalidOption, match=r"CALL sys\.rescale"):
        ask("INSERT INTO t VALUES (1, 5, 'a')")
    assert [row[0] for row in ask("CALL sys.rescale('t', 2, '', 'p IN (''b'')')")] == ["p=b"]
    ask("ALTER TABLE t SET ('bucket' = '2')")
    ask("INSERT INTO t VALUES " + ", ".join(f"({id_}, 5, '{p}')" for p in "ab" for id_ in range(20)))
    rows = ask("SELECT id, n, p FROM t")
    for p in "ab":
        for id_ in range(20):
            assert [n for one, n, part in rows if (one, part) == (id_, p)] == list(range(6))
    for wrong in (0, -1, 65_537):
        with pytest.raises(AnalysisError, match="bucket_num => "):
            ask(f"CALL sys.rescale('t', {wrong})")
    ask("CREATE TABLE u (id INT) WITH ('bucket' = '-1')")
    with pytest.raises(AnalysisError, match="no buckets"):
        ask("CALL sys.rescale('u')")


def test_alter_table_drops_partitions(ask: Ask) -> None:
    ask("CREATE TABLE d (id INT, dt DATE, h INT, s STRING) PARTITIONED BY (dt, h, s) WITH ('bucket' = '-1')")
    rows = [(1, "2024-01-01", 1, "'x'"), (2, "2024-01-01", 2, "'x'"), (3, "2024-01-02", 1, "'x'"), (4, "2024-01-03", -1, "NULL")]
    ask("INSERT INTO d VALUES " + ", ".join(f"({id_}, DATE '{dt}', {h}, {s})" for id_, dt, h, s in rows))

    def left() -> list[int]:
        return sorted(id_ for (id_,) in ask("SELECT id FROM d"))

    with pytest.raises(AnalysisError, match=r"no partition \(h = 9\)"):
        ask("ALTER TABLE d DROP PARTITION (h = 9)")
    with pytest.raises(AnalysisError, match="id is no partition column"):
        ask("ALTER TABLE d DROP IF EXISTS PARTITION (id = 1)")
    with pytest.raises(SqlSyntaxError):
        ask("ALTER TABLE d DROP PARTITION (s = x)")
    ask("ALTER TABLE d DROP IF EXISTS PARTITION (h = 9)")
    assert left() == [1, 2, 3, 4]
    ask("ALTER TABLE d DROP PARTITION (dt = DATE '2024-01-01', h = 2), PARTITION (s = NULL, h = -1)")
    assert left() == [1, 3]
    ask("ALTER TABLE d DROP PARTITION (dt = '2024-01-01')")
    assert left() == [3]
    assert ask("SELECT COUNT(*) FROM d$snapshots") == [(3,)]  # one commit for each statement


def test_a_purged_table_holds_nothing_and_goes_on(ask: Ask, lake: Lake) -> None:
    ask("CREATE TABLE t (id INT)")
    for n in range(3):
        ask(f"INSERT INTO t VALUES ({n})")
    ask("CALL sys.create_tag('t', 'one', 1)")
    ask("CALL sys.create_branch('t', 'b', 'one')")
    write_consumer(lake.open(T).files, "c", 2)
    told = ask("CALL sys.purge_files(`table` => 't', dry_run => true)")
    assert {row[:2] for row in told} >= {("branch", "b"), ("tag", "one"), ("consumer", "c"), ("snapshot", "1"), ("snapshot", "3")}
    assert len(ask("SELECT id FROM t")) == 3
    ask("CALL sys.purge_files('t')")
    counted = [ask(f"SELECT COUNT(*) FROM t${kind}")[0][0] for kind in ("snapshots", "tags", "branches", "consumers", "files")]
    assert counted == [1, 0, 0, 0, 0]
    assert [status.path for status in lake.open(T).files.io.list(f"{lake.open(T).location}/bucket-0")] == []
    ask("INSERT INTO t VALUES (9)")
    assert ask("SELECT id FROM t") == [(9,)]


def test_tags_that_are_due_are_made_at_once(ask: Ask) -> None:
    ask("CREATE TABLE t (id INT) WITH ('tag.automatic-creation' = 'process-time')")
    ask("INSERT INTO t VALUES (1)")
    ((name, _),) = ask("CALL sys.trigger_tag_automatic_creation(`table` => 't', dry_run => true)")
    assert ask("SELECT COUNT(*) FROM t$tags") == [(0,)]
    assert ask("CALL sys.trigger_tag_automatic_creation('t')") == [(name, False)]
    assert ask("SELECT tag_name FROM t$tags") == [(name,)]
    assert ask("CALL sys.trigger_tag_automatic_creation('t')") == []
