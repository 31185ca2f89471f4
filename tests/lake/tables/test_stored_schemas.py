"""Tables that Java's clients do not load, as earlier versions made them: each goes on, and can be altered and replaced."""

from __future__ import annotations

import shutil

import pytest

from lake import Lake
from model.errors import InvalidOption, TableAlreadyExist
from model.identifier import Identifier
from model.schema.change import AddColumn, SetOption
from model.schema.schema import column, new_schema
from model.schema.types import IntType
from tests.lake.commit.test_faults import T, insert
from tests.lake.stored import store_options

BUCKETS = {"bucket": "2", "bucket-key": "id"}


def test_a_replacement_is_looked_through_with_the_options_that_stay(lake: Lake) -> None:
    lake.create_table(T, new_schema([column("id", "BIGINT")], options={**BUCKETS, "deletion-vectors.enabled": "true"}))
    insert(lake, 1)
    clustered = {"clustering.incremental": "true", "clustering.columns": "v", "bucket-append-ordered": "false"}
    with pytest.raises(InvalidOption, match="exclude each other"):
        lake.replace_table(T, new_schema([column("id", "BIGINT"), column("v", "INT")], options={**BUCKETS, **clustered}))
    assert lake.open(T).schema.id == 0


def test_what_the_replaced_table_has_of_it_is_no_hindrance(lake: Lake) -> None:
    lake.create_table(T, new_schema([column("id", "BIGINT")], options=BUCKETS))
    insert(lake, 1)
    store_options(lake, T, {"row-tracking.enabled": "true"})
    options = {**BUCKETS, "row-tracking.enabled": "true"}
    lake.replace_table(T, new_schema([column("id", "BIGINT"), column("v", "INT")], options=options))
    assert lake.open(T).schema.field_names == ("id", "v")


def test_a_name_of_tags_that_is_stored_already_ends_no_alter(lake: Lake) -> None:
    lake.create_table(T, new_schema([column("id", "BIGINT")]))
    insert(lake, 1)
    key, name = "tag.batch.customized-name", "nightly$1"
    store_options(lake, T, {key: name})
    lake.alter_table(T, [AddColumn(name="w", type=IntType())])
    lake.alter_table(T, [SetOption(key="write-only", value="true")])
    assert lake.open(T).schema.options[key] == name
    with pytest.raises(InvalidOption, match=key):
        lake.alter_table(T, [SetOption(key=key, value="nightly$2")])


@pytest.mark.parametrize(
    ("key", "stored", "said"),
    [
        ("target-file-size", "0", "above zero"),
        ("spill-compression", "nonsense", "one of zstd, lz4, lzo, none"),
        ("spill-compression.zstd-level", "23", "at most 22"),
        ("file.compression.zstd-level", "23", "at most 22"),
    ],
)
def test_a_value_that_nobody_could_use_is_refused_and_one_that_is_stored_stays(lake: Lake, key: str, stored: str, said: str) -> None:
    lake.create_table(T, new_schema([column("id", "BIGINT")]))
    store_options(lake, T, {key: stored})
    insert(lake, 1)
    lake.alter_table(T, [SetOption(key="write-only", value="true")])
    assert lake.open(T).schema.options[key] == stored
    other = Identifier("default", "other")
    with pytest.raises(InvalidOption, match=said):
        lake.create_table(other, new_schema([column("id", "BIGINT")], options={key: stored}))


def test_a_table_with_such_a_name_is_registered(lake: Lake) -> None:
    lake.create_table(T, new_schema([column("id", "BIGINT")]))
    insert(lake, 1)
    there = store_options(lake, T, {"tag.batch.customized-name": "nightly$1"})
    other = Identifier("default", "registered")
    shutil.copytree(there.location, f"{there.location}_other")
    lake.register_table(other, f"{there.location}_other")
    assert lake.open(other).schema.options == there.schema.options


def test_who_makes_a_table_that_is_there_is_told_that_it_is(lake: Lake) -> None:
    """As jobs that begin with `create_table(…, ignore_if_exists=True)`, with a schema that was taken then."""
    lake.create_table(T, new_schema([column("id", "BIGINT")], options=BUCKETS))
    schema = store_options(lake, T, {"row-tracking.enabled": "true"}).schema
    with pytest.raises(TableAlreadyExist):
        lake.create_table(T, schema)
    assert lake.create_table(T, schema, if_not_exists=True) is None
    with pytest.raises(InvalidOption, match="row-tracking"):
        lake.create_table(Identifier("default", "more"), schema)
