"""Schemas that Java's clients would not load are refused when they are made and altered; `tests/interop/test_loadable.py` asks Java."""

from __future__ import annotations

import contextlib
from dataclasses import replace

import pytest

from model.errors import ColumnNotExist, InvalidOption, InvalidSchema, InvalidSchemaChange
from model.schema.change import (
    AddColumn,
    DropColumn,
    Nested,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnType,
    apply_changes,
)
from model.schema.loadable import check_loadable
from model.schema.schema import Schema, highest_id
from model.schema.types import Field, IntType, VarCharType
from tests.model.loadable_cases import LOADED, UNLOADED, Case

REFUSED = (InvalidOption, InvalidSchema, InvalidSchemaChange, ColumnNotExist)


def schema_of(case: Case) -> Schema:
    fields = tuple(Field.from_json(one) for one in case.body()["fields"])
    return Schema(
        id=0, fields=fields, highest_field_id=highest_id(fields), partition_keys=tuple(case.partition), options=dict(case.options)
    )


def altered(schema: Schema, *changes: SchemaChange) -> Schema:
    return apply_changes(schema, changes, table="d.t", has_snapshot=False, time_millis=9)


@pytest.mark.parametrize("case", UNLOADED, ids=repr)
def test_what_java_would_not_load_is_refused(case: Case) -> None:
    with pytest.raises(InvalidOption, match=case.says):
        check_loadable(schema_of(case))


@pytest.mark.parametrize("case", UNLOADED, ids=repr)
def test_no_option_makes_a_table_unloadable(case: Case) -> None:
    """Set one after the other, the last of them is refused, or the columns alone are to blame."""
    schema = replace(schema_of(case), options={})
    try:
        check_loadable(schema)
    except InvalidOption:
        return
    *before, (last, value) = case.options.items()
    with contextlib.suppress(*REFUSED):
        for key, text in before:
            schema = altered(schema, SetOption(key=key, value=text))
        with pytest.raises(REFUSED):
            altered(schema, SetOption(key=last, value=value))


@pytest.mark.parametrize("case", LOADED, ids=repr)
def test_whatever_an_alter_does_the_table_is_loaded_still(case: Case) -> None:
    """Each column dropped, renamed and given other types, and each option taken away: refused, or the options follow."""
    schema = schema_of(case)
    check_loadable(schema)
    changes: list[SchemaChange] = [RemoveOption(key=key) for key in schema.options]
    changes += [SetOption(key="file.format", value=text) for text in ("orc", "avro", "csv", "json", "text")]
    for name in schema.field_names:
        changes += [DropColumn(name=name), RenameColumn(name=name, to="new"), RenameColumn(name=name, to="a,b")]
        changes += [UpdateColumnType(name=name, type=type_) for type_ in (IntType(), VarCharType())]
    done = 0
    for change in changes:
        try:
            new = altered(schema, change)
        except REFUSED:
            continue
        done += 1
        check_loadable(new)
        if isinstance(change, RenameColumn):
            assert [text for text in new.options.values() if change.name in text.split(",")] == []
    assert done or len(schema.fields) == 1


@pytest.mark.parametrize("case", UNLOADED, ids=repr)
def test_a_table_that_is_so_already_can_be_altered(case: Case) -> None:
    """As one that an earlier version took: what is wrong with it stays, and an ALTER may take it away."""
    schema = schema_of(case)
    more = altered(schema, AddColumn(name="more", type=IntType())) if case.options.get("file.format") != "text" else schema
    wrong = [RemoveOption(key=key) for key in case.options if not key.startswith(("bucket", "row-tracking", "data-evolution"))]
    assert altered(more, *wrong).options.keys() <= case.options.keys() - {change.key for change in wrong}


_NANOS = {"id": "INT", "x": "VARIANT", "t": "TIMESTAMP(9)"}
_TRACKED = {"row-tracking.enabled": "true", "bucket": "4", "bucket-key": "id"}


@pytest.mark.parametrize(
    ("case", "change"),
    [
        (Case("", {"id": "INT", "a": "BLOB", "b": "BLOB"}), DropColumn(name="a")),
        (Case("", _NANOS, {"file.format": "avro"}), RenameColumn(name="t", to="u")),
        (Case("", _NANOS, {"file.format": "avro"}), SetOption(key="file.format", value="orc")),
        (Case("", options=_TRACKED), SetOption(key="bucket", value="8")),
        (
            Case("", {"id": "INT", "r": "ROW<INT>"}, {"file.format": "csv"}),
            Nested(inside=("r",), change=AddColumn(name="y", type=IntType())),
        ),
        (Case("", {"id": "INT", "v": "BYTES"}, {"blob-field": "v"}), RenameColumn(name="v", to="w")),
        (Case("", {"id": "INT", "v": "BYTES"}, {"blob-field": "v"}), DropColumn(name="v")),
        (Case("", {"id": "INT", "v": "STRING"}, {"file-index.bsi.columns": "v"}), RenameColumn(name="v", to="w")),
    ],
    ids=repr,
)
def test_an_alter_that_changes_what_the_refusal_would_say_is_no_new_problem(case: Case, change: SchemaChange) -> None:
    """A table that was taken before this was checked: its columns, numbers and types go on changing, and steps that mend it are taken."""
    schema = schema_of(case)
    with pytest.raises(InvalidOption):
        check_loadable(schema)
    assert apply_changes(schema, [change], table="d.t", has_snapshot=True, time_millis=9).id == 1


_KEYS = Case("", {"id": "INT", "m": "MAP<STRING, INT>"}, {"file-index.bsi.columns": "id, m[k],m[n]", "file-index.bsi.m.x": "1"})


def test_an_index_of_a_maps_keys_follows_the_columns_name() -> None:
    schema = schema_of(_KEYS)
    check_loadable(schema)
    renamed = altered(schema, RenameColumn(name="m", to="other"))
    assert {key: value for key, value in renamed.options.items() if key.startswith("file-index.")} == {
        "file-index.bsi.columns": "id,other[k],other[n]",
        "file-index.bsi.other.x": "1",
    }
    check_loadable(renamed)


def test_a_map_with_an_index_of_a_key_is_not_dropped() -> None:
    """As any column with an index."""
    with pytest.raises(InvalidOption, match=r"m\[k\] is no column with such an index"):
        altered(schema_of(_KEYS), DropColumn(name="m"))


def test_a_second_column_of_the_same_problem_is_refused() -> None:
    schema = schema_of(Case("", _NANOS, {"file.format": "avro"}))
    with pytest.raises(InvalidOption, match="Column more holds"):
        altered(schema, AddColumn(name="more", type=schema.fields[1].type))


_BLOBS = {"id": "INT", "v": "BYTES", "pic": "BLOB"}


@pytest.mark.parametrize("key", ["blob-field", "blob-descriptor-field", "blob-view-field", "blob.stored-descriptor-fields"])
def test_a_list_of_blobs_loses_what_is_no_blob_and_nothing_else(key: str) -> None:
    """As it was set before it was looked at: no Java client loads the table until the name is gone."""
    listed = schema_of(Case("", _BLOBS, {"row-tracking.enabled": "true", "data-evolution.enabled": "true", key: "v,pic,gone"}))
    alone = replace(listed, options={**listed.options, key: "v"})

    def now(schema: Schema, change: SchemaChange) -> str | None:
        return apply_changes(schema, [change], table="d.t", has_snapshot=True, time_millis=9).options.get(key)

    assert now(listed, SetOption(key=key, value="pic")) == "pic"
    assert now(listed, SetOption(key=key, value="v, pic")) == "v, pic"
    assert now(alone, RemoveOption(key=key)) is None
    for schema, change in (
        (listed, RemoveOption(key=key)),
        (listed, SetOption(key=key, value="v")),
        (alone, SetOption(key=key, value="v,pic")),
        (alone, SetOption(key=key, value="id")),
    ):
        with pytest.raises(InvalidOption, match="cannot change once"):
            now(schema, change)


@pytest.mark.parametrize(
    "case",
    [
        Case("primary key", options={"streaming-read-overwrite": "true"}),
        Case("primary key", options={"primary-key.nullable": "true"}),
        Case("primary key", options={"table-read.sequence-number.enabled": "true"}),
        Case("holds BLOBs", {"id": "INT", "pic": "BLOB"}),
    ],
    ids=repr,
)
def test_a_materialized_table_with_a_primary_key_is_a_table_with_a_primary_key(case: Case) -> None:
    schema = schema_of(case)
    without_key = replace(schema, options={**schema.options, "type": "materialized-table"})
    with pytest.raises(InvalidOption, match=case.says):
        check_loadable(without_key)
    check_loadable(replace(without_key, primary_keys=("id",)))
