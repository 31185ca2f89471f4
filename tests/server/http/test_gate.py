"""Limits of connections hold for those that are being answered, too."""

from __future__ import annotations

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


def _asked(site: Site, opened: ExitStack, path: str, who: str) -> socket.socket:
    opened.enter_context(client := site.connect())
    client.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {who}\r\nConnection: close\r\n\r\n".encode())
    return client


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
