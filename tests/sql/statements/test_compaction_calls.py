"""CALL sys.compact and its kin, with every argument, by position and by name, in Flink's order and in Spark's."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gateway.gateway import Gateway
from lake import Lake
from lake.rewrite import compaction as lake_compaction
from model.errors import AnalysisError, InvalidOption, LakeError
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from sql.statements.procedures.partition_choice import numbers, parse_specs, span
from tests.fix_gateway import Ask

TASKS, BEFORE, AFTER, ROWS, SNAPSHOT, DRY = 0, 1, 2, 5, 7, 8


@pytest.fixture
def parted(ask: Ask) -> Ask:
    """A partitioned table without buckets: five small files in each of three partitions."""
    ask("CREATE TABLE t (dt STRING, h INT, id INT) PARTITIONED BY (dt, h) WITH ('bucket' = '-1')")
    for n in range(5):
        ask(f"INSERT INTO t VALUES ('a', 1, {n}), ('a', 2, {n}), ('b', 1, {n})")
    return ask


def counts(ask: Ask) -> dict[str, int]:
    return dict(ask("SELECT partition, file_count FROM t$partitions"))


def test_everything_is_merged(parted: Ask) -> None:
    (done,) = parted("CALL sys.compact('t')")
    assert (done[TASKS], done[BEFORE], done[AFTER], done[ROWS], done[DRY]) == (3, 15, 3, 15, False)
    assert set(counts(parted).values()) == {1}
    assert parted("SELECT record_count, file_count FROM sys.tables WHERE table_name = 't'") == [(15, 3)]
    assert parted("SELECT commit_kind FROM t$snapshots WHERE snapshot_id = 6") == [("COMPACT",)]
    (again,) = parted("CALL sys.compact('t')")
    assert (again[TASKS], again[SNAPSHOT]) == (0, None)


@pytest.mark.parametrize(
    ("call", "merged"),
    [
        ("CALL sys.compact('t', 'dt=a')", {"dt=a/h=1", "dt=a/h=2"}),
        ("CALL sys.compact(`table` => 't', partitions => 'dt=a,h=2;dt=b')", {"dt=a/h=2", "dt=b/h=1"}),
        ("CALL sys.compact(`table` => 'default.t', `where` => 'dt = ''a'' AND h > 1')", {"dt=a/h=2"}),
        ("CALL sys.compact('t', '', '', '', '', 'h = 1')", {"dt=a/h=1", "dt=b/h=1"}),
        ("CALL sys.compact('t', 'dt=b', 'minor')", {"dt=b/h=1"}),
        ("CALL sys.compact(`table` => 't', `where` => 'dt IN (''b'')', compact_strategy => 'full')", {"dt=b/h=1"}),
        ("CALL sys.compact(`table` => 't', partition_idle_time => '1 d')", set()),
        ("CALL sys.compact(`table` => 't', partition_idle_time => '0 s')", {"dt=a/h=1", "dt=a/h=2", "dt=b/h=1"}),
        ("CALL sys.compact(`table` => 't', options => 'compaction.min.file-num=6')", set()),
    ],
)
def test_partitions_are_chosen(parted: Ask, call: str, merged: set[str]) -> None:
    parted(call)
    assert {name for name, files in counts(parted).items() if files == 1} == merged
    assert parted("SELECT COUNT(*) FROM t") == [(15,)]


def test_a_dry_run_changes_nothing(parted: Ask) -> None:
    (done,) = parted("CALL sys.compact(`table` => 't', dry_run => true)")
    assert (done[TASKS], done[BEFORE], done[AFTER], done[ROWS], done[SNAPSHOT], done[DRY]) == (3, 15, 3, 15, None, True)
    assert parted("SELECT COUNT(*) FROM t$snapshots") == [(5,)]
    (sorted_,) = parted("CALL sys.compact(`table` => 't', order_strategy => 'zorder', order_by => 'id,h', dry_run => true)")
    assert (sorted_[TASKS], sorted_[BEFORE]) == (3, 15)


def test_full_in_so_many_words_leaves_no_small_file(ask: Ask) -> None:
    ask("CREATE TABLE t (id INT) WITH ('bucket' = '-1')")
    for n in range(2):
        ask(f"INSERT INTO t VALUES ({n})")
    assert ask("CALL sys.compact('t')")[0][TASKS] == 0  # as Paimon: fewer than five stay
    assert ask("CALL sys.compact(`table` => 't', compact_strategy => 'full')")[0][AFTER] == 1


def test_buckets_are_chosen(ask: Ask) -> None:
    ask("CREATE TABLE t (id INT) WITH ('bucket' = '4', 'bucket-key' = 'id')")
    for n in range(3):
        ask(f"INSERT INTO t VALUES {', '.join(f'({i})' for i in range(n * 40, n * 40 + 40))}")
    (done,) = ask("CALL sys.compact(`table` => 't', buckets => '1-2')")
    assert (done[TASKS], done[BEFORE], done[AFTER]) == (2, 6, 2)
    assert dict(ask("SELECT bucket, file_count FROM t$buckets")) == {0: 3, 1: 1, 2: 1, 3: 3}
    assert sorted(ask("SELECT id FROM t")) == [(i,) for i in range(120)]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("CALL sys.compact(`table` => 't', partitions => 'dt=a', `where` => 'h = 1')", "both choose"),
        ("CALL sys.compact(`table` => 't', `where` => 'id = 1')", "partition columns only"),
        ("CALL sys.compact(`table` => 't', `where` => '1 = 1; DROP TABLE t')", "."),
        ("CALL sys.compact(`table` => 't', `where` => 'dt = ''a'' LIMIT 1')", "no condition"),
        ("CALL sys.compact(`table` => 't', partitions => 'x=1')", "names no partition"),
        ("CALL sys.compact(`table` => 't', compact_strategy => 'most')", "'full' or 'minor'"),
        ("CALL sys.compact(`table` => 't', buckets => '1')", "no buckets"),
        ("CALL sys.compact(`table` => 't', order_by => 'id')", "takes both"),
        ("CALL sys.compact(`table` => 't', partition_idle_time => 'long')", "duration"),
        ("CALL sys.compact(`table` => 't', options => 'bucket=3')", "cannot be given"),
        ("CALL sys.compact(`table` => 't', nothing => 'x')", "no argument"),
    ],
)
def test_what_makes_no_sense_is_told(parted: Ask, call: str, words: str) -> None:
    with pytest.raises(LakeError, match=words):
        parted(call)
    assert parted("SELECT COUNT(*) FROM t$snapshots") == [(5,)]


_SORTED = "clustering.incremental=true,clustering.columns=word"


@pytest.mark.parametrize("options", [_SORTED, f"bucket-append-ordered=false,{_SORTED}"])
def test_no_call_sorts_a_queue(ask: Ask, options: str) -> None:
    """Its rows would lie in another order for good; ALTER TABLE refuses it, too."""
    for name in ("ahead", "q"):
        kind = "'bucket' = '-1'" if name == "ahead" else "'bucket' = '1', 'bucket-key' = 'id'"
        ask(f"CREATE TABLE {name} (id INT, word STRING) WITH ({kind})")
        for n in range(5):
            ask(f"INSERT INTO {name} VALUES ({n}, '{9 - n}')")
    with pytest.raises(LakeError, match=r"keep the order they came in|cannot be given to one call"):
        ask(f"CALL sys.compact(`table` => 'q', options => '{options}')")
    if "ordered" in options:
        with pytest.raises(AnalysisError, match="cannot be given to one call"):
            ask(f"CALL sys.compact_database(table_options => '{options}', dry_run => true)")
    else:
        told = {row[0]: row[-2] for row in ask(f"CALL sys.compact_database(table_options => '{options}', dry_run => true)")}
        assert told["default.ahead"] is None
        assert "keep the order they came in" in told["default.q"]
    assert ask("SELECT id FROM q LIMIT 9") == [(n,) for n in range(5)]
    assert ask("SELECT COUNT(*) FROM q$snapshots") == [(5,)]


def test_a_whole_database(ask: Ask) -> None:
    ask("CREATE DATABASE d")
    for name in ("d.one", "d.two", "d.skip"):
        ask(f"CREATE TABLE {name} (id INT) WITH ('bucket' = '-1')")
        for n in range(5):
            ask(f"INSERT INTO {name} VALUES ({n})")
    dry = ask("CALL sys.compact_database(including_databases => 'd', excluding_tables => '.*skip', dry_run => true)")
    assert [(row[0], row[1 + AFTER]) for row in dry] == [("d.one", 1), ("d.two", 1)]
    done = ask("CALL sys.compact_database(including_databases => 'd', excluding_tables => '.*skip')")
    assert [(row[0], row[1 + BEFORE], row[1 + AFTER]) for row in done] == [("d.one", 5, 1), ("d.two", 5, 1)]
    assert ask("SELECT COUNT(*) FROM d.skip$files") == [(5,)]


def test_manifests(ask: Ask) -> None:
    ask("CREATE TABLE t (id INT)")
    for n in range(6):
        ask(f"INSERT INTO t VALUES ({n})")
    assert ask("CALL sys.compact_manifest(`table` => 't', dry_run => true)") == [(6, 1, None, True)]
    assert ask("CALL sys.compact_manifest('t')") == [(6, 1, 7, False)]
    assert ask("SELECT commit_kind, total_record_count, delta_record_count FROM t$snapshots WHERE snapshot_id = 7") == [("COMPACT", 6, 0)]
    assert ask("SELECT id FROM t") == [(n,) for n in range(6)]
    assert ask("CALL sys.compact_manifest('t')")[0][2] is None
    ask("INSERT INTO t VALUES (6)")
    assert ask("SELECT id FROM t") == [(n,) for n in range(7)]


def test_a_canceled_call_leaves_no_files(parted: Ask, lake: Lake, monkeypatch: pytest.MonkeyPatch, gateway: Gateway) -> None:
    from model.errors import StatementCanceled

    def stopped(*arguments: Any, **named: Any) -> Any:
        raise StatementCanceled("enough")

    table = lake.open(Identifier("default", "t"))
    before = sorted(str(s.path) for s in lake.file_io.list(f"{table.location}/dt=a/h=1/bucket-0"))
    monkeypatch.setattr(lake_compaction, "rewrite", stopped)
    with pytest.raises(StatementCanceled):
        parted("CALL sys.compact('t')")
    assert sorted(str(s.path) for s in lake.file_io.list(f"{table.location}/dt=a/h=1/bucket-0")) == before


def test_durations_and_numbers_are_read() -> None:
    assert numbers("0-2,5") == {0, 1, 2, 5}
    assert span("x", "1 d") == timedelta(days=1)
    with pytest.raises(InvalidOption):
        numbers("a-b")
    with pytest.raises(AnalysisError):
        parse_specs("", new_schema([column("id", "INT"), column("p", "INT")], partition_keys=["p"]), "t")
