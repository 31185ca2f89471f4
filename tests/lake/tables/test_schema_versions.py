"""Versions of a schema have numbers that no other version had: data files and clients' snapshots name them for as long as they live."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from catalog.objects.snapshots import SnapshotRepository
from catalog.records import SnapshotRow
from lake import Lake
from lake.rewrite.expiry import create_tag, expire_snapshots
from model.catalog_errors import TableChanged
from model.errors import LakeError, TableDamaged, Unavailable
from model.identifier import Identifier
from model.schema.change import AddColumn, SetOption
from model.schema.schema import Schema
from model.schema.types import BigIntType
from model.snapshot import CommitKind
from table.format.rows.arrow import arrow_schema
from table.format.store import Published, TableFiles
from table.retention.expiry import ExpiryRules
from table.write.writer import write_batches
from tests.lake.rewrite.test_compaction import QUEUE, append, ids, rows
from tests.sql.tables import make_table

T = Identifier("default", "t")
B = Identifier("default", "t", "b")


def add(lake: Lake, table: Identifier, name: str) -> int:
    return lake.alter_table(table, [AddColumn(name=name, type=BigIntType())]).id


def test_a_version_that_fast_forward_takes_away_never_comes_again(lake: Lake) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    append(lake, table, [1])
    create_tag(lake, table, "one")
    lake.branches.create(table, "b", from_tag="one")
    assert add(lake, T, "c") == 1
    late = lake.open(T)  # whoever writes for a while
    row = pa.RecordBatch.from_pydict({"id": [2], "c": [7]}, schema=arrow_schema(late.schema.fields))
    with late.write() as write:
        write.add(write_batches(late.files, late.schema, [row]))
        lake.branches.fast_forward(late, "b")
        assert add(lake, T, "d") == 2, "files of version 1 would give their column c to d"
        with pytest.raises(TableChanged):
            lake.commit(late, write.request(CommitKind.APPEND))
    assert rows(lake.open(T)) == [{"id": 1, "d": None}]


def test_branches_do_not_share_numbers(lake: Lake) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    lake.branches.create(table, "b")
    assert [add(lake, T, "c"), add(lake, B, "c"), add(lake, B, "d"), add(lake, T, "d")] == [1, 2, 3, 4]
    lake.branches.drop(table, ["b"])
    lake.branches.create(lake.open(T), "b")
    assert add(lake, B, "e") == 5
    assert lake.alter_table(T, [SetOption(key="snapshot.num-retained.max", value="7")]).id == 6
    assert ids(lake.open(T)) == []


def test_a_version_that_goes_while_its_file_is_written_leaves_none(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java takes the file of the highest number for the table's present columns."""
    table = make_table(lake, options=QUEUE, id="INT")
    append(lake, table, [1])
    create_tag(lake, table, "one")
    lake.branches.create(table, "b", from_tag="one")
    write = TableFiles.write_schema
    going = threading.Thread(target=lambda: lake.branches.fast_forward(table, "b"))

    def slowly(files: TableFiles, schema: Schema) -> Published:
        if schema.id == 1:
            going.start()
            going.join(0.5)
        return write(files, schema)

    monkeypatch.setattr(TableFiles, "write_schema", slowly)
    add(lake, T, "c")
    going.join()
    assert lake.open(T).schema.id == 0
    assert [file.name for file in (Path(table.location.removeprefix("file://")) / "schema").iterdir()] == ["schema-0"]


def test_alters_at_once_have_numbers_of_their_own(lake: Lake) -> None:
    table = make_table(lake, options=QUEUE, id="INT")
    names = ("b1", "b2", "b3")
    for name in names:
        lake.branches.create(table, name)
    found: list[int] = []

    def alter(name: str) -> None:
        found.extend(add(lake, Identifier("default", "t", name), f"c{number}") for number in range(5))

    threads = [threading.Thread(target=alter, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found) == list(range(1, 16))


def test_another_branch_s_version_says_nothing_of_this_one(lake: Lake) -> None:
    """A reader whose table went forward to a branch meanwhile is told to read again, not of damage."""
    table = make_table(lake, options=QUEUE, id="INT")
    lake.branches.create(table, "b")
    add(lake, B, "c")
    branch = lake.open(B)
    main = lake.open(T)
    assert isinstance(main.files.missing(main.files.layout.schema_file(1)), Unavailable)
    assert isinstance(branch.files.missing(branch.files.layout.schema_file(1)), TableDamaged)


def test_a_commit_between_the_looks_of_an_expiry(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """With one snapshot kept nothing would have been left of those that were read before it."""
    table = make_table(lake, options=QUEUE, id="INT")
    for number in range(3):
        append(lake, table, [number])
    history = SnapshotRepository.history
    beside: list[int] = [3]

    def and_then_a_commit(self: SnapshotRepository, *wanted: Any, **how: Any) -> Sequence[SnapshotRow]:
        found = history(self, *wanted, **how)
        if beside:
            append(lake, table, [beside.pop()])
        return found

    monkeypatch.setattr(SnapshotRepository, "history", and_then_a_commit)
    removed = expire_snapshots(lake, table, ExpiryRules(at_least=1, at_most=1, retained=timedelta(0), per_run=None), now_millis=2**45)
    assert not beside
    assert removed.snapshots
    assert ids(lake.open(T)) == [0, 1, 2, 3]


@pytest.mark.parametrize("gone", [False, True])
def test_opening_where_a_directory_is_being_removed(lake: Lake, dsn: str, monkeypatch: pytest.MonkeyPatch, gone: bool) -> None:
    """As beside a branch that is renamed or dropped, whose schema files whoever opens it may have to write."""
    table = make_table(lake, options=QUEUE, id="INT")
    lake.branches.create(table, "b")
    with psycopg.connect(dsn) as conn:  # as where its maker was killed before its files were there
        conn.execute("UPDATE table_branch SET published_schema_id = -1")
    publish = lake._publisher.schemas
    beside = [True]

    def removed(*wanted: Any, **how: Any) -> None:
        if beside:
            beside.pop()
            if gone:
                lake.branches.drop(table, ["b"])
            raise FileNotFoundError(2, "No such file or directory")
        publish(*wanted, **how)

    monkeypatch.setattr(lake._publisher, "schemas", removed)
    if gone:
        with pytest.raises(LakeError, match="b"):
            lake.open(B)
    else:
        assert lake.open(B).schema.id == 0
