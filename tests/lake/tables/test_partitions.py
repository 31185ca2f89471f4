"""Partitions as the live files have them, and a warehouse under either spelling of its place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.tables.partitions import partitions
from model.errors import TableDamaged
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from model.snapshot import CommitKind
from table.format.manifest import EntryKind
from table.format.rows.arrow import arrow_schema
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches

NAME = Identifier("default", "t")


def made(lake: Lake) -> LakeTable:
    lake.create_table(NAME, new_schema([column("p", "BIGINT"), column("v", "STRING")], partition_keys=["p"], options={"bucket": "-1"}))
    return lake.open(NAME)


def append(lake: Lake, table: LakeTable, *values: int) -> None:
    rows = pa.RecordBatch.from_pydict({"p": values, "v": ["x"] * len(values)}, schema=arrow_schema(table.schema.fields))
    written = tuple(write_batches(table.files, table.schema, [rows]))
    lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=written, commit_user="u"))


def counted(table: LakeTable) -> list[tuple[str, int, int]]:
    return [(found.name, found.record_count, found.file_count) for found in partitions(table, table.latest())]


def test_a_partition_taken_away_is_no_partition(lake: Lake) -> None:
    table = made(lake)
    append(lake, table, 1, 2, 2)
    append(lake, table, 2, 3)
    assert counted(table) == [("p=1", 1, 1), ("p=2", 3, 2), ("p=3", 1, 1)]
    second = next(e for e in table.files.live_entries(table.latest()) if e.file.row_count == 2).partition
    lake.commit(table, CommitRequest(kind=CommitKind.OVERWRITE, overwrite=lambda p: p == second, commit_user="u"))
    assert counted(table) == [("p=1", 1, 1), ("p=3", 1, 1)]


def test_a_deletion_of_an_unknown_file_is_no_partition_but_corruption(lake: Lake) -> None:
    table = made(lake)
    append(lake, table, 1)
    latest = table.latest()
    assert latest is not None
    entry = next(table.files.live_entries(latest))
    orphan = replace(entry, kind=EntryKind.DELETE, file=replace(entry.file, file_name="never-added"))
    name, _ = table.files.new_manifest_list(table.files.new_manifests([orphan], [table.schema.fields[0].type], target=1 << 20))
    broken = replace(latest, base_manifest_list=latest.delta_manifest_list, delta_manifest_list=name)
    with pytest.raises(TableDamaged, match=r"default.t is damaged: never-added \(named by snapshot 1\) is removed"):
        partitions(table, broken)


@pytest.mark.parametrize("scheme", ["file:", "file://"])
def test_tables_made_under_a_file_uri_are_those_of_the_path(catalog: CatalogStore, warehouse: Path, scheme: str) -> None:
    by_uri, by_path = Lake(catalog, f"{scheme}{warehouse}"), Lake(catalog, str(warehouse))
    try:
        append(by_uri, made(by_uri), 1, 1)
        append(by_path, by_path.open(NAME), 2)
        assert counted(by_uri.open(NAME)) == [("p=1", 2, 1), ("p=2", 1, 1)]
        assert by_uri.open(NAME).location == f"{warehouse}/default.db/t"
    finally:
        by_uri.close()
        by_path.close()
