"""What a table names: every file of every line of its history, whatever order the lines come in and whatever of them cannot be read."""

from __future__ import annotations

import contextlib
import io
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from lake import Lake, LakeTable
from lake.register.check import TableCheck
from lake.register.looks.faults import Fault
from lake.register.looks.in_catalog import lines_of
from lake.register.looks.needed import Line
from lake.rewrite.expiry import expire_snapshots
from model.errors import TableDamaged, Unavailable
from model.schema.types import IntType
from model.snapshot import CommitKind, Snapshot
from table.format.deletions import index_path
from table.format.manifests.codec import decode_manifest_list, encode_manifest_list
from table.format.rows.arrow import arrow_schema
from table.format.rows.binary_row import encode_prefixed
from table.format.rows.cast import fit
from table.write.snapshot_builder import CommitRequest, everything
from table.write.writer import write_batches
from tests.fuzz.records import rewritten
from tests.lake.kept import all_files, keep, overwrite
from tests.lake.register.damage import BREAKS, forget_metadata
from tests.lake.rewrite.test_compaction import append
from tests.short import one_in
from tests.sql.tables import make_table
from tests.table.vectors import with_deleted

OPTIONS = {"bucket": "-1", "manifest.merge-min-count": "1000", "write-only": "true"}
"""What removed a file stays in the manifests beside what added it."""


def named(lake: Lake, table: LakeTable, lines: Sequence[Line] | None = None) -> tuple[set[str], list[Fault]]:
    """The files that a table's history names, below its directory, and what is told of the rest."""
    forget_metadata()
    opened = lake.open(table.identifier)
    faults: list[Fault] = []
    found = TableCheck(opened, deep=False, threads=2, checked=lambda *_: None)
    paths = list(found.named(lines or lines_of(lake.catalog, opened)[0], faults.append))
    return {path.removeprefix(f"{table.location}/") for path in paths}, faults


def data_of(table: LakeTable, snapshot: Snapshot) -> set[str]:
    return {table.files.data_path(table.schema, entry).removeprefix(f"{table.location}/") for entry in table.files.live_entries(snapshot)}


@pytest.fixture
def lines(lake: Lake) -> tuple[LakeTable, list[Line]]:
    """A table whose rows were replaced several times, tags and branches being of before and of after."""
    table = make_table(lake, options=OPTIONS, id="INT")
    append(lake, table, [1])
    lake.tags.create(table, "old")
    lake.branches.create(table, "older", from_tag="old")
    append(lake, table, [2])
    overwrite(lake, table, [3])
    append(lake, table, [4])
    lake.tags.create(table, "new")
    overwrite(lake, table, [5])
    append(lake, table, [6])
    expire_snapshots(lake, table, keep(1))
    return table, lines_of(lake.catalog, lake.open(table.identifier))[0]


def test_each_line_needs_its_files_whatever_another_took_away(lake: Lake, lines: tuple[LakeTable, list[Line]]) -> None:
    """A file that a tag has was removed before a later one: it was left out where the later one was looked at after it."""
    table, found = lines
    assert len(found) == 5
    needed = set[str]().union(*(data_of(table, snapshot) for line in found for snapshot in line.snapshots))
    assert len(needed) == 5
    for order in permutations(found):
        paths, faults = named(lake, table, order)
        assert {path for path in paths if path.startswith("bucket-")} == needed
        assert faults == []


def test_a_lost_file_of_any_line_is_told(lake: Lake, lines: tuple[LakeTable, list[Line]]) -> None:
    table, found = lines
    for line in found:
        for path in {path for snapshot in line.snapshots for path in data_of(table, snapshot)}:
            moved = Path(table.location, path).rename(Path(table.location, "away"))
            told = [fault.file for fault in lake.check_table(lake.open(table.identifier), deep=False, threads=1, checked=lambda *_: None)]
            assert told == [f"{table.location}/{path}"]
            moved.rename(Path(table.location, path))


@pytest.fixture
def partitioned(lake: Lake) -> tuple[LakeTable, list[Line]]:
    """A table with two partitions of which rows were deleted by vectors, and others replaced; each snapshot is a line of its own, too."""
    table = make_table(lake, options=OPTIONS, partition="p", id="INT", p="INT")
    for n in range(3):
        insert(lake, table, [n, n + 10], CommitKind.APPEND)
    insert(lake, table, [7], CommitKind.OVERWRITE, overwrite=everything)
    insert(lake, table, [8], CommitKind.APPEND)
    snapshots = []
    for snapshot in lake.snapshots(table):
        (first, *_) = table.files.live_entries(snapshot)
        vectors = with_deleted(table.files, snapshot, {first.file.file_name: [0]})
        snapshots.append(replace(vectors, base_manifest_list_size=None, delta_manifest_list_size=None))
    return table, [Line(branch="main", snapshots=snapshots), *(Line(branch="main", snapshots=[one]) for one in snapshots)]


def insert(lake: Lake, table: LakeTable, values: list[int], kind: CommitKind, **more: Any) -> None:
    batch = pa.RecordBatch.from_pydict(
        {"id": values, "p": [value % 2 for value in values]}, schema=arrow_schema([table.schema.field(name) for name in ("id", "p")])
    )
    written = write_batches(table.files, table.schema, [fit(batch, table.schema)])
    lake.commit(table, CommitRequest(kind=kind, adds=tuple(written), commit_user="u", **more))


def needed_of(lake: Lake, table: LakeTable, snapshot: Snapshot) -> set[str]:
    """All that a snapshot names that can be read; nothing of one that cannot."""
    forget_metadata()
    try:
        data = data_of(lake.open(table.identifier), snapshot)
    except TableDamaged:
        return set()
    with contextlib.suppress(TableDamaged, Unavailable):
        records = table.files.index_manifest(snapshot.index_manifest or "")
        paths = {index_path(table.files, table.schema, record) for record in records}
        data |= {path.removeprefix(f"{table.location}/") for path in paths}
    return data


def same_as_told(lake: Lake, table: LakeTable, lines: Sequence[Line], path: Path) -> None:
    """Whatever was done to a file of metadata: all that can be read is named, a check tells the same, and nothing raises."""
    needed = {name for snapshot in lines[0].snapshots for name in needed_of(lake, table, snapshot)}
    found, faults = named(lake, table, lines)
    assert needed <= found, (path.name, needed - found)
    check = TableCheck(lake.open(table.identifier), deep=True, threads=2, checked=lambda *_: None)
    assert {fault.file for fault in faults if "/manifest/" in fault.file} <= {fault.file for fault in check.faults(lines, ())}


@pytest.mark.damages
@pytest.mark.parametrize("how", BREAKS)
def test_the_rest_is_named_whatever_cannot_be_read(lake: Lake, partitioned: tuple[LakeTable, list[Line]], how: str) -> None:
    """Each piece of metadata is damaged in turn: all that the snapshots that can still be read need is named, and the damage told."""
    table, lines = partitioned
    whole, faults = named(lake, table, lines)
    assert faults == []
    assert whole >= {path for path in all_files(table) if path.startswith(("p=", "manifest/", "index/"))}
    for path in sorted(Path(table.location, "manifest").iterdir()):
        kept = path.read_bytes()
        BREAKS[how](path)
        same_as_told(lake, table, lines, path)
        assert {fault.file for fault in named(lake, table, lines)[1]} == {str(path)}
        path.write_bytes(kept)


@pytest.mark.damages
@pytest.mark.parametrize("seed", one_in(3, range(6)))
def test_the_rest_is_named_whatever_metadata_says(lake: Lake, partitioned: tuple[LakeTable, list[Line]], seed: int) -> None:
    """Each piece of metadata says something else in turn, and whatever names it tells its size: as of another writer."""
    table, lines = partitioned
    rng = random.Random(seed)
    directory = Path(table.location, "manifest")
    lists = {path: path.read_bytes() for path in directory.glob("manifest-list-*")}
    names = ["../../other", "/etc/passwd", "file:///etc/passwd", "..", "", "a/b", "x" * 300]
    for path in sorted(directory.iterdir()):
        kept = path.read_bytes()
        path.write_bytes(rewritten(rng, kept, names))
        for each, data in lists.items():
            if path not in lists:
                metas = [replace(m, file_size=path.stat().st_size) if m.file_name == path.name else m for m in decode_manifest_list(data)]
                each.write_bytes(encode_manifest_list(metas, name=each.name))
        same_as_told(lake, table, lines, path)
        path.write_bytes(kept)
        for each, data in lists.items():
            each.write_bytes(data)


@pytest.mark.damages
@pytest.mark.parametrize("kind", ["data", "index"])
def test_a_partition_that_is_none_of_the_tables_is_damage(lake: Lake, partitioned: tuple[LakeTable, list[Line]], kind: str) -> None:
    """Bytes of partitions have no checksum. A check and a backup ended in an internal error, and looked at no other table."""
    table, lines = partitioned
    (path, *_) = sorted(path for path in Path(table.location, "manifest").iterdir() if path.name.startswith("index-") == (kind == "index")
                        and not path.name.startswith("manifest-list-"))  # fmt: skip
    reader = fastavro.reader(io.BytesIO(path.read_bytes()))
    odd = encode_prefixed([IntType(), IntType()], [1, 2])
    records = [record | {"_PARTITION": odd} for record in reader if isinstance(record, dict)]
    with path.open("wb") as out:
        fastavro.writer(out, reader.writer_schema, records)
    for each in Path(table.location, "manifest").glob("manifest-list-*"):
        metas = [
            replace(m, file_size=path.stat().st_size) if m.file_name == path.name else m for m in decode_manifest_list(each.read_bytes())
        ]
        each.write_bytes(encode_manifest_list(metas, name=each.name))
    same_as_told(lake, table, lines, path)
    told = {fault.problem for fault in named(lake, table, lines)[1] if fault.file == str(path)}
    assert len(told) == 1
    assert "a row of 2 fields cannot be read as 1" in told.pop()
