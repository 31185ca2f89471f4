"""Answers that are read bit by bit, and let go also where nobody says so."""

from __future__ import annotations

import contextlib
import io
import json
import queue
import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sluice.errors import OperationalError

if TYPE_CHECKING:
    import httpx


def notices(response: httpx.Response) -> list[str]:
    """What the server tells beside the rows."""
    return [json.loads(f'"{notice}"') for notice in response.headers.get_list("X-Notice")]


class Answer(io.RawIOBase):
    """An answer's bytes as a file, read as they come."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._chunks = response.iter_raw()
        self._rest = b""

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Any) -> int:
        """The next bytes, at least one unless the answer has ended."""
        while not self._rest:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._rest = chunk
        taken, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(taken)] = taken
        return len(taken)

    def let_go(self) -> None:
        """Close the answer, read to its end or not: a statement that still runs is canceled."""
        self._response.close()


class Closer:
    """Closes the answers of cursors that were dropped, on a thread of its own.

    The collector may run in the middle of the HTTP library, which holds a lock then that closing takes too: what it calls here
    only puts the answer into a queue, which is made for that. Until then somebody must hold on to the answer.
    """

    def __init__(self) -> None:
        self._dropped: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()
        threading.Thread(target=_close, args=(self._dropped,), name="sluice-closer", daemon=True).start()
        self.stop = weakref.finalize(self, self._dropped.put, None)

    def watch(self, owner: object, answer: Answer) -> weakref.finalize[[Answer], object]:
        """Close the answer once its owner is gone; whoever closes it before that detaches what is returned."""
        watching = weakref.finalize(owner, self._dropped.put, answer)
        watching.atexit = False
        return watching


@contextlib.contextmanager
def breaking_off() -> Iterator[None]:
    """A failure on the way has no words in Arrow: the answer just breaks off. Raises `OperationalError` for it."""
    import httpx
    import pyarrow as pa

    try:
        yield
    except (httpx.HTTPError, httpx.StreamError, pa.ArrowException, OSError) as problem:
        raise OperationalError(f"The rows broke off before all had come: {problem}") from problem


def _close(dropped: queue.SimpleQueue[Answer | None]) -> None:
    while (answer := dropped.get()) is not None:
        answer.let_go()
