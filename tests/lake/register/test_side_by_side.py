"""Looks at files by several threads: in order, several at once, and none begun after whoever wants them has stopped."""

from __future__ import annotations

import threading
import time

import pytest

from lake.register.looks.side_by_side import SideBySide


def test_what_is_found_comes_in_order() -> None:
    def look(item: int) -> int:
        time.sleep(0.01 * (item % 3))
        return item * 2

    assert list(SideBySide(4).each(look, range(50))) == [(item, item * 2) for item in range(50)]


def test_several_looks_go_on_at_once() -> None:
    together = threading.Barrier(3)
    assert len(list(SideBySide(3).each(lambda item: together.wait(120), range(6)))) == 6


def test_a_failure_is_raised_and_no_further_look_begins() -> None:
    looked: list[int] = []

    def look(item: int) -> None:
        looked.append(item)
        if item == 5:
            raise ValueError(item)

    looks = SideBySide(2).each(look, range(1000))
    assert [next(looks)[0] for _ in range(5)] == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="5"):
        next(looks)
    assert len(looked) < 30


def test_who_stops_does_not_wait_for_the_rest() -> None:
    begun, go_on = threading.Semaphore(0), threading.Event()
    looked: list[int] = []

    def look(item: int) -> None:
        looked.append(item)
        begun.release()
        assert item == 0 or go_on.wait(120)

    looks = SideBySide(1).each(look, range(100))
    assert next(looks) == (0, None)
    looks.close()
    go_on.set()
    time.sleep(0.1)
    assert len(looked) <= 2
