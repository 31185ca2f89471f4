"""Where a table's files lie in a copy: those of its directory under their own names, those outside it below one of the copy's.

A table that was migrated or registered names files outside its directory by their full path. Their place in the copy tells that path.
"""

from __future__ import annotations

from collections.abc import Sequence

from model.location import Location
from table.format.io.reach import Reach

_OUTSIDE = "_external"
_LOCAL, _NOBODY = "file", "_"
"""What stands for a scheme and a host that a path lacks."""


class CopiedReach(Reach):
    """The places of a table whose files lie at one place and call another their own: full paths are those of there."""

    def __init__(self, at: str, home: str, *, name: str, allowed: Sequence[str]) -> None:
        super().__init__(at, name=name, allowed=allowed)
        self._home = Reach(home, name=name, allowed=allowed)
        self.by_full_path: set[str] = set()
        """Where files lie that the table names by their full path."""

    def external(self, path: str) -> str:
        """Where the file lies of such a path; raises `TableDamaged` for one outside the table's places."""
        if path.startswith(f"{self.directory}/") and self.directory != self._home.directory:
            return path  # asked for a file of the copy itself
        lies = self.at(self._home.external(path))
        self.by_full_path.add(lies)
        return lies

    def at(self, path: str) -> str:
        """Where a file of the table's home lies here."""
        home, location = Location.parse(self._home.directory), Location.parse(path)
        if home.contains(location):
            return "/".join([self.directory, *location.below(home)])
        if self.directory == self._home.directory:
            return path
        return "/".join([self.directory, _OUTSIDE, location.scheme or _LOCAL, location.authority or _NOBODY, *location.parts])

    def outside(self, path: str) -> str | None:
        """The place outside the table's directory whose file lies there, or would in a copy."""
        if not path.startswith(f"{self.directory}/"):
            return path
        first, *rest = path.removeprefix(f"{self.directory}/").split("/")
        if first != _OUTSIDE or (path not in self.by_full_path and path.rpartition("/")[0] not in self._directories()):
            return None
        scheme, authority, *parts = rest
        return str(
            Location(scheme="" if scheme == _LOCAL else scheme, authority="" if authority == _NOBODY else authority, parts=tuple(parts))
        )

    def _directories(self) -> set[str]:
        return {path.rpartition("/")[0] for path in self.by_full_path}
