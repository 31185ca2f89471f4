"""What a scan is to read, as records; of very many files only those somebody looks at are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from model.predicate import Predicate
from table.format.manifests.columns import ManifestColumns, Numbers
from table.format.manifests.entries import DataFile, DeletionVector, ManifestEntry

_CHUNK = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFile:
    """A file to read, with where it belongs."""

    path: str
    partition: tuple[object, ...]
    bucket: int
    file: DataFile
    vector: DeletionVector | None = None
    """Which of its rows are deleted; None for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPlan:
    """The files to read, in order: partition as first seen, bucket, sequence; and what was left out."""

    snapshot_id: int | None
    files: Sequence[PlannedFile]
    total_files: int
    count_bytes: Callable[[], int]
    """Finds out `total_bytes`, which takes a look at files that are left out."""
    predicate: Predicate | None = None
    deleted: bool = False
    """Whether rows of some file may be deleted."""

    @property
    def total_bytes(self) -> int:
        """Bytes of all files."""
        return self.count_bytes()

    @property
    def kept_bytes(self) -> int:
        """Bytes of the files to read."""
        if isinstance(self.files, ManyFiles):
            return self.files.total("file_size")
        return sum(planned.file.file_size for planned in self.files)

    @property
    def kept_rows(self) -> int:
        """Rows of the files to read; an upper bound of what matches."""
        if isinstance(self.files, ManyFiles):
            return self.files.total("row_count")
        return sum(planned.file.row_count for planned in self.files)

    @property
    def skipped_files(self) -> int:
        """Files that cannot hold a matching row."""
        return self.total_files - len(self.files)


class ManyFiles(Sequence[PlannedFile]):
    """Planned files that lie in manifests' columns and are made when they are looked at."""

    def __init__(
        self, manifests: Sequence[ManifestColumns], owners: Numbers, rows: Numbers, planned: Callable[[ManifestEntry], PlannedFile]
    ) -> None:
        self._manifests = manifests
        self._owners = owners
        """Of each file the manifest, by its place among the manifests."""
        self._rows = rows
        self._planned = planned

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, at: int) -> PlannedFile: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[PlannedFile]: ...
    def __getitem__(self, at: int | slice) -> PlannedFile | Sequence[PlannedFile]:
        if isinstance(at, slice):
            return ManyFiles(self._manifests, self._owners[at], self._rows[at], self._planned)
        return self._made(self._owners[[at]], self._rows[[at]])[0]

    def __iter__(self) -> Iterator[PlannedFile]:
        for at in range(0, len(self), _CHUNK):
            yield from self._made(self._owners[at : at + _CHUNK], self._rows[at : at + _CHUNK])

    def _made(self, owners: Numbers, rows: Numbers) -> list[PlannedFile]:
        made: dict[int, PlannedFile] = {}
        for owner in np.unique(owners).tolist():
            places = np.flatnonzero(owners == owner)
            entries = self._manifests[owner].entries(rows[places])
            made.update((place, self._planned(entry)) for place, entry in zip(places.tolist(), entries, strict=True))
        return [made[place] for place in range(len(rows))]

    def total(self, column: str) -> int:
        """The sum of a column of numbers over all of them."""
        owned = ((columns, self._rows[self._owners == owner]) for owner, columns in enumerate(self._manifests))
        return sum(int(columns.numbers(column)[rows].sum()) for columns, rows in owned)
