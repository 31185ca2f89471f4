"""CALL sys.remove_orphan_files: what crashes and failed writes left in a table's directories."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lake.register.expired import left_by_expiry
from lake.register.known_lines import known_lines
from lake.register.unknown_branches import snapshots_kept
from lake.rewrite.changelogs import names_in_changelogs
from lake.rewrite.expiry import tags_of
from lake.rewrite.store_clock import behind_millis
from lake.tables.handle import LakeTable
from lake.tables.history import clear_stale_snapshots
from model.access import Access, table_resource
from model.errors import InvalidOption, Unavailable
from model.snapshot import Snapshot
from table.format.io.file_io import FileStatus
from table.retention.orphans import candidates, names_in_use
from table.scan.going_on import Check

if TYPE_CHECKING:
    from lake.lake import Lake

YOUNGEST_MILLIS = 24 * 3600 * 1000
"""Files younger than a day are left alone where the caller names no time: a write may still be at work on them."""
_BETWEEN_CHECKS = 100
"""Files deleted between two looks whether the call was canceled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Orphans:
    """Files nothing refers to."""

    paths: tuple[str, ...]
    size: int


def remove_orphan_files(
    lake: Lake, table: LakeTable, *, older_than_millis: int | None = None, dry_run: bool = False, threads: int = 8, check: Check
) -> Orphans:
    """Delete files of a table that no snapshot, tag, branch or changelog knows and that are older than a moment, a day ago by default.

    The listing comes first and the names in use after it, so that a file committed in between counts as used.
    Raises `InvalidOption` for a moment in the future, and where what is old cannot be told now, but not for a dry run, `ClockInDoubt` for
    this machine's clock and `Unavailable` for the store's.
    """
    lake.caller.require(Access.DELETE, table_resource(table.identifier))
    lake.standing.require_own()
    if not dry_run:
        lake.clock.require(table.latest())
    now = time.time_ns() // 1_000_000
    limit = now - YOUNGEST_MILLIS if older_than_millis is None else older_than_millis
    if limit > now:
        raise InvalidOption("older_than lies in the future: files being written at this moment would be removed.")
    old = [status for status in candidates(table.files, table.schema, threads=threads, check=check) if status.mtime_millis < limit]
    used: set[str] = set()
    for snapshots in _known(lake, table) if old else ():
        used |= names_in_use(table.files, snapshots, check)
    used |= names_in_changelogs(table, check) if old else set()
    orphans = [status for status in old if status.path.rpartition("/")[2] not in used]
    if orphans and not dry_run:
        orphans = _old_by_its_clock(table, orphans, limit)
    expired = _expired(lake, table)
    for at in () if dry_run else range(0, len(orphans), _BETWEEN_CHECKS):
        check()
        table.files.delete(status.path for status in orphans[at : at + _BETWEEN_CHECKS])
    if expired and not dry_run:
        clear_stale_snapshots(lake.catalog, table)
    orphans += expired
    return Orphans(paths=tuple(status.path for status in orphans), size=sum(status.size for status in orphans))


def _old_by_its_clock(table: LakeTable, orphans: Sequence[FileStatus], limit: int) -> list[FileStatus]:
    """Those from before ``limit`` also by the store's own clock: what is being written would be among the others. Raises `Unavailable`."""
    directory = orphans[0].path.rpartition("/")[0]
    behind = behind_millis(table.files.io, directory)
    if behind is None:
        raise Unavailable(f"{directory} does not show a file that was just put there, so how old others are cannot be told now; try again.")
    return [status for status in orphans if status.mtime_millis < limit - behind]


def _known(lake: Lake, table: LakeTable) -> list[list[Snapshot]]:
    """Every snapshot, by line of history: each branch, each tag, and files of snapshots and tags the catalog does not have."""
    lake.snapshots(table)  # publishes what is decided, and forgets what clients expired
    with lake.catalog.consistent() as tx:
        lines = known_lines(tx, table.table_id)
        lines += [[snapshot] for snapshot in snapshots_kept(tx, table, known={snapshot.key for line in lines for snapshot in line})]
    lines += [[tag.snapshot] for tag in tags_of(lake, table)]  # also those whose files clients wrote themselves
    return lines


def _expired(lake: Lake, table: LakeTable) -> list[FileStatus]:
    """Files of expired snapshots, which a crash left: readers of files would find snapshots there whose rows are gone."""
    with lake.catalog.reading() as tx:
        names = {table.files.layout.snapshot_name(left) for left in left_by_expiry(tx, table.table_id, table.files)}
    return [status for status in table.files.io.list(table.files.layout.snapshot_dir()) if status.path.rpartition("/")[2] in names]
