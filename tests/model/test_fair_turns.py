"""Turns are taken by whoever has fewest, and only so many at once."""

from __future__ import annotations

import threading

import pytest

from model.work.fair_turns import FairTurns
from tests.waiting import eventually


def test_turns_go_round_among_principals_and_never_beyond_the_most() -> None:
    turns, order = FairTurns(1), list[str]()
    at_once = threading.Semaphore(1)

    def take(owner: str) -> None:
        with turns.turn(owner):
            assert at_once.acquire(blocking=False)
            order.append(owner)
            at_once.release()

    def waiting(count: int) -> bool:
        return len(turns._queue) == count

    threads = []
    with turns.turn("anna"):
        for owner in ("anna", "anna", "anna", "ben", "ben", "cora"):
            threads.append(threading.Thread(target=take, args=(owner,)))
            threads[-1].start()
            assert eventually(lambda: waiting(len(threads)))
    for thread in threads:
        thread.join(60)
    assert order == ["anna", "ben", "cora", "anna", "ben", "anna"]


def test_a_turn_that_fails_is_given_back() -> None:
    turns = FairTurns(1)
    for _ in range(2):
        with pytest.raises(ValueError, match="wrong"), turns.turn("anna"):
            raise ValueError("wrong")
    with turns.turn("ben"):
        pass
