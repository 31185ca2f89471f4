"""Directories that nothing needs: remembered in the decision that makes them so, removed after it, and found again after a crash."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Set
from datetime import timedelta
from uuid import UUID

from catalog import CatalogStore, CatalogTransaction
from catalog.records import DiscardedRow, TableRow
from lake.access.allowed_locations import refuse_overlap
from lake.commit.decided import follow
from lake.register.readable_line import read_snapshot
from lake.register.standing import Standing
from lake.tables.consumers import carry_consumers
from model.errors import InvalidName, TableDamaged
from model.location import Location
from table.format.io.file_io import FileIO
from table.format.json_document import parse_json
from table.format.layout import lies_in_branches
from table.format.schema_file import NO_SCHEMA, made_millis
from table.format.store import TableFiles

_CLOCKS_APART = timedelta(seconds=2)
"""So far the clocks of Postgres and of servers may differ; looked at only where nothing is known of whose a directory was."""

_BRANCHES = "branch/"
"""Where a table's branches lie in its directory."""


def remove_discarded(tx: CatalogTransaction, io: FileIO, standing: Standing, directory: str) -> None:
    """Remove a directory that has just been decided to be garbage, once, and keep others from the place until the transaction ends.

    Raises `WarehouseMismatch`, and removes nothing, where the warehouse is another catalog's.
    """
    if (row := _lock(tx, directory)) is not None:
        _removed_unless_anothers(tx, io, standing, directory, row, later=False)


def make_way(tx: CatalogTransaction, io: FileIO, standing: Standing, directory: str) -> bool:
    """The same for one that may have been on record for long, as after a crash; False where it stays.

    With a catalog that is older than its warehouse it may have been removed and be another table's, or branch's, by now. That is no
    garbage, and goes off the record.
    """
    row = _lock(tx, directory)
    return row is None or _removed_unless_anothers(tx, io, standing, directory, row, later=True)


def clear_left(catalog: CatalogStore, io: FileIO, standing: Standing, directory: str) -> bool:
    """`make_way` in transactions of its own: a tree may be large, and nothing of a table waits for it."""
    with catalog.transaction() as tx:
        carry_renamed(tx, io, directory, later=True)
    with catalog.transaction() as tx:
        return make_way(tx, io, standing, directory)


def carry_renamed(tx: CatalogTransaction, io: FileIO, directory: str, *, later: bool) -> None:
    """Write under a branch's new name what files in its directory of before alone tell: how far consumers have come.

    All else of it is in the catalog. ``later``: as of `_anothers`.
    """
    row = _lock(tx, directory)
    if row is not None and row.renamed is not None and (not later or _anothers(TableFiles(io, directory), row, later=True) is None):
        _carry(tx, io, directory, row)


def free_for_table(tx: CatalogTransaction, io: FileIO, standing: Standing, directory: str) -> bool:
    """`make_way` for a new table; returns whether no other one, also no dropped one that is kept, lies there.

    Where an object store holds garbage another server may be removing that still, long after its lock was over, and goes by names
    alone: a new table's files would go with it. Nothing is free there until the garbage is off the record.
    """
    occupants, in_use = tx.directories.lock_place(directory)
    if occupants and not io.atomic_rename:
        return False
    row = tx.directories.discarded(directory) if occupants else None
    gone = row is None or _removed_unless_anothers(tx, io, standing, directory, row, later=True)
    return gone and not in_use


def _lock(tx: CatalogTransaction, directory: str) -> DiscardedRow | None:
    """Keep others from a directory until the transaction ends; what is on record where it is garbage.

    The table of a branch comes before its places.
    """
    if lies_in_branches(directory):
        row = tx.directories.discarded(directory)
        if row is not None and row.renamed is not None:
            tx.tables.stay(row.renamed[0])
    return tx.directories.lock_discarded(directory)


def _carry(tx: CatalogTransaction, io: FileIO, directory: str, row: DiscardedRow) -> None:
    if row.renamed is None:
        return
    table_id, branch = row.renamed
    location = tx.tables.location(table_id)  # a dropped table may be brought back, with its branches and who reads them
    if location is not None and branch in tx.branches.names(table_id):
        carry_consumers(tx, table_id, TableFiles(io, directory), TableFiles(io, location, branch))
    tx.directories.carried(directory)


def _removed_unless_anothers(
    tx: CatalogTransaction, io: FileIO, standing: Standing, directory: str, row: DiscardedRow, *, later: bool
) -> bool:
    if row.being_filled:
        return False
    files, path = TableFiles(io, directory), None
    with contextlib.nullcontext() if later else contextlib.suppress(TableDamaged):  # what lies there in place of files tells nothing
        path = _anothers(files, row, later=later)
    if path is None:
        _carry(tx, io, directory, row)
        _remove(tx, io, standing, directory)
        return True
    tx.directories.directory_removed(directory)
    standing.tell(
        f"The directory {directory} was to be removed since {row.dropped_at:%Y-%m-%d %H:%M:%S %Z}, and {path} is not of what was dropped: "
        "the catalog is older than the warehouse, or a client wrote past it. It stays. `sluice doctor` names the statement that makes it "
        "the catalog's; remove it by hand where nobody needs it."
    )
    return False


def _anothers(files: TableFiles, row: DiscardedRow, *, later: bool) -> str | None:
    """The file that shows that another table or branch lies in a directory than the one that was to go; None where none does.

    What was decided of that one is on record, whenever its files came and whatever their clocks said. ``later`` than in the try that
    follows the decision, what its own clients wrote past the catalog cannot be told from what came after it, and counts as another's.
    """
    if row.known is None:  # of an earlier version, or left by a write that failed beside a drop
        return _made_after(files, (row.dropped_at + _CLOCKS_APART).timestamp() * 1000) if later else None
    schemas = {int(number): int(millis or 0) for number, millis in (row.known["schemas"] or {}).items()}
    snapshots, layout = set(row.known["snapshots"] or ()), files.layout
    stale = {_in_its_directory(files, path) for path in row.known["stale"] or ()}
    if later:
        newest = max((number for number in files.snapshot_ids() if layout.below(layout.snapshot_file(number)) not in stale), default=None)
        stored = None if newest is None else read_snapshot(files, newest)
        if stored is not None and stored.key not in snapshots:
            return layout.snapshot_file(stored.id)
    there = [number for number in files.schema_ids() if layout.below(layout.schema_file(number)) not in stale] if later else sorted(schemas)
    for number in there[-1:] if later else ():
        if _is_other(files, number, schemas):
            return layout.schema_file(number)
    if there and _is_other(files, there[0], schemas) and not _holds_any(files, snapshots):
        return layout.schema_file(there[0])
    return None


def _in_its_directory(files: TableFiles, path: str) -> str:
    """A file of what was dropped, in whose directory it lies; earlier versions noted a branch's as they lie in the table's."""
    branch = path[: path.find("/", len(_BRANCHES))] if path.startswith(_BRANCHES) else ""
    return path[len(branch) + 1 :] if branch and files.location.endswith(branch) else path


def _is_other(files: TableFiles, number: int, known: Mapping[int, int]) -> bool:
    millis = _schema_millis(files, number)
    return millis is not None and millis != known.get(number)


def _holds_any(files: TableFiles, snapshots: Set[str]) -> bool:
    stored = (read_snapshot(files, number) for number in reversed(files.snapshot_ids()))
    return any(snapshot is not None and snapshot.key in snapshots for snapshot in stored)


def _made_after(files: TableFiles, millis: float) -> str | None:
    """The first schema of a table or branch that lies there, or its newest snapshot, where that is of later than a time.

    Those are decided before the drop, also where their files come late. Files that tell nothing are as good as none.
    """
    newest = max(files.snapshot_ids(), default=None)
    snapshot = None if newest is None else read_snapshot(files, newest)
    if snapshot is not None and snapshot.time_millis > millis:
        return files.layout.snapshot_file(snapshot.id)
    first = next(iter(files.schema_ids()), 0)
    made = _schema_millis(files, first)
    return files.layout.schema_file(first) if made is not None and made > millis else None


def _schema_millis(files: TableFiles, number: int) -> int | None:
    """When a version was made, by its file; None for one that is missing or tells no schema."""
    try:
        return made_millis(parse_json(files.io.read(files.layout.schema_file(number))))
    except (FileNotFoundError, *NO_SCHEMA):
        return None


def _remove(tx: CatalogTransaction, io: FileIO, standing: Standing, directory: str) -> None:
    standing.require_own_now()
    tx.allow_silence()
    if lies_in_branches(directory) and not io.atomic_rename:  # tables may have thousands of directories, and the next one lies beside
        for status in io.list(directory):
            if status.is_dir:
                io.delete_tree(status.path)
                tx.allow_silence()  # who has lost the lock meanwhile ends: a store tells no other branch of the name from this one
    io.delete_tree(directory)
    tx.directories.directory_removed(directory)


def own_directory(row: TableRow) -> str | None:
    """The directory that goes with a table; None for an external one, whose files are its maker's."""
    return None if row.external else row.moving_from or row.location


def put_on_record_again(catalog: CatalogStore, table_id: UUID, directory: str) -> bool:
    """Remember as garbage what was written into the directory of a table after that had been dropped for good.

    False where a table lies there, in it or around it: the same one, also where it is dropped and kept, or another one by now.
    """
    with catalog.reading() as tx:
        if tx.tables.by_id(table_id) is not None:
            return False
    with catalog.transaction() as tx:
        tx.directories.lock_places()
        occupants, in_use = tx.directories.lock_place(directory)
        if in_use:
            return False
        if not occupants:
            try:
                refuse_overlap(tx, Location.parse(directory), "Nothing")
            except InvalidName:
                return False
            tx.directories.discard(directory)
    return True


def put_on_record(catalog: CatalogStore, directory: str) -> None:
    """Remember as garbage what is about to be written into the directory of a table that is not there yet, until it is that table's.

    Whoever writes keeps it meanwhile (`catalog.backup.holds.filling`); where that ends early, whoever removes garbage removes it.
    """
    with catalog.transaction() as tx:
        tx.directories.lock_location(directory)
        tx.directories.discard_filled(directory)


def remove_unowned(catalog: CatalogStore, io: FileIO, standing: Standing, table_id: UUID, directory: str) -> None:
    """Remove what was written into the directory of a table that did not come to be; on record for the sweep of drops where that fails.

    Where it came to be all the same, or another one lies there, nothing is removed. Raises nothing: whoever calls has failed already.
    """

    def remove() -> None:
        if put_on_record_again(catalog, table_id, directory):
            clear_left(catalog, io, standing, directory)

    follow(remove, f"What was written into {directory} for a table that did not come to be could not be removed")
