"""CALL procedures about what is kept, each with its dry run."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from gateway.gateway import Gateway
from lake import EVERYBODY, Lake
from lake.rewrite.maintenance import maintain
from lake.tables.consumers import ConsumerProgress
from model.catalog_errors import ClockInDoubt
from model.errors import AnalysisError, ConsumerTaken, LakeError, OutcomeUnknown, SnapshotNotExist, TableDamaged, TagNotExist
from model.identifier import Identifier
from table.format.consumers import delete_consumer, write_consumer
from table.format.store import TableFiles

Ask = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def ask(gateway: Gateway) -> Ask:
    def run(text: str) -> list[tuple[Any, ...]]:
        with gateway.run(text) as result:
            return result.collect()

    run("CREATE TABLE t (id INT)")
    for n in range(6):
        run(f"INSERT INTO t VALUES ({n})")
    return run


def test_calls_that_remove_by_age_wait_for_a_clock_that_is_believed(ask: Ask, lake: Lake, dsn: str) -> None:
    ask("ALTER TABLE t SET ('tag.automatic-creation' = 'process-time', 'tag.creation-period' = 'daily')")
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE catalog_state SET clock_seen_at = now() - interval '1 year'")
    for call in ("remove_orphan_files('t')", "remove_orphan_files('*')", "trigger_tag_automatic_creation('t')"):
        with pytest.raises(ClockInDoubt, match="confirm_clock"):
            ask(f"CALL sys.{call}")
    assert "confirm_clock" in ask("CALL sys.remove_orphan_files(`table` => 't', dry_run => true)")[0][4]
    assert len(ask("CALL sys.trigger_tag_automatic_creation(`table` => 't', dry_run => true)")) == 1
    lake.clock.confirm()
    assert ask("CALL sys.remove_orphan_files('t')")[0][4] is None


def test_expire_snapshots(ask: Ask) -> None:
    assert ask("CALL sys.expire_snapshots('t')")[0][0] == 0  # ten and an hour are kept
    assert ask("CALL sys.expire_snapshots(`table` => 't', retain_max => 4, dry_run => true)")[0][:3] == (2, 1, 2)
    assert ask("CALL sys.expire_snapshots('t', 4)")[0][:3] == (2, 1, 2)
    tomorrow = (dt.datetime.now(dt.UTC) + dt.timedelta(days=1)).strftime("%Y-%m-%d %H:%M:%S")
    done = ask(f"CALL sys.expire_snapshots(`table` => 't', retain_min => 1, older_than => '{tomorrow}', max_deletes => 1)")
    assert done[0][:3] == (1, 3, 3)
    assert ask("CALL sys.expire_snapshots(`table` => 't', options => 'snapshot.num-retained.min=2,snapshot.time-retained=0 s')")[0][0] == 1
    assert ask("SELECT snapshot_id FROM t$snapshots") == [(5,), (6,)]
    assert ask("SELECT id FROM t") == [(n,) for n in range(6)]
    with pytest.raises(AnalysisError, match="below retain_min"):
        ask("CALL sys.expire_snapshots(`table` => 't', retain_min => 5, retain_max => 2)")
    with pytest.raises(AnalysisError, match="one snapshot stays"):
        ask("CALL sys.expire_snapshots(`table` => 't', retain_max => 0)")


def test_tags(ask: Ask) -> None:
    ask("CALL sys.create_tag('t', 'two', 2)")
    ask("CALL sys.create_tag(`table` => 't', tag => 'day', time_retained => '1 d')")
    ask("CALL sys.rename_tag('t', 'two', 'zwei')")
    ask("CALL sys.replace_tag(`table` => 't', tag => 'zwei', snapshot_id => 3)")
    assert ask("SELECT tag_name, snapshot_id, time_retained FROM t$tags") == [("day", 6, "PT24H"), ("zwei", 3, None)]
    made = ask("CALL sys.create_tag_from_timestamp('t', 'first', 0)")
    assert made[0][:2] == ("first", 1)
    with pytest.raises(SnapshotNotExist):
        ask("CALL sys.create_tag_from_watermark('t', 'w', 5)")
    assert ask("CALL sys.expire_tags(`table` => 't', older_than => '2020-01-01')") == []
    gone = ask("CALL sys.expire_tags(`table` => 't', older_than => '2999-01-01', dry_run => true)")
    assert gone == [("day", True), ("first", True), ("zwei", True)]
    assert [row[0] for row in ask("CALL sys.delete_tag(`table` => 't', tag => 'zwei,first', dry_run => true)")] == ["zwei", "first"]
    ask("CALL sys.delete_tag('t', 'zwei,first')")
    assert ask("SELECT tag_name FROM t$tags") == [("day",)]
    assert ask("CALL sys.expire_tags(`table` => 't', older_than => '2999-01-01')") == [("day", False)]
    with pytest.raises(TagNotExist):
        ask("CALL sys.replace_tag('t', 'zwei', 3)")


def test_a_snapshot_that_only_a_tag_keeps_can_be_tagged_branched_and_gone_back_to(ask: Ask, lake: Lake) -> None:
    for n, watermark in ((10, 100), (11, 200), (12, 300)):
        ask(f"ALTER TABLE t SET ('end-input.watermark' = '{watermark}')")
        ask(f"INSERT INTO t VALUES ({n})")
    ask("CALL sys.create_tag('t', 'two', 2)")
    ask("CALL sys.create_tag('t', 'seven', 7)")
    ask("CALL sys.create_tag('t', 'newest')")
    ((time_of_two,),) = ask("SELECT commit_time FROM t$snapshots WHERE snapshot_id = 2")
    millis = int(time_of_two.timestamp() * 1000)
    assert ask("CALL sys.expire_snapshots('t', 1)")[0][:3] == (8, 1, 8)
    assert ask("CALL sys.create_tag('t', 'again', 2)")[0][:2] == ("again", 2)
    assert ask("CALL sys.replace_tag(`table` => 't', tag => 'newest', snapshot_id => 2)")[0][:2] == ("newest", 2)
    assert ask(f"CALL sys.create_tag_from_timestamp('t', 'first', {millis})")[0][:2] == ("first", 2)
    assert ask(f"CALL sys.create_tag_from_timestamp('t', 'next', {millis + 1})")[0][:2] == ("next", 7)
    assert ask("CALL sys.create_tag_from_watermark('t', 'early', 99)")[0][:2] == ("early", 7)
    assert ask("CALL sys.create_tag_from_watermark('t', 'late', 101)")[0][:2] == ("late", 9)
    with pytest.raises(SnapshotNotExist, match="no snapshot 3 to tag"):
        ask("CALL sys.create_tag('t', 'three', 3)")
    with pytest.raises(SnapshotNotExist):  # as Paimon's clients: by its id only what has not expired is read
        lake.resolve(lake.open(Identifier("default", "t")), {"scan.snapshot-id": "2"})
    ask("CALL sys.delete_tag('t', 'two,newest,first')")
    assert ask("SELECT tag_name, snapshot_id, record_count FROM t$tags WHERE tag_name = 'again'") == [("again", 2, 2)]
    ask("CALL sys.create_branch('t', 'b', 'again')")
    ask("CALL sys.delete_tag('t', 'again')")
    ask("INSERT INTO t$branch_b VALUES (99)")
    assert ask("SELECT id FROM t$branch_b") == [(0,), (1,), (99,)]
    assert ask("CALL sys.rollback_to(`table` => 't', snapshot_id => 7, dry_run => true)")[0][:2] == (9, 7)
    assert ask("CALL sys.rollback_to('t', 7)")[0][:2] == (9, 7)
    assert ask("SELECT snapshot_id FROM t$snapshots") == [(7,)]
    assert ask("SELECT id FROM t") == [(n,) for n in (*range(6), 10)]
    ask("INSERT INTO t VALUES (20)")
    assert ask("SELECT count(*) FROM t") == [(8,)]


def test_rollback(ask: Ask) -> None:
    ask("CALL sys.create_tag('t', 'four', 4)")
    assert ask("CALL sys.rollback_to(`table` => 't', snapshot_id => 5, dry_run => true)")[0][:2] == (6, 5)
    assert ask("CALL sys.rollback_to('t', 5)")[0][:3] == (6, 5, 0)
    assert ask("CALL sys.rollback_to('t', 'four')")[0][:2] == (5, 4)
    assert ask("SELECT id FROM t") == [(n,) for n in range(4)]
    ((millis,),) = ask("SELECT commit_time FROM t$snapshots WHERE snapshot_id = 2")
    assert ask(f"CALL sys.rollback_to(`table` => 't', `timestamp` => '{millis}')")[0][1] == 2
    assert ask("SELECT COUNT(*) FROM t$tags") == [(0,)]
    ask("INSERT INTO t VALUES (7)")
    assert ask("SELECT id FROM t") == [(0,), (1,), (7,)]
    with pytest.raises(AnalysisError, match="takes one of"):
        ask("CALL sys.rollback_to('t')")
    with pytest.raises(SnapshotNotExist):
        ask("CALL sys.rollback_to_watermark('t', 1)")


@pytest.mark.parametrize("call", ["sys.rollback_to_watermark('t', {})", "sys.rollback_to(`table` => 't', watermark => {})"])
def test_rollback_to_a_watermark_goes_to_the_last_that_had_not_passed_it(ask: Ask, call: str) -> None:
    for watermark in (10, 20, 30):
        ask(f"ALTER TABLE t SET ('end-input.watermark' = '{watermark}')")
        ask(f"INSERT INTO t VALUES ({watermark})")
    with pytest.raises(SnapshotNotExist, match=r"no snapshot with a watermark of at most 9: the earliest is 10\."):
        ask(f"CALL {call.format(9)}")
    assert ask(f"CALL {call.format(25)}")[0][:2] == (9, 8)
    assert ask(f"CALL {call.format(20)}")[0][:2] == (8, 8)
    assert ask(f"CALL {call.format(19)}")[0][:2] == (8, 7)
    assert ask("SELECT MAX(id) FROM t") == [(10,)]


def test_partitions(ask: Ask) -> None:
    today = dt.date.today().isoformat()
    ask("CREATE TABLE p (dt STRING, h STRING, id INT) PARTITIONED BY (dt, h) WITH ('bucket' = '-1')")
    ask(f"INSERT INTO p VALUES ('2020-01-01', '05', 1), ('2020-01-01', '06', 2), ('{today}', '00', 3)")
    call = "CALL sys.expire_partitions(`table` => 'p', expiration_time => '1 d', timestamp_pattern => '$dt $h:00:00'"
    assert [row[0] for row in ask(f"{call}, max_expires => 1, dry_run => true)")] == ["dt=2020-01-01/h=05"]
    assert [row[0] for row in ask(f"{call}, timestamp_formatter => 'yyyy-MM-dd HH:mm:ss', max_expires => 1)")] == ["dt=2020-01-01/h=05"]
    assert ask("CALL sys.expire_partitions(`table` => 'p', expiration_time => '1 d', expire_strategy => 'update-time')") == []
    assert ask("CALL sys.mark_partition_done('p', 'dt=2020-01-01,h=06')")[0][0] == "dt=2020-01-01/h=06"
    assert ask("SELECT partition FROM p$partitions WHERE done = true") == [("dt=2020-01-01/h=06",)]
    assert ask("CALL sys.drop_partition(`table` => 'p', partitions => 'dt=2020-01-01', dry_run => true)")[0][1:3] == (1, 1)
    ask("CALL sys.drop_partition('p', 'dt=2020-01-01')")
    assert ask("SELECT id FROM p") == [(3,)]
    with pytest.raises(AnalysisError, match="says no time"):
        ask("CALL sys.expire_partitions('p')")
    with pytest.raises(LakeError, match="only yyyy"):
        ask("CALL sys.expire_partitions(`table` => 'p', expiration_time => '1 d', timestamp_formatter => 'EEE')")
    with pytest.raises(LakeError, match=r"the table has \$dt, \$h"):
        ask("CALL sys.expire_partitions(`table` => 'p', expiration_time => '1 d', timestamp_pattern => '$day')")


@pytest.mark.parametrize(
    ("type_", "values", "more", "gone"),
    [
        ("STRING", "'202011', '20201105', '2020-11', '2020-11-05T00:00:00'", "", []),
        ("INT", "202011, 20201105, 123456", "", []),
        ("STRING", "'202011'", ", timestamp_formatter => 'yyyyMM'", []),
        ("STRING", "'202011'", ", timestamp_pattern => '$m01', timestamp_formatter => 'yyyyMMdd'", ["m=202011"]),
        ("DATE", "DATE '2020-11-05'", "", ["m=2020-11-05"]),
        ("TIMESTAMP(3)", "TIMESTAMP '2020-11-05 00:00:00'", "", ["m=2020-11-05 00%3A00%3A00.000"]),
    ],
)
def test_only_what_names_a_day_expires(ask: Ask, type_: str, values: str, more: str, gone: list[str]) -> None:
    options = "'bucket' = '-1', 'partition.legacy-name' = 'false'"
    ask(f"CREATE TABLE p (a INT, m {type_}) PARTITIONED BY (m) WITH ({options})")
    ask(f"INSERT INTO p VALUES {', '.join(f'(1, {value})' for value in values.split(', '))}")
    assert [row[0] for row in ask(f"CALL sys.expire_partitions(`table` => 'p', expiration_time => '180 d'{more})")] == gone


def test_consumers(ask: Ask, lake: Lake) -> None:
    table = lake.open(Identifier("default", "t"))
    for name in ("a1", "a2", "b"):
        write_consumer(table.files, name, 2)
    assert ask("CALL sys.reset_consumer(`table` => 't', consumer_id => 'b', next_snapshot_id => 4)") == [("b", 2, 4, False)]
    assert ask("SELECT * FROM t$consumers WHERE consumer_id = 'b'") == [("b", 4)]
    with pytest.raises(SnapshotNotExist):
        ask("CALL sys.reset_consumer('t', 'b', 99)")
    ask("CALL sys.reset_consumer('t', 'b')")
    clear = "CALL sys.clear_consumers(`table` => 't', including_consumers => 'a.*', excluding_consumers => '.*2'"
    assert ask(f"{clear}, dry_run => true)") == [("a1", True)]
    assert ask(f"{clear})") == [("a1", False)]
    assert ask("SELECT consumer_id FROM t$consumers") == [("a2",)]


@pytest.mark.parametrize("name", ["there", "never"])
def test_a_consumer_that_a_try_before_forgot_is_told_from_one_that_never_was(gateway: Gateway, lake: Lake, name: str) -> None:
    """A second try under a key was answered as done, whatever name it had."""
    gateway.run("CREATE TABLE q (id INT)").close()
    write_consumer(lake.open(Identifier("default", "q")).files, "there", 1)
    text = f"CALL sys.reset_consumer('q', '{name}')"
    with pytest.MonkeyPatch.context() as patch:  # its server dies before it looks, or when the file has gone and nothing is decided
        at = "lake.tables.consumers.delete_consumer" if name == "there" else "sql.statements.procedures.retention.read_consumers"
        patch.setattr(at, _dies)
        with pytest.raises(OutcomeUnknown):
            gateway.run(text, idempotency_key="k", caller=EVERYBODY)
    with lake.catalog.transaction() as tx:
        tx._conn.execute("UPDATE idempotency_key SET lease_until = now() - interval '1 second'")
    if name == "there":
        assert gateway.run(text, idempotency_key="k", caller=EVERYBODY).collect() == [(name, None, None, False)]
        assert gateway.run("SELECT * FROM q$consumers").collect() == []
    else:
        with pytest.raises(AnalysisError, match="no consumer never"):
            gateway.run(text, idempotency_key="k", caller=EVERYBODY)


def _dies(files: TableFiles, name: str = "") -> None:
    if name:
        delete_consumer(files, name)
    raise OutcomeUnknown("The server died.")


def test_a_stream_that_reads_under_a_name_does_not_undo_what_is_said_of_it(ask: Ask, lake: Lake) -> None:
    table = lake.open(Identifier("default", "t"))
    for number, call in enumerate(("CALL sys.reset_consumer('t', 'c', 2)", "CALL sys.clear_consumers('t')")):
        progress, _ = ConsumerProgress.take(lake.catalog, table, "c")
        progress.tell(table, 3)
        ask(call)
        with pytest.raises(ConsumerTaken):
            progress.tell(table, 4)
        assert ask("SELECT * FROM t$consumers") == [("c", 2)][number:]


def test_orphans(ask: Ask, lake: Lake) -> None:
    table = lake.open(Identifier("default", "t"))
    orphan = Path(table.location) / "bucket-0" / "data-left-0.parquet"
    orphan.write_bytes(b"12345")
    assert ask("CALL sys.remove_orphan_files('t')")[0][1] == 0
    os.utime(orphan, (0, 0))
    assert ask("CALL sys.remove_orphan_files(`table` => 'default.*', dry_run => true)")[0][:3] == ("default.t", 1, 5)
    assert orphan.exists()
    assert ask("CALL sys.remove_orphan_files(`table` => 't', older_than => '2020-01-01 00:00:00', parallelism => 2)")[0][1:3] == (1, 5)
    assert not orphan.exists()
    assert ask("SELECT COUNT(*) FROM t") == [(6,)]
    with pytest.raises(LakeError, match="future"):
        ask("CALL sys.remove_orphan_files(`table` => '*', older_than => '2999-01-01')")


def test_arguments_may_have_the_names_that_flink_and_spark_give_them(ask: Ask, lake: Lake) -> None:
    ask("CALL sys.create_tag(`table` => 't', tag => 'one', snapshot => 1)")
    assert ask("CALL sys.rename_tag(`table` => 't', tagName => 'one', targetTagName => 'uno')")[0][:2] == ("uno", 1)
    ask("CALL sys.create_branch(`table` => 't', branch => 'b', tag => 'uno', ignoreIfExists => true)")
    assert ask("CALL sys.create_branch('t', 'b', true)") == []
    assert ask("CALL sys.create_branch('t', 'b', 'uno', true)") == []
    assert ask("CALL sys.create_branch(`table` => 't', branch => 'b', ignoreIfExists => 'true')") == []
    with pytest.raises(LakeError, match="exists"):
        ask("CALL sys.create_branch('t', 'b')")
    table = lake.open(Identifier("default", "t"))
    for name in ("a1", "b1"):
        write_consumer(table.files, name, 1)
    assert ask("CALL sys.reset_consumer(`table` => 't', consumerId => 'a1', nextSnapshotId => 2)")[0][:3] == ("a1", 1, 2)
    assert [row[0] for row in ask("CALL sys.clear_consumers(`table` => 't', includingConsumers => 'a.*')")] == ["a1"]
    assert [row[0] for row in ask("CALL sys.clear_consumers(`table` => 't', excludingConsumers => 'x.*')")] == ["b1"]
    assert ask("CALL sys.compact_database(including_tables => 't', options => 'target-file-size=1 mb')")[0][0] == "default.t"
    with pytest.raises(AnalysisError, match="has no argument nothing"):
        ask("CALL sys.create_tag(`table` => 't', tag => 'x', nothing => 1)")


def test_a_tag_that_is_replaced_without_a_snapshot_keeps_the_latest(ask: Ask) -> None:
    ask("CALL sys.create_tag('t', 'one', 1)")
    latest = max(id_ for (id_,) in ask("SELECT snapshot_id FROM t$snapshots"))
    assert ask("CALL sys.replace_tag(`table` => 't', tag => 'one', time_retained => '7 d')")[0][:2] == ("one", latest)
    assert ask("CALL sys.replace_tag('t', 'one', 2)")[0][:2] == ("one", 2)


@pytest.mark.damages
@pytest.mark.parametrize("automatic", [False, True])
def test_a_tag_keeps_what_it_has_where_the_new_snapshot_cannot_be_read(ask: Ask, lake: Lake, *, automatic: bool) -> None:
    """What the tag keeps may be the last that `sys.repair_table` could go back to."""
    if automatic:
        ask("ALTER TABLE t SET ('tag.automatic-creation' = 'batch', 'tag.batch.customized-name' = 'one')")
    ask("CALL sys.create_tag('t', 'one', 1)")
    table = lake.open(Identifier("default", "t"))
    latest = table.latest()
    assert latest is not None
    Path(table.files.layout.manifest(latest.delta_manifest_list)).write_bytes(b"")
    move = partial(maintain, lake, table) if automatic else partial(ask, "CALL sys.replace_tag('t', 'one')")
    with pytest.raises(TableDamaged):
        move()
    assert ask("SELECT tag_name, snapshot_id FROM t$tags") == [("one", 1)]


def test_sparks_rollback(ask: Ask) -> None:
    ask("CALL sys.create_tag('t', 'one', 1)")
    latest = max(id_ for (id_,) in ask("SELECT snapshot_id FROM t$snapshots"))
    assert ask("CALL sys.rollback(`table` => 't', version => '3')")[0][:2] == (latest, 3)
    assert ask("CALL sys.rollback(`table` => 't', snapshot => 2)")[0][:2] == (3, 2)
    for wrong in ("", ", version => '1', tag => 'one'", ", snapshot => 1, tag => 'one'"):
        with pytest.raises(AnalysisError, match="one of version, snapshot and tag"):
            ask(f"CALL sys.rollback(`table` => 't'{wrong})")
    assert ask("CALL sys.rollback('t', 'one')")[0][:2] == (2, 1)


def test_a_partition_without_rows_is_marked(ask: Ask, lake: Lake) -> None:
    actions = "success-file,done-partition"
    ask(f"CREATE TABLE p (dt STRING, h INT, id INT) PARTITIONED BY (dt, h) WITH ('partition.mark-done-action' = '{actions}')")
    assert ask("CALL sys.mark_partition_done('p', 'dt=2026-01-01,h=5')") == [("dt=2026-01-01/h=5", 0, 0, 0, False)]
    table = lake.open(Identifier("default", "p"))
    assert table.files.io.file_exists(table.files.layout.success_file(table.schema, "dt=2026-01-01/h=5"))
    assert "dt=2026-01-01/h=5.done" in {row.name for row in lake.partition_page(table)}
    for wrong in ("dt=2026-01-01", "dt=2026-01-01,h=x"):
        with pytest.raises(AnalysisError, match="has no partition"):
            ask(f"CALL sys.mark_partition_done('p', '{wrong}')")
    ask("INSERT INTO p VALUES ('2026-01-01', 5, 1), ('2026-01-01', 6, 1)")
    assert [row[0] for row in ask("CALL sys.mark_partition_done('p', 'dt=2026-01-01;dt=2026-01-02,h=1')")] == [
        "dt=2026-01-01/h=5", "dt=2026-01-01/h=6", "dt=2026-01-02/h=1",
    ]  # fmt: skip


def test_a_partition_that_was_made_without_rows_is_dropped(ask: Ask, lake: Lake) -> None:
    ask("CREATE TABLE p (dt STRING, id INT) PARTITIONED BY (dt)")
    ask("INSERT INTO p VALUES ('a', 1), ('b', 2)")
    table = lake.open(Identifier("default", "p"))
    lake.create_partitions(table, [{"dt": "empty"}])
    call = "CALL sys.drop_partition(`table` => 'p', partitions => 'dt=empty;dt=none;dt=a'"
    for dry in (True, False):
        assert [row[0] for row in ask(f"{call}, dry_run => {str(dry).lower()})")] == ["dt=a", "dt=empty"]
    assert [row.name for row in lake.partition_page(table)] == ["dt=b"]
    assert ask("CALL sys.drop_partition('p', 'dt=none')") == []
