"""A client of a streaming SELECT over HTTP: reads lines on a thread of its own as they come."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import httpx

_BUSY = "did not start in time: the machine is busy"
_BUSY_SECONDS = 180.0


def patiently(send: Callable[[], httpx.Response]) -> httpx.Response:
    """The answer, asked for again while it is that the machine is too busy to start a process that Spark needs, as clients are told to."""
    until = time.monotonic() + _BUSY_SECONDS
    while (answer := send()).status_code == 503 and _BUSY in answer.read().decode() and time.monotonic() < until:
        answer.close()
        time.sleep(0.5)
    return answer


class _Busy(Exception):
    """A stream ended before its first row because the machine is too busy to start a process that Spark needs."""


def streamed(url: str, statement: str, *, database: str = "default", most: int | None = None) -> list[dict[str, Any]]:
    """The rows of a stream, to its end or so many; asked for again where the machine is too busy to begin it, as clients are told to."""
    until = time.monotonic() + _BUSY_SECONDS
    while True:
        try:
            return _streamed(url, statement, database, most)
        except _Busy:
            assert time.monotonic() < until, _BUSY
            time.sleep(0.5)


def _streamed(url: str, statement: str, database: str, most: int | None) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    asked, lines = {"mode": "streaming", "database": database}, {"Accept": "application/x-ndjson"}
    with httpx.Client(timeout=300) as client:
        request = client.build_request("POST", f"{url}/sql", params=asked, content=statement.encode(), headers=lines)
        answer = patiently(lambda: client.send(request, stream=True))
        assert answer.status_code == 200, answer.read().decode()
        for line in answer.iter_lines():
            if line:
                row = json.loads(line)
                if "$error" in row and not found and _BUSY in str(row["$error"]):
                    raise _Busy
                assert "$error" not in row, row
                found.append(row)
                if most is not None and len(found) >= most:
                    break
        answer.close()
    return found


class Follower:
    """``POST /sql?mode=streaming`` as NDJSON; `rows` waits for so many."""

    def __init__(self, url: str, statement: str, *, accept: str = "application/x-ndjson") -> None:
        self._client = httpx.Client(timeout=httpx.Timeout(180))
        request = self._client.build_request(
            "POST", f"{url}/sql", params={"mode": "streaming"}, content=statement.encode(), headers={"Accept": accept}
        )
        self.response = patiently(lambda: self._client.send(request, stream=True))
        if self.response.status_code != 200:
            self.response.read()
        self.lines: queue.Queue[tuple[float, str]] = queue.Queue()
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        with contextlib.suppress(httpx.HTTPError, httpx.StreamError, RuntimeError):
            for line in self.response.iter_lines():
                if line.strip() and line != ":":
                    self.lines.put((time.perf_counter(), line))
        self.ended.set()

    def timed(self, count: int, *, seconds: float = 180) -> list[tuple[float, dict[str, Any]]]:
        """So many rows, each with the moment it came; fails where they do not come in time."""
        until = time.monotonic() + seconds
        found: list[tuple[float, dict[str, Any]]] = []
        while len(found) < count:
            try:
                at, line = self.lines.get(timeout=max(0.01, until - time.monotonic()))
            except queue.Empty:
                raise AssertionError(f"{len(found)} of {count} rows came: {found[-3:]}") from None
            found.append((at, json.loads(line.removeprefix("data: "))))
        return found

    def rows(self, count: int, *, seconds: float = 180) -> list[dict[str, Any]]:
        """So many rows."""
        return [row for _, row in self.timed(count, seconds=seconds)]

    def silent(self, seconds: float = 0.5) -> bool:
        """Whether nothing comes for a moment."""
        time.sleep(seconds)
        return self.lines.empty()

    def close(self) -> None:
        """Go away without a word, as clients do."""
        stream = self.response.extensions.get("network_stream")
        if stream is not None:
            with contextlib.suppress(OSError):
                import socket

                stream.get_extra_info("socket").shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self.response.close()
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()
