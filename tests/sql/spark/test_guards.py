"""Rewritten patterns mean what Spark's own mean, and guards raise before a value is made."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from gateway.gateway import Gateway
from model.errors import ExecutionError, SqlError, UnsupportedStatement
from sql.analysis.allow_list import checked_sql
from sql.dialect import parse_one
from tests.torture.hurtful import DEEP_PATTERNS

pytestmark = pytest.mark.spark
TEXTS = [
    "",
    "a",
    "b",
    "ab",
    "ba",
    "aab",
    "abab",
    "a.b",
    "axb",
    "xaxbx",
    "a%b",
    "a\nb",
    "AB",
    "é b a",
    "aXbXcX",
    "bab",
    "abcabc",
    "\U0001f600ab",
]
PATTERNS = ["%a%b%", "a%b%c", "%a%b", "a%%b%", "_%a%_", "%a_b%", "%.%b%", "%a%a%a%", "%\\%%b%", "a%b%ab", "%ab%ab%", "%%", "_%_%_"]
SOURCE = "SELECT substr(CAST(id AS STRING), 1, 0) || 'x' AS s, CAST(2000000000 + id AS INT) AS n FROM range(1)"
RAISING = [
    ("repeat(s, n)", "more than 33554432 bytes"),
    ("lpad(s, n)", "more than 33554432 bytes"),
    ("array_repeat(s, n)", "more than 33554432 bytes"),
    ("sequence(1, n)", "more than 1000000 elements"),
    ("sequence(DATE '2000-01-01', DATE '2020-01-01', INTERVAL '1' SECOND)", "more than 1000000 elements"),
    ("length(repeat(repeat(repeat(s, 1000), 1000), 1000))", "more than 33554432 bytes"),
    ("length(replace(repeat(s, 30000000), s, repeat(s, 1000)))", "more than 33554432 bytes"),
    ("length(aggregate(sequence(1, 60), s, (x, i) -> concat(x, x)))", "more than 65536 bytes"),
    ("'aaaa' RLIKE concat('(a+)+', s)", "repeats no group"),
    ("s LIKE concat('%', s, '%', s, '%')", "at most two %"),
    ("repeat(s, 30000000) RLIKE 'x.*y'", "not searched"),
    (f"s RLIKE concat('{'a?' * 21}', s)", "of \\? "),
    ("""from_json(concat('{"d":1', lower('E'), '-30000000}'), 'd DECIMAL(38, 10)')""", "exponent of six digits"),
    ("""from_json(concat('{"d":"1', '\\\\u0065-30000000"}'), 'd DECIMAL(38, 10)')""", "exponent of six digits"),
    ("from_csv(concat('1e30000000', substr(s, 2)), 'd DECIMAL(38, 10)')", "exponent of six digits"),
    ("from_csv(concat('x1e-30000000x', substr(s, 2)), 'a INT, d DECIMAL(38, 10)', map('sep', 'x'))", "exponent of six digits"),
    ("from_xml(concat('<r><d>1&#101;-30000000</d></r>', substr(s, 2)), 'd DECIMAL(38, 10)')", "exponent of six digits"),
    ("from_xml(concat('<r><d>1e<![CDATA[999999999]]></d></r>', substr(s, 2)), 'd DECIMAL(38, 10)')", "exponent of six digits"),
    ("from_xml(concat('<r><d>1e9&#0000000000057;9999</d></r>', substr(s, 2)), 'd DECIMAL(38, 10)')", "exponent of six digits"),
    ("""from_csv('"1e9,9,9,9,9,9,9,9,9"', 'd DECIMAL(38, 0)')""", "exponent of six digits"),
    ("""from_csv('1e9,9,9,9,9,9,9,9,9', 'd DECIMAL(38, 0)', map('sep', '|'))""", "exponent of six digits"),
    ("""from_csv('"1e9,9,9,9,9,9,9,9,9"', schema_of_csv('"9,999,999,999,999,999,999"'))""", "exponent of six digits"),
    ("""from_json('{"d":"1,e+9,9,9,9,9,9,9"}', 'd DECIMAL(38, 0)')""", "exponent of six digits"),
    ("""from_json('{"d":"1×10^9999999"}', 'd DECIMAL(38, 0)', map('locale', 'sv'))""", "exponent of six digits"),
    ("size(array_distinct(transform(sequence(1, n - 1999980000), x -> struct(x))))", "at most 100000000 pairs"),
]
PASSING = [
    ("repeat(s, 3)", "xxx"),
    ("lpad(s, CAST(5 AS INT), '-')", "----x"),
    ("array_join(array_repeat(s, CAST(2 AS INT)), ', ')", "x, x"),
    ("size(sequence(CAST(1 AS INT), CAST(9 AS INT)))", 9),
    ("size(sequence(DATE '2020-01-01', DATE '2020-01-03', INTERVAL '1' DAY))", 3),
    ("aggregate(sequence(1, 3), s, (x, i) -> concat(x, x))", "xxxxxxxx"),
    ("replace('abc', lower('B'), repeat(s, 20))", "a" + "x" * 20 + "c"),
    ("regexp_replace('abc', 'b.*', concat(s, s))", "axx"),
    ("s RLIKE concat('^', s)", True),
    ("s RLIKE concat('^\\\\d{1,2}(a|b)?|', s)", True),
    (
        "to_json(from_csv(concat('1.5e-3,200000,\"x\"', substr(s, 2)), 'a DOUBLE, d DECIMAL(9, 0), t STRING'))",
        '{"a":0.0015,"d":200000,"t":"x"}',
    ),
    (
        """to_json(from_json(concat('{"h":"12e123456ab', s, '","d":1.5e2}'), 'h STRING, d DECIMAL(10, 2)'))""",
        '{"h":"12e123456abx","d":150.00}',
    ),
    (
        "to_json(from_xml(concat('<r><h>', s, '&#0000000000097;12e123456</h><d>1.5</d></r>'), 'h STRING, d DECIMAL(10, 2)'))",
        '{"h":"xa12e123456","d":1.50}',
    ),
    ("size(array_distinct(transform(sequence(1, 20000), x -> concat(s, x))))", 20000),
    ("size(array_union(transform(sequence(1, 100), x -> struct(s AS a, x AS b)), array(struct(s AS a, 0 AS b))))", 101),
    ("levenshtein(s, concat(s, 'y'))", 1),
]


def test_a_rewritten_like_means_the_same(on_spark: Gateway) -> None:
    """Against Spark's own LIKE, which is given in a form that is not rewritten: a pattern held by a column."""
    pairs = list(itertools.product(TEXTS, PATTERNS))
    kinds = ["{} LIKE {}", "{} NOT LIKE {}", "{} ILIKE {}"]
    from sqlglot import exp

    def quoted(text: str) -> str:
        return exp.Literal.string(text).sql("spark")

    mine = [kind.format(quoted(text), quoted(pattern)) for text, pattern in pairs for kind in kinds]
    assert "RLIKE" in checked_sql(parse_one(f"SELECT {mine[0]}"), ())
    rows = ", ".join(f"({quoted(text)}, {quoted(pattern)})" for text, pattern in pairs)
    few = (
        f"SELECT a, p, a LIKE p, a NOT LIKE p, a ILIKE p FROM (VALUES {rows}) AS t(a, p) WHERE length(p) - length(replace(p, '%', '')) <= 2"
    )
    known = {(row[0], row[1]): row[2:] for row in on_spark.run(few).collect()}
    answers = iter(on_spark.run("SELECT " + ", ".join(f"{one} AS c{at}" for at, one in enumerate(mine))).collect()[0])
    compared = 0
    for text, pattern in pairs:
        got = tuple(next(answers) for _ in kinds)
        assert got == known.get((text, pattern), got), (text, pattern)
        compared += (text, pattern) in known
    assert compared >= 5 * len(TEXTS)


@pytest.mark.parametrize("every", [pytest.param(2, id="short"), pytest.param(1, id="whole", marks=pytest.mark.torture)])
def test_guards_raise_before_the_value_is_made(on_spark: Gateway, every: int) -> None:
    for call, says in RAISING[::every]:
        with pytest.raises(SqlError, match=says):
            on_spark.run(f"SELECT {call} AS c FROM ({SOURCE})")


def test_guards_let_through_what_is_small(on_spark: Gateway) -> None:
    columns = ", ".join(f"{call} AS c{at}" for at, (call, _) in enumerate(PASSING))
    (row,) = on_spark.run(f"SELECT {columns} FROM (SELECT substr(CAST(id AS STRING), 1, 0) || 'x' AS s FROM range(1))").collect()
    assert list(row) == [value for _, value in PASSING]


@pytest.mark.parametrize("parser", ["from_json(concat('{\"h\":\"', t, '\"}')", "from_xml(concat('<r><h>', t, '</h></r>')"])
def test_references_of_characters_are_gone_through_once(on_spark: Gateway, parser: str) -> None:
    """With zeros in front they were begun with one by one, each time up to the end of the text."""
    text = "SELECT repeat('&#0000000000049;', CAST(60000 + id AS INT)) AS t FROM range(1)"
    query = f"SELECT length({parser}, 'h STRING, d DECIMAL(38, 10)').h) AS n FROM ({text})"
    (row,) = on_spark.run(query, timeout=60.0).collect()
    assert row == (60_000 * (1 if "xml" in parser else 16),)


def test_a_like_of_many_percent_signs_ends(on_spark: Gateway) -> None:
    pattern = "%a" * 30 + "%b"
    (row,) = on_spark.run(
        f"SELECT count(*) FROM (SELECT repeat('a', 30000) AS s FROM range(4)) WHERE s LIKE '{pattern}'", timeout=100.0
    ).collect()
    assert row == (0,)


def test_no_pattern_goes_deeper_than_javas_stack(on_spark: Gateway) -> None:
    """A stack that is full ends the JVM: each is answered or refused, and Spark is there afterwards."""
    answered = 0
    for text in DEEP_PATTERNS:
        with contextlib.suppress(UnsupportedStatement, ExecutionError):
            assert len(on_spark.run(text, timeout=60.0).collect()) == 10
            answered += 1
    assert answered == 6
    assert on_spark.run("SELECT sum(id * 2) FROM range(10)").collect() == [(90,)]
