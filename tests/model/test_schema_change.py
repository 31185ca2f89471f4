"""What ALTER may do to a schema, and what it refuses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.errors import ColumnAlreadyExist, ColumnNotExist, InvalidOption, InvalidSchema, InvalidSchemaChange, LakeError
from model.schema.casting import casts
from model.schema.change import (
    AddColumn,
    DropColumn,
    Nested,
    Position,
    RemoveOption,
    RenameColumn,
    SchemaChange,
    SetOption,
    UpdateColumnComment,
    UpdateColumnNullability,
    UpdateColumnPosition,
    UpdateColumnType,
    UpdateComment,
    apply_changes,
)
from model.schema.schema import Schema, column, new_schema
from model.schema.types import ArrayType, BigIntType, DateType, Field, IntType, RowType, VarCharType, parse_type
from model.schema.widening import widens


def a_schema(**options: str) -> Schema:
    columns = [column("id", "INT NOT NULL"), column("dt", "DATE"), column("note", "VARCHAR(5)")]
    return new_schema(columns, partition_keys=["dt"], options={"bucket": "4", "bucket-key": "id"} | options)


def change(schema: Schema, *changes: SchemaChange, has_snapshot: bool = True) -> Schema:
    return apply_changes(schema, changes, table="d.t", has_snapshot=has_snapshot, time_millis=9)


def test_thousands_of_changes_are_made_and_ten_thousand_columns_fit() -> None:
    wide = change(a_schema(), *(AddColumn(name=f"c{at}", type=IntType()) for at in range(9990)))
    named = change(wide, *(RenameColumn(name=f"c{at}", to=f"d{at}") for at in range(9990)))
    assert named.field_names[:4] == ("id", "dt", "note", "d0")
    moved = change(named, UpdateColumnPosition(name="d9989", position=Position(first=True)), UpdateColumnComment(name="id", comment="it"))
    assert (moved.field_names[0], moved.field("id").description) == ("d9989", "it")
    assert change(named, *(DropColumn(name=f"d{at}") for at in reversed(range(9990)))).field_names == ("id", "dt", "note")
    with pytest.raises(InvalidSchema, match="at most 10,000"):
        change(wide, *(AddColumn(name=f"e{at}", type=IntType()) for at in range(8)))
    inside = RowType(fields=tuple(Field(id=at, name=f"f{at}", type=IntType()) for at in range(10_000)))
    with pytest.raises(InvalidSchema, match="at most 10,000"):
        change(a_schema(), AddColumn(name="r", type=inside))
    with pytest.raises(InvalidSchemaChange, match="10,000 are the most"):
        change(a_schema(), *(UpdateComment(comment=str(at)) for at in range(10_001)))
    with pytest.raises(ColumnNotExist):
        change(wide, UpdateColumnPosition(name="c1", position=Position(after="c1")))


def test_several_changes_make_one_version() -> None:
    new = change(
        a_schema(),
        AddColumn(name="x", type=IntType(), comment="new", position=Position(first=True)),
        RenameColumn(name="note", to="text"),
        UpdateColumnType(name="text", type=VarCharType(length=9)),
        UpdateColumnComment(name="text", comment="said"),
        UpdateComment(comment="all of it"),
        SetOption(key="write-only", value="true"),
    )
    assert (new.id, new.time_millis, new.comment) == (1, 9, "all of it")
    assert new.field_names == ("x", "id", "dt", "text")
    assert [f.id for f in new.fields] == [3, 0, 1, 2]
    assert new.fields[3].type == VarCharType(length=9)
    assert new.fields[3].description == "said"
    assert new.options["write-only"] == "true"


def test_a_text_that_java_does_not_read_may_be_spelled_anew_whatever_the_table_holds() -> None:
    spelled = replace(a_schema(), options={"bucket": " 1_0 ", "bucket-key": "id, note"})
    changed = change(spelled, SetOption(key="bucket", value="10"), SetOption(key="bucket-key", value="id ,note"))
    assert (changed.options["bucket"], changed.options["bucket-key"]) == ("10", "id,note")
    with pytest.raises(InvalidOption, match="cannot change once the table has data"):
        change(spelled, SetOption(key="bucket-key", value="note,id"))


def test_a_failing_change_leaves_the_schema_as_it_was() -> None:
    schema = a_schema()
    before = schema.to_json()
    with pytest.raises(ColumnNotExist, match="Did you mean note"):
        change(schema, SetOption(key="write-only", value="true"), DropColumn(name="nota"))
    assert schema.to_json() == before


def test_a_dropped_columns_id_is_never_used_again() -> None:
    new = change(a_schema(), DropColumn(name="note"), AddColumn(name="note", type=IntType()))
    assert new.field("note").id == 3


def test_renaming_follows_into_the_options() -> None:
    watermark = {"schema.watermark.0.rowtime": "id", "schema.watermark.0.strategy.expr": "`id` - 1", "fields.id.stats-mode": "full"}
    new = change(a_schema(**watermark), RenameColumn(name="id", to="key"))
    assert new.options["bucket-key"] == "key"
    assert new.options["fields.key.stats-mode"] == "full"
    assert new.options["schema.watermark.0.rowtime"] == "key"
    assert new.options["schema.watermark.0.strategy.expr"] == "`key` - 1"


def test_a_queues_key_is_chosen_anew_when_its_column_goes() -> None:
    queue = new_schema([column("a", "INT"), column("b", "INT")], options={"bucket": "1", "bucket-key": "a"})
    assert change(queue, DropColumn(name="a")).options["bucket-key"] == "b"


def test_columns_move() -> None:
    assert change(a_schema(), UpdateColumnPosition(name="note", position=Position(after="id"))).field_names == ("id", "note", "dt")
    assert change(a_schema(), UpdateColumnPosition(name="note", position=Position(before="id"))).field_names == ("note", "id", "dt")
    assert change(a_schema(), UpdateColumnPosition(name="id", position=Position())).field_names == ("dt", "note", "id")
    before = change(a_schema(**{"add-column-before-partition": "true"}), AddColumn(name="x", type=IntType()))
    assert before.field_names == ("id", "x", "dt", "note")


@pytest.mark.parametrize(
    ("asked", "error", "says"),
    [
        (DropColumn(name="dt"), InvalidSchemaChange, "Partition column dt"),
        (RenameColumn(name="dt", to="d"), InvalidSchemaChange, "Partition column dt"),
        (UpdateColumnType(name="dt", type=VarCharType()), InvalidSchemaChange, "Partition column dt"),
        (DropColumn(name="id"), InvalidSchemaChange, "'bucket-key'"),
        (UpdateColumnType(name="id", type=BigIntType()), InvalidSchemaChange, "'bucket-key'"),
        (AddColumn(name="note", type=IntType()), ColumnAlreadyExist, "already exists"),
        (AddColumn(name="x", type=IntType(nullable=False)), InvalidSchemaChange, "NOT NULL"),
        (RenameColumn(name="note", to="id"), ColumnAlreadyExist, "already exists"),
        (UpdateColumnNullability(name="note", nullable=False), InvalidSchemaChange, "may hold NULL"),
        (SetOption(key="bucket-key", value="note"), InvalidOption, "once the table has data"),
        (SetOption(key="bucket", value="-1"), InvalidOption, "from 4 to -1"),
        (RemoveOption(key="bucket"), InvalidOption, "from 4 to -1"),
        (SetOption(key="primary-key", value="id"), InvalidOption, "cannot change"),
    ],
)
def test_what_would_harm_existing_files_is_refused(asked: SchemaChange, error: type[LakeError], says: str) -> None:
    with pytest.raises(error, match=says):
        change(a_schema(), asked)


def test_options_that_place_files_may_change_while_there_are_none() -> None:
    assert change(a_schema(), SetOption(key="bucket-key", value="note"), has_snapshot=False).bucket_keys == ("note",)
    assert change(a_schema(), SetOption(key="bucket", value="8")).bucket == 8


@pytest.mark.parametrize(
    ("old", "new", "allowed"),
    [
        ("TINYINT", "BIGINT", True),
        ("BIGINT", "INT", False),
        ("INT", "DOUBLE", True),
        ("BIGINT", "DOUBLE", False),
        ("INT", "DECIMAL(10, 0)", True),
        ("INT", "DECIMAL(10, 1)", False),
        ("FLOAT", "DOUBLE", True),
        ("DECIMAL(9, 2)", "DECIMAL(10, 2)", True),
        ("DECIMAL(9, 2)", "DECIMAL(10, 4)", False),
        ("CHAR(5)", "VARCHAR(5)", True),
        ("VARCHAR(5)", "STRING", True),
        ("STRING", "INT", False),
        ("BINARY(4)", "BYTES", True),
        ("TIMESTAMP(3)", "TIMESTAMP(6)", True),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", False),
        ("TIMESTAMP(3)", "TIMESTAMP_LTZ(3)", False),
        ("DATE", "TIMESTAMP(3)", False),
    ],
)
def test_a_type_widens_only_where_it_holds_every_value(old: str, new: str, *, allowed: bool) -> None:
    assert widens(parse_type(old), parse_type(new)) is allowed


@pytest.mark.parametrize(
    ("old", "new", "implicit", "explicit"),
    [
        ("INT", "BIGINT", True, True),
        ("STRING", "BIGINT", False, True),
        ("BIGINT", "TINYINT", False, True),
        ("BIGINT", "DOUBLE", True, True),
        ("DECIMAL(9, 2)", "DECIMAL(5, 0)", True, True),
        ("VARCHAR(9)", "VARCHAR(5)", True, True),
        ("TIMESTAMP(6)", "TIMESTAMP(3)", True, True),
        ("TIMESTAMP(6)", "DATE", True, True),
        ("TIMESTAMP_LTZ(6)", "DATE", False, True),
        ("TIMESTAMP(6)", "STRING", False, True),
        ("TIMESTAMP(6)", "STRING NOT NULL", False, False),
        ("TIMESTAMP(6)", "VARCHAR(9)", False, False),
        ("TIMESTAMP(6)", "TINYINT", False, False),
        ("DECIMAL(9, 0)", "TIMESTAMP(6)", False, False),
        ("DECIMAL(9, 0)", "BOOLEAN", False, False),
        ("BYTES", "BIGINT", False, False),
        ("DATE", "INT", False, False),
        ("TIME(3)", "TIME(0)", False, False),
    ],
)
def test_a_type_changes_by_a_cast_where_paimon_has_one(old: str, new: str, *, implicit: bool, explicit: bool) -> None:
    pair = parse_type(old), parse_type(new)
    assert (casts(*pair, explicit=False), casts(*pair)) == (implicit, explicit)


LISTED = ArrayType(element=RowType(fields=(Field(id=-1, name="x", type=VarCharType()),)))


@pytest.mark.parametrize(
    ("options", "asked", "says"),
    [
        ({}, UpdateColumnType(name="v", type=parse_type("BYTES NOT NULL"), keep_nullability=False), "may hold NULL"),
        ({}, UpdateColumnType(name="n", type=DateType()), "n cannot go from INT to DATE: values of the one do not become values"),
        ({}, UpdateColumnType(name="v", type=LISTED), "from STRING to ARRAY"),
        ({}, Nested(inside=("r", "element"), change=UpdateColumnType(name="x", type=IntType())), "inside arrays and maps"),
        ({"disable-explicit-type-casting": "true"}, UpdateColumnType(name="v", type=IntType()), "'disable-explicit-type-casting' forbids"),
    ],
)
def test_a_cast_nobody_could_read_is_refused(options: dict[str, str], asked: SchemaChange, says: str) -> None:
    fields = [column("n", "INT"), column("v", "STRING"), Field(id=-1, name="r", type=LISTED)]
    schema = new_schema(fields, options={"bucket": "-1", **options})
    with pytest.raises(InvalidSchemaChange, match=says):
        change(schema, asked)
    assert change(schema, UpdateColumnType(name="n", type=parse_type("BIGINT"))).field("n").type == parse_type("BIGINT")
