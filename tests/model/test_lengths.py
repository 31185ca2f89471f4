"""Names and options that a catalog keeps have a length that fits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from model.errors import BadRequest, InvalidName, InvalidOption
from model.schema.change import AddColumn, RenameColumn, SchemaChange, SetOption, UpdateComment, apply_changes
from model.schema.lengths import MOST_COMMENT_BYTES, MOST_KEY_BYTES, MOST_NAME_BYTES, MOST_VALUE_BYTES, check_option_lengths
from model.schema.schema import Schema, column, new_schema
from model.schema.types import Field, RowType, parse_type

PLAIN = {"bucket": "-1"}


def changed(schema: Schema, change: SchemaChange) -> Schema:
    return apply_changes(schema, [change], table="d.t", has_snapshot=False, time_millis=0)


def test_a_name_may_be_as_long_as_it_may_be() -> None:
    assert new_schema([column("a" * MOST_NAME_BYTES, "INT")], options=PLAIN).field_names == ("a" * MOST_NAME_BYTES,)


@pytest.mark.parametrize("name", ["a" * 900_000, "a" * (MOST_NAME_BYTES + 1), "ä" * 128])
def test_longer_names_of_columns_and_fields_are_refused_and_not_repeated_whole(name: str) -> None:
    inside = Field(id=-1, name="r", type=RowType(fields=(Field(id=-1, name=name, type=parse_type("INT")),)))
    for columns in ([column(name, "INT")], [inside]):
        with pytest.raises(InvalidName, match="at most 255 fit") as told:
            new_schema(columns, options=PLAIN)
        assert len(told.value.message) < 500
    schema = new_schema([column("id", "INT")], options=PLAIN)
    for change in (AddColumn(name=name, type=parse_type("INT")), RenameColumn(name="id", to=name), AddColumn(name="r", type=inside.type)):
        with pytest.raises(InvalidName):
            changed(schema, change)


def test_so_are_longer_keys_and_values_of_options() -> None:
    for options in ({"k" * (MOST_KEY_BYTES + 1): "v"}, {"k": "v" * (MOST_VALUE_BYTES + 1)}):
        with pytest.raises(InvalidOption, match="at most"):
            check_option_lengths(options)
    check_option_lengths({"k" * MOST_KEY_BYTES: "v" * MOST_VALUE_BYTES})
    schema = new_schema([column("id", "INT")], options=PLAIN)
    with pytest.raises(InvalidOption, match="at most"):
        changed(schema, SetOption(key="own.note", value="v" * (MOST_VALUE_BYTES + 1)))


def test_what_a_table_has_already_keeps_no_change_from_it() -> None:
    schema = new_schema([column("id", "INT")], options=PLAIN)
    old = Schema(id=0, fields=(Field(id=0, name="a" * 1000, type=parse_type("INT")), *schema.fields), highest_field_id=1, options=PLAIN)
    assert changed(old, UpdateComment(comment="seen")).comment == "seen"


def test_comments_of_tables_columns_and_fields_have_a_length() -> None:
    long = "ä" * (MOST_COMMENT_BYTES // 2 + 1)
    inside = RowType(fields=(Field(id=-1, name="i", type=parse_type("INT"), description=long),))
    for columns, comment in (
        ([column("id", "INT")], long),
        ([column("id", "INT", comment=long)], None),
        ([Field(id=-1, name="r", type=inside)], None),
    ):
        with pytest.raises(BadRequest, match=r"16,386 bytes long; at most 16,384 fit"):
            new_schema(columns, options=PLAIN, comment=comment)
    schema = new_schema([column("id", "INT", comment=long[1:])], options=PLAIN, comment=long[1:])
    for change in (UpdateComment(comment=long), AddColumn(name="b", type=parse_type("INT"), comment=long)):
        with pytest.raises(BadRequest):
            changed(schema, change)
    old = replace(schema, fields=(replace(schema.fields[0], description=long),), comment=long)
    assert changed(old, SetOption(key="own.note", value="v")).comment == long
