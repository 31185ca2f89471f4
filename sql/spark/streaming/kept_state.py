"""The state a query keeps in its checkpoint, as Spark lays it out: ``state/<operator>/<partition>/[<store>/]<version>.delta``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from table.format.io.file_io import FileIO

_VERSION = re.compile(r"([0-9]+)\.(?:delta|snapshot)")
_END = re.compile(rb"LZ4Block[\x10-\x2f]\0{12}")
"""The last block of what Spark compresses: after a power cut a file may have its length without its text."""
_END_BYTES = 21
_ONLY_STORE = "default"
"""The one whose files lie in the partition's directory itself."""


def ends_of_file(io: FileIO, path: str, first: int, last: int) -> tuple[bytes, bytes]:
    """The first and the last so many bytes of a file, or all it has; raises `FileNotFoundError`."""
    with io.open_input(path) as file:
        begin = bytes(file.read(first))
        file.seek(max(0, file.size() - last))
        return begin, bytes(file.read())


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

    def has(self, version: int) -> bool:
        """Whether every store has a version whole; not where it cannot be told which there are."""
        try:
            return all(self._is_whole(store, version) for store in self._expected())
        except (FileNotFoundError, ValueError, LookupError, TypeError):
            return False

    def _is_whole(self, store: str, version: int) -> bool:
        names = self._versions(store).get(version, [])
        ends = (ends_of_file(self._io, f"{store}/{name}", 0, _END_BYTES)[1] for name in names)
        return f"{version}.delta" in names and all(_END.fullmatch(end) for end in ends)

    def _expected(self) -> list[str]:
        """The stores as Spark has noted them for each operator; raises `FileNotFoundError`, or what malformed notes do."""
        stores = []
        operators = self._numbered(self._location)
        if not operators or operators[-1] != len(operators) - 1:
            raise FileNotFoundError(self._location)
        for operator in operators:
            note = self._io.read(f"{self._location}/{operator}/_metadata/metadata").decode()
            for store in json.loads(note.partition("\n")[2])["stateStoreInfo"]:
                below = "" if store["storeName"] == _ONLY_STORE else f"/{store['storeName']}"
                stores += [f"{self._location}/{operator}/{partition}{below}" for partition in range(store["numPartitions"])]
        return stores

    def _stores(self) -> Iterator[str]:
        """Those that are there."""
        for operator in self._numbered(self._location):
            for partition in self._numbered(f"{self._location}/{operator}"):
                place = f"{self._location}/{operator}/{partition}"
                yield place
                yield from (status.path for status in self._io.list(place) if status.is_dir)

    def _versions(self, store: str) -> dict[int, list[str]]:
        """The names of a store's files by their versions."""
        versions: dict[int, list[str]] = {}
        for status in self._io.list(store):
            name = status.path.rsplit("/", 1)[-1]
            if (match := _VERSION.fullmatch(name)) is not None:
                versions.setdefault(int(match[1]), []).append(name)
        return versions

    def _numbered(self, directory: str) -> list[int]:
        names = (status.path.rsplit("/", 1)[-1] for status in self._io.list(directory) if status.is_dir)
        return sorted(int(name) for name in names if name.isdecimal())
