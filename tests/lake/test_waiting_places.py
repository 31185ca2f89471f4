"""Requests that wait hold a thread each: so many at most, and half of them one principal's."""

from __future__ import annotations

from contextlib import ExitStack

from lake.waiting_places import WaitingPlaces


def test_one_principal_has_half_of_the_places_and_gives_them_back() -> None:
    places = WaitingPlaces()
    with ExitStack() as held:
        assert [held.enter_context(places.place("ada", 6)) for _ in range(5)] == [True, True, True, False, False]
        assert [held.enter_context(places.place(who, 6)) for who in ("bob", "bob", "cid", "cid", "ada")] == [True, True, True, False, False]
    with ExitStack() as held:
        assert [held.enter_context(places.place("ada", 6)) for _ in range(4)] == [True, True, True, False]


def test_there_is_always_one() -> None:
    with WaitingPlaces().place("ada", 0) as may:
        assert may
