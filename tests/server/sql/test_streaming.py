"""Bytes on their way: bodies in, idle lines out, clients that go away."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator

import pytest

from model.errors import BadRequest, StatementTooLarge
from server.sql.bodies import BodyStream
from server.sql.disconnect import Client
from server.sql.streaming import with_idle_lines


def test_a_silent_stream_sends_lines_until_it_speaks() -> None:
    gate = threading.Event()

    def chunks() -> Iterator[bytes]:
        yield b"first\n"
        gate.wait(60)
        yield b"second\n"

    sent = with_idle_lines(chunks(), b"\n", seconds=0.05)
    assert next(sent) == b"first\n"
    assert [next(sent), next(sent)] == [b"\n", b"\n"]
    gate.set()
    rest = [chunk for chunk in sent if chunk != b"\n"]
    assert rest == [b"second\n"]


def test_what_breaks_a_stream_comes_through() -> None:
    def chunks() -> Iterator[bytes]:
        yield b"x"
        raise TimeoutError("of its own")

    sent = with_idle_lines(chunks(), b"\n", seconds=5)
    assert next(sent) == b"x"
    with pytest.raises(TimeoutError, match="of its own"):
        next(sent)


def test_a_client_that_goes_is_told_once_to_each_that_watches() -> None:
    client = Client()
    heard: list[str] = []
    first, last = threading.Event(), threading.Event()

    def fail() -> None:
        raise RuntimeError("no")

    client.watch(lambda: heard.append("forgotten"))()
    client.watch(fail)
    client.watch(first.set)
    client.leave()
    client.leave()
    client.watch(last.set)  # it has gone already
    assert first.wait(60)
    assert last.wait(60)
    assert heard == []


def test_bodies_end_where_they_said_or_loudly() -> None:
    assert BodyStream_of(b"12345", length=5).read() == b"12345"
    with pytest.raises(BadRequest, match="after 3 of 5 bytes"):
        BodyStream_of(b"123", length=5).read()
    with pytest.raises(StatementTooLarge, match="larger than the 4 bytes"):
        BodyStream_of(b"12345", length=None, cap=4).read()


class _BadChunks(io.BytesIO):
    def read(self, size: int | None = -1) -> bytes:
        raise ValueError("Bad chunked transfer size")


def test_a_chunk_that_is_none_is_the_clients_fault() -> None:
    with pytest.raises(BadRequest, match="ended before"):
        io.BufferedReader(BodyStream(_BadChunks(), length=None, cap=100)).read()


def BodyStream_of(data: bytes, *, length: int | None, cap: int = 100) -> io.BufferedReader:  # noqa: N802 - reads as the class it wraps
    return io.BufferedReader(BodyStream(io.BytesIO(data), length=length, cap=cap))
