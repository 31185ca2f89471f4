"""What a part of a regular expression may begin with is what Spark's Java takes it to begin with, and nothing that Java takes is missed."""

from __future__ import annotations

import re
from collections import defaultdict

import pytest
from sqlglot import exp

from gateway.gateway import Gateway
from sql.analysis.limits.java_sets import OTHER
from sql.analysis.limits.java_syntax import parse, unquoted
from sql.analysis.limits.ways import Ways

pytestmark = pytest.mark.spark
FLAGS = ["", "(?i)", "(?iu)", "(?U)"]
EXACT = r"""a \d \D \s \S \w \W \h \H \v \V [a-c] [^a-c] []a] [^]a] [a^] [a-] [a-[b]] [a[b]] [\d-z] [\v-x] [\v] [a\-z] [\0101] \0101 \077
\x41 \x{41} \u0041 [\u0041-\x{43}] \cA \ca \e \a \t \p{L} \pL \PL \p{Lower} \p{Upper} \p{Alpha} \p{Digit} \p{Alnum} \p{Graph} \p{Print}
\p{XDigit} \p{Space} \p{ASCII} \p{IsAlphabetic} \p{gc=N} \p{P} \p{Sc} \p{N} [^\P{L}] [^\s\S] [\QA-C\E] \Q.\E \Q1\E [\Q^\Ea] [--/] é [^é]
[a-é] [^\x00-\x{10FFFF}] k [K-L] ſ \- \é ] } [[a]b] [[^a]b] [\\] [\]] \R a|b|[c-d] a|ab a|(?i:B) (?i:B)|b [A-C]|(?i)b
(?<n>a) (?>ab) (?=a)a"""
WIDER = r"""[a&&b] [a-z&&[^b]] [^a[b]] [^[^a]] [a&b] [&a] [!-&&b] \p{IsUppercase} \p{javaLowerCase} [\p{L}&&[^a]] \N{SPACE} \X \p{Punct}
\p{Blank} \p{Cntrl} \p{Lu} \P{Lu} [^\p{Lu}] ."""
CHARACTERS = [*map(chr, range(1, OTHER)), *"éÉſ\u212a\u2028\x85٣Àıİ中\U0001f600"]


def test_parts_begin_with_what_java_takes(on_spark: Gateway) -> None:
    def quoted(text: str) -> str:
        return exp.Literal.string(text).sql("spark")

    patterns = [flags + part for part in (EXACT + " " + WIDER).split() for flags in FLAGS]
    rows = ", ".join(f"({at}, {quoted(pattern)})" for at, pattern in enumerate(patterns))
    texts = ", ".join(f"({ord(text)}, {quoted(text)})" for text in CHARACTERS)
    # A text of two, as some parts are longer than one character.
    found = on_spark.run(
        f"SELECT at, code FROM (VALUES {rows}) AS p(at, pattern), (VALUES {texts}) AS t(code, text) "
        r"WHERE regexp_like(text || 'b', '\\A(?:' || pattern || ')')"
    ).collect()
    taken = defaultdict(set)
    for at, code in found:
        taken[patterns[at]].add(code)
    for pattern in patterns:
        first = Ways()._first(parse(unquoted(pattern)))[0] - {0}  # which no text here holds
        folds = re.search(r"\(\?[a-zA-Z]*i", pattern) is not None
        told = {ord(chr(code).lower()) if folds and code < OTHER else min(code, OTHER) for code in taken[pattern]}
        assert told <= first, pattern
        assert told | {OTHER} == first | {OTHER} or pattern.endswith(tuple(WIDER.split())) or pattern.startswith(("(?U)", "(?iu)")), pattern
