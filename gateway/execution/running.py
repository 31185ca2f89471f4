"""The statements that wait or run, and the streaming results that are open."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from gateway.operation import Operation
from lake import Caller
from model.errors import OperationNotExist, StreamEnded
from sql.execution.results import ResultSet


class RunningOperations:
    """Operations from when they are asked for until they end, oldest first."""

    def __init__(self) -> None:
        self._by_handle: dict[str, Operation] = {}
        self._being_read: dict[str, Operation] = {}
        """Ended for their clients, who make their rows by reading them, or read a stream: limits and cancels hold for these, too."""
        self._lock = threading.Lock()

    def add(self, operation: Operation) -> None:
        """Note one that is asked for."""
        with self._lock:
            self._by_handle[operation.handle] = operation

    def remove(self, operation: Operation) -> None:
        """Forget one that has ended; one that is being read, once its result is closed."""
        reading = operation.being_read
        with self._lock:
            self._by_handle.pop(operation.handle, None)
            if reading:
                self._being_read[operation.handle] = operation
        if reading and operation.result is not None:
            operation.result.on_close(lambda: self._read(operation))

    def all(self) -> list[Operation]:
        """Those that wait or run."""
        with self._lock:
            return list(self._by_handle.values())

    def at_work(self) -> list[Operation]:
        """Those, and the ones that are being read."""
        with self._lock:
            return [*self._being_read.values(), *self._by_handle.values()]

    def _read(self, operation: Operation) -> None:
        with self._lock:
            self._being_read.pop(operation.handle, None)

    def named(self, name: str, caller: Caller) -> Operation:
        """The one at work of this name or handle: one's own, to administrators anybody's; raises `OperationNotExist`."""
        named = [entry for entry in reversed(self.at_work()) if name in (entry.handle, entry.name)]
        if allowed := [entry for entry in named if entry.owner.admits(caller.owner)] or (named if caller.administrator else []):
            return allowed[0]
        raise OperationNotExist(f"No statement {name} of yours is running.")


def cancel_all(operations: Sequence[Operation]) -> None:
    """Stop them, and wait for those that decide something: all at once, for `STOP_SECONDS` at most."""
    for operation in operations:
        operation.cancel()
    for operation in operations:
        operation.wait_to_end()


class StreamingResults:
    """Results that do not end by themselves, until they are closed."""

    def __init__(self) -> None:
        self._open: dict[int, ResultSet] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        with self._lock:
            return len(self._open)

    def add(self, result: ResultSet) -> None:
        """Note one that was opened."""
        with self._lock:
            self._open[id(result)] = result
        result.on_close(lambda: self._forget(id(result)))

    def end(self) -> None:
        """Close all, with the reason for their readers."""
        with self._lock:
            streams = list(self._open.values())
        for stream in streams:
            stream.close(StreamEnded("The server is stopping; start the stream again, with a consumer-id where it was."))

    def _forget(self, key: int) -> None:
        with self._lock:
            self._open.pop(key, None)
