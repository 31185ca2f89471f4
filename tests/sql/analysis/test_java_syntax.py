"""Regular expressions are judged as Java reads them, also where Python reads them otherwise or not at all."""

from __future__ import annotations

import itertools

import pytest

from model.errors import UnsupportedStatement
from sql.analysis.allow_list import checked_sql
from sql.analysis.limits.java_syntax import NotRead, parse, unquoted
from sql.analysis.limits.patterns import longest_searched
from sql.analysis.limits.ways import Ways
from sql.dialect import parse_one

OF_JAVA = ["(?<y>z)?", r"\e?", r"\cA?", r"\x{41}?", "x?(?i)", r"\\Q?", r"\N{SPACE}?", r"(y)\k<n>?(?<n>x)?", "[a[b]]?", r"\G", "(?x) # (\n"]
"""What Python does not read, or reads as something else."""
FOR_EVER = ["(?:a|a)" * 40 + "$", "a?" * 40 + "a" * 40, ".*" * 8 + "x", "a{1,1000}" * 8 + "b", "(?:a|aa)" * 30 + "b"]


@pytest.mark.parametrize(("before", "body"), list(itertools.product(OF_JAVA, FOR_EVER)))
def test_what_only_java_reads_hides_nothing(before: str, body: str) -> None:
    with pytest.raises(UnsupportedStatement, match="could take forever"):
        longest_searched(before + body)


@pytest.mark.parametrize(
    "pattern",
    [
        r"(?:A|\0101)" * 40 + "b", r"(?:A|[\0101])" * 40 + "$", r"(x?)(?:A|[\0101])*b\1", r"(?:a|[ab])" * 40 + "$", "(?:a|b|a)" * 40 + "$",
        "(?:(?i:a)|A)" * 40 + "$", r"(?iu)(?:k|\x{212a})" + r"(?:k|\x{212A})" * 40 + "$", r"(?:a|\u0061)" * 40 + "$",
        r"(?:!|\ca)" * 40 + "$",
        r"\R" * 40 + "x", r"(?:\R?)" * 40 + "x", r"(?:(?:\R[\n]?)*)x", r"(?x)(?:a| a)" + "(?:a|a)" * 40 + "$", "(?:a|[b[a]])" * 40 + "$",
        r"(?:\Qa\E|a)" * 40 + "$", r"(?:1|\Q1\E)" * 40 + "$", r"(?:a|[b\Qa\E])" * 40 + "$", "(?:a|[a&&a])" * 40 + "$",
    ],
)  # fmt: skip
def test_characters_are_those_of_java(pattern: str) -> None:
    """Of two branches that begin alike each is tried, however they are written."""
    with pytest.raises(UnsupportedStatement, match="could take forever"):
        longest_searched(pattern)


@pytest.mark.parametrize(
    ("named", "plain"),
    [
        (r"(?<year>\d{4})-(?<m>\d\d)", r"(\d{4})-(\d\d)"), (r"^\p{Lu}\p{Ll}* \p{Lu}\p{Ll}*$", "^[A-Z][a-z]* [A-Z][a-z]*$"),
        (r"\x{41}+\Qb*\E", r"A+b\*"), (r"(?i)(yes|no)(?-i)x+", "(yes|no)x+"), (r"\h*=\h*(?<v>.*)", "[ ]*=[ ]*(.*)"),
        (r"(?:foo\R)+bar", r"(?:foo\n)+bar"),
        (r"(?<k>\w+)=(?<v>\w+);\k<k>", r"(\w+)=(\w+);\1"),
    ],
)  # fmt: skip
def test_what_only_java_reads_is_judged_like_what_python_reads(named: str, plain: str) -> None:
    assert longest_searched(named) == longest_searched(plain)


@pytest.mark.parametrize(
    "pattern",
    [
        "a**", "+a", "a{", "a{,5}", "a{3,2}", "(a", "a)", "[a", "[]", "[b-a]", r"[a-\d]", "a\\", r"\y", "(?<1>a)", "(?y)", r"\x4",
        r"\p", r"[\1]", "(?c)a", "(?x)( ?i)a", "(?x)\\0 1", "(?x)a # b\x85c", "\0",
    ],
)  # fmt: skip
def test_what_is_not_read_is_an_error(pattern: str) -> None:
    with pytest.raises(UnsupportedStatement, match="is not read: "):
        longest_searched(pattern)


def test_java_refuses_what_is_quoted_nowhere() -> None:
    with pytest.raises(NotRead):
        parse(unquoted(r"a\E"))


@pytest.mark.parametrize(
    ("pattern", "plain"),
    [
        (r"\Qa.b\E.", r"a\.b."), (r"\\Q.\\E", r"\\Q.\\E"), (r"\Q\\E", r"\\"), (r"\0\Q1\E", r"\0\x31"), (r"[\Q]^\E]", r"[\]\^]"),
        (r"\Qa", "a"),
        (r"\Qé b\E\Q\E+", "é\\ b+"),
    ],
)  # fmt: skip
def test_quotes_are_escapes(pattern: str, plain: str) -> None:
    assert unquoted(pattern) == plain


def test_many_digits_are_a_group_that_is_there() -> None:
    """``\\11`` is the first group and a 1 where there is one group only: what stands behind tells whether a branch is left."""
    assert Ways().of(parse(r"(x)\11")) == 1
    assert parse(r"(x)\11")[-1] != parse("(x)" * 11 + r"\11")[-1]


@pytest.mark.parametrize(
    "given", ["collate({}, 'UTF8_LCASE')", "{} COLLATE UTF8_LCASE", "CAST({} AS STRING COLLATE UTF8_LCASE)"]
)  # fmt: skip
def test_a_collation_makes_capitals_and_small_letters_one(given: str) -> None:
    """Spark gives Java a flag for it that does not stand in the pattern."""
    pattern = "(?:a|A)" * 40 + "$"
    with pytest.raises(UnsupportedStatement, match="could take forever"):
        checked_sql(parse_one(f"SELECT regexp_like({given.format('a')}, '{pattern}') FROM v"), {"v"})
    assert "regexp_like" in checked_sql(parse_one(f"SELECT regexp_like(a, '{pattern}') FROM v"), {"v"})


@pytest.mark.parametrize(
    "pattern",
    [
        "(|)" * 40 + "$", "(?:|)" * 30 + "(?!x)", "(?:|)" * 30 + "(?<=x)", r"(\b|\b)" * 30 + "$", "(?:(?=a)|(?=a))" * 30 + "$",
        "(|)" * 40 + r"[^\s\S]", "(?=" + "(|)" * 40 + "$)", "(?:^|)" * 40 + r"\z",
    ],
)  # fmt: skip
def test_branches_that_are_empty_are_tried_each(pattern: str) -> None:
    with pytest.raises(UnsupportedStatement, match="could take forever"):
        longest_searched(pattern)


@pytest.mark.parametrize("pattern", ["(^|,)x(,|$)", r"(\s|^)a(\s|$)", "(a|b|)(c|d|)$", "(?:a|)(?:b|)(?:c|)$"])
def test_empty_branches_of_every_day_are_told_by_a_character(pattern: str) -> None:
    assert longest_searched(pattern) is None
