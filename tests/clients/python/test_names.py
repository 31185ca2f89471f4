"""The client reads names of tables as the server does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import AnalysisError
from model.identifier import Identifier
from model.text.name_parts import parse_name
from sluice.names import parts_of, table_of


@given(st.text(st.sampled_from("ab.`$ é"), max_size=8))
def test_names_have_the_parts_the_server_sees(text: str) -> None:
    try:
        parts = parse_name(text)
    except AnalysisError:
        with pytest.raises(ValueError, match="is no name"):
            parts_of(text)
    else:
        assert parts_of(text) == parts


def test_a_table_is_found_by_any_of_its_names() -> None:
    assert table_of("t") == table_of("default.t") == table_of("sluice.default.t") == ("default", "t")
    assert table_of(Identifier("d.e", "a`.b").written()) == ("d.e", "a`.b")
    with pytest.raises(ValueError, match="has 3 parts"):
        table_of("d.a.b")
