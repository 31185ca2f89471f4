"""Patterns made by seed: of what is taken for cheap, Java takes few steps on the longest text it is tried on."""

from __future__ import annotations

import os
import random
import re._parser as sre_parse  # type: ignore[import-not-found]
from math import inf, log2
from typing import Any

import pytest

from model.errors import UnsupportedStatement
from sql.analysis.limits.patterns import longest_searched
from tests.short import short
from tests.sql.analysis.backtracking import most_steps

_SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261129"))
_LONG = 20
_MOST_COUNTED = 8_000_000
_MOST_STEPS = 1e14
"""Two thousand characters four times over, or a million twice, and some steps at each."""
_HIGHEST_POWER = 5.0
"""Of a text's length: the three repetitions without a limit and the place it begins at are four, and a few characters look like more."""
_WIDE = 100
"""Characters that a pattern without endless repetitions may match."""
_LONGEST = 1 << 25
_Written = tuple[str, str]
"""A pattern as Java reads it, and the same without what Python reads otherwise."""
_PREFIXES: tuple[_Written, ...] = (
    ("", ""), ("", ""), ("(?i)", ""), ("(?s)", ""), ("(?U)", ""), ("(?u)", ""), ("(?d)", ""), ("(?x)", ""), ("(?xi)", ""),
    ("a?(?i)", "a?"), ("(?-i)", ""), (r"\\Q", r"\\Q"), ("[x[y]]?", "[xy]?"), ("[x[y](?#]?", "[xy(?#]?"),
)  # fmt: skip
_ATOMS: tuple[_Written, ...] = (
    ("a", "a"), ("b", "b"), ("a", "a"), (".", "."), ("[ab]", "[ab]"), (r"\w", r"\w"), (r"\x61", "a"), (r"\x{61}", "a"), (r"\0141", "a"),
    ("[^c]", "[^c]"), (r"\Qa\E", "a"), (r"\Q(\E", r"\("), (r"\p{L}", r"[a-z]"), (r"[\p{L}b]", "[a-z]"), (r"[a&&\w]", "a"),
)  # fmt: skip
_GROUPS: tuple[_Written, ...] = (("(", "("), ("(", "("), ("(?:", "(?:"), ("(?<n%d>", "("), ("(?i:", "(?:"), ("(?d-i:", "(?:"))


class Grammar:
    """Nested patterns over a few characters."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self._groups = 0

    def pattern(self) -> _Written:
        """One, with flags and what else reads otherwise in front of it."""
        java, plain = self._rng.choice(_PREFIXES)
        more, meant = self._parts(3)
        if java.startswith("(?x"):
            more = "".join(sign + self._rng.choice(("", "", " ", "#(\n")) if sign in ")*" else sign for sign in more)
        end = self._rng.choice(("", "", "$", "c", "[^ab]", r"\d"))
        return java + more + end, plain + meant + end

    def _parts(self, depth: int) -> _Written:
        parts = [self._part(depth) for _ in range(self._rng.randint(1, 3))]
        return "".join(java for java, _ in parts), "".join(plain for _, plain in parts)

    def _part(self, depth: int) -> _Written:
        if depth and self._rng.random() < 0.4:
            branches = [self._parts(depth - 1) for _ in range(self._rng.choice((1, 1, 2)))]
            self._groups += 1
            begin, meant = self._rng.choice(_GROUPS)
            java = begin.replace("%d", str(self._groups)) + "|".join(java for java, _ in branches) + ")"
            plain = meant + "|".join(plain for _, plain in branches) + ")"
        else:
            java, plain = self._rng.choice(_ATOMS)
        times = self._rng.choice(("", "", "", "?", "*", "+", "{2}", "{0,2}", "{1,3}", "*?", "{3}", "??", "{4}"))
        return java + times, plain + times


def foreseen(tree: Any, longest: int) -> float:
    """Steps on a text of this length: as many more as twice the length takes, each time it doubles again; 0 for what is none too many."""
    if longest <= _LONG:  # however many ways there are, a few characters have not many
        return 0.0
    width = tree.getwidth()[1]
    if width <= _WIDE and (counted := most_steps(tree, 2 * width + _LONG, _MOST_COUNTED)) < inf:  # at each place alike
        return float(counted / (width + _LONG) * longest)
    # The longer tell more; the shorter can be counted where there are many ways. What must stand there leaves no way to choose.
    fixed = tree.getwidth()[0]
    for length, most in ((_LONG * 2, _MOST_COUNTED // 40), (_LONG, _MOST_COUNTED)):
        short, long = most_steps(tree, fixed + length // 2, most), most_steps(tree, fixed + length, most)
        if long < inf:
            power = log2(long / short)
            return 0.0 if power <= _HIGHEST_POWER else float(long * max(1.0, (longest - fixed) / length) ** power)
    return inf


@pytest.mark.parametrize("part", short(range(3), [1]))
def test_what_is_taken_for_cheap_is(part: int) -> None:
    grammar = Grammar(_SEED * 100 + part)
    taken = 0
    for _ in range(60):
        pattern, plain = grammar.pattern()
        try:
            longest = longest_searched(pattern)
        except UnsupportedStatement:
            continue
        taken += 1
        tree = sre_parse.parse(plain)
        assert foreseen(tree, longest or _LONGEST) <= _MOST_STEPS, (pattern, plain, longest)
    assert taken > 10
