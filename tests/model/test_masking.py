"""Masking a text ends in time whatever the text is; what it hides is tested where it is shown."""

from __future__ import annotations

import subprocess
import sys

import pytest

from model.options.masking import erases, masked_secrets, masked_text

TEXTS = {
    "updates": '"UPDATE " * 140_000',
    "spaces behind a word": '"SYS" + " " * 1_000_000',
    "escapes in an open text": '''"'" + "\\\\'" * 500_000 + "\\\\"''',
    "open comments": '"/* " * 330_000',
    "quotes": """"'" * 1_000_001""",
    "values": """"=''" * 330_000""",
    "keys": """("a" * 190 + "=''" * 60 + " ") * 2_700""",
    "backquotes": '"`" * 1_000_001',
}


@pytest.mark.parametrize("kind", TEXTS)
def test_no_text_takes_long(kind: str) -> None:
    """In a process of its own: an expression holds all threads, those of a test's limit too."""
    code = f"""
from model.options.masking import erases, literals_in, masked_literals, masked_secrets, masked_text
text = {TEXTS[kind]}
for look in (erases, literals_in, masked_literals, masked_secrets, masked_text):
    look(text)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_an_update_is_one_however_it_is_written() -> None:
    for text in (
        "update t set a = 1",
        "UPDATE\n\tt SET a = 1",
        "SELECT 1; UPDATE UPDATE SET",
        "UPDATE /* ; */ t SET a = 'x'",
        "update`t`SET a = 1",
    ):
        assert erases(text), text
    for text in ("SET a = 1", "UPDATE t; SET a = 1", "UPDATE (SET", "UPDATED t SET a", "UPDATE t OFFSET a"):
        assert not erases(text), text


def test_a_text_that_ends_in_a_backslash_is_hidden_too() -> None:
    assert masked_text("DELETE FROM t WHERE a = 'b\\") == "DELETE FROM t WHERE a = ******"


def test_a_values_key_is_what_stands_before_it() -> None:
    assert masked_secrets("('my password' = 'a', 'x'='b', token => 'c', d.secret\n='e', 'token'x='f')") == (
        "('my password' = '******', 'x'='b', token => '******', d.secret\n='******', 'token'x='f')"
    )
