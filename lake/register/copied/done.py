"""What was copied of a warehouse's files, and what could not be."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field

from catalog.backup.archive_parts import PartTable
from lake.register.copied.contents import Recorded
from lake.register.copied.record import CopyRecord
from model.damage import MISSING
from table.format.io.copying import Copied, Copy, copy_files
from table.format.io.file_io import FileIO
from table.format.io.storage_errors import never_taken

PARALLEL = 8
COPY_AGAIN = "; delete it there, and the next backup copies it again"
"""The way out of what is damaged in a copy."""


@dataclass(slots=True, kw_only=True)
class WarehouseCopy:
    """What was copied of all tables."""

    tables: int = 0
    files: int = 0
    size: int = 0
    there: int = 0
    """Files that had been copied before."""
    troubles: list[tuple[str, str]] = field(default_factory=list)
    """Table and what of it could not be copied, and why."""
    doubts: list[tuple[str, str]] = field(default_factory=list)
    """Table and what of it is copied, and may not be as it was."""
    unreadable: list[str] = field(default_factory=list)
    """Of these, what a disk did not give, and may give another time."""
    consumers: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    """How far consumers were, by table's id, branch and name."""
    contents: dict[str, Recorded] = field(default_factory=dict)
    """What tables held whose rows are files of any kind, by table's id."""

    @property
    def record(self) -> CopyRecord:
        """What the copy is to say of the backup whose files these are."""
        return CopyRecord(consumers=self.consumers, contents=self.contents)

    def trouble(self, table: PartTable, what: str, *, unreadable: bool = True) -> None:
        """Tell what of a table could not be copied; what is ``unreadable`` a disk may give another time."""
        self.troubles.append((table.told, what))
        if unreadable:
            self.unreadable.append(f"{table.told}: {what}")

    def copied(self, table: PartTable, copies: Sequence[Copy], from_io: FileIO, to_io: FileIO) -> Copied:
        """Copy files, count them, and tell of those that have none to copy."""
        copied = copy_files(copies, source=from_io, target=to_io, threads=PARALLEL)
        self.tables += 1
        self.count(copied)
        named = sorted(what for of, what in self.troubles if of == table.told)  # by whoever looked for what it names
        self.troubles += [(table.told, f"{path} {MISSING}") for path in copied.missing if not _begins_one(named, f"{path} ")]
        for problem in copied.unreadable:
            self.trouble(table, f"a file was not copied: {problem.message}")
        return copied

    def count(self, copied: Copied) -> None:
        """Add what was copied, and what was there."""
        self.files, self.size, self.there = self.files + copied.files, self.size + copied.size, self.there + copied.there


def _begins_one(texts: Sequence[str], beginning: str) -> bool:
    """Whether one of some sorted texts begins so."""
    place = bisect_left(texts, beginning)
    return place < len(texts) and texts[place].startswith(beginning)


def why_refused(copied: Copied) -> dict[str, str]:
    """The places elsewhere that take no file, and why."""
    return {home: f"the place takes none ({never_taken(problem)})" for home, problem in copied.refused}
