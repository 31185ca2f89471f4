"""The memory that sessions take beside their statements: what is SET in them, and their temporary tables."""

from __future__ import annotations

import threading

from model.errors import TooManyStatements
from model.work.shared_bytes import SharedBytes

_OVERHEAD_BYTES = 200
"""What Python takes for each option and table beside its text, about, also where an option is in two dicts."""

_WIDEST = 4
"""Bytes of each character where one of a text is beyond Unicode's first plane, and about as many with what Python keeps encoded."""


def text_bytes(*texts: str) -> int:
    """Bytes of memory that so many texts take that belong together, at most."""
    # Not by `sys.getsizeof`: a text that was encoded since is larger, and more would be given back than was taken.
    return _OVERHEAD_BYTES + sum(len(text) if text.isascii() else _WIDEST * len(text) for text in texts)


class SessionMemory:
    """What one session takes of the memory of all, of which a principal's have four fifths."""

    def __init__(self, shared: SharedBytes, principal: str) -> None:
        self._shared, self._principal = shared, principal
        self._lock = threading.Lock()
        self._taken = 0
        self._ended = False

    def change(self, more: int) -> None:
        """So many bytes more are kept, or less; raises `TooManyStatements` where there is no space for them."""
        with self._lock:
            if self._ended:  # whoever still works in it works for nobody
                return
            if more > 0 and not self._shared.take(self._principal, more):
                own = self._shared.usage().get(self._principal, 0)
                raise TooManyStatements(
                    f"What is set in sessions, and their temporary tables, take as much memory as they may: {own >> 10:,} kB those of "
                    f"{self._principal}, of {self._shared.most >> 10:,} kB in all, four fifths of it for one. Close sessions, or RESET or "
                    "DROP what they hold, and try again."
                )
            if more < 0:
                self._shared.give(self._principal, -more)
            self._taken += more

    def end(self) -> None:
        """The session is closed; twice is fine."""
        with self._lock:
            self._ended = True
            if self._taken:
                self._shared.give(self._principal, self._taken)
            self._taken = 0
