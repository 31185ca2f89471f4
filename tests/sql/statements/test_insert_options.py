"""What the options of a table and the hint of an INSERT do to what it writes."""

from __future__ import annotations

import pytest
from sqlglot import exp

from gateway.gateway import Gateway
from lake import Lake
from model.identifier import Identifier
from model.snapshot import CommitKind, Snapshot
from sql.statements.insert import Target, request_of

T = Identifier("default", "t")


def latest(lake: Lake) -> Snapshot:
    snapshot = lake.open(T).latest()
    assert snapshot is not None
    return snapshot


def test_an_insert_ends_with_the_tables_watermark(gateway: Gateway, lake: Lake) -> None:
    gateway.run("CREATE TABLE t (a INT) WITH ('bucket' = '-1', 'end-input.watermark' = '1714557600000')").close()
    gateway.run("INSERT INTO t VALUES (1)").close()
    assert latest(lake).watermark == 1714557600000
    gateway.run("ALTER TABLE t SET ('end-input.watermark' = '1714557500000')").close()
    gateway.run("INSERT INTO t VALUES (2)").close()
    assert latest(lake).watermark == 1714557600000, "it never goes back"
    gateway.run("ALTER TABLE t SET ('end-input.watermark' = '1714557700000')").close()
    gateway.run("CALL sys.compact(`table` => 't', compact_strategy => 'full')").close()
    assert (latest(lake).commit_kind, latest(lake).watermark) == (CommitKind.COMPACT, 1714557600000), "nothing came"
    gateway.run("INSERT INTO t VALUES (3)").close()
    assert latest(lake).watermark == 1714557700000
    gateway.run("ALTER TABLE t RESET ('end-input.watermark')").close()
    gateway.run("INSERT INTO t VALUES (4)").close()
    assert latest(lake).watermark == 1714557700000


@pytest.mark.parametrize(("dynamic", "purged"), [(True, False), (False, True)])
def test_an_overwrite_without_rows_takes_its_partition_away_only_where_it_is_not_dynamic(
    gateway: Gateway, lake: Lake, dynamic: bool, purged: bool
) -> None:
    gateway.run("CREATE TABLE t (a INT, p STRING) PARTITIONED BY (p) WITH ('bucket' = '-1')").close()
    gateway.run("INSERT INTO t VALUES (1, 'x'), (2, 'y')").close()
    table = lake.open(T)
    target = Target(table=table, columns=None, fixed={"p": exp.Literal.string("x")}, overwrite=True, dynamic=dynamic)
    with table.write() as nothing:
        request = request_of(target, nothing)
        assert (request is not None) == purged
        if request is not None:
            lake.commit(table, request)
    assert gateway.run("SELECT a FROM t").collect() == ([(2,)] if purged else [(1,), (2,)])


@pytest.mark.spark
def test_what_a_hint_says_is_done(on_spark: Gateway, lake: Lake) -> None:
    on_spark.run("CREATE TABLE t (a BIGINT, s STRING) WITH ('bucket' = '1', 'bucket-key' = 'a')").close()
    rows = "SELECT id, sha2(CAST(id AS STRING), 512) FROM range(12000)"
    on_spark.run(f"INSERT INTO t {rows}").close()
    assert on_spark.run("SELECT count(*) FROM t$files").collect() == [(1,)]
    given = "'target-file-size' = '256 kb', 'commit.user-prefix' = 'etl', 'end-input.watermark' = '7000'"
    on_spark.run(f"INSERT INTO t /*+ OPTIONS({given}) */ {rows}").close()
    ((files,),) = on_spark.run("SELECT count(*) FROM t$files").collect()
    assert files > 3
    assert latest(lake).commit_user.startswith("etl_")
    assert latest(lake).watermark == 7000
    on_spark.run(f"INSERT INTO t {rows}").close()
    assert on_spark.run("SELECT count(*) FROM t$files").collect() == [(files + 1,)]
    assert not latest(lake).commit_user.startswith("etl_")
    assert "target-file-size" not in lake.open(T).schema.options
