"""The rules a schema of an append table keeps."""

from __future__ import annotations

import pytest

from model.errors import InvalidName, InvalidOption, InvalidSchema
from model.schema.schema import Schema, column, new_schema, with_queue_defaults
from model.schema.types import ArrayType, Field, IntType, RowType, VarCharType

ID, DT, NOTE = column("id", "BIGINT NOT NULL"), column("dt", "DATE"), column("note", "STRING", comment="free text")


def test_columns_are_numbered_as_paimon_numbers_them() -> None:
    inner = RowType(fields=(Field(id=-1, name="z", type=VarCharType()),))
    row = RowType(fields=(Field(id=-1, name="x", type=IntType()), Field(id=-1, name="y", type=ArrayType(element=inner))))
    schema = new_schema([ID, Field(id=-1, name="r", type=row), NOTE], options={"bucket": "-1"})
    numbered = schema.fields[1].type
    assert isinstance(numbered, RowType)
    nested = numbered.fields[1].type
    assert isinstance(nested, ArrayType)
    assert isinstance(nested.element, RowType)
    assert [f.id for f in schema.fields] == [0, 1, 5]
    assert [f.id for f in numbered.fields] == [2, 4]
    assert nested.element.fields[0].id == 3
    assert schema.highest_field_id == 5


def test_a_schema_file_is_read_back_as_written() -> None:
    schema = new_schema([ID, DT, NOTE], partition_keys=["dt"], options={"bucket": "4", "bucket-key": "id"}, comment="t", time_millis=7)
    assert Schema.from_json(schema.to_json()) == schema
    assert "comment" not in new_schema([ID], options={"bucket": "-1"}).to_json()


def test_old_schema_files_get_the_defaults_of_their_time() -> None:
    body = new_schema([ID], options={"bucket": "-1"}).to_json() | {"options": {}}
    del body["version"]
    assert Schema.from_json(body).options == {"bucket": "1", "file.format": "orc"}
    assert Schema.from_json(body | {"version": 2}).options == {"file.format": "orc"}


def test_a_queue_is_the_default_and_its_key_is_written_down() -> None:
    nested = column("a", "INT")
    fields = [Field(id=-1, name="tags", type=ArrayType(element=IntType())), DT, nested]
    assert with_queue_defaults({}, fields, ["dt"]) == {"bucket": "1", "bucket-key": "a"}
    assert with_queue_defaults({"bucket": "-1"}, fields, []) == {"bucket": "-1"}
    assert with_queue_defaults({"bucket-key": "a"}, fields, []) == {"bucket": "1", "bucket-key": "a"}
    # Java Paimon 1.0.1, 1.4.2 and 2.1 load a table with buckets only by a key, which is neither nested nor of the partition.
    with pytest.raises(InvalidOption, match=r"tags, dt can be none.*Add a column.*'bucket' = '-1'"):
        with_queue_defaults({}, fields[:2], ["dt"])
    for key in ("tags", "dt", " "):
        with pytest.raises(InvalidOption, match="'bucket-key'"):
            new_schema(fields, partition_keys=["dt"], options={"bucket": "1", "bucket-key": key})


def test_keys_given_as_options_become_the_schemas_own() -> None:
    schema = new_schema([ID, DT], options={"bucket": "-1", "partition": "dt"})
    assert schema.partition_keys == ("dt",)
    assert "partition" not in schema.options
    with pytest.raises(InvalidSchema, match="PRIMARY KEY"):
        new_schema([ID, DT], options={"bucket": "-1", "primary-key": "id"})
    with pytest.raises(InvalidSchema, match="repeats"):
        new_schema([ID, DT], partition_keys=["dt"], options={"partition": "dt"})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"bucket": "0", "bucket-key": "id"}, "at least 1"),
        ({"bucket": "-2"}, "at least 1"),
        ({"bucket": "4"}, "'bucket-key' is missing"),
        ({"bucket": "-1", "bucket-key": "id"}, "there are none"),
        ({"bucket": "4", "bucket-key": "nope"}, "no column nope"),
        ({"bucket": "4", "bucket-key": "dt"}, "partition column"),
        ({"bucket": "4", "bucket-key": "tags"}, "cannot be hashed"),
        ({"bucket": "4", "bucket-key": "id,id"}, "twice"),
        ({"bucket": "4", "bucket-key": "note", "bucket-function.type": "mod"}, "INT or BIGINT"),
    ],
)
def test_bucket_options_that_cannot_work_are_refused(options: dict[str, str], says: str) -> None:
    columns = [ID, DT, NOTE, Field(id=-1, name="tags", type=ArrayType(element=IntType()))]
    with pytest.raises(InvalidOption, match=says):
        new_schema(columns, partition_keys=["dt"], options=options)


@pytest.mark.parametrize("name", ["_KEY_x", "_ROW_ID", "rowkind", "", "  "])
def test_reserved_and_empty_column_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidName):
        new_schema([column(name, "INT")], options={"bucket": "-1"})


@pytest.mark.parametrize(
    ("columns", "partitions", "says"),
    [
        ([], [], "at least one column"),
        ([ID, ID], [], "declared twice"),
        ([ID], ["id"], "at least one must not"),
        ([ID, DT], ["no"], "not a column"),
        ([ID, DT, NOTE], ["dt", "dt"], "stands twice"),
    ],
)
def test_schemas_that_cannot_be(columns: list[Field], partitions: list[str], says: str) -> None:
    with pytest.raises(InvalidSchema, match=says):
        new_schema(columns, partition_keys=partitions, options={"bucket": "-1"})
