"""Tables in which another client deletes rows by deletion vectors: read, appended to, merged, expired and checked by SQL."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from gateway.gateway import Gateway
from lake import LakeTable
from lake.commit.built import BuiltCommit
from lake.register.looks.file_faults import fault_of_index_file
from model.errors import TableDamaged, UnsupportedType
from model.identifier import Identifier
from model.schema.change import SetOption
from model.snapshot import CommitKind, Snapshot
from table.format.deletions import index_path, with_vectors
from table.format.manifests.entries import EMPTY_ROW
from table.format.store import TableFiles
from table.scan.planning.entry_scan import plan_scan
from table.scan.read import read_batches
from tests.lake.register.damage import BREAKS, forget_metadata
from tests.table.vectors import read_in_turn, with_deleted

T = Identifier("default", "t")


def make(gateway: Gateway, text: str) -> None:
    """Create the table, as one in which its clients look for deletion vectors."""
    gateway.run(text).close()
    gateway.lake.alter_table(T, [SetOption(key="deletion-vectors.enabled", value="true")])


@pytest.fixture
def place(gateway: Gateway, warehouse: Path) -> Path:
    """A table of three files of four rows."""
    make(gateway, "CREATE TABLE t (id INT, v STRING) WITH ('bucket' = '-1')")
    for n in range(0, 12, 4):
        gateway.run("INSERT INTO t VALUES " + ", ".join(f"({n + i}, 'v')" for i in range(4)))
    return warehouse / "default.db/t"


def delete(gateway: Gateway, *ids: int) -> None:
    """As a client does it: what was deleted before stays so."""
    table = gateway.lake.open(T)
    latest = table.latest()
    assert latest is not None
    rows = {e.file.file_name: [i % 4 for i in ids if i // 4 == at] for at, e in enumerate(table.files.live_entries(latest))}
    made = with_deleted(table.files, replace(latest, id=latest.id + 1, uuid=str(uuid4()), commit_kind=CommitKind.OVERWRITE), rows)
    empty, size = table.files.new_manifest_list([])
    base, base_size = table.files.new_manifest_list(table.files.manifests_of(latest))
    made = replace(
        made,
        base_manifest_list=base,
        base_manifest_list_size=base_size,
        delta_manifest_list=empty,
        delta_manifest_list_size=size,
        delta_record_count=0,
    )
    assert gateway.lake.decide_repaired(table, lambda key: BuiltCommit(table=table, base=latest, snapshot=replace(made, uuid=key), sync=()))


def ids(gateway: Gateway, at: Snapshot | None = None) -> list[int]:
    """What the table holds, or held at a snapshot."""
    if at is None:
        return sorted(row[0] for row in gateway.run("SELECT id FROM t WHERE id >= 0").collect())
    table = gateway.lake.open(T)
    planned = plan_scan(table.files, table.schema, at).files
    return sorted(n for batch in read_batches(table.files, table.schema, planned) for n in batch.column("id").to_pylist())


def test_a_file_with_many_deleted_rows_is_rewritten_by_any_compaction(gateway: Gateway, place: Path) -> None:
    delete(gateway, 0, 1, 5)  # half of a file's rows, and a quarter of another's
    gateway.run("ALTER TABLE t SET ('compaction.delete-ratio-threshold' = '0.6', 'compaction.small-file-ratio' = '0')").close()
    before = gateway.lake.open(T).latest()
    gateway.run("CALL sys.compact(`table` => 't', compact_strategy => 'minor')").close()
    assert gateway.lake.open(T).latest() == before
    gateway.run("ALTER TABLE t SET ('compaction.delete-ratio-threshold' = '0.3')").close()
    gateway.run("CALL sys.compact(`table` => 't', compact_strategy => 'minor')").close()
    table = gateway.lake.open(T)
    entries = with_vectors(table.files, table.schema, table.latest(), table.files.live_entries(table.latest()))
    assert sorted((entry.file.row_count, entry.vector is None) for entry in entries) == [(2, True), (4, False), (4, True)]
    gateway.run("ALTER TABLE t RESET ('compaction.delete-ratio-threshold')").close()  # 0.2
    gateway.run("CALL sys.compact(`table` => 't', compact_strategy => 'minor')").close()
    assert table.latest().index_manifest is None  # type: ignore[union-attr]
    assert ids(gateway) == [2, 3, 4, 6, 7, 8, 9, 10, 11]


def test_deleted_rows_stay_deleted_whatever_is_done_to_the_table(gateway: Gateway, place: Path) -> None:
    delete(gateway, 0, 5, 7)
    left = [1, 2, 3, 4, 6, 8, 9, 10, 11]
    assert ids(gateway) == left
    assert gateway.run("SELECT COUNT(*) FROM t").collect() == [(9,)]
    assert gateway.run("SELECT COUNT(*) FROM t$read_optimized").collect() == [(9,)]
    gateway.run("INSERT INTO t VALUES (12, 'new')")
    assert ids(gateway) == [*left, 12]
    gateway.run("CALL sys.rewrite_file_index('t')")
    assert ids(gateway) == [*left, 12]
    gateway.run("CALL sys.create_tag('t', 'before')")
    tagged = gateway.lake.open(T).latest()
    gateway.run("CALL sys.compact(`table` => 't', compact_strategy => 'full')")
    assert ids(gateway) == [*left, 12]
    table = gateway.lake.open(T)
    latest = table.latest()
    assert latest is not None
    assert (latest.index_manifest, latest.total_record_count) == (None, 10)
    assert gateway.run("CALL sys.check_table('t', deep => true)").collect() == []
    gateway.run("CALL sys.expire_snapshots(`table` => 't', retain_max => 1, retain_min => 1)")
    for path in place.rglob("*"):
        os.utime(path, (1, 1))
    gateway.run("CALL sys.remove_orphan_files('t')")
    assert ids(gateway, tagged) == [*left, 12], "the tag's vectors are there"
    gateway.run("CALL sys.delete_tag('t', 'before')")
    assert list((place / "index").iterdir()) == []


def test_system_tables_tell_what_was_deleted(gateway: Gateway, place: Path) -> None:
    deleted = "SELECT record_count, deleted_record_count FROM t$partitions"
    assert gateway.run(deleted).collect() == [(12, 0)]
    delete(gateway, 0, 5, 7)
    assert gateway.run(deleted).collect() == [(12, 3)]
    ((vectors, *rest),) = gateway.run("SELECT dv_ranges, row_range_start, index_field_name FROM t$table_indexes").collect()
    assert rest == [None, None]
    assert sorted(vector["_CARDINALITY"] for vector in vectors) == [1, 2]
    names = {row[0].rpartition("/")[2] for row in gateway.run("SELECT file_path FROM t$files").collect()}
    assert {vector["f0"] for vector in vectors} <= names
    assert all(vector["f1"] > 0 and vector["f2"] > 0 for vector in vectors)


def test_global_indexes_are_told_with_their_rows_and_columns(gateway: Gateway, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    delete(gateway, 0)
    about = {"_ROW_RANGE_START": 0, "_ROW_RANGE_END": 9, "_INDEX_FIELD_ID": 0, "_EXTRA_FIELD_IDS": None}
    index = {"_PARTITION": EMPTY_ROW, "_BUCKET": 0, "_INDEX_TYPE": "btree", "_FILE_NAME": "i", "_FILE_SIZE": 7, "_ROW_COUNT": 10}
    both, gone = about | {"_EXTRA_FIELD_IDS": [1]}, about | {"_INDEX_FIELD_ID": 8}
    monkeypatch.setattr(TableFiles, "index_manifest", lambda *_: [index | {"_GLOBAL_INDEX": meta} for meta in (about, both, gone)])
    told = gateway.run("SELECT row_range_start, row_range_end, index_field_id, index_field_name FROM t$table_indexes").collect()
    assert told == [(0, 9, 0, "id"), (0, 9, 0, "id,v"), (0, 9, 8, None)]


def test_time_travel_sees_what_was_deleted_by_then(gateway: Gateway, place: Path) -> None:
    delete(gateway, 1)
    delete(gateway, 1, 2)
    table = gateway.lake.open(T)
    entries = with_vectors(table.files, table.schema, table.latest(), table.files.live_entries(table.latest()))
    assert [entry.vector is not None for entry in entries] == [True, False, False]
    assert ids(gateway, table.files.read_snapshot(4)) == [0, *range(2, 12)]
    gateway.run("CALL sys.rollback_to('t', 3)")
    assert ids(gateway) == list(range(12))


def test_sql_deletes_no_rows_beside_a_client_that_notes_them(gateway: Gateway, place: Path) -> None:
    gateway.run("ALTER TABLE t SET ('rows.erasable' = 'true')")
    delete(gateway, 1)
    with pytest.raises(UnsupportedType, match="deletion vectors"):
        gateway.run("DELETE FROM t WHERE id = 3")
    gateway.run("CALL sys.compact(`table` => 't', compact_strategy => 'full')")
    gateway.run("DELETE FROM t WHERE id = 3")
    assert ids(gateway) == [0, 2, *range(4, 12)]


@pytest.mark.damages
@pytest.mark.parametrize("how", BREAKS)
def test_a_damaged_vector_is_found(gateway: Gateway, place: Path, how: str) -> None:
    delete(gateway, 3)
    (file,) = (place / "index").iterdir()
    BREAKS[how](file)
    found = gateway.run("CALL sys.check_table('t', deep => true)").collect()
    assert [row[3] for row in found] == [str(file)]
    with pytest.raises(TableDamaged, match=file.name):
        ids(gateway)


def test_an_index_file_that_stays_is_looked_at_once(gateway: Gateway, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many index manifests name it: each snapshot after it has one of its own."""
    looked: list[str] = []

    def counted(table: LakeTable, record: Mapping[str, Any], *, deep: bool) -> tuple[str, str] | None:
        looked.append(str(record["_FILE_NAME"]))
        return fault_of_index_file(table, record, deep=deep)

    for row in (3, 4, 8):
        delete(gateway, row)
    monkeypatch.setattr("lake.register.check.fault_of_index_file", counted)
    assert gateway.run("CALL sys.check_table('t', deep => true)").collect() == []
    assert sorted(set(looked)) == sorted(file.name for file in (place / "index").iterdir())
    lines = {repr(line) for snapshot in gateway.lake.snapshots(gateway.lake.open(T)) for line in index_lines(gateway, snapshot)}
    assert len(looked) == len(lines)


def index_lines(gateway: Gateway, snapshot: Snapshot) -> list[Mapping[str, Any]]:
    """The records of a snapshot's index manifest."""
    return list(gateway.lake.open(T).files.index_manifest(snapshot.index_manifest)) if snapshot.index_manifest else []


QUEUE = {
    "bucket": "1",
    "bucket-key": "id",
    "write-only": "true",
    "target-file-size": "16 kb",
    "compaction.max.file-num": "3",
    "compaction.delete-ratio-threshold": "1",  # a file is taken for its size alone
}


def queue(gateway: Gateway) -> None:
    """Three small files and a large one in a bucket, with rows deleted of each but the first."""
    options = ", ".join(f"'{key}' = '{value}'" for key, value in QUEUE.items())
    make(gateway, f"CREATE TABLE t (id INT, v STRING) WITH ({options})")
    for n in range(0, 12, 4):
        gateway.run("INSERT INTO t VALUES " + ", ".join(f"({n + i}, 'v')" for i in range(4)))
    rng = random.Random(25)
    gateway.run("INSERT INTO t VALUES " + ", ".join(f"({n}, '{rng.randbytes(4_000).hex()}')" for n in range(12, 16)))
    delete(gateway, 4, 5, 9, 15)


def deleted_by_old_readers(gateway: Gateway) -> list[list[int]]:
    """What of the bucket's files is deleted to writers of Paimon before 2.0."""
    table = gateway.lake.open(T)
    latest = table.latest()
    assert latest is not None
    (record,) = table.files.index_manifest(latest.index_manifest or "")
    path = index_path(table.files, table.schema, record)
    return [*read_in_turn(table.files.io.read(path), record["_DELETIONS_VECTORS_RANGES"]).values()]


def test_old_clients_read_the_vectors_that_a_merge_leaves(gateway: Gateway) -> None:
    queue(gateway)
    assert deleted_by_old_readers(gateway) == [[0, 1], [1], [3]]
    gateway.run("CALL sys.compact(`table` => 't', compact_strategy => 'minor')")
    table = gateway.lake.open(T)
    assert [entry.file.row_count for entry in table.files.live_entries(table.latest())] == [9, 4], "the small files became one"
    assert deleted_by_old_readers(gateway) == [[3]]
    assert ids(gateway) == [0, 1, 2, 3, 6, 7, 8, 10, 11, 12, 13, 14]
    assert gateway.run("CALL sys.check_table('t', deep => true)").collect() == []


def test_old_clients_read_the_vectors_that_stay_when_a_file_is_lost(gateway: Gateway) -> None:
    queue(gateway)
    table = gateway.lake.open(T)
    lost = list(table.files.live_entries(table.latest()))[1]
    Path(table.files.data_path(table.schema, lost)).unlink()
    gateway.run("CALL sys.remove_unexisting_files('t', dry_run => false)")
    assert deleted_by_old_readers(gateway) == [[1], [3]]
    assert ids(gateway) == [0, 1, 2, 3, 8, 10, 11, 12, 13, 14]


def test_gaps_between_vectors_are_told_and_merged(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as earlier versions left; only a latest snapshot is written on."""
    queue(gateway)
    monkeypatch.setattr("table.format.deletions.lie_in_turn", lambda _: True)  # as they did
    gateway.run("CALL sys.compact(`table` => 't', compact_strategy => 'minor')")
    monkeypatch.undo()
    gateway.run("CALL sys.create_tag('t', 'with_gaps')")
    ((branch, _, _, path, _, problem),) = gateway.run("CALL sys.check_table('t')").collect()
    assert (branch, str(path).rpartition("/")[0].rpartition("/")[2]) == ("main", "index")
    assert "CALL sys.compact(`table` => 'default.t', compact_strategy => 'full')" in str(problem)
    gateway.run("CALL sys.compact(`table` => 'default.t', compact_strategy => 'full')")
    assert gateway.run("CALL sys.check_table('t', deep => true)").collect() == []


@pytest.mark.damages
@pytest.mark.parametrize("how", BREAKS)
def test_a_lost_deletion_vector_takes_its_data_files_along(gateway: Gateway, place: Path, how: str) -> None:
    """Without it their deleted rows would come back."""
    delete(gateway, 0, 5)
    (index,) = (place / "index").iterdir()
    BREAKS[how](index)
    forget_metadata()
    with pytest.raises(TableDamaged):
        ids(gateway)
    deep = ", deep => true" if how == "changed" else ""
    ((_, _, _, path, rows, problem, dry),) = gateway.run(f"CALL sys.remove_unexisting_files('t'{deep})").collect()
    assert (path, rows, dry) == (str(index), 8, True)
    assert "it told the deleted rows of 2 data files" in str(problem)
    gateway.run(f"CALL sys.remove_unexisting_files('t', dry_run => false{deep})")
    assert ids(gateway) == [8, 9, 10, 11]
    assert gateway.run("SELECT COUNT(*) FROM t").collect() == [(4,)]
    assert gateway.run(f"CALL sys.remove_unexisting_files('t'{deep})").collect() == []


@pytest.mark.damages
def test_a_data_file_lost_with_its_deletion_vector_goes_once(gateway: Gateway, place: Path) -> None:
    delete(gateway, 0)
    (index,) = (place / "index").iterdir()
    table = gateway.lake.open(T)
    first = next(iter(table.files.live_entries(table.latest())))
    Path(table.files.data_path(table.schema, first)).unlink()
    index.unlink()
    forget_metadata()
    gateway.run("CALL sys.remove_unexisting_files('t', dry_run => false)")
    assert ids(gateway) == [4, 5, 6, 7, 8, 9, 10, 11]
    latest = gateway.lake.open(T).latest()
    assert latest is not None
    assert latest.total_record_count == 8


@pytest.mark.damages
@pytest.mark.parametrize("how", ["missing", "cut"])
@pytest.mark.parametrize("data_too", [False, True])
def test_a_lost_index_manifest_is_told_and_a_repair_goes_back_before_it(gateway: Gateway, place: Path, how: str, data_too: bool) -> None:
    delete(gateway, 0)
    gateway.run("INSERT INTO t VALUES (12, 'new')")
    delete(gateway, 5)
    latest = gateway.lake.open(T).latest()
    assert latest is not None
    assert latest.index_manifest is not None
    index = place / "manifest" / latest.index_manifest
    BREAKS[how](index)
    if data_too:
        newest = max((place / "bucket-0").iterdir(), key=lambda path: path.stat().st_mtime_ns)
        newest.unlink()
    forget_metadata()
    told = gateway.run("CALL sys.remove_unexisting_files('t')").collect()
    assert {str(row[3]) for row in told} == {str(index), *([str(newest)] if data_too else [])}
    assert "CALL sys.repair_table('default.t')" in str(told[-1][5])
    with pytest.raises(TableDamaged, match="goes back to the newest snapshot that tells it"):
        gateway.run("CALL sys.remove_unexisting_files('t', dry_run => false)")
    gateway.run("CALL sys.repair_table('t')")
    forget_metadata()
    if data_too:
        gateway.run("CALL sys.remove_unexisting_files('t', dry_run => false)")
    assert ids(gateway) == [*range(1, 12), *([] if data_too else [12])]
