"""Where a location really is: the one place that follows the links of this machine's disks."""

from __future__ import annotations

import contextlib
import os

from model.location import Location
from table.format.io.storage_errors import translating

_LOOKS = 100
"""How often a path is looked at whose links become something else meanwhile."""


def real(location: Location) -> Location:
    """The location with every link on the way followed; stores without links have nothing to follow.

    Raises `Unavailable` for a path that does not stay the same.
    """
    if not location.local:
        return location
    path = str(location)
    for _ in range(_LOOKS):
        with contextlib.suppress(OSError):  # what was a link is none any more where it leads is asked
            return Location.parse(os.path.realpath(path))
    with translating(path):
        return Location.parse(os.path.realpath(path))


class RealPlaces:
    """Follows links of many locations; directories several of them lie in are looked at once."""

    def __init__(self) -> None:
        self._parents: dict[Location, Location] = {}

    def of(self, location: Location) -> Location:
        """What `real` gives."""
        if not location.local or not location.parts:
            return location
        parent = self._parents.get(location.parent)
        if parent is None:
            parent = self._parents[location.parent] = real(location.parent)
        location_below = parent.child(location.name)
        return real(location_below) if os.path.islink(str(location_below)) else location_below
