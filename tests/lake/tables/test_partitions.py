"""Partitions as the live files have them, and a warehouse under either spelling of its place."""

from __future__ import annotations

import random
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.inspect.counts import _count, totals
from lake.tables.partitions import partitions
from model.errors import InvalidData, TableDamaged
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from model.snapshot import CommitKind
from table.format.layout import DEFAULT_PARTITION_NAME
from table.format.manifests.entries import EntryKind
from table.format.rows import binary_row
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


def test_no_two_partitions_share_a_name_in_the_catalog(lake: Lake) -> None:
    columns = [column("a", "STRING"), column("b/c", "STRING"), column("v", "INT")]
    lake.create_table(NAME, new_schema(columns, partition_keys=["a", "b/c"], options={"bucket": "-1"}))
    table = lake.open(NAME)
    values = [("x/b/c=y", "z"), ("x", "y/b/c=z"), ("x%2Fb/c=y", "z"), ("..", "%")]
    for a, b in values:
        rows = pa.RecordBatch.from_pydict({"a": [a], "b/c": [b], "v": [1]}, schema=arrow_schema(table.schema.fields))
        written = tuple(write_batches(table.files, table.schema, [rows]))
        lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=written, commit_user="u"))
    listed = lake.partition_page(table)
    assert sorted((row.spec["a"], row.spec["b/c"], row.record_count) for row in listed) == sorted((a, b, 1) for a, b in values)
    lake.drop_partitions(table, [{"a": "x", "b/c": "y/b/c=z"}])
    left = sorted((row.spec["a"], row.spec["b/c"]) for row in lake.partition_page(table))
    assert left == sorted([values[0], values[2], values[3]])


def test_values_of_one_directory_are_one_name_in_the_list_and_apart_in_its_table(lake: Lake) -> None:
    """As in Paimon: its catalogs keep a partition by its texts, and its `$partitions` sums by the rows that manifests hold."""
    lake.create_table(NAME, new_schema([column("p", "STRING"), column("v", "INT")], partition_keys=["p"], options={"bucket": "-1"}))
    table = lake.open(NAME)

    def listed() -> list[tuple[str, int, int]]:
        return [(row.name, row.record_count, row.file_count) for row in lake.partition_page(table)]

    for values in ([None, "", " ", DEFAULT_PARTITION_NAME, "a"], [None, None, "", " ", "a"]):
        rows = pa.RecordBatch.from_pydict({"p": values, "v": [1] * len(values)}, schema=arrow_schema(table.schema.fields))
        written = tuple(write_batches(table.files, table.schema, [rows]))
        lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=written, commit_user="u"))
    shared = f"p={DEFAULT_PARTITION_NAME}"
    apart = {found.values[0]: (found.name, found.record_count) for found in partitions(table, table.latest())}
    assert apart == {None: (shared, 3), "": (shared, 2), " ": (shared, 2), DEFAULT_PARTITION_NAME: (shared, 1), "a": ("p=a", 2)}
    assert listed() == [(shared, 8, 7), ("p=a", 2, 2)]
    null = binary_row.encode_prefixed([field.type for field in table.schema.partition_fields], (None,))
    lake.commit(table, CommitRequest(kind=CommitKind.OVERWRITE, overwrite=lambda partition: partition == null, commit_user="u"))
    assert listed() == [(shared, 5, 5), ("p=a", 2, 2)]
    latest = table.latest()
    assert latest is not None
    assert _count(lake.catalog, table, latest)
    assert listed() == [(shared, 5, 5), ("p=a", 2, 2)], "counted anew, from the manifests"


@pytest.mark.parametrize("empty", [False, True])
def test_rows_that_come_while_their_partition_is_dropped_are_listed(lake: Lake, monkeypatch: pytest.MonkeyPatch, empty: bool) -> None:
    """The row of a partition was removed after the commit, with what others had put into it since."""
    table = made(lake)
    append(lake, table, 1)
    if empty:
        lake.create_partitions(table, [{"p": "2"}], ignore_existing=False)
    transaction = lake.catalog.transaction

    def begun(*args: Any, **options: Any) -> Any:
        if sys._getframe(1).f_code.co_name == "drop_partitions":
            monkeypatch.undo()
            append(lake, table, 2 if empty else 1)
        return transaction(*args, **options)

    monkeypatch.setattr(lake.catalog, "transaction", begun)
    lake.drop_partitions(table, [{"p": "2" if empty else "1"}])
    assert counted(lake.open(NAME)) == [("p=1", 1, 1)] + [("p=2", 1, 1)] * empty
    assert [(row.name, row.file_count) for row in lake.partition_page(table)] == [("p=1", 1)] + [("p=2", 1)] * empty
    lake.drop_partitions(table, [{"p": "1"}])
    assert [row.name for row in lake.partition_page(table)] == ["p=2"] * empty


def test_a_name_longer_than_an_index_takes_is_still_its_own(lake: Lake) -> None:
    rng, keys = random.Random(22), [f"k{n:02d}" for n in range(14)]  # random, so that Postgres cannot make them shorter
    lake.create_table(NAME, new_schema([column(key, "STRING") for key in [*keys, "v"]], partition_keys=keys, options={"bucket": "-1"}))
    table = lake.open(NAME)
    values = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz0123456789", k=240)) for _ in keys]
    for last in ("1", "2"):
        row = dict(zip([*keys, "v"], [[text] for text in (*values[:-1], values[-1] + last, "v")], strict=True))
        written = tuple(
            write_batches(table.files, table.schema, [pa.RecordBatch.from_pydict(row, schema=arrow_schema(table.schema.fields))])
        )
        lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=written, commit_user="u"))
    assert sorted(row.spec["k13"][-1] for row in lake.partition_page(table)) == ["1", "2"]


@pytest.mark.parametrize("value", ["z" * 254, "é" * 127, "w" * 5_000, "/" * 100])
def test_a_value_no_directory_can_be_called_by_is_refused_by_column(lake: Lake, value: str) -> None:
    lake.create_table(NAME, new_schema([column("p", "STRING"), column("v", "INT")], partition_keys=["p"], options={"bucket": "-1"}))
    table = lake.open(NAME)
    rows = pa.RecordBatch.from_pydict({"p": [value], "v": [1]}, schema=arrow_schema(table.schema.fields))
    with pytest.raises(InvalidData, match=r"Partition column p: .* a directory name of \d+ bytes.*; the store takes 255"):
        write_batches(table.files, table.schema, [rows])


def test_who_counts_waits_for_the_table_before_it_holds_anything(lake: Lake) -> None:
    """It held the branch's pointer and then wanted the table's row, which a rollback takes first: they waited for each other."""
    table = made(lake)
    append(lake, table, 1, 2)
    told: list[int] = []

    def count() -> None:
        found = totals(lake.catalog, lake._publisher, table)
        told.append(0 if found is None else found[1].record_count)

    thread = threading.Thread(target=count)
    with lake.catalog.reading() as tx:
        row = tx.snapshots.latest(table.table_id, "main")
    with lake.catalog.transaction() as tx:
        tx.snapshots.point(table.table_id, "main", row)  # its numbers are counted anew by whoever asks
    with lake.catalog.transaction() as tx:
        tx.tables.lock(NAME)
        thread.start()
        time.sleep(0.5)  # it counts by now
        tx.snapshots.point(table.table_id, "main", row)
    thread.join(60)
    assert told == [2]


def test_partitions_are_marked_and_made_in_one_order(lake: Lake) -> None:
    """Whichever order a client names them in: two of them waited for each other."""
    table = made(lake)
    numbers = [str(number) for number in range(60)]
    failures: list[BaseException] = []

    def work(seed: int) -> None:
        rng = random.Random(seed)
        try:
            for _ in range(3):
                specs = [{"p": number} for number in rng.sample(numbers, 40)]
                lake.create_partitions(table, specs)
                lake.mark_partitions_done(table, rng.sample(specs, 30))
                append(lake, table, *rng.sample(range(60), 30))
        except BaseException as problem:
            failures.append(problem)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert {row.name: row.record_count for row in lake.partition_page(table)} == {f"p={n}": counts(table).get(f"p={n}", 0) for n in numbers}


def counts(table: LakeTable) -> dict[str, int]:
    return {name: rows for name, rows, _ in counted(table)}
