"""When tables' files were last held against what names them: a file ``.sluice/checked/<id>`` in the warehouse for each, whose time tells.

A deep check has one of its own. They are no part of the catalog, and no backup has them: what was checked were these files.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Collection
from uuid import UUID

from model.errors import LakeError
from table.format.io.file_io import FileIO

_log = logging.getLogger(__name__)
_DIRECTORY = ".sluice/checked"
_DEEP = ".deep"


def note_checked(io: FileIO, warehouse: str, table_id: UUID, *, deep: bool) -> None:
    """All files of a table have been looked at just now; where that cannot be written, as where all is read only, the log says so."""
    try:
        io.write(f"{warehouse}/{_DIRECTORY}/{table_id}{_DEEP if deep else ''}", b"")
    except (LakeError, OSError) as problem:
        _log.warning("That table %s was checked could not be noted: %s", table_id, problem)


def last_checked(io: FileIO, warehouse: str) -> dict[UUID, tuple[dt.datetime, bool]]:
    """When each table was last checked, by the store's clock, and whether deeply; from one listing. Raises `Unavailable`."""
    last: dict[UUID, tuple[dt.datetime, bool]] = {}
    for status in io.list(f"{warehouse}/{_DIRECTORY}"):
        name = status.path.rpartition("/")[2]
        try:
            table_id = UUID(name.removesuffix(_DEEP))
        except ValueError:  # nobody's of ours
            continue
        seen = dt.datetime.fromtimestamp(status.mtime_millis / 1000, dt.UTC), name.endswith(_DEEP)
        last[table_id] = max(seen, last.get(table_id, seen))
    return last


def forget_checked(io: FileIO, warehouse: str, *, but: Collection[UUID]) -> None:
    """Remove the notes of tables that are no more; raises `Unavailable`."""
    for table_id in last_checked(io, warehouse).keys() - set(but):
        for end in ("", _DEEP):
            io.delete(f"{warehouse}/{_DIRECTORY}/{table_id}{end}")
