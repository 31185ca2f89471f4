"""How many ways a regular expression has to match in one place: each optional part doubles them, unless one character tells which it is."""

from __future__ import annotations

import re._constants as sre  # type: ignore[import-not-found]
from math import inf
from typing import Any

from sql.analysis.limits.java_sets import OTHER

MANY = 20
"""A repetition of at most so many is like writing them out."""
_ALL = frozenset(range(OTHER + 1))
_END = frozenset({OTHER + 1})
"""Stands for the end, and for whatever a short look-around or a border sees, before which what is empty is tried like anything else."""
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT, sre.POSSESSIVE_REPEAT)

Characters = frozenset[int]


def looks_behind(argument: Any) -> bool:
    """Whether a look-around looks back: it is tried from each place that its length allows, and has to end where it stands."""
    return bool(argument[0] < 0)


def width(items: Any) -> tuple[int, int]:
    """How many characters an expression goes over: the fewest, and the most, of which more than `MANY` are like no limit."""
    fewest = most = 0
    for kind, argument in items:
        low, high = _width_of(kind, argument)
        fewest, most = fewest + low, most + high
    return fewest, most


def _width_of(kind: Any, argument: Any) -> tuple[int, int]:
    if kind in _REPEATS:
        low, high = width(argument[2])
        return low * argument[0], high * argument[1]
    if kind is sre.SUBPATTERN:
        return width(argument[-1])
    if kind is sre.ATOMIC_GROUP:
        return width(argument)
    if kind is sre.BRANCH:
        widths = [width(branch) for branch in argument[1]]
        return min(low for low, _ in widths), max(high for _, high in widths)
    if kind in (sre.ASSERT, sre.ASSERT_NOT):  # which moves nothing, and goes as far
        return 0, width(argument[1])[1]
    if kind is sre.AT:
        return 0, 0
    return (0, MANY + 1) if kind is sre.GROUPREF else (1, 1)


class Ways:
    """Of the parts of an expression of Java's."""

    def __init__(self) -> None:
        self.in_loop = 1.0
        """The most of what is repeated without a limit: more than one, and each turn multiplies them."""
        self._undecided: set[int] = set()

    def is_undecided(self, repeated: Any) -> bool:
        """Whether what may stand behind an unlimited repetition may stand in it, too, so that it may end in many places."""
        return id(repeated) in self._undecided

    def of(self, parsed: Any, after: Characters = _END, *, last: bool = False) -> float:
        """In one place of a text; ``after`` is what may begin behind the expression, and ``last`` says that nothing stands there."""
        ways = 1.0
        items = list(parsed)
        for at in range(len(items) - 1, -1, -1):
            kind, argument = items[at]
            ways *= self._of_item(kind, argument, after, last=last and at == len(items) - 1)
            first, may_be_empty = self._first_of(kind, argument)
            after = first | after if may_be_empty else first
        return ways

    def _of_item(self, kind: Any, argument: Any, after: Characters, *, last: bool) -> float:
        if kind in _REPEATS:
            return self._of_repeated(argument, after, possessive=kind is sre.POSSESSIVE_REPEAT, last=last)
        if kind is sre.SUBPATTERN:
            return self.of(argument[-1], after, last=last)
        if kind is sre.BRANCH:
            return self._of_branches(argument[1], after, last=last)
        if kind in (sre.ASSERT, sre.ASSERT_NOT):
            return self.of(argument[1], _ALL if looks_behind(argument) else _END)
        if kind is sre.ATOMIC_GROUP:
            return self.of(argument, after)
        return 1.0

    def _of_repeated(self, argument: Any, after: Characters, *, possessive: bool, last: bool) -> float:
        low, high, body = argument
        first, may_be_empty = self._first(body)
        inner = self.of(body, after | first if high > 1 else after)
        if high > MANY:
            if after & self._within(body):
                self._undecided.add(id(argument))
            if not possessive and not (last and low <= 1):  # behind which nothing can fail
                self.in_loop = max(self.in_loop, inner)
            return 1.0
        counts = 1 if possessive or not (may_be_empty or first & after) else high - low + 1
        try:
            return float(counts * inner ** max(high, 1))
        except OverflowError:
            return inf

    def _of_branches(self, branches: Any, after: Characters, *, last: bool) -> float:
        """The most that a character leaves."""
        by_character: dict[int, float] = {}
        most = 1.0
        for branch in branches:
            ways = self.of(branch, after, last=last)
            most = max(most, ways)
            first, may_be_empty = self._first(branch)
            # One that may be empty meets another that may, also where nothing is that could stand behind.
            for character in first | after | _END if may_be_empty else first:
                by_character[character] = by_character.get(character, 0.0) + ways
        return max(most, *by_character.values()) if by_character else most

    def _within(self, items: Any) -> Characters:
        """All that a text may hold that an expression matches."""
        within: Characters = frozenset()
        for kind, argument in items:
            if kind in _REPEATS:
                within |= self._within(argument[2])
            elif kind is sre.SUBPATTERN:
                within |= self._within(argument[-1])
            elif kind is sre.ATOMIC_GROUP:
                within |= self._within(argument)
            elif kind is sre.BRANCH:
                within = within.union(*map(self._within, argument[1]))
            elif kind not in (sre.AT, sre.ASSERT, sre.ASSERT_NOT):
                within |= self._first_of(kind, argument)[0]
        return within

    def _first(self, items: Any) -> tuple[Characters, bool]:
        """What a text may begin with that an expression matches, and whether it may be empty."""
        first: Characters = frozenset()
        for kind, argument in items:
            more, may_be_empty = self._first_of(kind, argument)
            first |= more
            if not may_be_empty:
                return first, False
        return first, True

    def _first_of(self, kind: Any, argument: Any) -> tuple[Characters, bool]:
        if kind in (sre.ASSERT, sre.ASSERT_NOT):
            # A long one is gone through at each end of what stands before it, whatever character is there.
            return _ALL if width(argument[1])[1] > MANY else frozenset(), True
        if kind is sre.AT:
            return frozenset(), True
        if kind in _REPEATS:
            first, may_be_empty = self._first(argument[2])
            return first, may_be_empty or argument[0] == 0
        if kind is sre.SUBPATTERN:
            return self._first(argument[-1])
        if kind is sre.ATOMIC_GROUP:
            return self._first(argument)
        if kind is sre.BRANCH:
            firsts = [self._first(branch) for branch in argument[1]]
            return frozenset().union(*(first for first, _ in firsts)), any(empty for _, empty in firsts)
        return _held(kind, argument), kind is sre.GROUPREF


def _held(kind: Any, argument: Any) -> Characters:
    """What one character may be."""
    if kind is sre.LITERAL:
        return frozenset({min(argument, OTHER)})
    if kind is sre.IN:
        return frozenset(code for _, (low, high) in argument for code in range(min(low, OTHER), min(high, OTHER) + 1))
    return _ALL
