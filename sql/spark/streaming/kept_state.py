"""The state a query keeps in its checkpoint, as Spark lays it out: ``state/<operator>/<partition>/[<store>/]<version>.delta``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from table.format.io.file_io import FileIO

_VERSION = re.compile(r"([0-9]+)\.(?:delta|snapshot)")


class KeptState:
    """The versions of all its stores; version N+1 is what batch N leaves."""

    def __init__(self, io: FileIO, location: str) -> None:
        self._io = io
        self._location = location

    @property
    def begun(self) -> bool:
        """Whether the query keeps any."""
        return self._io.exists(self._location)

    def newest(self) -> int:
        """The last version of which a store has something; 0 where none has."""
        return max((version for store in self._stores() for version in self._versions(store)), default=0)

    def reached(self) -> int:
        """The same by one partition of each operator: a batch leaves a version in all, and each directory is a request to a store."""
        return max((version for store in self._stores(most=1) for version in self._versions(store)), default=0)

    def _stores(self, *, most: int | None = None) -> Iterator[str]:
        """Those that are there, of ``most`` partitions of each operator."""
        for operator in self._numbered(self._location):
            for partition in self._numbered(f"{self._location}/{operator}")[:most]:
                place = f"{self._location}/{operator}/{partition}"
                yield place
                yield from (status.path for status in self._io.list(place) if status.is_dir)

    def _versions(self, store: str) -> Iterator[int]:
        """Those of which a store has a file."""
        names = (status.path.rsplit("/", 1)[-1] for status in self._io.list(store))
        return (int(match[1]) for name in names if (match := _VERSION.fullmatch(name)) is not None)

    def _numbered(self, directory: str) -> list[int]:
        names = (status.path.rsplit("/", 1)[-1] for status in self._io.list(directory) if status.is_dir)
        return sorted(int(name) for name in names if name.isdecimal())
