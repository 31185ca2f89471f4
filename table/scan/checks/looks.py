"""What is known of data files that were looked at, kept in memory that is taken once."""

from __future__ import annotations

import threading
from array import array
from dataclasses import dataclass

_PLACES = 8
_SETS = 1 << 15
_KNOWN, _BOUNDED, _IN_SPARK = 4, 2, 1
"""The lowest bits of a place; the others tell one file from another."""
_FLAGS = _KNOWN | _BOUNDED | _IN_SPARK


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What came of a look at a file."""

    in_spark: bool
    """Whether it is known to be what was written, and packed so that Spark can read it."""
    bounded: bool = True
    """Whether its footer's bounds hold for all its values; NaN may lie outside of them."""


class KeptLooks:
    """The looks at up to 262,144 files in 2 MiB; a server that meets new files for weeks holds no more than one that just began.

    A set-associative cache: a key has eight places, and of the files that share them the one that was asked for longest ago gives way.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        """Know nothing, as after a start."""
        places = array("Q", bytes(8 * _PLACES * _SETS))
        with self._lock:
            self._places = places

    def get(self, key: bytes) -> Look | None:
        """What is known of the file with a key, a digest of 16 bytes; None where it was not looked at, or long ago."""
        first, name = _where(key)
        with self._lock:
            places = self._places
            for at in range(first, first + _PLACES):
                place = places[at]
                if place & ~_FLAGS == name and place & _KNOWN:
                    self._put_first(place, first, at)
                    return Look(in_spark=bool(place & _IN_SPARK), bounded=bool(place & _BOUNDED))
        return None

    def keep(self, key: bytes, look: Look) -> None:
        """Know what came of a look, in place of what was known."""
        first, name = _where(key)
        place = name | _KNOWN | (_IN_SPARK if look.in_spark else 0) | (_BOUNDED if look.bounded else 0)
        with self._lock:
            last = first + _PLACES - 1
            at = next((at for at in range(first, last) if self._places[at] & ~_FLAGS == name), last)
            self._put_first(place, first, at)

    def _put_first(self, place: int, first: int, at: int) -> None:
        """Let all before one that is given up move by a place."""
        self._places[first + 1 : at + 1] = self._places[first:at]
        self._places[first] = place


def _where(key: bytes) -> tuple[int, int]:
    """The first place of a key's eight, and what it is called there."""
    return int.from_bytes(key[8:16]) % _SETS * _PLACES, int.from_bytes(key[:8]) & ~_FLAGS
