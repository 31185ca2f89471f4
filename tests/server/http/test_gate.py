"""Limits of connections hold for those that are being answered, too."""

from __future__ import annotations

import random
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from server.http import gate
from server.http.gate import Gate, Group
from tests.server.http.conftest import Site, rest
from tests.waiting import eventually


class _Connection:
    """A connection of which is told what the gate asks."""

    def __init__(self, *, waits: bool = False, jammed: bool = False) -> None:
        self.group: Group = ("", "")
        self.waits = waits
        self.jammed = jammed
        self.dismissed = False

    def dismiss(self) -> None:
        self.dismissed = True


def test_a_newcomer_goes_where_all_of_its_address_are_answered_and_others_stay() -> None:
    made = Gate(100, 2)
    busy, other, newcomer = [_Connection(), _Connection()], _Connection(waits=True), _Connection(waits=True)
    for connection in busy:
        made.enter(connection, "10.0.0.1")
    made.enter(other, "10.0.0.2")
    made.enter(newcomer, "10.0.0.1")
    assert [each.dismissed for each in (*busy, other, newcomer)] == [False, False, False, True]


def test_idle_ones_go_first_then_those_that_are_behind_with_reading() -> None:
    made = Gate(100, 2)
    behind, idle = _Connection(jammed=True), _Connection(waits=True)
    for connection in (behind, idle):
        made.enter(connection, "10.0.0.1")
    assert all(made.prove(each, "ada") for each in (behind, idle))
    third, fourth, fifth = _Connection(), _Connection(), _Connection()
    for connection, place, gone in ((third, True, idle), (fourth, True, behind), (fifth, False, None)):
        made.enter(connection, "10.0.0.1")
        assert made.prove(connection, "ada") is place
        assert gone is None or gone.dismissed
        if not place:
            made.leave(connection)


@pytest.mark.parametrize("seed", range(20))
def test_no_group_ever_has_more_places_than_it_may(seed: int) -> None:
    """Whatever comes in which order; who was refused lingers until its client has read why, and gives nobody a place."""
    rng, made = random.Random(seed), Gate(30, 4)
    there: list[_Connection] = []
    placed: dict[str, set[_Connection]] = {"ada": set(), "bob": set()}
    for _ in range(600):
        there = [each for each in there if not each.dismissed]
        what = rng.choice(("enter", "enter", "prove", "prove", "prove", "prove", "answered", "jam", "leave"))
        if what == "enter":
            made.enter(new := _Connection(waits=True), f"10.0.0.{rng.randrange(4)}")
            there.append(new)
        elif there:
            one = rng.choice(there)
            if what == "prove":
                who = rng.choice([*placed])
                for others in placed.values():
                    others.discard(one)
                if has_place := made.prove(one, who):
                    placed[who].add(one)
                one.waits = not has_place
            elif what == "leave":
                made.leave(one)
                one.dismissed = True
            else:
                one.waits, one.jammed = what == "answered", what == "jam"
        for who, ones in placed.items():
            assert sum(not each.dismissed for each in ones) <= 4, (who, what)
        assert sum(made.counts().values()) == sum(not each.dismissed for each in there) <= 30


def test_who_buffers_most_gives_way_and_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "_MOST_BUFFERED", 100)
    made = Gate(100, 10)
    many, one = [_Connection(jammed=True) for _ in range(3)], _Connection(jammed=True)
    for connection in (one, *many):
        made.enter(connection, "10.0.0.1")
        made.prove(connection, "ada" if connection is one else "bob")
        made.buffer(connection, 30)
    assert [each.dismissed for each in (one, *many)] == [False, True, False, False]
    made.buffer(one, 0)
    made.buffer(many[1], 70)
    assert not many[1].dismissed


def _asked(site: Site, opened: ExitStack, path: str, who: str, *, close: bool = True, source: str = "127.0.0.1") -> socket.socket:
    client = opened.enter_context(socket.create_connection(site.address, timeout=60, source_address=(source, 0)))
    ending = "Connection: close\r\n" if close else ""
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {who}\r\n{ending}\r\n".encode())
    return client


def _until(client: socket.socket, end: bytes) -> bytes:
    """What comes up to some bytes, or until the other side closes."""
    text = b""
    while end not in text and (more := client.recv(1 << 16)):
        text += more
    return text


def _is_closed(client: socket.socket) -> bool:
    """Whether the other side has closed."""
    client.setblocking(False)
    try:
        return client.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False


_SOURCES = ("127.0.0.2", "127.0.0.3")
"""An address has no more places than a principal."""


@pytest.mark.parametrize("seen_before", [False, True])
def test_answers_without_end_of_one_principal_leave_places_to_others(tmp_path: Path, seen_before: bool) -> None:
    """However it spells its token, and also where all its requests come before the first is answered."""
    site = Site(tmp_path, SLUICE_HTTP_CONNECTIONS="16", SLUICE_HTTP_CONNECTIONS_OF_ONE="8", SLUICE_HTTP_THREADS="64")
    try:
        with ExitStack() as opened:
            if seen_before:
                rest(_asked(site, opened, "/echo", "ada"))
            clients = [_asked(site, opened, "/endless", f"{' ' * at}ada", close=False, source=_SOURCES[at % 2]) for at in range(14)]
            told = [_until(client, b"begun") for client in clients]
            assert sorted(b" 429 " in text for text in told) == [False] * 8 + [True] * 6
            assert b"http.connections-of-one" in next(text for text in told if b" 429 " in text)
            assert b" 200 " in rest(_asked(site, opened, "/echo", "bob"))
            assert eventually(lambda: site.http.threads()["busy"] == 8), "nothing is made of those turned away"
            assert site.http.connections()["authenticated"] == 8
            for client in clients:
                client.close()
            assert eventually(lambda: sum(site.http.connections().values()) == 0)
    finally:
        site.stop()


def test_an_answer_with_an_end_is_given_and_its_connection_closes_where_there_is_no_place(tmp_path: Path) -> None:
    site = Site(tmp_path, SLUICE_HTTP_CONNECTIONS="32", SLUICE_HTTP_CONNECTIONS_OF_ONE="8", SLUICE_HTTP_THREADS="64")
    try:
        with ExitStack() as opened:
            clients = [_asked(site, opened, "/long", "ada", close=False, source=_SOURCES[at % 2]) for at in range(12)]
            assert all(site.arrived.acquire(timeout=60) for _ in clients), "nobody knows yet whose they are"
            site.start.set()
            assert all(site.begun.acquire(timeout=60) for _ in clients)
            site.release.set()
            assert all(b"ended" in _until(client, b"0\r\n\r\n") for client in clients)
            assert eventually(lambda: sum(site.http.connections().values()) == 8)
            assert eventually(lambda: sum(map(_is_closed, clients)) == 4)
            assert site.http.connections()["authenticated"] == 8
    finally:
        site.stop()


def test_connections_that_are_answered_count_for_their_principal(tmp_path: Path) -> None:
    site = Site(tmp_path, SLUICE_HTTP_CONNECTIONS="32", SLUICE_HTTP_CONNECTIONS_OF_ONE="8")
    try:
        with ExitStack() as opened:
            for who in ("ada", "bob"):
                rest(_asked(site, opened, "/echo", who))
            readers = [_asked(site, opened, "/flood", "ada") for _ in range(8)]
            assert eventually(lambda: site.http.connections()["authenticated"] == 8 and site.http.threads()["busy"] == 0)
            assert b" 200 " in rest(_asked(site, opened, "/echo", "ada")), "in the place of one that does not read"
            for reader in readers:
                reader.close()
            assert eventually(lambda: sum(site.http.connections().values()) == 0)
            for _ in range(8):
                _asked(site, opened, "/wait", "ada")
            assert eventually(lambda: site.http.connections()["authenticated"] == 8)
            refused = rest(_asked(site, opened, "/echo", "ada"))
            assert b" 429 " in refused
            assert b"Retry-After: 5" in refused
            assert b"http.connections-of-one" in refused
            assert b" 200 " in rest(_asked(site, opened, "/echo", "bob"))
    finally:
        site.stop()
