"""Tables are made so that Java's clients find their files."""

from __future__ import annotations

import pytest

from model.errors import InvalidOption
from model.schema.change import RemoveOption, SetOption, apply_changes
from model.schema.findable import OLD_NAMES, findable
from model.schema.schema import Schema, column, new_schema


def by(type_: str, **options: str) -> Schema:
    columns = [column("p", type_), column("q", "INT"), column("v", "BYTES")]
    return new_schema(columns, partition_keys=["q", "p"], options={"bucket": "-1", **options})


@pytest.mark.parametrize("type_", ["BYTES", "BINARY(2)", "VARBINARY(3)"])
def test_partitions_by_bytes_have_new_names(type_: str) -> None:
    assert findable(by(type_)).options[OLD_NAMES] == "false"
    assert findable(by(type_, **{OLD_NAMES: "false"})) == by(type_, **{OLD_NAMES: "false"})
    with pytest.raises(InvalidOption, match="column p"):
        findable(by(type_, **{OLD_NAMES: "true"}))


@pytest.mark.parametrize("options", [{}, {OLD_NAMES: "true"}, {OLD_NAMES: "false"}])
def test_others_are_named_as_they_say(options: dict[str, str]) -> None:
    schema = by("STRING", **options)
    assert findable(schema) == schema


def test_tables_of_other_programs_are_left_alone() -> None:
    schema = by("BYTES", type="connector-table", connector="filesystem")
    assert findable(schema) == schema


@pytest.mark.parametrize("change", [SetOption(key=OLD_NAMES, value="TRUE"), RemoveOption(key=OLD_NAMES)])
def test_no_alter_takes_them_away(change: SetOption | RemoveOption) -> None:
    with pytest.raises(InvalidOption, match="by bytes"):
        apply_changes(findable(by("BYTES")), [change], table="t", has_snapshot=False, time_millis=1)
    with pytest.raises(InvalidOption, match="once the table has data"):
        apply_changes(findable(by("BYTES")), [change], table="t", has_snapshot=True, time_millis=1)


def test_an_empty_table_of_an_earlier_version_gets_them() -> None:
    new = apply_changes(by("BYTES"), [SetOption(key=OLD_NAMES, value="false")], table="t", has_snapshot=False, time_millis=1)
    assert new.options[OLD_NAMES] == "false"
