"""What a text may cost before it runs: its words are counted first, and what is nested by the thousand is the client's error."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlglot.tokenizer_core import TokenType

from gateway.gateway import Gateway
from model.errors import SqlError, SqlSyntaxError, StatementTooLarge, Unavailable, UnsupportedStatement
from sql.analysis.references import table_references
from sql.dialect import Flink, FlinkParser, parse_one, tokens_of
from sql.parsing.size import check_words
from tests.short import one_in

DEEP: dict[str, Callable[[int], str]] = {
    "unions": lambda n: " UNION ALL ".join(["SELECT 1 AS a"] * n),
    "parentheses": lambda n: "SELECT " + "(" * n + "1" + ")" * n,
    "calls": lambda n: "SELECT " + "upper(" * n + "'a'" + ")" * n,
    "subqueries": lambda n: "SELECT * FROM (" * n + "SELECT 1" + ")" * n,
    "nots": lambda n: "SELECT " + "NOT " * n + "true",
    "minuses": lambda n: "SELECT " + "- " * n + "1",
    "cases": lambda n: "SELECT " + "CASE WHEN true THEN " * n + "1" + " END" * n,
    "types": lambda n: "SELECT CAST(NULL AS " + "ARRAY<" * n + "INT" + ">" * n + ")",
    "elements": lambda n: "SELECT a" + "[0]" * n + " FROM (SELECT 1 AS a)",
    "fields": lambda n: "SELECT a" + ".b" * n + " FROM (SELECT 1 AS a)",
    "arrays": lambda n: "SELECT " + "ARRAY[" * n + "1" + "]" * n,
    "rows": lambda n: "SELECT " + "ROW(" * n + "1" + ")" * n,
    "maps": lambda n: "SELECT " + "MAP['a', " * n + "1" + "]" * n,
}


@pytest.fixture(scope="module")
def gateway(module_gateway: Gateway) -> Gateway:
    """One for all: most of what it is asked is refused."""
    return module_gateway


@pytest.mark.parametrize("kind", DEEP)
@pytest.mark.parametrize("times", [30, 300, 3000])
def test_what_is_too_deep_is_the_clients_error(gateway: Gateway, kind: str, times: int) -> None:
    """On a gateway without Spark: what comes so far as to need it says so, and nothing else but the text's own errors is told."""
    with contextlib.suppress(SqlError, Unavailable):
        gateway.run(DEEP[kind](times))
    assert gateway.run("SELECT 1").collect() == [(1,)]


def test_a_type_nested_too_deeply_is_refused() -> None:
    with pytest.raises(SqlSyntaxError, match="A type is nested too deeply"):
        parse_one(DEEP["types"](51))
    parse_one(f"SELECT {', '.join(['CAST(a AS ARRAY<INT>)'] * 60)} FROM t")


@pytest.mark.parametrize(("opened", "closed"), ["()", "[]"])
def test_no_word_before_a_bracket_is_read_twice_at_each_level(opened: str, closed: str) -> None:
    """As a type and as a call it was: a text of 120 letters took minutes of the server's interpreter, and each level twice as long."""
    words = {word for word in (*Flink.Tokenizer.KEYWORDS, *FlinkParser.FUNCTION_PARSERS, *FlinkParser.FUNCTIONS) if word.isidentifier()}
    assert {"ARRAY", "ROW", "DATE", "TIMESTAMP", "STRUCT", "DECIMAL", "CAST", "TRIM"} <= words
    refused = {}
    for word in words:
        try:
            parse_one(f"SELECT {f'{word}{opened}' * 20}1{closed * 20} FROM t")
        except (SqlSyntaxError, UnsupportedStatement) as problem:
            refused[word] = str(problem)
    assert len(refused) < len(words)
    assert not [word for word, message in refused.items() if "nested too deeply" in message]


def test_what_is_read_again_and_again_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever sqlglot tries one way and then another: here with its own reading of a type's name."""
    parser = FlinkParser(dialect=Flink())
    monkeypatch.setattr(parser, "_is_call", lambda: False)
    text = "SELECT " + "ROW(" * 30 + "1" + ")" * 30
    with pytest.raises(SqlSyntaxError, match="nested too deeply") as refused:
        parser.parse(tokens_of(text), text)
    assert refused.value.line == 1


@pytest.mark.parametrize(
    "text",
    ["SELECT a FROM t WHERE a IN (" + ",".join(["1"] * 30_000) + ")", "SELECT " + "+" * 60_000 + "1", "SELECT /* a */ " * 60_000],
    ids=["list", "signs", "words"],
)
def test_words_are_counted_before_a_text_is_parsed(gateway: Gateway, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.script.split", lambda text: pytest.fail("the text was taken apart"))
    with pytest.raises(StatementTooLarge, match="more than 50000 words"):
        gateway.run(text)


def test_comments_and_literals_are_one_word() -> None:
    check_words("SELECT '" + "a, " * 60_000 + "' -- " + "b, " * 60_000 + "\n/* " + "c, " * 60_000 + " */ FROM `" + "d " * 60_000 + "`")


OPEN = {
    "escaped quotes": """"SELECT " + "\\\\'" * 240_000""",
    "double quotes": """"SELECT " + '\\\\"' * 240_000""",
    "comments": '"SELECT 1 " + "/* " * 165_000',
    "spaces behind rows": '"INSERT INTO t VALUES (1)" + " " * 450_000 + "x"',
}


@pytest.mark.parametrize("kind", one_in(2, OPEN))
def test_what_is_not_closed_is_read_once(kind: str) -> None:
    """In a process of its own: an expression that looks for the end from every place holds all threads."""
    code = f"""
import contextlib
from model.errors import LakeError
from sql.dialect import parse_one, split
from sql.local.values import read_values
from sql.parsing.size import check_words
text = {OPEN[kind]}
assert read_values(text) is None
with contextlib.suppress(LakeError):
    check_words(text)
    split(text)
    parse_one(text)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT r'\\', {} '",  # a backslash is one in a raw text
        "SELECT 1 -- it's\r, {} '",
        "SELECT a{} ",
        "SELECT /*+ x({}) */ 1",
        "SELECT 1 /* /* */ ' */ {} /* ' */",
    ],
)
def test_words_are_those_the_tokenizer_sees(text: str) -> None:
    with pytest.raises(StatementTooLarge):
        check_words(text.format(".b" * 200 if "a{}" in text else "1, " * 200), most=150)


@given(st.text("ab1.'\"`/*+-$\\ \r\n;(", max_size=60))
def test_as_many_words_are_let_through_as_there_are_tokens(text: str) -> None:
    try:
        tokens = tokens_of(text)
    except SqlSyntaxError:
        return
    hinted = any(token.token_type is TokenType.HINT for token in tokens)
    check_words(text, most=len(tokens) + len(text) * hinted)
    if tokens:
        with pytest.raises(StatementTooLarge):
            check_words(text + " " * len(text), most=len(tokens) - 1)


def test_many_plain_rows_are_read_without_a_parser(gateway: Gateway) -> None:
    gateway.run("CREATE TABLE t (a BIGINT, b STRING)").close()
    rows = ", ".join(f"({n}, 'x')" for n in range(20_000))
    assert gateway.run(f"INSERT INTO t VALUES {rows}").affected_rows == 20_000


def test_a_name_is_a_with_querys_only_where_it_is_known() -> None:
    def read(text: str) -> list[str]:
        return sorted(reference.name for reference in table_references(parse_one(text)))

    assert read("WITH a AS (SELECT * FROM a), b AS (SELECT * FROM a) SELECT * FROM b, c") == ["a", "c"]
    assert read("WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a") == ["b"]
    assert read("WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT * FROM a) SELECT * FROM a") == []
    assert read("WITH a AS (WITH b AS (SELECT * FROM a) SELECT * FROM b) SELECT * FROM a") == ["a"]
