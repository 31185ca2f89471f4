"""CALL sys.rewrite_files: old files get ids and annotations, and nothing else about them changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from operator import itemgetter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gateway.gateway import Gateway
from lake import Lake
from lake.rewrite import marking as lake_marking
from model.errors import RewriteConflict, TableDamaged
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from model.schema.types import ArrayType, Field, parse_type
from model.snapshot import CommitKind
from table.format.manifests.entries import DataFile, ManifestEntry, NewFile
from table.format.rows.arrow import arrow_schema
from table.write.annotate import marked_copies
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches
from tests.fix_gateway import Ask
from tests.lake.register.damage import cut, remove
from tests.lake.unmarked import append_unmarked
from tests.sql.statements.test_deletions import delete
from tests.table.format.test_parquet_footer import all_ids
from tests.table.scan.test_files import ALL_TYPES, NOON, a_row

T = Identifier("default", "t")


def live(lake: Lake) -> list[ManifestEntry]:
    table = lake.open(T)
    return list(table.files.live_entries(table.latest()))


def path_of(lake: Lake, entry: ManifestEntry) -> Path:
    table = lake.open(T)
    return Path(table.files.data_path(table.schema, entry))


def told(file: DataFile) -> DataFile:
    """What a manifest tells of a file besides its name and size."""
    return replace(file, file_name="", file_size=0, extra_files=())


@pytest.mark.parametrize("layout", ["'bucket' = '-1'", "'bucket' = '2', 'bucket-key' = 'id'", "'bucket' = '1'"])
def test_pages_numbers_and_statistics_stay_and_columns_are_marked(ask: Ask, lake: Lake, layout: str) -> None:
    at = [field.name for field in ALL_TYPES].index("p" if layout == "'bucket' = '1'" else "id")
    at -= at > 3  # c3 goes, and comes back as the last
    key = itemgetter(at)  # a queue keeps its order in each partition
    columns = ", ".join(f"`{field.name}` {field.type.sql()}" for field in ALL_TYPES)
    ask(f"CREATE TABLE t ({columns}) PARTITIONED BY (p) WITH ({layout}, 'write-only' = 'true')")
    append_unmarked(lake, T, [a_row(i) | {"p": f"p{i % 2}"} for i in range(10)])
    ask("ALTER TABLE t RENAME c2 TO renamed")
    ask("ALTER TABLE t DROP c3")
    ask("ALTER TABLE t ADD (c3 STRING)")
    append_unmarked(lake, T, [{"id": i, "p": f"p{i % 2}", "c3": "new"} for i in range(10, 15)])
    rows, before = ask("SELECT * FROM t"), sorted(live(lake), key=lambda e: e.file.file_name)
    ends = {entry.file.file_name: path_of(lake, entry).read_bytes() for entry in before}
    dry = ask("CALL sys.rewrite_files(`table` => 't', dry_run => true)")
    assert [row[:4] for row in dry] == [
        (f"p=p{n}", len(some), sum(e.file.file_size for e in some), 0)
        for n in range(2)
        for some in [[e for e in before if f"p{n}".encode() in e.partition]]
    ]
    assert sorted(live(lake), key=lambda e: e.file.file_name) == before
    assert [row[:4] for row in ask("CALL sys.rewrite_files('t', 'p = ''p1''')")] == [dry[1][:4]]
    assert [row[:4] for row in ask("CALL sys.rewrite_files('t')")] == [dry[0][:4]]
    assert ask("CALL sys.rewrite_files('t')") == []
    ordered = sorted(ask("SELECT * FROM t"), key=key)
    assert ordered == sorted(rows, key=key)
    after = live(lake)
    assert not {entry.file.file_name for entry in after} & ends.keys()
    assert sorted(map(repr, (told(e.file) for e in after))) == sorted(map(repr, (told(e.file) for e in before)))
    table = lake.open(T)
    for entry in after:
        path = path_of(lake, entry)
        data = path.read_bytes()
        assert len(data) == entry.file.file_size
        fields = table.schema_at(entry.file.schema_id).fields
        assert pq.read_schema(path).equals(arrow_schema(fields), check_metadata=False)
        assert {name: id_ for name, id_ in all_ids(path).items() if "." not in name} == {field.name: field.id for field in fields}
        pages = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        assert any(old[:pages] == data[:pages] for old in ends.values())
    assert ask("CALL sys.check_table(`table` => 't', deep => true)") == []
    latest = table.latest()
    assert latest is not None
    assert (latest.commit_kind, latest.operation, latest.total_record_count) == (CommitKind.COMPACT, None, 15)


def test_indexes_are_copied_and_outlive_the_old_files(ask: Ask, lake: Lake) -> None:
    options = "'bucket' = '-1', 'file-index.in-manifest-threshold' = '0 b', 'file-index.bitmap.columns' = 'id', 'write-only' = 'true'"
    ask(f"CREATE TABLE t (id INT, a ARRAY<INT>) WITH ({options})")
    append_unmarked(lake, T, [{"id": i, "a": [i]} for i in range(4)])
    ask("CALL sys.rewrite_file_index('t')")
    ask("CALL sys.rewrite_files('t')")
    ask("CALL sys.expire_snapshots(`table` => 't', retain_max => 1, retain_min => 1)")
    (entry,) = live(lake)
    (index,) = entry.file.extra_files
    assert {path.name for path in path_of(lake, entry).parent.iterdir()} == {entry.file.file_name, index}
    assert ask("SELECT index_type FROM t$file_indexes") == [("bitmap",)]
    assert ask("SELECT id FROM t WHERE id = 2") == [(2,)]


def test_files_of_one_number_keep_their_order(ask: Ask, lake: Lake) -> None:
    """pypaimon gives the files of several commits one number: the order in the manifests counts, which copies come last in."""
    ask("CREATE TABLE t (id INT, at TIMESTAMP(3)) WITH ('bucket' = '1', 'write-only' = 'true')")
    for n in range(3):
        (append_unmarked if n == 1 else _append)(lake, T, [{"id": n, "at": NOON}])
    table = lake.open(T)
    tied = tuple(replace(e, file=replace(e.file, min_sequence_number=0, max_sequence_number=0)) for e in live(lake))
    with table.write() as write:
        adds = [_new(entry) for entry in tied]
        lake.commit(table, write.request(CommitKind.OVERWRITE, adds=adds, deletes=tuple(live(lake)), in_place=True))
    assert ask("SELECT id FROM t") == [(0,), (1,), (2,)]
    assert ask("CALL sys.rewrite_files('t')")[0][1] == 1
    assert ask("SELECT id FROM t") == [(0,), (1,), (2,)]
    assert [all_ids(path_of(lake, entry)) for entry in live(lake)] == [{"id": 0, "at": 1}] * 3


def _append(lake: Lake, name: Identifier, rows: list[dict[str, Any]]) -> None:
    table = lake.open(name)
    batch = pa.RecordBatch.from_pylist(rows, schema=arrow_schema(table.schema.fields))
    lake.commit(
        table,
        CommitRequest(kind=CommitKind.APPEND, commit_user="u", adds=tuple(write_batches(table.files, table.schema, [batch]))),
    )


def _new(entry: ManifestEntry) -> NewFile:
    return NewFile(partition=entry.partition, bucket=entry.bucket, file=entry.file)


def test_a_compaction_meanwhile_makes_it_look_anew(ask: Ask, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    ask("CREATE TABLE t (id INT, a ARRAY<INT>) WITH ('bucket' = '1', 'write-only' = 'true')")
    for n in range(3):
        append_unmarked(lake, T, [{"id": n, "a": [n]}])
    calls = 0
    plan = lake_marking._tasks

    def once_late(*args: Any) -> Any:
        nonlocal calls
        found = plan(*args)
        calls += 1
        if calls == 1:
            ask("CALL sys.compact(`table` => 't', compact_strategy => 'full')")
            append_unmarked(lake, T, [{"id": 3, "a": [3]}])
        return found

    monkeypatch.setattr(lake_marking, "_tasks", once_late)
    assert ask("CALL sys.rewrite_files('t')")[0][1] == 1
    assert calls == 2
    assert ask("SELECT id FROM t") == [(0,), (1,), (2,), (3,)]
    monkeypatch.setattr(lake_marking, "_ATTEMPTS", 1)
    append_unmarked(lake, T, [{"id": 4, "a": [4]}])
    calls = 0
    with pytest.raises(RewriteConflict):
        ask("CALL sys.rewrite_files('t')")


def test_rows_keep_their_ids(ask: Ask, lake: Lake) -> None:
    # SQL makes no such table; clients do.
    columns = [column("id", "INT"), Field(id=-1, name="a", type=ArrayType(element=parse_type("INT")))]
    lake.create_table(T, new_schema(columns, options={"bucket": "-1", "row-tracking.enabled": "true"}))
    for n in range(2):
        append_unmarked(lake, T, [{"id": n, "a": [n]}, {"id": n + 10, "a": []}])
    before = {(e.file.first_row_id, e.file.min_sequence_number, e.file.max_sequence_number) for e in live(lake)}
    assert ask("CALL sys.rewrite_files('t')")[0][1] == 2
    assert {(e.file.first_row_id, e.file.min_sequence_number, e.file.max_sequence_number) for e in live(lake)} == before
    latest = lake.open(T).latest()
    assert latest is not None
    assert latest.next_row_id == 4


def test_deleted_rows_stay_deleted(ask: Ask, lake: Lake, gateway: Gateway) -> None:
    """Which rows are deleted is told by a file's name."""
    ask("CREATE TABLE t (id INT, a ARRAY<INT>) WITH ('bucket' = '-1', 'write-only' = 'true')")
    for n in (0, 4):
        append_unmarked(lake, T, [{"id": n + i, "a": []} for i in range(4)])
    delete(gateway, 1)
    ((_, files, _, left, _, _),) = ask("CALL sys.rewrite_files('t')")
    assert (files, left) == (1, 1)
    assert sorted(ask("SELECT id FROM t")) == [(n,) for n in (0, 2, 3, 4, 5, 6, 7)]
    delete(gateway, 1, 2)
    ask("CALL sys.compact(`table` => 't', compact_strategy => 'full')")
    assert ask("CALL sys.rewrite_files('t')") == []


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _zero_end(path: Path) -> None:
    """As a power cut leaves a file whose size was on disk before its bytes."""
    data = path.read_bytes()
    path.write_bytes(data[:-200] + bytes(200))


def _swapped(path: Path) -> None:
    """Another file of the table, of the same size."""
    other = next(file for file in path.parent.iterdir() if file != path)
    path.write_bytes(other.read_bytes())


@pytest.mark.parametrize("damage", [remove, cut, _empty, _directory, _zero_end, _swapped])
def test_damaged_files_are_told_as_reads_tell_them(ask: Ask, lake: Lake, damage: Callable[[Path], None]) -> None:
    ask("CREATE TABLE t (id INT) WITH ('bucket' = '-1')")
    ask("INSERT INTO t VALUES (1)")
    ask("INSERT INTO t VALUES (2)")
    before = live(lake)
    path = path_of(lake, before[0])
    damage(path)
    with pytest.raises(TableDamaged) as of_a_read:
        ask("SELECT * FROM t")
    for dry_run in ("true", "false"):
        with pytest.raises(TableDamaged) as raised:
            ask(f"CALL sys.rewrite_files('t', dry_run => {dry_run})")
        assert raised.value.file == of_a_read.value.file
        assert raised.value.resource_name == "t" or "default.t" in raised.value.message
    assert live(lake) == before


@pytest.mark.parametrize("damage", [remove, cut])
def test_a_file_that_is_damaged_while_it_is_copied_is_told(
    ask: Ask, lake: Lake, monkeypatch: pytest.MonkeyPatch, damage: Callable[[Path], None]
) -> None:
    ask("CREATE TABLE t (id INT) WITH ('bucket' = '-1', 'write-only' = 'true')")
    append_unmarked(lake, T, [{"id": 1}])
    before = live(lake)

    def damaged(*args: Any) -> list[NewFile]:
        damage(path_of(lake, before[0]))
        return marked_copies(*args)

    monkeypatch.setattr(lake_marking, "marked_copies", damaged)
    with pytest.raises(TableDamaged, match=before[0].file.file_name):
        ask("CALL sys.rewrite_files('t')")
    assert live(lake) == before


def test_what_is_left_is_counted(ask: Ask, lake: Lake) -> None:
    ask("CREATE TABLE t (id INT, a ARRAY<INT>) WITH ('bucket' = '2', 'bucket-key' = 'id')")
    append_unmarked(lake, T, [{"id": 1, "a": [1]}])
    ask("ALTER TABLE t SET ('bucket' = '3')")
    assert ask("CALL sys.rewrite_files('t')") == [("", 0, 0, 1, None, False)]
    ask("CREATE TABLE o (id INT, a ARRAY<INT>) WITH ('file.format' = 'orc')")
    ask("INSERT INTO o VALUES (1, ARRAY[1])")
    assert ask("CALL sys.rewrite_files('o')") == []
