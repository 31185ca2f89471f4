"""The answer of DoGet: messages as long as there are some; while none comes, the call holds no thread."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Generator
from typing import Any

from server.flight.calls import Call
from server.flight.errors import flight_failure
from server.http.loop_calls import LoopCalls
from server.http.serial import SerialWorkers
from server.sql.sleeper import Sleeper
from sql.execution.results import ResultSet

_END: Any = object()
Send = Callable[[bytes | None], None]
"""Sends a message and returns once the client takes it, or has gone; None ends the call."""


class Turns:
    """Threads for rows without end that have come, and a clock for those that have not."""

    def __init__(self, most: int) -> None:
        """``most`` threads are there at a time, where so many clients are slow."""
        self._workers = SerialWorkers(most, "sluice-flight-streams")
        self._loop = asyncio.new_event_loop()
        self._calls = LoopCalls(self._loop)
        self._thread = threading.Thread(target=self._loop.run_forever, name="sluice-flight-clock", daemon=True)
        self._thread.start()

    def submit(self, job: Callable[[], None], owner: str | None = None) -> None:
        """Run a job soon, when it is its owner's turn."""
        self._workers.submit(job, owner)

    def later(self, seconds: float, call: Callable[[], None]) -> None:
        """Call after some time; never once it is closed."""
        self._calls.soon(lambda: self._arm(seconds, call))

    def close(self) -> None:
        """The clock stands."""
        self._calls.soon(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _arm(self, seconds: float, call: Callable[[], None]) -> None:
        self._loop.call_later(seconds, call)


class RowsAnswer:
    """Sends one call's messages; of a result without end, one after another as they come."""

    def __init__(self, call: Call, messages: Generator[bytes | None], result: ResultSet | None, send: Send, turns: Turns) -> None:
        """A message that is None says that none is there now. The result is closed when the client goes."""
        self._call = call
        self._messages = messages
        self._result = result
        self._send = send
        self._turns = turns
        self._context = contextvars.copy_context()
        waiting = None if result is None else result.waiting
        self._sleeper = None if waiting is None else Sleeper(waiting, lambda: turns.submit(self._go_on, call.caller.principal), turns.later)

    def begin(self) -> None:
        """Send; returns when all is sent or nothing is there now."""
        result = self._result
        if result is not None and result.waiting is not None:
            result.waiting.never_wait()
        # Nobody asks a call that sleeps, or makes rows none of which matches, whether its client is there.
        unasked = result is not None and (result.waiting is not None or result.made_while_read)
        if result is not None and unasked and not self._call.on_end(lambda: self._turns.submit(result.close)):
            result.close()
        self._go_on()

    def _go_on(self) -> None:
        try:
            # The context is left before the call sleeps: it may be woken, by another thread, before this one has come back from here.
            while (message := self._context.run(next, self._messages, _END)) is not _END and not self._call.gone():
                if message is not None:
                    self._send(message)
                elif self._sleeper is not None:
                    self._sleeper.sleep()
                    return
        except BaseException as error:
            failure = flight_failure(error, self._call.request_id)
            self._call.tell_own_failure()
            self._call.context.set_code(failure.code)
            self._call.context.set_details(failure.text)
        self._end()

    def _end(self) -> None:
        if self._sleeper is not None:
            self._sleeper.end()
        try:
            self._context.run(self._messages.close)
        finally:
            if self._result is not None:
                self._result.close()
            self._send(None)
