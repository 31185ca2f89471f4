"""Names as text: what is written is read as the same name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import AnalysisError
from model.identifier import Identifier
from model.text.name_parts import parse_name

_NAMES = st.text(st.sampled_from("ab.`*'\" -é"), min_size=1, max_size=6)


@given(_NAMES, _NAMES)
def test_a_written_name_is_read_as_the_same_name(database: str, table: str) -> None:
    assert parse_name(Identifier(database, table).written()) == (database, table)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("t", ("t",)), ("sluice.d.t", ("sluice", "d", "t")), ("`d`.`a.b`", ("d", "a.b")), ("d.`a``b`", ("d", "a`b")),
        ("my table.it's", ("my table", "it's")), ("d.t$branch_b", ("d", "t$branch_b")), ("a`b.c", ("a`b", "c")),
    ],
)  # fmt: skip
def test_names_are_read_as_people_write_them(text: str, parts: tuple[str, ...]) -> None:
    assert parse_name(text) == parts


@pytest.mark.parametrize("text", ["", ".", "d.", ".t", "d..t", "`d", "`d`t", "``x", "d.`"])
def test_what_is_no_name_is_refused(text: str) -> None:
    with pytest.raises(AnalysisError, match="is no name"):
        parse_name(text)


def test_names_are_written_plainly_where_that_is_clear() -> None:
    assert Identifier("d", "t", "b").written() == "d.t$branch_b"
    assert Identifier("d.e", "my table").written() == "`d.e`.my table"
    assert Identifier("d", "*").written() == "d.`*`"
    assert Identifier("d", "a`b", "c").quoted() == "`d`.`a``b$branch_c`"
