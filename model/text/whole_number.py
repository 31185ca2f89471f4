"""Whole numbers as clients spell them."""

from __future__ import annotations

LARGEST = 2**63 - 1
"""What Postgres, Java and Arrow hold in 64 bits."""


def whole_number(text: str, *, most: int = LARGEST) -> int | None:
    """The number from 0 to ``most`` that ASCII digits spell; None for any other text.

    `int` reads more (signs, blanks, ``_``, digits of every script), and raises for what has more than 4,300 digits.
    """
    if not (text.isascii() and text.isdecimal()):
        return None
    digits = text.lstrip("0") or "0"
    if len(digits) > len(str(most)):
        return None
    value = int(digits)
    return value if value <= most else None


def signed_number(text: str) -> int | None:
    """The number of 64 bits that ASCII digits spell, with a ``-`` or without; None for any other text."""
    sign = -1 if text.startswith("-") else 1
    value = whole_number(text.removeprefix("-"), most=LARGEST + (sign < 0))
    return None if value is None else sign * value
