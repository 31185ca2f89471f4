"""CREATE OR REPLACE beside writers and before a rollback: no row is shown in another column than the one it was written to."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lake import Lake, LakeTable
from lake.access.callers import Caller
from lake.rewrite.expiry import create_tag, expire_snapshots
from model.access import Access, Grant, table_resource
from model.catalog_errors import TableChanged
from model.errors import Forbidden
from model.schema.change import AddColumn, DropColumn
from model.schema.schema import Schema, every_field, new_schema
from model.schema.types import DataType, Field, RowType, parse_type
from model.snapshot import CommitKind
from table.format.rows.arrow import arrow_schema
from table.write.writer import write_batches
from tests.lake.commit.test_faults import T
from tests.lake.kept import keep
from tests.lake.rewrite.test_compaction import rows

INT, STRING = parse_type("INT"), parse_type("STRING")


def row(*names: str) -> RowType:
    return RowType(fields=tuple(Field(id=number, name=name, type=INT) for number, name in enumerate(names)))


def schema(**columns: DataType) -> Schema:
    """As Spark and Java send it: ids from 0."""
    fields = [Field(id=number, name=name, type=type_) for number, (name, type_) in enumerate(columns.items())]
    return new_schema(fields, options={"bucket": "-1"})


def insert(lake: Lake, table: LakeTable, **values: object) -> None:
    with table.write() as write:
        batch = pa.RecordBatch.from_pylist([values], schema=arrow_schema(table.schema.fields))
        write.add(write_batches(table.files, table.schema, [batch]))
        lake.commit(table, write.request(CommitKind.APPEND))


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    lake.create_table(T, schema(a=INT, b=INT, n=row("x", "y")))
    made = lake.open(T)
    insert(lake, made, a=1, b=2, n={"x": 3, "y": 4})
    return made


def test_columns_that_stay_keep_their_ids_and_others_get_new_ones(lake: Lake, table: LakeTable) -> None:
    lake.replace_table(T, schema(b=INT, a=STRING, n=row("x", "z"), c=INT))
    before, after = ({field.name: field.id for field in one.schema.fields} for one in (table, lake.open(T)))
    assert after["b"] == before["b"]
    had = {field.id for field in every_field(table.schema.fields)}
    ids = [field.id for field in every_field(lake.open(T).schema.fields)]
    assert len(set(ids)) == len(ids)
    assert had & set(ids) == {before["b"]}
    assert lake.open(T).schema.highest_field_id == max(ids)


def test_rows_of_an_open_table_stay_in_their_columns(lake: Lake, table: LakeTable) -> None:
    lake.replace_table(T, schema(b=INT, a=INT, n=row("x", "y")))
    insert(lake, table, a=1, b=2, n={"x": 3, "y": 4})
    assert rows(lake.open(T)) == [{"b": 2, "a": 1, "n": {"x": 3, "y": 4}}]


@pytest.mark.parametrize("columns", [{"a": STRING, "b": INT}, {"c": INT}])
def test_rows_that_the_new_columns_do_not_hold_are_refused(lake: Lake, table: LakeTable, columns: dict[str, DataType]) -> None:
    lake.replace_table(T, schema(**columns))
    with pytest.raises(TableChanged):
        insert(lake, table, a=1, b=2, n={"x": 3, "y": 4})
    assert rows(lake.open(T)) == []


@pytest.mark.parametrize("columns", [{"b": INT, "a": INT}, {"a": STRING, "b": INT}, {"c": INT}])
def test_a_rollback_over_a_replacement_shows_the_rows_of_before(lake: Lake, table: LakeTable, columns: dict[str, DataType]) -> None:
    lake.replace_table(T, schema(**columns))
    lake.history.rollback_to_snapshot(lake.open(T), 1)
    (there,) = rows(lake.open(T))
    assert there == {"a": 1, "b": 2, "n": {"x": 3, "y": 4}}
    insert(lake, lake.open(T), **there)
    assert rows(lake.open(T)) == [there, there]


def expired_under_a_tag(lake: Lake) -> None:
    """Let all but the newest snapshot expire, but for the first, which a tag keeps."""
    create_tag(lake, lake.open(T), "kept", snapshot_id=1)
    opened = lake.open(T)
    insert(lake, opened, **{field.name: None for field in opened.schema.fields})
    expire_snapshots(lake, opened, keep(1))


@pytest.mark.parametrize("columns", [{"a": STRING, "b": INT}, {"c": INT}])
def test_a_rollback_to_a_tag_over_a_replacement_that_has_expired_shows_the_rows_of_before(
    lake: Lake, table: LakeTable, columns: dict[str, DataType]
) -> None:
    lake.replace_table(T, schema(**columns))
    expired_under_a_tag(lake)
    grants = tuple(Grant(resource=table_resource(T), access=access, principal="ada") for access in (Access.SELECT, Access.DELETE))
    ada = lake.for_caller(Caller(principal="ada", grants=grants))
    with pytest.raises(Forbidden, match="ALTER"):
        ada.history.rollback_to_tag(ada.open(T), "kept")
    lake.history.rollback_to_tag(lake.open(T), "kept")
    (there,) = rows(lake.open(T))
    assert there == {"a": 1, "b": 2, "n": {"x": 3, "y": 4}}
    insert(lake, lake.open(T), **there)
    assert rows(lake.open(T)) == [there, there]


def test_a_rollback_to_a_tag_that_has_expired_leaves_columns_that_were_added_or_dropped(lake: Lake, table: LakeTable) -> None:
    lake.alter_table(T, [DropColumn(name="b"), AddColumn(name="c", type=INT)])
    expired_under_a_tag(lake)
    lake.history.rollback_to_tag(lake.open(T), "kept")
    assert rows(lake.open(T)) == [{"a": 1, "n": {"x": 3, "y": 4}, "c": None}]


def test_a_rollback_that_takes_a_replacement_back_takes_alter(lake: Lake, table: LakeTable) -> None:
    lake.replace_table(T, schema(c=INT))
    grants = tuple(Grant(resource=table_resource(T), access=access, principal="ada") for access in (Access.SELECT, Access.DELETE))
    ada = lake.for_caller(Caller(principal="ada", grants=grants))
    with pytest.raises(Forbidden, match="ALTER"):
        ada.history.rollback_to_snapshot(ada.open(T), 1)
    assert lake.open(T).schema.field_names == ("c",)
