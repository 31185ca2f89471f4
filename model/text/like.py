"""LIKE over names, matched in time that grows with the name and the pattern alone."""

from __future__ import annotations

from collections.abc import Sequence

from model.errors import InvalidParameter

_MOST_CHARS = 10_000
"""No name is as long; a longer pattern would take time and fit nothing."""


class Like:
    """A LIKE pattern: ``%`` is any text, ``_`` a character, and ``\\`` stands before a character that means itself.

    What stands between two ``%`` has a fixed length, so that the first place where it fits is as good as any later one. An
    expression with several ``.*`` would try them all, which nothing interrupts.
    """

    def __init__(self, pattern: str) -> None:
        """Raises `InvalidParameter` for a pattern longer than any name."""
        if len(pattern) > _MOST_CHARS:
            raise InvalidParameter(
                f"A pattern for names has at most {_MOST_CHARS} characters, and this one {len(pattern)}; shorten it by %."
            )
        segments: list[list[str | None]] = [[]]
        """What stands between the ``%``, character by character; None for ``_``."""
        escaped = False
        for char in pattern:
            if escaped or char not in "\\%_":
                segments[-1].append(char)
                escaped = False
            elif char == "\\":
                escaped = True
            elif char == "%":
                segments.append([])
            else:
                segments[-1].append(None)
        self._first, *others = segments
        self._last = others[-1] if others else None
        self._middle = [segment for segment in others[:-1] if segment]
        self._shortest = sum(map(len, segments))

    def matches(self, text: str) -> bool:
        """Whether all of a text fits."""
        if len(text) < self._shortest or (self._last is None and len(text) > self._shortest):
            return False
        at, end = len(self._first), len(text) - len(self._last or ())
        if not (_fits(self._first, text[:at]) and _fits(self._last or (), text[end:])):
            return False
        for segment in self._middle:
            at = _end_of(segment, text, at, end)
            if at < 0:
                return False
        return True


def _fits(segment: Sequence[str | None], text: str) -> bool:
    return all(wanted is None or wanted == char for wanted, char in zip(segment, text, strict=True))


def _end_of(segment: Sequence[str | None], text: str, start: int, end: int) -> int:
    """Behind the first place between two where a segment fits, or -1."""
    if None not in segment:
        position = text.find("".join(filter(None, segment)), start, end)
        return position if position < 0 else position + len(segment)
    # Each bit is a beginning of the segment that fits so far: a step a character, however many of them overlap.
    free = sum(1 << at for at, wanted in enumerate(segment) if wanted is None)
    fitting: dict[str, int] = {}
    for at, wanted in enumerate(segment):
        if wanted is not None:
            fitting[wanted] = fitting.get(wanted, free) | 1 << at
    whole, begun = 1 << len(segment) - 1, 0
    for at in range(start, end):
        begun = (begun << 1 | 1) & fitting.get(text[at], free)
        if begun & whole:
            return at + 1
    return -1
