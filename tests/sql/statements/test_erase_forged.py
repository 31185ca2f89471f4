"""CALL sys.erase where clients wrote bounds, indexes and counts that leave rows out: whatever they tell, no row stays unseen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lake import Lake
from model.errors import LakeError
from model.identifier import Identifier
from model.snapshot import CommitKind
from sql.local import delete
from table.format.manifests.entries import DataFile, NewFile
from table.scan.planning.entry_scan import plan_scan
from table.write import copy_on_write
from table.write.writer import write_batches
from tests.erased import holders
from tests.fix_gateway import Ask
from tests.lake.register.damage import index_of_other_rows

T = Identifier("default", "t")
VALUE = "SIXTEENLETTERS99"
CALL = f"CALL sys.erase(`table` => 't', `where` => 'name = ''{VALUE}''')"


def appended(lake: Lake, *files: NewFile) -> None:
    """A commit of files as somebody tells of them who may write the table's directory."""
    table = lake.open(T)
    with table.write() as write:
        lake.commit(table, write.request(CommitKind.APPEND, adds=write.add(list(files))))


def written(lake: Lake, names: list[str], **more: list[str]) -> list[NewFile]:
    """The files of some rows that no manifest names yet."""
    table = lake.open(T)
    columns = {"id": pa.array(range(len(names)), pa.int32()), "name": pa.array(names), **{key: pa.array(of) for key, of in more.items()}}
    return list(write_batches(table.files, table.schema, [pa.record_batch(columns)]))


def told(one: NewFile, other: DataFile) -> NewFile:
    """A file with what another's manifest tells of that one's values."""
    return replace(one, file=replace(one.file, value_stats=other.value_stats, value_stats_cols=other.value_stats_cols))


def seen(ask: Ask) -> list[tuple[object, ...]]:
    return ask(f"SELECT id FROM t WHERE name = '{VALUE}'")


@pytest.mark.parametrize("call", [CALL, CALL.replace("name =", "id < 99 AND name =")], ids=["a column", "two columns"])
def test_bounds_in_a_manifest_that_leave_a_row_out_hide_none(ask: Ask, lake: Lake, warehouse: Path, call: str) -> None:
    ask("CREATE TABLE t (id INT, name STRING) WITH ('rows.erasable' = 'true', 'write-only' = 'true')")
    ((holding,), (other,)) = (written(lake, names) for names in (["Ada", VALUE], ["Ada", "Bob"]))
    appended(lake, told(holding, other.file))
    ask("CALL sys.create_tag('t', 'with')")
    assert seen(ask) == [], "queries believe what the manifest tells"
    held = [("table", "default.t", 1), ("tag", "with", 1)]
    assert [row[:3] for row in ask(call[:-1] + ", dry_run => true)") if row[0] in ("table", "tag")] == held
    assert [row[:3] for row in ask(call) if row[0] in ("table", "tag")] == held
    assert ask("SELECT name FROM t") == [("Ada",)]
    assert holders(warehouse, seen=VALUE) == []


def test_a_bucket_of_other_keys_hides_no_row(ask: Ask, lake: Lake, warehouse: Path) -> None:
    ask(
        "CREATE TABLE t (id INT, name STRING) WITH ('bucket' = '8', 'bucket-key' = 'name', 'rows.erasable' = 'true', "
        "'write-only' = 'true', 'metadata.stats-mode' = 'none')"
    )
    (holding,) = written(lake, [VALUE])
    directory = Path(lake.open(T).location)
    old = directory / f"bucket-{holding.bucket}" / holding.file.file_name
    elsewhere = replace(holding, bucket=(holding.bucket + 1) % 8)
    new = directory / f"bucket-{elsewhere.bucket}" / holding.file.file_name
    new.parent.mkdir(exist_ok=True)
    old.rename(new)
    appended(lake, elsewhere)
    assert seen(ask) == []
    assert [row[:3] for row in ask(CALL) if row[0] == "table"] == [("table", "default.t", 1)]
    assert holders(warehouse, seen=VALUE) == []


@pytest.mark.parametrize("threshold", ["0 b", "1 mb"], ids=["beside", "embedded"])
@pytest.mark.parametrize("kind", ["bloom-filter", "bitmap", "range-bitmap"])
def test_an_index_that_leaves_a_row_out_hides_none(ask: Ask, lake: Lake, warehouse: Path, kind: str, threshold: str) -> None:
    ask(
        "CREATE TABLE t (id INT, name STRING) WITH ('rows.erasable' = 'true', 'write-only' = 'true', "
        f"'file-index.{kind}.columns' = 'name', "
        f"'file-index.in-manifest-threshold' = '{threshold}')"
    )
    names = ["A", VALUE, "z"]
    if threshold == "0 b":
        appended(lake, *written(lake, names))
        index_of_other_rows(lake.open(T), name=["A", "B", "z"])
    else:
        ((holding,), (other,)) = (written(lake, rows) for rows in (names, ["A", "B", "z"]))
        assert other.file.embedded_file_index is not None
        appended(lake, replace(holding, file=replace(holding.file, embedded_file_index=other.file.embedded_file_index)))
    assert seen(ask) == [], "queries believe the index"
    assert [row[:3] for row in ask(CALL) if row[0] == "table"] == [("table", "default.t", 1)]
    assert ask("SELECT name FROM t") == [("A",), ("z",)]
    assert holders(warehouse, seen=VALUE) == []


@pytest.mark.parametrize("format_", ["parquet", "orc"])
def test_rows_that_a_manifest_counts_as_none_are_told(ask: Ask, lake: Lake, format_: str) -> None:
    """A condition on a partition reads no column of its files."""
    ask(
        "CREATE TABLE t (id INT, name STRING, p STRING) PARTITIONED BY (p) WITH ('rows.erasable' = 'true', 'write-only' = 'true', "
        f"'file.format' = '{format_}')"
    )
    (holding,) = written(lake, [VALUE], p=["a"])
    appended(lake, replace(holding, file=replace(holding.file, row_count=0)))
    assert ask("SELECT p FROM t WHERE p = 'a'") == [], "queries believe the count"
    with pytest.raises(LakeError, match="rows where its manifest tells 0"):
        ask("CALL sys.erase(`table` => 't', `where` => 'p = ''a''')")


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The paths of files in which rows are looked for, as often as they are."""
    paths: list[str] = []
    matching = copy_on_write.matching_rows

    def noted(files: object, schema: object, one: object, *more: object, **also: object) -> object:
        paths.append(one.path)  # type: ignore[attr-defined]
        return matching(files, schema, one, *more, **also)  # type: ignore[arg-type]

    monkeypatch.setattr(delete, "matching_rows", noted)
    return paths


def planned_paths(lake: Lake) -> list[str]:
    table = lake.open(T)
    return [planned.path for planned in plan_scan(table.files, table.schema, table.latest()).files]


def test_each_file_is_read_once(ask: Ask, lake: Lake, read: list[str]) -> None:
    """By a call, however many tags and branches keep it; those of which rows are deleted are others afterwards."""
    ask("CREATE TABLE t (id INT, name STRING) WITH ('rows.erasable' = 'true', 'write-only' = 'true')")
    for name in ("Ada", VALUE, "Bob"):
        ask(f"INSERT INTO t VALUES (1, '{name}')")
        ask(f"CALL sys.create_tag('t', 'tag {name}')")
    ask("CALL sys.create_branch('t', 'b', 'tag Bob')")
    clean = planned_paths(lake)[::2]
    assert [row[:3] for row in ask(CALL) if row[0] in ("table", "branch", "tag")] == [
        ("table", "default.t", 1), ("branch", "b", 1), ("tag", "tag Bob", 1), ("tag", f"tag {VALUE}", 1), ("tag", "tag Bob of branch b", 1)
    ]  # fmt: skip
    assert [read.count(path) for path in clean] == [1, 1]


def test_files_of_partitions_that_the_condition_rules_out_are_not_read(ask: Ask, lake: Lake, read: list[str]) -> None:
    """One of another day that was lost kept the row from being erased."""
    ask("CREATE TABLE t (id INT, name STRING, p STRING) PARTITIONED BY (p) WITH ('rows.erasable' = 'true', 'write-only' = 'true')")
    ask(f"INSERT INTO t VALUES (1, '{VALUE}', 'a'), (2, 'Bob', 'a'), (3, '{VALUE}', 'b'), (4, '{VALUE}', NULL)")
    ask("CALL sys.create_tag('t', 'with')")
    (lost,) = (path for path in planned_paths(lake) if "p=b" in path)
    Path(lost).unlink()
    call = CALL.replace("name =", "p = ''a'' AND name =")
    assert [row[:3] for row in ask(call) if row[0] in ("table", "tag")] == [("table", "default.t", 1), ("tag", "with", 1)]
    assert ask("SELECT id FROM t WHERE p = 'a'") == [(2,)]
    assert read
    assert all("p=a" in path for path in read)
    with pytest.raises(LakeError, match=Path(lost).name):
        ask(CALL)
