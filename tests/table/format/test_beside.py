"""Objects put beside each other are there, or their failure is told, when the block ends."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from model.errors import Unavailable
from table.format.io import beside
from table.format.io.beside import begun, put, puts_beside, wait_for
from tests.waiting import eventually


class Store:
    """An object store whose puts wait until they may go on."""

    atomic_rename = False

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.there: list[str] = []
        self.go_on = threading.Event()

    def put(self, name: str, fails: bool = False) -> Callable[[], None]:
        def work() -> None:
            self.begun.append(name)
            assert self.go_on.wait(60)
            if fails:
                raise Unavailable(name)
            self.there.append(name)

        return work


def test_all_are_under_way_together_and_there_at_the_end() -> None:
    store = Store()
    with puts_beside(), puts_beside():
        for name in "abc":
            put(name, store.put(name), 1)
        assert eventually(lambda: sorted(store.begun) == ["a", "b", "c"])
        assert store.there == []
        store.go_on.set()
    assert sorted(store.there) == ["a", "b", "c"]
    put("d", store.put("d"), 1)
    assert store.there[-1] == "d", "outside of a block at once"


def test_what_failed_is_told_at_the_end_and_where_it_is_looked_for() -> None:
    store = Store()
    store.go_on.set()

    def some() -> None:
        with puts_beside():
            for name in "abc":
                put(name, store.put(name, fails=name == "b"), 1)

    with pytest.raises(Unavailable, match="b"):
        some()
    assert sorted(store.there) == ["a", "c"]
    with puts_beside():
        put("a", store.put("a", fails=True), 1)
        with pytest.raises(Unavailable):
            wait_for("a")
        wait_for("a")


def test_a_block_that_fails_leaves_none_under_way() -> None:
    store = Store()
    threading.Timer(0.2, store.go_on.set).start()

    def some() -> None:
        with puts_beside():
            put("a", store.put("a"), 1)
            put("b", store.put("b", fails=True), 1)
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        some()
    assert store.there == ["a"]


def test_so_many_bytes_wait_for_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(beside, "_MOST_BYTES", 10)
    store = Store()
    with puts_beside():
        put("a", store.put("a"), 6)
        put("b", store.put("b"), 4)
        threading.Timer(0.3, store.go_on.set).start()
        put("c", store.put("c"), 1)
        assert store.go_on.is_set(), "the first was waited for"
        put("large", store.put("large"), 1000)
    assert sorted(store.there) == ["a", "b", "c", "large"]


def test_what_is_asked_does_not_wait_for_the_puts_of_others() -> None:
    store = Store()
    with puts_beside():
        for number in range(200):
            put(str(number), store.put(str(number)), 1)
        try:
            assert begun(store, lambda: "answer").result(30) == "answer"
            assert store.there == []
        finally:
            store.go_on.set()
    assert len(store.there) == 200
