"""A client's schema has names and options of a length that fits."""

from __future__ import annotations

from typing import Any

import pytest

from model.errors import InvalidName, InvalidOption
from server.paimon.messages.schemas import schema_of


def sent(name: str = "a", **options: str) -> dict[str, Any]:
    field = {"id": 0, "name": name, "type": "INT"}
    return {"fields": [field], "partitionKeys": [], "primaryKeys": [], "options": {"bucket": "-1", **options}}


def test_a_schema_with_names_or_options_that_are_too_long_is_refused() -> None:
    assert schema_of(sent("a" * 255))[0].field_names == ("a" * 255,)
    with pytest.raises(InvalidName, match="at most 255 fit"):
        schema_of(sent("a" * 900_000))
    with pytest.raises(InvalidOption, match="at most"):
        schema_of(sent(owner="v" * 1_000_000))
