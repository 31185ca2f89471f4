"""Every procedure that changes something says what it would do, and then has changed nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sql.statements.all  # noqa: F401 - the procedures register themselves
from gateway.gateway import Gateway
from lake import Lake
from model.identifier import Identifier
from model.snapshot import CommitKind
from sql.statements.procedures.calls import DRY_RUN, PROCEDURES
from table.format.consumers import write_consumer
from table.write.snapshot_builder import CommitRequest
from tests.everything import everything
from tests.lake.unmarked import append_unmarked

CHANGES_NOTHING = {
    "sys.doctor": "looks at a table's files and gives advice",
    "sys.check_table": "holds a table's files against what names them",
}
ON_SPARK = {"sys.analyze_table": "tests/sql/spark/test_compaction.py"}
CALLS = {
    "sys.compact": "`table` => 't', compact_strategy => 'full'",
    "sys.compact_database": "compact_strategy => 'full'",
    "sys.compact_manifest": "`table` => 't', options => 'manifest.merge-min-count=2'",
    "sys.expire_snapshots": "`table` => 't', retain_max => 1",
    "sys.rollback_to": "`table` => 't', snapshot_id => 2",
    "sys.rollback": "`table` => 't', version => 'one'",
    "sys.alter_column_default_value": "`table` => 't', `column` => 'id', default_value => '5'",
    "sys.rollback_to_timestamp": "`table` => 't', `timestamp` => 99999999999999",
    "sys.rollback_to_watermark": "`table` => 'w', watermark => 5",
    "sys.expire_partitions": "`table` => 'p', expiration_time => '1 d', timestamp_formatter => 'yyyy-MM-dd'",
    "sys.rescale": "`table` => 'r'",
    "sys.purge_files": "`table` => 't'",
    "sys.trigger_tag_automatic_creation": "`table` => 'a'",
    "sys.drop_partition": "`table` => 'p', partitions => 'dt=2020-01-01'",
    "sys.mark_partition_done": "`table` => 'p', partitions => 'dt=2020-01-01'",
    "sys.reset_consumer": "`table` => 't', consumer_id => 'c', next_snapshot_id => 3",
    "sys.clear_consumers": "`table` => 't'",
    "sys.remove_orphan_files": "`table` => 't', older_than => '2020-01-01 00:00:00'",
    "sys.create_tag": "`table` => 't', tag => 'new', snapshot_id => 2",
    "sys.create_tag_from_timestamp": "`table` => 't', tag => 'new', `timestamp` => 0",
    "sys.create_tag_from_watermark": "`table` => 'w', tag => 'new', watermark => 5",
    "sys.replace_tag": "`table` => 't', tag => 'one', snapshot_id => 2",
    "sys.rename_tag": "`table` => 't', tag => 'one', target_tag => 'uno'",
    "sys.delete_tag": "`table` => 't', tag => 'one'",
    "sys.expire_tags": "`table` => 't', older_than => '2999-01-01 00:00:00'",
    "sys.create_branch": "`table` => 't', branch => 'new', tag => 'one'",
    "sys.rename_branch": "`table` => 't', from_branch => 'b', to_branch => 'c'",
    "sys.fast_forward": "`table` => 't', branch => 'b'",
    "sys.rewrite_file_index": "`table` => 'i'",
    "sys.rewrite_files": "`table` => 'old'",
    "sys.delete_branch": "`table` => 't', branch => 'b'",
}
ELSEWHERE = dict.fromkeys(
    ("sys.register_table", "sys.migrate_table", "sys.migrate_database", "sys.migrate_file"), "tests/sql/statements/test_register.py"
) | {
    "sys.erase": "tests/sql/statements/test_erase.py",
    "sys.repair_table": "tests/sql/statements/test_definitions.py",
    "sys.remove_unexisting_files": "tests/sql/statements/test_check_table.py",
    "sys.confirm_clock": "tests/server/commands/test_standing.py",
    "sys.claim_warehouse": "tests/server/commands/test_standing.py",
}


def test_no_procedure_is_without_a_dry_run() -> None:
    assert set(PROCEDURES) == set(CALLS) | set(ON_SPARK) | set(ELSEWHERE) | set(CHANGES_NOTHING)
    without = {name for name, found in PROCEDURES.items() if DRY_RUN not in found.parameters}
    assert without == set(CHANGES_NOTHING) == {name for name, found in PROCEDURES.items() if found.only_looks}


Ask = Callable[[str], tuple[list[str], list[tuple[Any, ...]]]]


@pytest.fixture
def ask(gateway: Gateway, lake: Lake) -> Ask:
    def run(text: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        with gateway.run(text) as result:
            return [column.name for column in result.columns], result.collect()

    run("CREATE TABLE t (id INT)")
    for n in range(4):
        run(f"INSERT INTO t VALUES ({n})")
    run("CALL sys.create_tag('t', 'one', 1)")
    run("CALL sys.create_tag('t', 'two', 2)")  # the other one does not end while its branch is there
    run("CALL sys.create_branch('t', 'b', 'one')")
    write_consumer(lake.open(Identifier("default", "t")).files, "c", 2)
    run("CREATE TABLE p (dt STRING, id INT) PARTITIONED BY (dt)")
    run("INSERT INTO p VALUES ('2020-01-01', 1)")
    run("CREATE TABLE r (id INT) WITH ('bucket' = '2', 'bucket-key' = 'id')")
    run("INSERT INTO r VALUES (1), (2), (3)")
    run("ALTER TABLE r SET ('bucket' = '3')")
    run("CREATE TABLE a (id INT) WITH ('tag.automatic-creation' = 'process-time')")
    run("INSERT INTO a VALUES (1)")
    run("CREATE TABLE i (id INT)")
    run("INSERT INTO i VALUES (1)")
    run("ALTER TABLE i SET ('file-index.bitmap.columns' = 'id')")
    run("CREATE TABLE old (id INT, a ARRAY<INT>)")
    append_unmarked(lake, Identifier("default", "old"), [{"id": 1, "a": [1]}])
    run("CREATE TABLE w (id INT)")
    marked = lake.open(Identifier("default", "w"))
    lake.commit(marked, CommitRequest(kind=CommitKind.APPEND, commit_user="u", watermark=5))
    left = Path(lake.open(Identifier("default", "t")).location) / "bucket-0" / "data-left-0.parquet"
    left.write_bytes(b"12345")
    os.utime(left, (0, 0))
    return run


def test_a_dry_run_tells_and_changes_nothing(ask: Ask, dsn: str, warehouse: Path) -> None:
    before = everything(dsn, warehouse)
    for name, arguments in CALLS.items():
        columns, rows = ask(f"CALL {name}({arguments}, dry_run => true)")
        assert columns[-1] == DRY_RUN, name
        assert rows, name
        assert all(row[-1] is True for row in rows), name
        assert everything(dsn, warehouse) == before, name


def test_what_was_told_is_what_happens(ask: Ask) -> None:
    for name in (
        "sys.mark_partition_done", "sys.rename_tag", "sys.rename_branch", "sys.create_tag", "sys.replace_tag", "sys.compact",
        "sys.expire_partitions", "sys.remove_orphan_files", "sys.rescale", "sys.rewrite_files", "sys.trigger_tag_automatic_creation",
    ):  # fmt: skip
        arguments = CALLS[name].replace("'one'", "'uno'") if name == "sys.replace_tag" else CALLS[name]
        _, told = ask(f"CALL {name}({arguments}, dry_run => true)")
        _, done = ask(f"CALL {name}({arguments})")
        measured = slice(0, 4) if name in ("sys.compact", "sys.rewrite_files") else slice(0, -1)
        assert [row[measured] for row in told] == [row[measured] for row in done], name


def test_fast_forward_tells_what_main_loses(ask: Ask) -> None:
    ask("INSERT INTO `t$branch_b` VALUES (100)")
    columns, told = ask("CALL sys.fast_forward(`table` => 't', branch => 'b', dry_run => true)")
    assert columns == ["branch", "snapshots", "data_files", "bytes", DRY_RUN]
    assert told[0][:3] == ("b", 3, 3)
    assert told[0][3] > 0
    assert ask("CALL sys.delete_branch(`table` => 't', branch => 'b', dry_run => true)")[1][0][:3] == ("b", 2, 1)
    assert sorted(ask("SELECT id FROM t")[1]) == [(0,), (1,), (2,), (3,)]
    assert ask("CALL sys.fast_forward('t', 'b')")[1][0][:4] == told[0][:4]
    assert sorted(ask("SELECT id FROM t")[1]) == [(0,), (100,)]
