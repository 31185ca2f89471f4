"""How much of what all share one principal may have: so much that whoever comes next still finds some."""

from __future__ import annotations

_TIMES = 4
"""A principal may have so many times what is still free: one alone takes four fifths."""


def may_have_another(own: int, taken: int, most: int) -> bool:
    """Whether a principal that has ``own`` of the ``taken`` places may have one more, where there are ``most``."""
    return taken < most and (not own or own < _TIMES * (most - taken))


def most_of_one(most: int) -> int:
    """How much one principal alone may have of what is measured, as bytes."""
    return most * _TIMES // (_TIMES + 1)
