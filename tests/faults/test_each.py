"""A campaign goes on to an operation's last call, and tells where one that came was not struck."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import pytest

from tests.faults.below import each


@pytest.mark.parametrize(
    ("strike", "every", "begin", "found"),
    [
        (lambda number: (number <= 7, number <= 7), 1, 1, (7, 7)),
        (lambda number: (False, False), 1, 1, (0, 0)),
        (lambda number: (number <= 7, number <= 7 and number != 4), 1, 1, (7, 6)),
        (lambda number: (number <= 100, number <= 100), 30, 10, (4, 4)),
    ],
    ids=["all", "none", "one was not struck", "a sample"],
)
def test_each_call_up_to_the_last_is_to_be_struck(
    strike: Callable[[int], tuple[bool, bool]], every: int, begin: int, found: tuple[int, int]
) -> None:
    assert each(strike, every=every, begin=begin) == found


def test_a_call_that_does_not_come_each_time_is_tried_again() -> None:
    tries = count()

    def every_other(number: int) -> tuple[bool, bool]:
        came = number <= 3 and next(tries) % 2 == 1
        return came, came

    assert each(every_other) == (3, 3)
