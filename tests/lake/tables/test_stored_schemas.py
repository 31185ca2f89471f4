"""Tables that Java's clients do not load, as earlier versions made them: each goes on, and can be altered and replaced."""

from __future__ import annotations

import pytest

from lake import Lake
from model.errors import InvalidOption
from model.schema.schema import column, new_schema
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
