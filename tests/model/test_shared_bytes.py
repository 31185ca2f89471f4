"""Memory that all share: bounded over all, four fifths for one, and given to those who wait in their order."""

from __future__ import annotations

import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from model.errors import StatementCanceled
from model.work.fair_share import most_of_one
from model.work.shared_bytes import SharedBytes


def nothing() -> None:
    """Goes on waiting."""


def test_one_leaves_a_fifth_to_others() -> None:
    memory = SharedBytes(100)
    assert memory.take("anna", 80)
    assert not memory.take("anna", 1)
    assert memory.take("ben", 20)
    assert not memory.take("cora", 1)
    memory.give("anna", 80)
    assert memory.usage() == {"ben": 20}


def test_never_is_more_taken_than_there_is() -> None:
    """Random takings and givings by several threads at once: the bounds hold after each, and nothing is left."""
    memory, wrong = SharedBytes(1_000), list[dict[str, int]]()

    def work(seed: int) -> None:
        rng = random.Random(seed)
        own = Counter[str]()
        for _ in range(400):
            principal, size = rng.choice("abc"), rng.randrange(1, 400)
            if rng.random() < 0.5 and own[principal]:
                memory.give(principal, own.pop(principal))
            elif memory.take(principal, size) if rng.random() < 0.7 else memory.wait(principal, size, 0, nothing):
                own[principal] += size
            usage = memory.usage()
            if sum(usage.values()) > 1_000 or max(usage.values(), default=0) > most_of_one(1_000):
                wrong.append(usage)
        for principal, size in own.items():
            if size:
                memory.give(principal, size)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert wrong == []
    assert memory.usage() == {}


def test_who_waits_has_its_turn_in_order_and_others_are_not_held_by_it() -> None:
    memory = SharedBytes(100)
    assert memory.take("anna", 80)
    with ThreadPoolExecutor(1) as threads:
        large = threads.submit(memory.wait, "anna", 60, 60, nothing)
        while not memory._waiting.get("anna"):
            pass
        memory.give("anna", 10)
        assert not memory.wait("anna", 10, 0, nothing), "it would fit, but has come later"
        assert memory.wait("ben", 20, 0, nothing)
        memory.give("anna", 70)
        assert large.result()
    assert memory.wait("anna", 10, 0, nothing)
    assert memory.usage() == {"anna": 70, "ben": 20}


def test_who_is_told_to_stop_waits_no_more() -> None:
    memory = SharedBytes(100)
    assert memory.take("anna", 80)

    def stop() -> None:
        raise StatementCanceled("enough")

    with pytest.raises(StatementCanceled):
        memory.wait("anna", 10, 60, stop)
    assert not memory.wait("anna", 10, 0, nothing)
    memory.give("anna", 80)
    assert memory.wait("anna", 1_000, 0, nothing), "more than one may have counts as so much"
    assert memory.usage() == {"anna": 80}


def test_what_one_has_beyond_its_share_takes_nothing_from_others() -> None:
    memory = SharedBytes(100)
    assert memory.take("anna", 80)
    memory.take_anyway("anna", 500)
    assert memory.wait("ben", 20, 0, nothing)
    assert not memory.take("cora", 1)
    memory.give("anna", 520)
    assert memory.take("cora", 20)
    assert memory.usage() == {"anna": 60, "ben": 20, "cora": 20}
