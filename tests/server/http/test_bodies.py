"""Bodies of many requests at once: how much of them lies in memory and on the disk, whoever sends them."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path

import pytest

from model.errors import StorageFull
from server.http import held, incoming, wsgi
from server.http.exchange import Admit
from tests.server.http.conftest import Site, answer, rest
from tests.waiting import eventually
from workers.spool import BodyFiles

HEAD = b"POST /size HTTP/1.1\r\nHost: a\r\n"


@pytest.fixture
def crowd() -> Iterator[ExitStack]:
    with ExitStack() as opened:
        yield opened


def sending(site: Site, crowd: ExitStack, body: bytes, *, whole: int, as_who: bytes = b"ada") -> socket.socket:
    client = crowd.enter_context(site.connect())
    who = b"Authorization: Bearer " + as_who + b"\r\n" if as_who else b""
    client.sendall(HEAD + who + b"Content-Length: %d\r\n\r\n" % whole + body)
    return client


def spooled(site: Site) -> int:
    """Bodies that lie in a file now."""
    return sum(str(site.settings.data) in str(path.readlink()) for path in Path("/proc/self/fd").iterdir() if path.is_symlink())


def test_half_sent_bodies_of_one_owner_leave_memory_for_the_disk(site: Site, crowd: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "_MOST_OF_ONE", 100_000)
    clients = [sending(site, crowd, bytes(40_000), whole=50_000) for _ in range(10)]
    assert eventually(lambda: site.http.held() < 160_000 and spooled(site) >= 6)
    small = sending(site, crowd, b"abc", whole=3)
    assert answer(small).endswith(b"3"), "little needs no disk"
    for client in clients:
        client.sendall(bytes(10_000))
        assert answer(client).endswith(b"50000")
    assert eventually(lambda: site.http.held() == 0)


def test_who_may_not_use_the_disk_is_refused_where_its_address_holds_much(
    tmp_path: Path, crowd: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a token; who has one goes on."""

    def admission(app: object, settings: object) -> Admit:
        return lambda environ: (1 << 20, "ada") if "HTTP_AUTHORIZATION" in environ else (0, None)

    monkeypatch.setattr(wsgi, "admission", admission)
    monkeypatch.setattr(held, "_MOST_OF_ONE", 100_000)
    site = Site(tmp_path)
    try:
        clients = [sending(site, crowd, bytes(40_000), whole=50_000, as_who=b"") for _ in range(2)]
        assert eventually(lambda: site.http.held() > 80_000)
        told = rest(sending(site, crowd, bytes(40_000), whole=50_000, as_who=b""))
        assert told.startswith(b"HTTP/1.1 429 ")
        assert b"Retry-After: " in told
        assert answer(sending(site, crowd, bytes(50_000), whole=50_000)).endswith(b"50000")
        assert answer(sending(site, crowd, b"", whole=0, as_who=b"")).endswith(b"0")
        for client in clients:
            client.close()
        assert eventually(lambda: site.http.held() == 0)
        assert answer(sending(site, crowd, bytes(50_000), whole=50_000, as_who=b"")).endswith(b"50000")
    finally:
        crowd.close()
        site.stop()


def test_what_all_hold_is_bounded_however_many_owners_they_are(site: Site, crowd: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "_MOST_BYTES", 100_000)
    for number in range(10):
        sending(site, crowd, bytes(40_000), whole=50_000, as_who=b"user%d" % number)
    assert eventually(lambda: site.http.held() < 160_000 and spooled(site) >= 6)


def test_large_bodies_of_one_owner_are_so_many(site: Site, crowd: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is an open file of the process."""
    monkeypatch.setattr(site.http._site.bodies._held, "_most", 6)
    monkeypatch.setattr(incoming, "MEMORY_BYTES", 80_000)
    for _ in range(3):
        sending(site, crowd, bytes(90_000), whole=100_000)
    assert eventually(lambda: spooled(site) == 3)
    told = rest(sending(site, crowd, bytes(90_000), whole=100_000))
    assert told.startswith(b"HTTP/1.1 429 ")
    assert b"Retry-After: " in told


@pytest.mark.parametrize("behind", [b"", b"no request\r\n\r\n"], ids=["alone", "before what is refused"])
def test_a_disk_that_is_full_at_the_last_of_a_body_is_told_at_once(
    tmp_path: Path, crowd: ExitStack, monkeypatch: pytest.MonkeyPatch, behind: bytes
) -> None:
    """Nothing was said until the stall where what came behind it had been refused."""
    asked: list[int] = []

    def space(size: int, beside: int) -> AbstractContextManager[object]:
        asked.append(size)
        if len(asked) > 1:
            raise StorageFull("Nothing is left.")
        return nullcontext()

    monkeypatch.setattr(incoming, "MEMORY_BYTES", 80_000)
    site = Site(tmp_path, files=BodyFiles(tmp_path / "bodies", space=space))
    try:
        client = sending(site, crowd, bytes(90_000), whole=95_000)
        assert eventually(lambda: bool(asked))
        client.sendall(bytes(5_000) + behind)
        assert rest(client).startswith(b"HTTP/1.1 507 ")
        assert site.bodies == []
        assert eventually(lambda: site.http.held() == 0)
        assert list((tmp_path / "bodies").iterdir()) == []
    finally:
        crowd.close()
        site.stop()
