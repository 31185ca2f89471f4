"""What is asked of a store beside each other: who writes several objects, or looks for several, waits for all at the end, not for each."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from functools import cache
from typing import Protocol, TypeVar

from table.format.io.patience import carried

T = TypeVar("T")

_THREADS = 24
"""About the connections that Arrow has to a store."""
_ASKING_THREADS = 16
"""Besides those for puts, of which an INSERT begins thousands at once: CREATE and ALTER TABLE ask little, and wait for the answer."""
_MOST_BYTES = 64 << 20
"""What the objects of one block may hold in memory together before the next waits for the first."""


class Storage(Protocol):
    """What is asked: `FileIO`, or what stands in front of one."""

    @property
    def atomic_rename(self) -> bool: ...


class _Puts:
    """The puts of one block, in the order they were begun."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[Future[None], int]] = {}
        self._bytes = 0

    def begin(self, path: str, put: Callable[[], None], size: int) -> None:
        """Put an object meanwhile; raises what an earlier put failed with."""
        self.wait_for(path)
        while self._running and self._bytes + size > _MOST_BYTES:
            self.wait_for(next(iter(self._running)))
        self._running[path] = _threads().submit(carried(put)), size
        self._bytes += size

    def wait_for(self, path: str) -> None:
        """Wait until the object is there; raises what its put failed with."""
        put, size = self._running.pop(path, (None, 0))
        self._bytes -= size
        if put is not None:
            put.result()

    def end(self) -> None:
        """Wait for all; raises what the first that failed failed with."""
        failures = [problem for put, _ in self._running.values() if (problem := put.exception()) is not None]
        self._running.clear()
        if failures:
            raise failures[0]


_PUTS: ContextVar[_Puts | None] = ContextVar("store_puts", default=None)


@cache
def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_THREADS, thread_name_prefix="store-put")


@cache
def _asking_threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_ASKING_THREADS, thread_name_prefix="store-ask")


@contextlib.contextmanager
def puts_beside() -> Iterator[None]:
    """Let the objects that this thread adds to a store in the block be put meanwhile; at its end all are there.

    Raises what the first put failed with, unless the block itself raises; then, too, none is under way any more.
    """
    if _PUTS.get() is not None:
        yield
        return
    puts = _Puts()
    token = _PUTS.set(puts)
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):
            puts.end()
        raise
    finally:
        _PUTS.reset(token)
    puts.end()


def begun(io: Storage, call: Callable[[], T]) -> Future[T]:
    """Ask meanwhile what does not depend on anything else, beside all puts; on a disk, which answers at once, the call has ended then."""
    if not io.atomic_rename:
        return _asking_threads().submit(carried(call))
    answer: Future[T] = Future()
    try:
        answer.set_result(call())
    except Exception as problem:  # whoever waits for the answer raises it
        answer.set_exception(problem)
    return answer


def put(path: str, work: Callable[[], None], size: int) -> None:
    """Put an object of so many bytes, meanwhile where `puts_beside` says so."""
    puts = _PUTS.get()
    if puts is None:
        work()
    else:
        puts.begin(path, work, size)


def wait_for(path: str) -> None:
    """Wait until an object that is put meanwhile is there; nothing where none of this path is."""
    if (puts := _PUTS.get()) is not None:
        puts.wait_for(path)
