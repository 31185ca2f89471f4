"""Masking a text ends in time whatever the text is; what it hides is tested where it is shown."""

from __future__ import annotations

import subprocess
import sys

import pytest

from model.options.masking import erases, masked_secrets, masked_text
from tests.short import one_in

TEXTS = {
    "updates": '"UPDATE " * 140_000',
    "spaces behind a word": '"SYS" + " " * 1_000_000',
    "escapes in an open text": '''"'" + "\\\\'" * 500_000 + "\\\\"''',
    "open comments": '"/* " * 165_000',
    "quotes": """"'" * 1_000_001""",
    "values": """"=''" * 165_000""",
    "keys": """("a" * 190 + "=''" * 60 + " ") * 1_300""",
    "keys that go on": '"a`b`" * 100_000 + "=x"',
    "nested comments": '"/* " * 100_000 + "*/ " * 100_000',
    "comments between": """"('password' " + "/**/" * 125_000 + "= 'x'" """,
    "bare pairs": '"(a=b," * 100_000',
    "parentheses": '"()" * 250_000',
    "words": '"(a b-" * 85_000',
    "rows": """"(1, 'a=b', 'c')," * 30_000""",
    "dots": '"fields" + ".a" * 400_000 + "=x"',
    "backquotes": '"`" * 500_001',
}


@pytest.mark.parametrize("kind", one_in(2, TEXTS))
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


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ("('my.password' /* c */ = 'geheim')", "('my.password' /* c */ = '******')"),
        ("('my.password' /* a /* b */ c */ = 'geheim', 'x' = 'y')", "('my.password' /* a /* b */ c */ = '******', 'x' = 'y')"),
        ("('my.password' = /* c */ 'geheim')", "('my.password' = /* c */ '******')"),
        ("('my.password' -- it's\n = 'geheim')", "('my.password' -- it's\n = '******')"),
        ("('my.password' {# c #} = 'geheim')", "('my.password' {# c #} = '******')"),
        ("(my.password = geheim, x = y)", "(my.password = ******, x = y)"),
        ("(my.password = geheim-'a b'.c, x = y)", "(my.password = ******, x = y)"),
        ("(my.password = `geheim`)", "(my.password = ******)"),
        ("('my.password' = 4711)", "('my.password' = ******)"),
        ("('my.password' = 'ab\\'geheim', 'x' = 'y')", "('my.password' = '******', 'x' = 'y')"),
        ("(`my.password` = 'geheim')", "(`my.password` = '******')"),
        ("(my.`password` = geheim)", "(my.`password` = ******)"),
        ("('my.pass\\u0077ord' = 'geheim')", "('my.pass\\u0077ord' = '******')"),
        ("('my.p\\assword' = 'geheim')", "('my.p\\assword' = '******')"),
        ('("my.password" = "geheim")', "(\"my.password\" = '******')"),
        ("('x' = 'y' /* 'my.password' = 'geheim' */)", "('x' = 'y' /* 'my.password' = '******' */)"),
    ],
)
def test_what_the_parser_takes_as_a_secrets_option_is_hidden(options: str, shown: str) -> None:
    assert masked_text(f"CREATE TABLE t (a INT) WITH {options}") == f"CREATE TABLE t (a INT) WITH {shown}"
    assert masked_text(f"ALTER TABLE t SET {options}") == f"ALTER TABLE t SET {shown}"


def test_a_bare_value_is_hidden_where_it_is_an_options() -> None:
    assert masked_text("SELECT 1; SET my.password = geheim; SELECT 2") == "SELECT 1; SET my.password = ******; SELECT 2"
    assert masked_text("CALL sys.x('t', secret => 4711)") == "CALL sys.x('t', secret => ******)"
    assert masked_text("CALL sys.x('t', 'bucket=4,my.password=a\\'b,c=d')") == "CALL sys.x('t', 'bucket=4,my.password=******,c=d')"
    join = "SELECT * FROM a JOIN b ON a.access_key = b.access_key WHERE a.token<=5"
    assert masked_text(join) == join


def test_a_line_of_a_log_may_have_an_apostrophe() -> None:
    assert masked_text("it doesn't take ('my.password' = 'geheim')") == "it doesn't take ('my.password' = '******')"
