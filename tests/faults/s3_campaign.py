"""A campaign on S3: request after request of one operation after the other fails, once or from then on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.faults.operation import Operation, made, verified
from tests.faults.world import STRUCK_SECONDS, Answer, World, world
from tests.fix_s3_proxy import Fate, Proxy
from tests.waiting import eventually

PATIENT = (Fate.SLOW_DOWN, Fate.INTERNAL, Fate.TOO_MANY, Fate.LOST, Fate.CUT, Fate.AWAY)
"""What is tried again without anybody noticing."""
_ENDS_SECONDS = 120.0
_POOLED = 8
"""Threads that pools may have made meanwhile."""


def nth(number: int, fate: Fate) -> Callable[[int, str, str], Fate]:
    """One request's fate."""
    return lambda at, method, path: fate if at == number else Fate.SERVED


def since(number: int, fate: Fate) -> Callable[[int, str, str], Fate]:
    """The fate of a request and of all that follow."""
    return lambda at, method, path: fate if at >= number else Fate.SERVED


@dataclass(frozen=True, slots=True, kw_only=True)
class Strike:
    """How requests fail."""

    name: str
    fates: Sequence[Fate]
    """In turns."""
    goes_on: bool = False
    """Whether all that follow fail, too, until the answer has come."""
    every: int = 1
    """Which requests are struck where it takes seconds to give one up."""

    def fate(self, number: int) -> Fate:
        """What becomes of a request where it is the first to fail."""
        return self.fates[number % len(self.fates)]

    def at(self, number: int) -> Callable[[int, str, str], Fate]:
        """What becomes of requests where this one is the first to fail."""
        return (since if self.goes_on else nth)(number, self.fate(number))

    def unnoticed(self, number: int) -> bool:
        """Whether the operation must succeed all the same."""
        return not self.goes_on and self.fate(number) is not Fate.FORBIDDEN


ONCE = Strike(name="fails once", fates=(Fate.FORBIDDEN, *PATIENT))
SINCE = Strike(name="refused from then on", fates=(Fate.FORBIDDEN,), goes_on=True)
STRIKES = (
    ONCE,
    SINCE,
    Strike(name="away from then on", fates=(Fate.AWAY,), goes_on=True, every=5),
    Strike(name="hangs", fates=(Fate.HELD,), every=5),
)


class S3Campaign:
    """One server whose store fails, and one that looks at what it left."""

    def __init__(self, dsn: str, directory: Path, warehouse: str, proxy: Proxy) -> None:
        self._dsn, self._directory, self._warehouse, self._proxy = dsn, directory, warehouse, proxy
        self._failing = World(dsn, directory, warehouse=warehouse)
        self._tables = 0
        self.requests = 0
        """How many the last operation made."""

    def close(self) -> None:
        """Stop the server."""
        self._failing.close()

    def run(self, operation: Operation, strike: Strike, *, at: int) -> tuple[bool, bool]:
        """Make a table, let requests of the operation fail, and look; returns whether the request came, and whether it failed."""
        self._proxy.reset()
        self._tables += 1
        table = f"t{self._tables}"
        made(self._failing, table, operation.options)
        operation.prepare(self._failing, table)
        self._failing.settle()
        threads = len(threads_of_server())
        self._proxy.reset(strike.at(at))
        began = time.monotonic()
        answers = operation.run(self._failing, table)
        took = time.monotonic() - began
        self._failing.settle(STRUCK_SECONDS)
        requests, faults = list(self._proxy.requests), self._proxy.faults
        self.requests = len(requests)
        self._proxy.reset()
        where = f"{operation.name}, {strike.name} at {at}: {requests[at - 1 : at]}, {answers}"
        try:
            assert took < _ENDS_SECONDS, f"took {took:.0f} s"
            assert not strike.unnoticed(at) or all(answer.ok for answer in answers), "was noticed"
            assert not strike.goes_on or all(answer.ok or tells_which(answer) for answer in answers), "tells no object"
            with world(self._dsn, self._directory, warehouse=self._warehouse) as fresh:
                verified(fresh, operation, table, answers)
                for name in ("_made", "_m", "_new", ""):
                    fresh.ask(f"DROP TABLE {table}{name}")
            assert settled(threads), f"{threads} threads, then {threads_of_server()}"
        except AssertionError as problem:
            problem.add_note(where)
            raise
        return len(requests) >= at, faults > 0


def threads_of_server() -> list[str]:
    """The threads of this process but those of the proxy, which has one for each connection that is kept."""
    return [thread.name for thread in threading.enumerate() if "process_request_thread" not in thread.name]


def settled(threads: int) -> bool:
    """Whether no more threads are there than before, soon: pools may keep a few more."""
    return eventually(lambda: len(threads_of_server()) <= threads + _POOLED)


def tells_which(answer: Answer) -> bool:
    """Whether an error names an object of the store, or says that its outcome is not known."""
    if not isinstance(answer.body, dict):
        return "cannot be used at" in str(answer.body)
    detail = str(answer.body.get("detail", answer.body.get("message", "")))
    return "cannot be used at" in detail or "s3://" in detail or answer.body.get("errorClass") == "OutcomeUnknown"


@pytest.fixture
def s3_campaign(dsn: str, tmp_path: Path, lakeside: str, s3_proxy: Proxy) -> Iterator[S3Campaign]:
    """A campaign in a bucket of its own."""
    campaign = S3Campaign(dsn, tmp_path, lakeside, s3_proxy)
    yield campaign
    campaign.close()
