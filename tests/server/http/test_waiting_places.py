"""Requests that wait hold a thread each: so many at most, and half of them one principal's."""

from __future__ import annotations

from contextlib import ExitStack

from server.http.waiting_places import WaitingPlaces


def test_one_principal_has_half_of_the_places_and_gives_them_back() -> None:
    places = WaitingPlaces(6)
    with ExitStack() as held:
        assert [held.enter_context(places.place("ada")) for _ in range(5)] == [True, True, True, False, False]
        assert [held.enter_context(places.place(who)) for who in ("bob", "bob", "cid", "cid", "ada")] == [True, True, True, False, False]
    with ExitStack() as held:
        assert [held.enter_context(places.place("ada")) for _ in range(4)] == [True, True, True, False]


def test_there_is_always_one() -> None:
    with WaitingPlaces(0).place("ada") as may:
        assert may
