"""What the options of a table and the hint of an INSERT do to what it writes."""

from __future__ import annotations

import time

import pytest
from sqlglot import exp

from gateway.gateway import Gateway
from lake import Lake
from lake.rewrite.auto_tags import create_automatic_tags
from lake.rewrite.expiry import tags_of
from model.errors import Forbidden, InvalidOption
from model.identifier import Identifier
from model.options.maintenance import PUSH_OUT, TAKE_AWAY
from model.options.table import _WRITE_HINTS
from model.snapshot import CommitKind, Snapshot
from sql.statements.insert import Target, request_of
from table.write.snapshot_builder import CommitRequest
from tests.lake.access.test_access import user
from tests.lake.stored import store_options

T = Identifier("default", "t")
_FAR = ["9999", "last", "a year"]


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


@pytest.mark.parametrize("ahead", ["253402214399999", str(2**63 - 1), str(time.time_ns() // 1_000_000 + 367 * 86_400_000)], ids=_FAR)
def test_no_batch_has_a_watermark_that_is_never_passed(gateway: Gateway, lake: Lake, ahead: str) -> None:
    gateway.run("CREATE TABLE t (a INT) WITH ('bucket' = '-1')").close()
    gateway.run("INSERT INTO t VALUES (1)").close()
    with pytest.raises(InvalidOption, match="more than a year ahead"):
        gateway.run(f"ALTER TABLE t SET ('end-input.watermark' = '{ahead}')")
    store_options(lake, T, {"end-input.watermark": ahead})
    with pytest.raises(InvalidOption, match="more than a year ahead"):
        gateway.run("INSERT INTO t VALUES (2)")
    assert (latest(lake).id, latest(lake).watermark) == (1, None)
    lake.commit(lake.open(T), CommitRequest(kind=CommitKind.APPEND, commit_user="earlier version", watermark=int(ahead)))
    gateway.run("INSERT INTO t VALUES (3)").close()
    assert latest(lake).watermark == int(ahead), "a table that has it goes on"


@pytest.mark.spark
def test_no_hint_of_an_insert_takes_history_away_without_delete(on_spark: Gateway, lake: Lake) -> None:
    """Every option that ALTER sets with DELETE only, and the hint of an INSERT takes, whatever comes to be among both."""
    options = "'bucket' = '-1', 'tag.automatic-creation' = 'watermark', 'tag.num-retained-max' = '2', 'tag.automatic-completion' = 'true'"
    on_spark.run(f"CREATE TABLE t (a INT) WITH ({options}, 'end-input.watermark' = '1714557600000')").close()
    for day in (0, 1):
        on_spark.run(f"INSERT INTO t /*+ OPTIONS('end-input.watermark' = '{1714557600000 + day * 86_400_000}') */ VALUES (1)").close()
        create_automatic_tags(lake, lake.open(T))
    kept = [tag.name for tag in tags_of(lake, lake.open(T))]
    assert len(kept) == 2
    with pytest.raises(InvalidOption, match="more than a year ahead"):
        on_spark.run("INSERT INTO t /*+ OPTIONS('end-input.watermark' = '253402214399999') */ VALUES (1)")
    ada = user(lake, "ada")
    on_spark.run("GRANT INSERT, ALTER ON t TO ada").close()
    given = {"end-input.watermark": str(1714557600000 + 90 * 86_400_000)}
    taking = (TAKE_AWAY | PUSH_OUT) & _WRITE_HINTS
    assert taking == given.keys(), "each is tried here"
    for key, value in given.items():
        for text in (f"INSERT INTO t /*+ OPTIONS('{key}' = '{value}') */ VALUES (2)", f"ALTER TABLE t SET ('{key}' = '{value}')"):
            with pytest.raises(Forbidden, match="takes DELETE"):
                on_spark.run(text, caller=lake.access.caller(ada))
        on_spark.run("INSERT INTO t VALUES (2)", caller=lake.access.caller(ada)).close()
        create_automatic_tags(lake, lake.open(T))
        assert [tag.name for tag in tags_of(lake, lake.open(T))] == kept
        on_spark.run("GRANT DELETE ON t TO ada").close()
        on_spark.run(f"INSERT INTO t /*+ OPTIONS('{key}' = '{value}') */ VALUES (2)", caller=lake.access.caller(ada)).close()


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
