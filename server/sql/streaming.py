"""A result on its way to a client: nothing is sent before the first row is there, everything is freed at the end."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache, partial

from flask import Response, request

from server.errors import problem_document, request_id
from server.formats import Format
from server.sql.disconnect import CONNECTION, ENDLESS, WAITING
from server.sql.notices import HEADER, header_values
from sql.execution.results import ResultSet

IDLE_SECONDS = 10.0
_PULLERS = 256
"""As many idle streams get their lines; there are no more threads to serve than about so many either."""


def stream(result: ResultSet, format_: Format, *, release: Callable[[], None]) -> Response:
    """Answer with a result's rows. Raises what running it raises before the first row; later failures go into the body.

    ``release`` is called once, when the last byte is sent or the client has gone.
    """
    if result.unbounded:
        return _endless(result, format_, release)
    try:
        format_.check(result.columns)
        batches = result.batches()
        first = next(batches, None)
    except BaseException:
        result.close()
        release()
        raise
    rest = batches if first is None else itertools.chain((first,), batches)
    chunks = format_.write(result.columns, rest, partial(problem_document, id_=request_id()), lambda: result.truncated)
    if format_.idle_line is not None:
        chunks = with_idle_lines(chunks, format_.idle_line)
    return Response(ResultBody(chunks, result, release), 200, headers=_told(result), content_type=_content_type(format_))


def _endless(result: ResultSet, format_: Format, release: Callable[[], None]) -> Response:
    """The same for rows without end: headers go out at once, for nobody knows when the first row comes."""
    try:
        format_.check(result.columns)
    except BaseException:
        result.close()
        release()
        raise
    chunks = format_.write(result.columns, result.batches(), partial(problem_document, id_=request_id()), lambda: result.truncated)
    if format_.idle_line is not None:
        chunks = itertools.chain((format_.idle_line,), with_signs_of_life(chunks, format_.idle_line))
    request.environ[ENDLESS] = True
    if result.waiting is not None and CONNECTION in request.environ:
        result.waiting.never_wait()
        request.environ[WAITING] = result.waiting
    response = Response(ResultBody(chunks, result, release), 200, headers=_told(result), content_type=_content_type(format_))
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"  # proxies hold rows back otherwise
    return response


def with_idle_lines(chunks: Iterator[bytes], line: bytes, *, seconds: float = IDLE_SECONDS) -> Iterator[bytes]:
    """The chunks, and ``line`` whenever none came for so long; so a silent stream differs from a dead connection."""
    while True:
        coming: Future[bytes | None] = _pullers().submit(next, chunks, None)
        while not wait((coming,), seconds).done:
            yield line
        if (chunk := coming.result()) is None:
            return
        yield chunk


def with_signs_of_life(chunks: Iterator[bytes], line: bytes, *, seconds: float = IDLE_SECONDS) -> Iterator[bytes]:
    """The same for chunks that are empty where nothing came for a moment."""
    spoken = time.monotonic()
    for chunk in chunks:
        if not chunk and time.monotonic() - spoken >= seconds:
            chunk = line
        if chunk:
            spoken = time.monotonic()
        yield chunk


class ResultBody:
    """What the WSGI server iterates and closes."""

    def __init__(self, chunks: Iterator[bytes], result: ResultSet, release: Callable[[], None]) -> None:
        self._chunks = chunks
        self._result = result
        self._release = release
        self.endless = result.unbounded

    def __iter__(self) -> Iterator[bytes]:
        return self._chunks

    def close(self) -> None:
        self._result.close()
        self._release()


def _told(result: ResultSet) -> list[tuple[str, str]]:
    """What a result is, for clients whose format of rows has no place for it."""
    headers = [("X-Result-Kind", result.kind.value)]
    if result.affected_rows is not None:
        headers.append(("X-Affected-Rows", str(result.affected_rows)))
    return headers + [(HEADER, value) for value in header_values(result.notices)]


def _content_type(format_: Format) -> str:
    return f"{format_.media_type}; charset=utf-8" if format_.media_type.startswith("text/") else format_.media_type


@cache
def _pullers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_PULLERS, thread_name_prefix="sluice-rows")
