"""Steps that Java's way of matching takes: it tries every way, in order, and remembers none."""

from __future__ import annotations

import re
import re._constants as sre  # type: ignore[import-not-found]
from collections.abc import Callable
from math import inf
from typing import Any

Go = Callable[[int], bool]
_REPEATS = (sre.MAX_REPEAT, sre.MIN_REPEAT)
_TEXTS = ("a", "ab", "ba", "aab", "b", "a b", "\\")


class TooManyStepsError(Exception):
    """More than were allowed."""


class Backtracking:
    """Searches one text by an expression that Python has parsed."""

    def __init__(self, text: str, most: int) -> None:
        self._text = text
        self._most = most
        self.steps = 0

    def search(self, tree: Any) -> bool:
        """Look for it from each place on; raises `TooManyStepsError`."""
        return any(self._all(list(tree), 0, start, lambda at: True) for start in range(len(self._text) + 1))

    def _all(self, items: list[Any], number: int, at: int, then: Go) -> bool:
        self.steps += 1
        if self.steps > self._most:
            raise TooManyStepsError
        if number == len(items):
            return then(at)
        kind, argument = items[number]
        return self._one(kind, argument, at, lambda after: self._all(items, number + 1, after, then))

    def _one(self, kind: Any, argument: Any, at: int, then: Go) -> bool:
        if kind in _REPEATS:
            low, high, body = argument
            return self._repeated(list(body), low, high, at, then, greedy=kind is sre.MAX_REPEAT)
        if kind is sre.SUBPATTERN:
            return self._all(list(argument[-1]), 0, at, then)
        if kind is sre.BRANCH:
            return any(self._all(list(branch), 0, at, then) for branch in argument[1])
        if kind in (sre.ASSERT, sre.ASSERT_NOT):
            return self._looks(argument, at) is (kind is sre.ASSERT) and then(at)
        if kind is sre.AT:
            holds = at == 0 if argument is sre.AT_BEGINNING else at == len(self._text)
            return holds and then(at)
        self.steps += 1
        return at < len(self._text) and _takes(kind, argument, self._text[at]) and then(at + 1)

    def _looks(self, argument: Any, at: int) -> bool:
        """Ahead from a place, or behind: from each place before it, nearest first, whether a match ends there."""
        direction, body = argument
        if direction > 0:
            return self._all(list(body), 0, at, lambda _: True)
        shortest, longest = body.getwidth()
        starts = range(at - shortest, max(-1, at - longest - 1), -1)
        return any(self._all(list(body), 0, start, lambda end: end == at) for start in starts)

    def _repeated(self, body: list[Any], low: int, high: int, at: int, then: Go, *, greedy: bool, turn: int = 0) -> bool:
        def again() -> bool:
            def after(ended: int) -> bool:
                if ended == at:  # an empty turn is the last
                    return then(ended)
                return self._repeated(body, low, high, ended, then, greedy=greedy, turn=turn + 1)

            return turn < high and self._all(body, 0, at, after)

        if turn < low:
            return again()
        return (again() or then(at)) if greedy else (then(at) or again())


def _takes(kind: Any, argument: Any, character: str) -> bool:
    code = ord(character)
    if kind is sre.LITERAL:
        return bool(argument == code)
    if kind is sre.ANY:
        return True
    if kind is sre.NOT_LITERAL:
        return bool(argument != code)
    if kind is sre.IN:
        return any(_takes(kind, part, character) for kind, part in argument if kind is not sre.NEGATE) is (argument[0][0] is not sre.NEGATE)
    if kind is sre.RANGE:
        return bool(argument[0] <= code <= argument[1])
    assert kind is sre.CATEGORY, kind
    return re.fullmatch(r"\w" if argument is sre.CATEGORY_WORD else r"\d", character) is not None


def most_steps(tree: object, length: int, most_counted: int) -> float:
    """The most that any of the texts of a length takes; infinite beyond so many."""
    most = 0
    for text in _TEXTS:
        search = Backtracking((text * length)[:length], most_counted)
        try:
            search.search(tree)
        except TooManyStepsError:
            return inf
        most = max(most, search.steps)
    return float(most)
