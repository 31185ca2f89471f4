"""CREATE OR REPLACE and where files lie and how rows got their buckets: what was written before is found by that, in any snapshot."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from lake import Lake, LakeTable
from lake.rewrite.expiry import expire_snapshots
from model.catalog_errors import TableChanged
from model.errors import InvalidSchemaChange
from model.predicate import Compare, Op
from model.schema.change import AddColumn, SetOption
from model.schema.schema import Schema, column, new_schema
from model.schema.types import parse_type
from model.snapshot import CommitKind
from table.format.rows.arrow import arrow_schema
from table.scan.planning.entry_scan import plan_entries, plan_scan
from table.scan.read import read_batches
from table.write.snapshot_builder import everything
from table.write.writer import write_batches
from tests.lake.commit.test_faults import T
from tests.lake.kept import keep

DAYS = [dt.date(2026, 1, 1), None]
LAID = {
    "partition.legacy-name": "false",
    "partition.default-name": "none",
    "data-file.path-directory": "data",
    "index-file-in-data-file-dir": "true",
}


def by_day(**options: str) -> Schema:
    return new_schema([column("id", "INT"), column("day", "DATE")], partition_keys=["day"], options={"bucket": "-1", **options})


def routed(key: str, buckets: int = 4, function: str = "default") -> Schema:
    options = {"bucket": str(buckets), "bucket-key": key, "bucket-function.type": function} if buckets > 0 else {"bucket": "-1"}
    return new_schema([column("id", "BIGINT"), column("k", "BIGINT")], options=options)


def insert(lake: Lake, table: LakeTable, rows: Sequence[dict[str, Any]]) -> None:
    with table.write() as write:
        batch = pa.RecordBatch.from_pylist(list(rows), schema=arrow_schema(table.schema.fields))
        write.add(write_batches(table.files, table.schema, [batch]))
        lake.commit(table, write.request(CommitKind.APPEND))


def ids(table: LakeTable, snapshot_id: int | None = None, *, entries: bool = False, **wanted: int) -> list[int]:
    """Of a snapshot, or the latest; those with a column of such a value alone."""
    snapshot = table.latest() if snapshot_id is None else table.files.read_snapshot(snapshot_id)
    predicate = next((Compare(name, Op.EQ, value) for name, value in wanted.items()), None)
    live = table.files.live_entries(snapshot)
    if entries:
        plan = plan_entries(table.files, table.schema, snapshot, live, predicate)
    else:
        plan = plan_scan(table.files, table.schema, snapshot, predicate)
    rows = [row for batch in read_batches(table.files, table.schema, plan.files) for row in batch.to_pylist()]
    return sorted(row["id"] for row in rows if row.items() >= wanted.items())


def test_files_of_a_replaced_table_are_found_where_they_lie(lake: Lake) -> None:
    lake.create_table(T, by_day(**LAID))
    insert(lake, lake.open(T), [{"id": n, "day": day} for n, day in enumerate(DAYS)])
    lake.tags.create(lake.open(T), "keep")
    lake.replace_table(T, by_day())
    table = lake.open(T)
    assert {key: table.schema.options.get(key) for key in LAID} == LAID
    insert(lake, table, [{"id": 7, "day": DAYS[0]}])
    assert (ids(table), ids(table, 1)) == ([7], [0, 1])
    lake.history.rollback_to_tag(table, "keep")
    assert ids(lake.open(T)) == [0, 1]


@pytest.mark.parametrize("key", LAID)
def test_a_replacement_does_not_move_files(lake: Lake, key: str) -> None:
    lake.create_table(T, by_day())
    lake.replace_table(T, by_day(**{key: LAID[key]}))  # it has none yet
    lake.replace_table(T, by_day())
    assert key not in lake.open(T).schema.options
    insert(lake, lake.open(T), [{"id": 1, "day": DAYS[0]}])
    with pytest.raises(InvalidSchemaChange, match=f"'{key}' = '{LAID[key]}': its files lie by that option, and it does not have it"):
        lake.replace_table(T, by_day(**{key: LAID[key]}))
    assert ids(lake.open(T)) == [1]
    lake.replace_table(
        T, by_day(**{"partition.legacy-name": "TRUE", "partition.default-name": "__DEFAULT_PARTITION__"})
    )  # what counts anyway
    assert ids(lake.open(T), 1) == [1]


def by(type_: str) -> Schema:
    return new_schema([column("id", "INT"), column("k", type_)], partition_keys=["k"], options={"bucket": "-1"})


@pytest.mark.parametrize("type_", ["STRING", "BIGINT", "INT"])
def test_a_replacement_gives_partitions_no_other_type(lake: Lake, type_: str) -> None:
    """Manifests hold them as bytes, which every snapshot of before and after is read by."""
    lake.create_table(T, by("DATE"))
    insert(lake, lake.open(T), [{"id": n, "k": day} for n, day in enumerate(DAYS)])
    with pytest.raises(InvalidSchemaChange, match="with partition keys of other types; drop it and make it anew"):
        lake.replace_table(T, by(type_))
    assert ids(lake.open(T)) == [0, 1]


def test_a_replacement_may_let_partitions_be_longer_or_null(lake: Lake) -> None:
    lake.create_table(T, by("VARCHAR(5) NOT NULL"))
    insert(lake, lake.open(T), [{"id": 1, "k": "a"}])
    lake.replace_table(T, by("STRING"))
    table = lake.open(T)
    insert(lake, table, [{"id": 2, "k": "as long as it likes"}, {"id": 3, "k": None}])
    assert (ids(table), ids(table, 1)) == ([2, 3], [1])


def test_what_partitions_are_called_is_no_matter_where_there_are_none(lake: Lake) -> None:
    lake.create_table(T, routed("id"))
    insert(lake, lake.open(T), [{"id": 1, "k": 1}])
    schema = routed("id")
    schema.options["partition.legacy-name"] = "false"  # type: ignore[index]
    lake.replace_table(T, schema)
    assert ids(lake.open(T), 1) == [1]


ROWS = [{"id": n, "k": n % 10} for n in range(100)]


@pytest.mark.parametrize("replacing", [routed("k"), routed("k", function="mod"), routed("id", function="hive")])
@pytest.mark.parametrize("many", [0, 1000])
def test_buckets_of_rows_from_before_a_replacement_are_their_own(
    lake: Lake, replacing: Schema, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads an earlier snapshot leaves out no bucket for the key of now; in plans of few files and of many."""
    monkeypatch.setattr("table.format.manifests.columns._MANY_ENTRIES", many)
    lake.create_table(T, routed("id"))
    insert(lake, lake.open(T), ROWS)
    lake.replace_table(T, replacing)
    table = lake.open(T)
    insert(lake, table, ROWS)
    (key,) = replacing.bucket_keys
    for value in range(10):
        wanted = [row["id"] for row in ROWS if row[key] == value]
        for entries in (False, True):
            assert ids(table, 1, entries=entries, **{key: value}) == ids(table, entries=entries, **{key: value}) == wanted
    plan = plan_scan(table.files, table.schema, table.latest(), Compare(key, Op.EQ, 5))
    assert len(plan.files) == 1, "rows of now are looked for in their bucket alone"


@pytest.mark.parametrize("replacing", [routed("k"), routed("id", function="mod"), routed("id", buckets=-1), routed("id", buckets=1)])
def test_a_rollback_over_a_replacement_routes_as_before(lake: Lake, replacing: Schema) -> None:
    lake.create_table(T, routed("id"))
    insert(lake, lake.open(T), ROWS)
    before = lake.open(T).schema
    lake.replace_table(T, replacing)
    lake.history.rollback_to_snapshot(lake.open(T), 1)
    table = lake.open(T)
    assert (table.schema.bucket, table.schema.bucket_keys, table.schema.id) == (4, ("id",), before.id)
    insert(lake, table, ROWS)
    for k in range(10):
        assert len(ids(lake.open(T), k=k)) == 20


def expire_all_but_the_latest(lake: Lake) -> None:
    table = lake.open(T)
    insert(lake, table, ROWS)
    expire_snapshots(lake, table, keep(1))


@pytest.mark.parametrize("replacing", [routed("k"), routed("id", function="mod"), routed("id", buckets=-1)])
@pytest.mark.parametrize("by_tag", [True, False])
def test_a_rollback_over_a_replacement_that_has_expired_routes_as_before(lake: Lake, replacing: Schema, by_tag: bool) -> None:
    """Other clients leave out buckets by the table's key, whatever a file's schema says."""
    lake.create_table(T, routed("id"))
    insert(lake, lake.open(T), ROWS)
    before = lake.open(T).schema
    lake.tags.create(lake.open(T), "kept")
    lake.replace_table(T, replacing)
    expire_all_but_the_latest(lake)
    if by_tag:
        lake.history.rollback_to_tag(lake.open(T), "kept")
    else:
        lake.history.rollback_to_snapshot(lake.open(T), 1)
    table = lake.open(T)
    assert (table.schema.bucket, table.schema.bucket_keys, table.schema.id) == (4, ("id",), before.id)
    insert(lake, table, ROWS)
    for k in range(10):
        assert len(ids(lake.open(T), k=k)) == 20


def test_a_rollback_to_a_tag_that_has_expired_leaves_the_number_of_buckets(lake: Lake) -> None:
    lake.create_table(T, routed("id"))
    insert(lake, lake.open(T), ROWS)
    lake.tags.create(lake.open(T), "kept")
    lake.alter_table(T, [SetOption(key="bucket", value="8")])
    lake.alter_table(T, [AddColumn(name="c", type=parse_type("INT"))])
    with lake.open(T).write() as write:
        lake.commit(lake.open(T), write.request(CommitKind.OVERWRITE, overwrite=everything))
    expire_all_but_the_latest(lake)
    lake.history.rollback_to_tag(lake.open(T), "kept")
    schema = lake.open(T).schema
    assert (schema.bucket, [field.name for field in schema.fields]) == (8, ["id", "k", "c"])
    assert ids(lake.open(T)) == list(range(100))


def test_a_rollback_keeps_what_was_replaced_alike(lake: Lake) -> None:
    lake.create_table(T, routed("id"))
    insert(lake, lake.open(T), ROWS)
    lake.replace_table(T, routed("id"))
    lake.history.rollback_to_snapshot(lake.open(T), 1)
    assert lake.open(T).schema.id == 1


def test_rows_routed_by_what_was_replaced_are_not_committed(lake: Lake) -> None:
    lake.create_table(T, routed("id"))
    table = lake.open(T)
    insert(lake, table, ROWS)
    lake.replace_table(T, routed("k"))
    with pytest.raises(TableChanged):
        insert(lake, table, ROWS)
    assert ids(lake.open(T)) == []
