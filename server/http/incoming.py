"""A request's body on its way in: in memory while it is small, in a file without a name beyond, piped where it is huge."""

from __future__ import annotations

import io
import threading
from collections import deque
from collections.abc import Callable
from typing import IO, Any

from workers.spool import BodyFiles

FREE_BYTES = 64 << 10
"""So much of a body is taken before anybody knows who sends it."""
MEMORY_BYTES = 1 << 20
"""What lies in memory of a body; the rest of a larger one lies in a file."""
SPOOLED_BYTES = 1 << 30
"""A larger body is read while it comes: a disk need not hold what a table is to hold."""
_PIPE_BYTES = 1 << 20
_CROWDED_BYTES = 4 << 10
"""Less of a body stays in memory, however much others hold."""


class IncomingBody:
    """Collects a body; all but `spill` is called by the event loop."""

    def __init__(self, files: BodyFiles) -> None:
        self.size = 0
        self._files = files
        self._held: list[bytes] = []
        self.held = 0
        """Bytes in memory."""
        self._file: IO[bytes] | None = None

    def wants_spill(self, *, whole: bool, crowded: bool) -> bool:
        """Whether it is time to write what is in memory to the file; ``crowded``: others of its owner hold much."""
        if self._file is not None and (whole or self.size > SPOOLED_BYTES):
            return self.held > 0
        if crowded:
            return self.held >= _CROWDED_BYTES
        return self.held >= (MEMORY_BYTES if self._file is None else MEMORY_BYTES // 4)

    def add(self, data: bytes) -> None:
        """The next bytes."""
        self.size += len(data)
        self.held += len(data)
        self._held.append(data)

    def spill(self, owner: str) -> Callable[[], None]:
        """What writes all that has come to the file, on a thread that may wait for a disk.

        Raises `StorageFull` or `Unavailable`, and `TooManyStatements` where the owner, or all, have too many files.
        """
        pieces, self._held, self.held = self._held, [], 0
        files = self._files.of(owner, comes=True)

        def write() -> None:
            if self._file is None:
                self._file = files.new()
            files.write(self._file, pieces)

        return write

    def opened(self) -> IO[bytes]:
        """All of it, from the beginning; not to be added to any more."""
        if self._file is None:
            return io.BytesIO(self._held[0] if len(self._held) == 1 else b"".join(self._held))
        assert not self._held, "what is in memory is spilled first"
        self._file.seek(0)
        return self._file

    def close(self) -> None:
        """Let go of the file."""
        if self._file is not None:
            self._file.close()
        self._held, self.held = [], 0


class BrokenBody(io.RawIOBase):
    """Stands for a body that is not handed on; whoever reads it is told so."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        raise OSError("The body was not taken.")


class PipedBody(io.RawIOBase):
    """What has come of a huge body, and the rest as it comes; raises `OSError` where it breaks off."""

    def __init__(self, begin: IO[bytes], resume: Callable[[], None]) -> None:
        self._begin: IO[bytes] | None = begin
        self._resume = resume
        self._filled = threading.Condition()
        self._held: deque[bytes] = deque()
        self._held_bytes = 0
        self._ended = self._broken = False

    def readable(self) -> bool:
        return True

    def add(self, data: bytes) -> bool:
        """The next bytes; False where no more are to come until ``resume`` is called. By the event loop."""
        with self._filled:
            self._held.append(data)
            self._held_bytes += len(data)
            self._filled.notify()
            return self._held_bytes < _PIPE_BYTES

    def end(self, *, broken: bool) -> None:
        """No more comes."""
        with self._filled:
            self._ended, self._broken = True, self._broken or broken
            self._filled.notify()

    def readinto(self, buffer: Any) -> int:
        if self._begin is not None:
            if data := self._begin.read(len(buffer)):
                buffer[: len(data)] = data
                return len(data)
            self._begin = None
        with self._filled:
            while not self._held and not self._ended:
                self._filled.wait()
            if not self._held:
                if self._broken:
                    raise OSError("The body broke off.")
                return 0
            data = self._held[0]
            taken = data[: len(buffer)]
            if len(taken) == len(data):
                self._held.popleft()
            else:
                self._held[0] = data[len(taken) :]
            full = self._held_bytes >= _PIPE_BYTES
            self._held_bytes -= len(taken)
            resume = full and self._held_bytes < _PIPE_BYTES
        if resume:
            self._resume()
        buffer[: len(taken)] = taken
        return len(taken)
