"""LIKE over names: what fits, and that no pattern takes long."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model.errors import InvalidParameter
from model.text.like import Like


@given(st.text("ab%_\\\n.", max_size=12), st.text("ab%_\\\n.", max_size=12))
def test_a_pattern_fits_what_an_expression_would(pattern: str, text: str) -> None:
    parts = [one[1:] if one[:1] == "\\" else one for one in re.findall(r"\\.|[^\\]", pattern, re.DOTALL)]
    written = [one[:1] == "\\" for one in re.findall(r"\\.|[^\\]", pattern, re.DOTALL)]
    expression = "".join(
        re.escape(part) if escaped else {"%": ".*", "_": "."}.get(part, re.escape(part))
        for part, escaped in zip(parts, written, strict=True)
    )
    assert Like(pattern).matches(text) is (re.fullmatch(expression, text, re.DOTALL) is not None)


MANY = [
    "'%' * 200 + 'x'",
    "'%a' * 90 + '%b'",
    "'%_' * 90 + 'b'",
    "'%a_' * 60 + 'b'",
    "'a' * 10_000",
    "'%_' * 5_000",
    "'%' + 'a' * 99 + '_b%'",
]


@pytest.mark.parametrize("pattern", MANY)
def test_many_wildcards_take_no_time(pattern: str) -> None:
    """In a process of its own: an expression that goes back holds all threads, those of a test's limit too."""
    code = f"""
from model.text.like import Like
fits = Like({pattern})
assert not any(fits.matches("a" * 200) for _ in range(100))
assert fits.matches("a" * 100_000) is ({pattern} == "%_" * 5_000)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_a_pattern_longer_than_any_name_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="at most 10000 characters, and this one 10001"):
        Like("%" * 10_001)
