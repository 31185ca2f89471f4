"""Where tables may be put and what lies already may be taken over from: compared as locations, all links followed."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from uuid import UUID

from catalog import CatalogTransaction
from catalog.objects.directories import Taken
from model.errors import Forbidden, InvalidName
from model.identifier import Identifier
from model.location import Location
from table.format.io.links import RealPlaces, real

_DATABASE_SUFFIX = ".db"
_ONE_OF = re.compile(r"\[[^\]]*\]?")
_READ_TABLES = "A table is read by its name, under its grants and policies; name a path in and around which no table lies."


def table_location(warehouse: Location, table: Identifier, *, beside: str = "") -> Location:
    """Where a table of that name is put when it is made; ``beside`` tells it from another one that lies there."""
    return warehouse.child(f"{table.database}{_DATABASE_SUFFIX}").child(f"{table.table}-{beside}" if beside else table.table)


def place_of_new(warehouse: Location, path: str) -> Location:
    """Where a table with a ``path`` is put: inside the warehouse, as no other place is this server's to write to; else `InvalidName`."""
    location = _spelled(Location.parse(path.strip()), warehouse)
    inside = location.below(warehouse) if warehouse.contains(location) else ()
    if not inside or inside[0].startswith(".") or any(name.endswith(_DATABASE_SUFFIX) for name in inside):
        raise InvalidName(
            f"A table cannot lie at {path}: external tables lie inside the warehouse, {warehouse}, each in a place of its own "
            f"and not in a database's directory (NAME{_DATABASE_SUFFIX})."
        )
    return location


def place_to_register(path: str, warehouse: Location, import_dirs: Sequence[str], may_create_in: Callable[[str | None], bool]) -> Location:
    """Where a table that exists lies; raises `Forbidden` outside the import directories and the warehouse.

    A table left in a database's directory is taken over there by who may create tables in that database, and one left elsewhere in the
    warehouse by who may in all of them (None): what a dropped table's rules kept may lie there, and nobody reads files there as they lie.
    """
    location = _spelled(allowed_place(path, (*import_dirs, str(warehouse))), warehouse)
    if not warehouse.same_store(location):
        raise InvalidName(f"{location} lies in another store than the warehouse, {warehouse}; a table's files lie in one.")
    inside = location.below(warehouse) if warehouse.contains(location) else ()
    if location.contains(warehouse) or (inside and inside[0].startswith(".")):
        raise InvalidName(f"{location} is no table's place: the warehouse, {warehouse}, or what the server keeps for itself lies there.")
    if inside and inside[0].endswith(_DATABASE_SUFFIX):
        database = inside[0].removesuffix(_DATABASE_SUFFIX)
        if len(inside) != 2:
            raise InvalidName(f"{location} is no table's place: tables of database {database} lie directly in its directory.")
        if not may_create_in(database):
            raise Forbidden(f"'{path}' is not allowed: it is a place of database {database}, and takes CREATETABLE on it.")
    elif inside and not _is_inside(location, _within(warehouse, import_dirs)) and not may_create_in(None):
        raise Forbidden(
            f"'{path}' is not allowed: it lies in the warehouse and in no database's directory (NAME{_DATABASE_SUFFIX}), where another "
            "table's rows may have been left; it takes CREATETABLE on all in the catalog."
        )
    return location


def _spelled(location: Location, warehouse: Location) -> Location:
    """The location with its links followed; inside the warehouse it is spelled as the warehouse is, as all its tables are."""
    followed, home = real(location), real(warehouse)
    if not home.contains(followed):
        return followed
    spelled = warehouse
    for name in followed.below(home):
        spelled = spelled.child(name)
    return spelled


def refuse_overlap(tx: CatalogTransaction, location: Location, doing: str, *, files_of: UUID | None = None) -> None:
    """Raise `InvalidName` for a place inside a table's directory, around one, or in a directory that is being removed.

    So it is with the places outside of its directory where files of a table may lie, as after a migration: both tables would read,
    compact and expire the same files. ``files_of``: the table whose own such places are fine.

    One such check at a time, until the transaction ends: two new places could be fine with all others and not with each other.
    """
    tx.directories.lock_places()
    places = RealPlaces()
    mine = places.of(location)
    for taken, text in tx.directories.locations(but_files_of=files_of):
        other = Location.parse(text)
        if not other.same_store(mine) or not (occupied := places.of(other)).overlaps(mine):
            continue
        if taken is Taken.DROPPED_TABLE:
            raise InvalidName(
                f"{doing}: {other} is the directory of a dropped table. UNDROP TABLE brings that one back with its grants, policies and "
                "tags, and SHOW DROPPED TABLES lists what can be brought back."
            )
        if taken is Taken.GARBAGE:
            raise InvalidName(f"{doing}: {other} is the directory of a dropped table, which is being removed.")
        if taken is Taken.FILES:
            raise InvalidName(f"{doing}: {location} holds files that are another table's, or lies among them. Copy them to take them over.")
        if occupied == mine:
            raise InvalidName(f"{doing}: the table at {location} is a table of this catalog already.")
        raise InvalidName(f"{doing}: {location} and the directory of another table lie in each other.")


def refuse_guarded(
    tx: CatalogTransaction, wanted: Sequence[Location], warehouse: Location, import_dirs: Sequence[str], *, around: bool = True
) -> None:
    """Raise `Forbidden` for files to be read as they lie that are a table's: its grants and policies would not hold for them.

    Each place is one that a path means, its links followed, or a pattern; what it lies in counts, and with ``around`` what lies in it.
    The warehouse is guarded as a whole, unless an import directory lies in it.
    """
    home = real(warehouse)
    apart = not _within(warehouse, import_dirs)
    if apart and (met := next((place for place in wanted if _may_meet(place, home, around)), None)) is not None:
        raise Forbidden(f"'{met}' is not allowed: the warehouse lies there. {_READ_TABLES}")
    places = RealPlaces()
    for taken, text in tx.directories.locations():
        place = Location.parse(text)
        if apart and warehouse.contains(place):
            continue  # most are there, where none of the wanted is
        other = places.of(place)
        if (met := next((place for place in wanted if _may_meet(place, other, around)), None)) is not None:
            whose = "a table of this catalog" if taken in (Taken.TABLE, Taken.FILES) else "a dropped table that is still kept"
            raise Forbidden(f"'{met}' is not allowed: files of {whose} lie there. {_READ_TABLES}")


def _within(warehouse: Location, import_dirs: Sequence[str]) -> list[str]:
    """The import directories that lie in the warehouse."""
    home = real(warehouse)
    return [root for root in import_dirs if home.contains(real(Location.parse(root)))]


def _may_meet(wanted: Location, place: Location, around: bool) -> bool:
    """Whether a path, or one that a pattern stands for, may lie in a place, or around it where that counts."""
    if not wanted.same_store(place) or (len(wanted.parts) < len(place.parts) and not around and "**" not in str(wanted)):
        return False
    for pattern, name in zip(wanted.parts, place.parts, strict=False):
        if "**" in pattern:
            return True
        if pattern != name and not fnmatch.fnmatchcase(name, _ONE_OF.sub("?", pattern)):  # readers differ in what `[^a]` means
            return False
    return True


def allowed_place(path: str, roots: Sequence[str]) -> Location:
    """The location a path means; raises `Forbidden` where it is, its links followed, inside none of the roots."""
    location = Location.parse(path.strip())
    if not _is_inside(location, roots):
        raise _outside(path, roots)
    return location


def check_all_inside(paths: Iterable[str], roots: Sequence[str], *, outside: Location) -> None:
    """Raise `Forbidden` for a file that a link leads out of the roots, or into the warehouse."""
    real_location = real(outside)
    for path in paths:
        location = Location.parse(path)
        if not _is_inside(location, roots) or real_location.contains(real(location)):
            raise _outside(path, roots)


def _is_inside(location: Location, roots: Sequence[str]) -> bool:
    real_location = real(location)
    return any(real(Location.parse(root)).contains(real_location) for root in roots)


def _outside(path: str, roots: Sequence[str]) -> Forbidden:
    where = f"below {', '.join(roots)}" if roots else "nowhere: SLUICE_IMPORT_DIRS is empty"
    return Forbidden(f"'{path}' is not allowed: files are taken over {where}.")
