"""Every example of the SQL reference is a statement this server reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sql.dialect import parse_one, split
from sql.statements.base import build

PAGE = (Path(__file__).parents[2] / "docs" / "sql.md").read_text()
EXAMPLES = [part.text for block in re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL) for part in split(block)]


def test_there_are_examples() -> None:
    assert len(EXAMPLES) > 40


@pytest.mark.parametrize("text", EXAMPLES)
def test_an_example_is_a_statement(text: str) -> None:
    assert build(parse_one(text)) is not None
