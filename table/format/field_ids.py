"""The ids of what has none in a table's schema: elements of arrays, keys and values of maps, as Paimon's writers give them."""

from __future__ import annotations

_BASE = (2**31 - 1) // 4
_STEP = 1 << 10


def element_id(column: int, depth: int) -> int:
    """The id of an array's elements; ``column`` is the id of the field around them, ``depth`` counts from 1 within it."""
    return _wrapped(_BASE + column * _STEP + depth)


def key_id(column: int, depth: int) -> int:
    """The id of a map's keys."""
    return _wrapped(_BASE - column * _STEP - depth)


def value_id(column: int, depth: int) -> int:
    """The id of a map's values."""
    return element_id(column, depth)


def _wrapped(number: int) -> int:
    """An INT as Java counts beyond its ends."""
    return (number + 2**31) % 2**32 - 2**31
