"""Whether a table's directory is there, and what may be made in it: nothing where a disk is away that it lies on.

A table's schemas are written before anything else of it, and nobody removes the newest: where their directory is missing, so is the disk,
or the table was dropped. What was written into the empty directory that a disk is mounted on would be hidden once it is.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from model.errors import Unavailable
from table.format.io.directory import Directory
from table.format.io.file_io import FileIO
from table.format.layout import TableLayout


def is_there(io: FileIO, location: str) -> bool:
    """Whether the directory of a table holds its schemas; an object store is not mounted, and is not asked."""
    return not io.atomic_rename or io.exists(TableLayout(location).schema_dir())


def require_there(io: FileIO, location: str, name: str) -> None:
    """Raise `Unavailable` where the directory of a table that has been written to is not there."""
    if not is_there(io, location):
        raise missing(location, name)


def missing(location: str, name: str) -> Unavailable:
    """The failure of a write to a table whose directory is not there."""
    return Unavailable(
        f"The directory of table {name}, {location}, is not there, and is not made anew: is its disk mounted? Nothing was written.",
        place=location,
    )


@contextlib.contextmanager
def opened_in(io: FileIO, location: str, path: str, *, make: bool) -> Iterator[Directory]:
    """A directory of a table, open; where there is none it is made, as long as the table's own is there.

    Else, and with ``make`` off, a `FileNotFoundError`.
    """
    with contextlib.ExitStack() as stack:
        try:
            place = stack.enter_context(io.directory(path, make=False))
        except FileNotFoundError:
            if not make or not is_there(io, location):
                raise
            place = stack.enter_context(io.directory(path, make=True))
        yield place
