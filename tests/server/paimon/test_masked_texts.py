"""Texts of errors as Java's clients of Paimon 2 show them: they put ``******`` in the place of one that might tell a secret.

Source: `SensitiveConfigUtils.redactText`, which looks for words of secrets in a text's letters and digits alone.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
_PACKAGES = ("model", "catalog", "lake", "server/paimon")
_BY_CHANCE = "sas"
"""The one of their words that lies in plain English: "has a slash". Texts about tokens and secrets are masked on purpose."""


def texts(file: Path) -> Iterator[tuple[int, str]]:
    """The words of each error that a module raises or returns, with its line; what is filled in stands as a newline."""
    for node in ast.walk(ast.parse(file.read_text())):
        made = node.exc if isinstance(node, ast.Raise) else node.value if isinstance(node, ast.Return) else None
        for part in ast.walk(made) if isinstance(made, ast.Call) else ():
            if isinstance(part, ast.JoinedStr):
                yield part.lineno, "".join(str(v.value) if isinstance(v, ast.Constant) else "\n" for v in part.values)
            elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.lineno, part.value


def is_masked(text: str) -> bool:
    return any(_BY_CHANCE in re.sub(r"[^a-z0-9]", "", words.lower()) for words in text.split("\n"))


def test_the_texts_that_were_masked_are_seen() -> None:
    assert is_masked("The table name 'a/b' has a slash, a backslash or a control character.")
    assert not is_masked("The table name 'a/b' may have no slash, backslash or control character.")


@pytest.mark.parametrize("package", _PACKAGES)
def test_no_error_is_masked_by_chance(package: str) -> None:
    found = [(file, *told) for file in sorted((ROOT / package).rglob("*.py")) for told in texts(file)]
    assert len(found) > 50
    masked = [f"{file.relative_to(ROOT)}:{line}: {text}" for file, line, text in found if is_masked(text)]
    assert masked == [], "word them so that no 's' comes before 'as', or 'a s'"
