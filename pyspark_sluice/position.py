"""Where a streaming query stands: the JSON offset in Spark's checkpoint, and how much a micro-batch may take."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from model.errors import InvalidOption
from model.snapshot import Snapshot
from table.scan.stream import Cursor


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """The snapshot read next, and what of it has been read: so many files of its plan, and so many rows of the one behind them."""

    cursor: Cursor
    files: int = 0
    rows: int = 0
    file: str | None = None
    """The file read next, where a part of the snapshot has been read: another start may leave out other files, and count otherwise.

    None in positions of earlier versions, too.
    """
    sorted: bool = False
    """Whether the snapshot that has been read in part is read in the order of `scan.plan-sort-partition`."""
    ending: bool = False
    """Whether only the row that ends event time is still to come (`SourceOptions.end_of_time`)."""
    end: bool = False
    """Whether the stream ends here: what comes next is beyond its watermark."""
    drained: bool = False
    """Whether it ends because that was asked for (`SourceOptions.drain`), and not at its bound: whoever goes on from here ends, too."""
    told: bool = False
    """Whether a micro-batch without rows comes behind those before: with its planning they are done, and the consumer is told them."""

    @property
    def snapshot(self) -> int:
        """The snapshot read next."""
        return self.cursor.next_snapshot_id

    @property
    def inside(self) -> bool:
        """Whether a part of that snapshot has been read."""
        return bool(self.files or self.rows)

    def stands_at(self, other: Position) -> bool:
        """Whether there are no rows between it and another, whatever else they tell."""
        return (self.cursor, self.files, self.rows) == (other.cursor, other.files, other.rows)

    def past(self, snapshot: Snapshot) -> Position:
        """The position once all of a snapshot is read."""
        return Position(cursor=self.cursor.after(snapshot))

    def within(self, snapshot: Snapshot, files: int, rows: int, *, file: str, by_value: bool) -> Position:
        """The position once so many files of a snapshot are read, and so many rows of the one named; ``by_value`` is ``sorted``."""
        cursor = replace(self.cursor, own_key=snapshot.key)
        begun = files > 0 or rows > 0
        return replace(self, cursor=cursor, files=files, rows=rows, file=file if begun else None, sorted=by_value and begun, told=False)

    def to_json(self) -> dict[str, Any]:
        """What Spark keeps; the same position is always the same text."""
        cursor = self.cursor
        position: dict[str, Any] = {"snapshot": self.snapshot, "whole": cursor.whole, "since": cursor.created_since}
        if self.inside:
            position |= {"files": self.files, "rows": self.rows, "file": self.file, "sorted": self.sorted}
        position |= {"after": cursor.before_key, "of": cursor.own_key}
        position |= {"ending": self.ending, "end": self.end, "drained": self.drained, "told": self.told}
        return {key: value for key, value in position.items() if value is not None and value is not False}

    @classmethod
    def from_text(cls, text: str) -> Position:
        """Read an offset that a user gives; raises `InvalidOption`."""
        try:
            return cls.from_json(json.loads(text))
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InvalidOption(f"Option 'startingOffset' = '{text}' is no offset, such as {{\"snapshot\": 1}}.") from None

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Position:
        """Read it back."""
        cursor = Cursor(
            next_snapshot_id=body["snapshot"],
            whole=body.get("whole", False),
            created_since=body.get("since"),
            before_key=body.get("after"),
            own_key=body.get("of"),
        )
        return cls(
            cursor=cursor,
            files=body.get("files", 0),
            rows=body.get("rows", 0),
            file=body.get("file"),
            sorted=body.get("sorted", False),
            ending=body.get("ending", False),
            end=body.get("end", False),
            drained=body.get("drained", False),
            told=body.get("told", False),
        )


class Budget:
    """What a micro-batch may still take; None is without limit. It always takes at least one row, or it would never go on."""

    def __init__(
        self, *, rows: int | None = None, nbytes: int | None = None, files: int | None = None, snapshots: int | None = None
    ) -> None:
        self._rows = rows
        self._bytes = nbytes
        self._files = files
        self._snapshots = snapshots
        self.taken = 0
        """Rows taken so far."""

    def last_snapshot(self) -> bool:
        """Whether no other snapshot with rows fits behind the one that was taken to its end."""
        if self._snapshots is None:
            return False
        self._snapshots -= 1
        return self._snapshots <= 0

    def take(self, rows: int, file_bytes_per_row: float) -> int:
        """How many of the rows left of the next file fit; they count as taken."""
        fitting = rows
        if self._files is not None:
            if self._files <= 0:
                return 0
            self._files -= 1
        if self._rows is not None:
            fitting = min(fitting, self._rows)
        if self._bytes is not None and file_bytes_per_row > 0:
            fitting = min(fitting, int(self._bytes / file_bytes_per_row))
        if not fitting and not self.taken:
            fitting = min(rows, 1)
        self.taken += fitting
        if self._rows is not None:
            self._rows -= fitting
        if self._bytes is not None:
            self._bytes = max(0, self._bytes - round(fitting * file_bytes_per_row))
        return fitting
