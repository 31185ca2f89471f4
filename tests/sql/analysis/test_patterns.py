"""How long a text a regular expression is tried on: any for everyday ones, a short one where Java would go deep or try many ways."""

from __future__ import annotations

import re
import re._parser as sre_parse  # type: ignore[import-not-found]
from math import log2

import pytest

from model.errors import UnsupportedStatement
from sql.analysis.allow_list import checked_sql
from sql.analysis.limits.patterns import _HARMLESS, longest_searched
from sql.dialect import parse_one
from tests.sql.analysis.backtracking import most_steps

EVERYDAY = [
    "^[^,]{0,20}(,[^,]{0,20}){5}$", "^([^,]?,){9}[^,]?$", "([A-Z][a-z]?)+", r"(\S\s?)+", r"(\r\n?|\n)+", r"(\r\n?|\n)",
    r"^\[([^\]]+)\] \[(ERROR|WARN|INFO)\] ([a-z.]{1,20}): (.*)$",
    r"^(\d{4})-(\d{2})-(\d{2})[T ](\d{2}):(\d{2})(:(\d{2})([.]\d{1,9})?)?(Z|[+-]\d{2}:?\d{2})?$",
    "^(Jan(uary)?|Feb(ruary)?|Mar(ch)?|Apr(il)?|May|June?|July?|Aug(ust)?|Sep(tember)?|Oct(ober)?|Nov(ember)?|Dec(ember)?) [0-9]{1,2}$",
    r"^https?://([^/:?#]+)(:[0-9]{1,5})?(/[^?#]*)?", r"^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+[.][A-Za-z]{2,6}$", "([^=;]+)=([^;]*)",
    r"^((25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)[.]){3}(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)$", "(?i)^(yes|no|true|false|y|n|t|f)$",
    r"^(\d+\.){3}\d+$", r"^(\S+) (\S+) (\S+) \[([^\]]+)\] \"([^\"]*)\" (\d{3}) (\S+)$", r"(?<year>\d{4})-(?<month>\d{2})-(?<day>\d{2})",
    r"^\p{Lu}\p{Ll}*(?: \p{Lu}\p{Ll}*){0,5}$", r"(?i)^(?<level>error|warn|info)\s+(?<said>.*)$", r"^([^,]*,){5}[^,]*$", r"[\p{L}\d]+",
    r"[\w.+-]+@[\w-]+\.[\w.-]+", r"^\s*(\w+)\s*=\s*(.*?)\s*$", r"(?x) (\d{4}) - (\d{2})  # a month", r"^https?://[^/]+(/[^?]*)?(\?.*)?$",
    r"^(\d{1,3}[.]){3}\d{1,3}$", "^[+-]?[0-9]+([.][0-9]+)?$", "(GET|POST|PUT|HEAD) ([^ ]+) HTTP/[0-9.]{1,3}",
]  # fmt: skip


@pytest.mark.parametrize("pattern", EVERYDAY)
def test_everyday_patterns_are_tried_in_few_ways(pattern: str) -> None:
    """So many are not halved by their ways: a text is as long as its repetitions allow."""
    longest = longest_searched(pattern)
    assert longest is None or longest >= 200


@pytest.mark.parametrize(
    "pattern",
    [
        "(.*,){20}x", "(.*?a){18}b", "(a*){20}b", "(?U)(a?a)*b", "(?U:a?a)*b", "(?d)(a?a)*b", "x(?i)(a?a)*b", r"(\w?a)*b(?U)", "(a|a?)+$",
        r"(?i)([a-z]+)*\d", r"(?x)([a-z] +)*\d", r"\\Q(a?a)*b\\E", r"(\0141?a)*b", "(?:[x[y](?#z](a?a)*b)", "(?x)[#](a?a)*b\n]",
        r"(?<n>a?a)*\k<n>b", r"(\x{61}?a)*b",
    ],
)  # fmt: skip
def test_what_java_reads_otherwise_hides_no_repetition(pattern: str) -> None:
    with pytest.raises(UnsupportedStatement):
        longest_searched(pattern)


def test_a_repetition_that_one_character_ends_is_tried_once() -> None:
    """However many of them there are, also in a part that is repeated; where it may end in many places each turn counts."""
    found = [longest_searched(pattern) for pattern in ("([^,]*,){20}x", "(.*,){2}x", "(.*,){3}x", "a*b*c*d*e*f*g", "a*[ab]*[bc]*d")]
    assert found == [1_000_000, 20_000, 2_000, 1_000_000, 2_000]


@pytest.mark.parametrize(
    ("pattern", "most"),
    [
        ("a*(?=a*(?=a*(?=a*b)))c", None), ("a*(?=a*b)(?=a*c)d", 20_000), ("[ab]*(?=[ab]*c)(?=[ab]*d)e", 20_000), ("a*(?=[ab]*c)d", 20_000),
        ("a*(?!a*b)c", 20_000), (r"a*\b(?=a*b)", 20_000), ("a*$(?!a*b)", 20_000), ("a*(?<=b.{0,5000})d", 2_000), ("a*?(?=a*b)c", 20_000),
        ("a+((?=a*b))c", 20_000), ("a*(?=(?=a*b))c", 20_000), ("a*(?=a*+b)c", 20_000), ("a*(?:(?=a*b)|x)c", 15_874),
        ("(?<=b.{0,5000})d", 20_000), (r"\w+(?=\s*=)", 20_000), ("[^/]+(?=/[^/]*$)", 20_000), (r"(a+)\1b", 20_000),
        (r"(?<n>a+)\k<n>b", 20_000),
        ("((((?=a*b)){20}){20}){20}", 11_180), ("a*+b", 1_000_000), ("(((((a{20}){20}){20}){20}){20})b", 1_000_000),
        ("^(?=a*b)", 1_000_000), ("a*+(?=a*b)c", 1_000_000), ('"[^"]*"(?=[^"]*$)', 1_000_000), (r"(?<=\s)\w+(?=\s)", 1_000_000),
        (r"([\"'])[^\"']*\1", 1_000_000), (r"(a)\1", 33_554_432), (r"(?!foo)\w(?=b)", 33_554_432),
    ],
)  # fmt: skip
def test_what_is_gone_through_again_in_each_place_counts(pattern: str, most: int | None) -> None:
    """A long look-around at each end of a repetition before it, a group that is taken again, what keeps what it took."""
    if most is None:
        with pytest.raises(UnsupportedStatement):
            longest_searched(pattern)
    else:
        assert (longest_searched(pattern) or 33_554_432) == most


@pytest.mark.parametrize(
    "pattern",
    ["a*(?=a*(?=a*b))c", "a*(?=a*b)(?=a*c)d", r"a*$(?!a*b)", "a*(?<=b.{0,5000})d", "a*(?<!b.{0,30})c", "^(?=a*b)", "(?=a*b)c", "a*(?=ab)c"],
)
def test_a_look_around_takes_no_more_steps_than_are_foreseen(pattern: str) -> None:
    """A text of twice the length takes twice the steps for its first character and twice for each repetition that is counted."""
    power = {None: 1, 1_000_000: 2, 20_000: 3, 2_000: 4}[longest_searched(pattern)]
    short, long = (most_steps(sre_parse.parse(pattern), length, 8_000_000) for length in (15, 30))
    assert log2(long / short) < power + 0.5


def test_many_parts_are_judged_at_once() -> None:
    assert longest_searched("^" * 20_000) is None


@pytest.mark.parametrize(
    ("pattern", "most"),
    [
        ("^(a|b)*$", 500), ("(ab|cd)*$", 500), ("(ab?)*c", 500), (r"(\\w,?)*$", 500), ("(?:a|b)+?", 500), ("(a|b){3,}", 500),
        ("(a|b){0,999}", 500), ("((((((((a|b))))))))*", 146), ("(?x)(a|b) # x", 500), (r"\\R*", 500),
        ("(a|b){2,20}c*", 1_000_000), ("[(a|b)]*", 1_000_000), ("(a|b)?c*", 1_000_000),
    ],
)  # fmt: skip
def test_a_text_is_short_where_java_would_go_deep(pattern: str, most: int) -> None:
    """As the pattern is written: Python reads a choice between characters as a set of them."""
    text = checked_sql(parse_one(f"SELECT a RLIKE '{pattern}' FROM v"), {"v"})
    assert f"A text of more than {most} characters is not searched" in text


def test_repetitions_of_a_pattern_from_rows_are_counted() -> None:
    text = checked_sql(parse_one("SELECT a RLIKE concat(b, '*') FROM v"), {"v"})
    assert "length(translate(regexp_replace(regexp_replace(__given.a1, " in text
    assert "> 3 OR" in text
    assert "'|', '?')" in text


@pytest.mark.parametrize(
    ("pattern", "counted"),
    [(r"^\d{4}-\d{2}-\d{2}T\d{2}", 0), (r"a\+b\*c\{", 0), (r"\\+x*", 2), (r"a{21}b{3,30}c{1,20}", 2), (r".*a+", 2)],
)
def test_few_repetitions_and_what_is_escaped_are_not_counted(pattern: str, counted: int) -> None:
    assert sum(re.sub(_HARMLESS, "", pattern).count(character) for character in "*+{") == counted
