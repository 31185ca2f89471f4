"""Expiry, rollback and tags: the catalog decides what is kept, then the files nothing needs any more are deleted.

A crash between the two leaves files that `sys.remove_orphan_files` finds, and never a snapshot without its files.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, chain
from typing import TYPE_CHECKING

from catalog import CatalogTransaction
from catalog.records import TagRow
from lake.commit.claims import Claim, claimed_in
from lake.commit.decided import follow, require_table_not_read_only, require_table_writable
from lake.register.expired import forget_expired
from lake.register.known_lines import known_lines
from lake.register.unknown_branches import snapshots_kept
from lake.register.whole import require_newest_readable, require_whole
from lake.rewrite.changelogs import spared
from lake.tables.consumers import Filed, filed_consumers, first_unread
from lake.tables.handle import LakeTable
from lake.tables.history import clear_stale_snapshots
from lake.tables.tag_files import stored_retention
from lake.tables.tags import hold_retention, to_tag
from model.access import Access, table_resource
from model.catalog_errors import TagAlreadyExist
from model.errors import LakeError, TagNotExist
from model.identifier import MAIN_BRANCH
from model.names import check_name
from model.options.table import TABLE_OPTIONS
from model.repeats import REPEATS
from model.snapshot import Snapshot
from table.retention.empty_directories import remove_emptied
from table.retention.expiry import ExpiryRules, Garbage, expired_before, left_by_branch, left_by_expiry, left_by_rollback, left_by_tag
from table.retention.named_again import KeptBeside

if TYPE_CHECKING:
    from lake.lake import Lake

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tag:
    """A snapshot with a name, and how long it keeps it."""

    name: str
    snapshot: Snapshot
    created_millis: int | None = None
    retained: dt.timedelta | None = None

    def expired(self, now_millis: int) -> bool:
        """Whether its time is over."""
        if self.created_millis is None or self.retained is None:
            return False
        return now_millis > self.created_millis + self.retained.total_seconds() * 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What went, or would go."""

    snapshots: tuple[int, ...] = ()
    tags: tuple[str, ...] = ()
    data_files: int = 0
    metadata_files: int = 0
    size: int = 0
    """Bytes of the files, as far as metadata tells."""

    def __add__(self, other: Removed) -> Removed:
        return Removed(
            snapshots=self.snapshots + other.snapshots,
            tags=self.tags + other.tags,
            data_files=self.data_files + other.data_files,
            metadata_files=self.metadata_files + other.metadata_files,
            size=self.size + other.size,
        )


NOTHING = Removed()


def _removed(snapshots: Sequence[Snapshot], garbage: Garbage, tags: Sequence[str] = ()) -> Removed:
    return Removed(
        snapshots=tuple(s.id for s in snapshots),
        tags=tuple(tags),
        data_files=len(garbage.data),
        metadata_files=len(garbage.metadata),
        size=garbage.size,
    )


def _may(lake: Lake, table: LakeTable) -> None:
    """Raise `Forbidden` unless the caller may take history away, `WarehouseMismatch` where it is another catalog's."""
    lake.standing.require_own()
    lake.caller.require(Access.DELETE, table_resource(table.identifier))


def _kept_elsewhere(tx: CatalogTransaction, table: LakeTable) -> list[Snapshot]:
    """Snapshots and tags of other branches, also of those an old catalog does not know: their data lies in this table's directories."""
    lines = known_lines(tx, table.table_id, but=table.identifier.branch)
    return [*chain.from_iterable(lines), *snapshots_kept(tx, table)]


def _tag(row: TagRow) -> Tag:
    retained = None if row.retained is None else stored_retention(row.retained)
    return Tag(name=row.name, snapshot=Snapshot.from_json(row.snapshot), created_millis=row.created_millis, retained=retained)


def tags_of(lake: Lake, table: LakeTable) -> list[Tag]:
    """All tags with their snapshots, by name."""
    return [_tag(row) for row in lake.tags.all(table)]


def _tags(tx: CatalogTransaction, table: LakeTable) -> list[Tag]:
    return [_tag(row) for row in tx.tags.all(table.table_id, table.identifier.branch)]


def _deleted(table: LakeTable, garbage: Garbage) -> bool:
    """Data first, then what names it: a half done deletion is never visible as a snapshot that lacks files. False where files stay."""
    consequence = f"Files that {table.identifier} does not need, as orphans, are still there"
    done = follow(lambda: table.files.delete(garbage.data, garbage.metadata), consequence)
    if done and TABLE_OPTIONS.read(table.schema.options, "snapshot.clean-empty-directories"):
        follow(lambda: remove_emptied(table.files, table.schema, garbage.data), f"Empty directories of {table.identifier} are still there")
    return done


def _garbage(table: LakeTable, look: Callable[[], Garbage]) -> Garbage:
    """What goes with a change; nothing where that cannot be told now: the change is done all the same, and its files are orphans then."""
    try:
        return spared(table, look())
    except (LakeError, OSError) as problem:  # damage, files of what the catalog names no more, a table that is dropped meanwhile
        _log.warning("Files that %s does not need any more stay as orphans: %s", table.identifier, problem, extra=REPEATS)
    return Garbage()


def expire_snapshots(lake: Lake, table: LakeTable, rules: ExpiryRules, *, dry_run: bool = False, now_millis: int | None = None) -> Removed:
    """Let snapshots of a table or branch go by count and age; what tags, other branches, consumers and a fast-forward need stays.

    Raises `TableDiverged`, and takes nothing then.
    """
    _may(lake, table)
    lake.tags.all(table)  # a client may have put one there itself
    table.latest()  # publishes what is decided, so that no file is missing below
    forget_expired(lake.catalog, table)
    if not dry_run:
        require_table_not_read_only(table.files)
    filed = filed_consumers(lake.catalog, table, settled=True)
    with lake.catalog.reading() as tx:
        now = tx.state.now_millis() if now_millis is None else now_millis
        expired, _ = _too_old(tx, table, rules, filed, now)
    if not expired:
        return Removed()
    require_newest_readable(table)  # before the table is held: a store may be slow
    lake.history.require_newest(table)
    with lake.catalog.transaction() as tx:
        hold_retention(tx, table)
        expired, history = _too_old(tx, table, rules, filed, now)
        if not expired:
            return Removed()
        first = history[len(expired)]
        remaining = [tag.snapshot for tag in _tags(tx, table) if tag.snapshot.id < first.id] + _kept_elsewhere(tx, table)
        if not dry_run:
            tx.holds.require_no_backup(f"Expiry of snapshots of {table.identifier}")
            with claimed_in(tx, None):
                tx.snapshots.forget(table.table_id, table.identifier.branch, below=first.id)

    def came_back() -> list[Snapshot]:
        with lake.catalog.reading() as tx:
            return _came_back(tx, table, first)

    garbage = _garbage(table, lambda: left_by_expiry(table.files.apart(), table.schema, expired, remaining, first, came_back))
    if not dry_run:
        lake.step("expiry decided")
        # First, so that nobody who goes by files finds a snapshot whose rows are gone.
        gone = {snapshot.key for snapshot in expired}
        cleared = follow(
            lambda: clear_stale_snapshots(lake.catalog, table, gone), f"Snapshot files of {table.identifier} that expired are still there"
        )
        if not (cleared and _deleted(table, garbage)):
            garbage = Garbage()
    return _removed(expired, garbage)


def _too_old(
    tx: CatalogTransaction, table: LakeTable, rules: ExpiryRules, filed: Filed, now_millis: int
) -> tuple[list[Snapshot], list[Snapshot]]:
    """The snapshots that one run lets go, and the history that was read for it: these and at least one more."""
    # Before the others: commits go on meanwhile, and one that came between would leave nothing of what was read.
    newest = tx.snapshots.latest(table.table_id, table.identifier.branch)
    # A busy table may keep hundreds of thousands of snapshots: only those one run may take are read, and their successor.
    most = None if rules.per_run is None else rules.per_run + 1
    rows = tx.snapshots.history(table.table_id, table.identifier.branch, first=most)
    history = [Snapshot.from_json(row.body) for row in rows]
    needed = [first_unread(tx, table, filed)]
    if rules.keeps_shared and table.identifier.branch != MAIN_BRANCH:
        needed.append(tx.snapshots.newest_shared(table.table_id, table.identifier.branch))
    unread = min((number for number in needed if number is not None), default=None)
    latest = newest.snapshot_id if newest else None
    since = accumulate((row.made_millis for row in rows), max)  # none is older than the one before it, whoever's clock says so
    made = dict(zip((row.snapshot_id for row in rows), since, strict=True))
    end = expired_before(made, rules, first_unread=unread, now_millis=now_millis, latest=latest)
    return [s for s in history if s.id < end], history


def _came_back(tx: CatalogTransaction, table: LakeTable, first: Snapshot) -> list[Snapshot]:
    return [Snapshot.from_json(row.body) for row in tx.snapshots.taking_files(table.table_id, table.identifier.branch, above=first.id)]


def create_tag(  # noqa: PLR0913 - the arguments of a statement
    lake: Lake,
    table: LakeTable,
    name: str,
    *,
    snapshot_id: int | None = None,
    retained: dt.timedelta | None = None,
    dry_run: bool = False,
    claim: Claim | None = None,
) -> Tag:
    """Keep a snapshot under a name, once under a claim, for a time or for good; raises `SnapshotNotExist` or `TagAlreadyExist`."""
    made = lake.tags.create(table, name, snapshot_id=snapshot_id, retained=_text(retained), dry_run=dry_run, claim=claim)
    assert made is not None
    return _tag(made)


def _text(retained: dt.timedelta | None) -> str | None:
    return None if retained is None else f"{round(retained.total_seconds() * 1000)} ms"


def replace_tag(  # noqa: PLR0913 - the arguments of a statement
    lake: Lake,
    table: LakeTable,
    name: str,
    *,
    snapshot_id: int | None = None,
    retained: dt.timedelta | None = None,
    dry_run: bool = False,
    claim: Claim | None = None,
) -> tuple[Tag, Removed]:
    """Let a tag keep another snapshot, and let go what only the one before needed.

    Raises as `rename_tag`, `SnapshotNotExist` or `TableDamaged`: a snapshot that nobody can read is none to go back to, and what the tag
    keeps now may be the last one that is.
    """
    _may(lake, table)
    lake.tags.get(table, name, to_change=True)
    forget_expired(lake.catalog, table)
    table.latest()  # publishes what is decided, so that no file is missing below
    if not dry_run:
        require_table_writable(table.files)
    with lake.catalog.transaction(keep=not dry_run) as tx, claimed_in(tx, claim):
        hold_retention(tx, table)
        snapshot = to_tag(tx, table, snapshot_id)
        require_whole(table, snapshot)
        rows = tx.tags.all(table.table_id, table.identifier.branch)
        before = _tag(_named(table, rows, name))
        tx.holds.require_no_backup(f"Replacing tag {name} of {table.identifier}")
        tx.tags.drop(table.table_id, name, table.identifier.branch)
        now = tx.state.now_millis()
        tx.tags.put(table.table_id, name, snapshot.to_json(), table.identifier.branch, created_millis=now, retained=_text(retained))
        made = tx.tags.find(table.table_id, name, table.identifier.branch)
        remaining = _beside(tx, table, before, [*(_tag(other).snapshot for other in rows if other.name != name), snapshot])
    assert made is not None
    garbage = _left_by_tag(table, before, remaining)
    if not dry_run:
        published = lake.tags.publish_soon(table, made)
        lake.step("tag replaced")
        if not (published and _deleted(table, garbage)):
            garbage = Garbage()
    return _tag(made), _removed([], garbage, [name])


def rename_tag(lake: Lake, table: LakeTable, name: str, to: str, *, dry_run: bool = False, claim: Claim | None = None) -> Tag:
    """Give a tag another name, once under a claim; raises `TagNotExist`, `TagAlreadyExist` or `TableDiverged`."""
    check_name(to, "tag")
    _may(lake, table)  # whoever reads by the old name gets another snapshot, or none: as where it is replaced
    lake.tags.get(table, name, to_change=True)
    if not dry_run:
        require_table_writable(table.files)
    with lake.catalog.transaction(keep=not dry_run) as tx, claimed_in(tx, claim):
        hold_retention(tx, table)
        row = tx.tags.find(table.table_id, name, table.identifier.branch)
        if row is None:
            raise TagNotExist(name, str(table.identifier))
        branch = table.identifier.branch
        if not tx.tags.put(table.table_id, to, row.snapshot, branch, created_millis=row.created_millis, retained=row.retained):
            raise TagAlreadyExist(to, str(table.identifier))
        lake.tags.drop(tx, table, row)
    renamed = replace(row, name=to)
    if not dry_run:
        lake.tags.publish_soon(table, renamed)
        lake.history.tidy(table)
    return _tag(renamed)


def delete_tag(lake: Lake, table: LakeTable, name: str, *, dry_run: bool = False) -> Removed:
    """Forget a tag, and with it what only it kept; raises as `delete_tags`."""
    ((_, removed),) = delete_tags(lake, table, [name], dry_run=dry_run)
    return removed


def delete_tags(
    lake: Lake, table: LakeTable, names: Sequence[str], *, dry_run: bool = False, claim: Claim | None = None
) -> list[tuple[Tag, Removed]]:
    """Forget tags, all or none, once under a claim, with all that only they kept; raises `TagNotExist` or `TableDiverged`."""
    _may(lake, table)
    lake.history.require_newest(table)
    lake.tags.all(table)  # a client may have put one there itself
    left: list[tuple[Tag, KeptBeside | None]] = []
    with lake.catalog.transaction(keep=not dry_run) as tx, claimed_in(tx, claim):
        hold_retention(tx, table)
        for name in names:
            rows = tx.tags.all(table.table_id, table.identifier.branch)
            dropped = _tag(row := _named(table, rows, name))
            left.append((dropped, _beside(tx, table, dropped, [_tag(other).snapshot for other in rows if other.name != name])))
            tx.holds.require_no_backup(f"Deleting tag {name} of {table.identifier}")
            lake.tags.drop(tx, table, row)
    tidy = dry_run or lake.tags.tidy(table)
    if not dry_run:
        lake.step("tag dropped")
    removed = []
    for dropped, remaining in left:
        garbage = _left_by_tag(table, dropped, remaining)
        if not dry_run and not (tidy and _deleted(table, garbage)):
            garbage = Garbage()
        removed.append((dropped, _removed([], garbage, [dropped.name])))
    return removed


def _named(table: LakeTable, rows: Sequence[TagRow], name: str) -> TagRow:
    row = next((row for row in rows if row.name == name), None)
    if row is None:
        raise TagNotExist(name, str(table.identifier))
    return row


def _beside(tx: CatalogTransaction, table: LakeTable, dropped: Tag, others: Sequence[Snapshot]) -> KeptBeside | None:
    """Who keeps files of a tag that goes; None where its own snapshot stays."""
    history = tx.snapshots.history(table.table_id, table.identifier.branch)
    if any(row.snapshot_id == dropped.snapshot.id for row in history) or any(s.id == dropped.snapshot.id for s in others):
        return None
    # All of them, and not the nearest ids: main may have gone forward to a branch between two tags, or back.
    first = [Snapshot.from_json(row.body) for row in history[:1]]
    again = [snapshot for one in first for snapshot in _came_back(tx, table, one)]
    return KeptBeside([*others, *first, *again[-1:], *_kept_elsewhere(tx, table)], again[:-1])


def _left_by_tag(table: LakeTable, dropped: Tag, remaining: KeptBeside | None) -> Garbage:
    """What goes with a tag that is gone; nothing where its own snapshot stays."""
    if remaining is None:
        return Garbage()
    return _garbage(table, lambda: left_by_tag(table.files, table.schema, dropped.snapshot, remaining))


def rollback(  # noqa: PLR0913 - the arguments of a statement
    lake: Lake,
    table: LakeTable,
    to: Snapshot,
    *,
    tag: str | None = None,
    expected: int | None = None,
    dry_run: bool = False,
    claim: Claim | None = None,
) -> Removed:
    """Make a snapshot, or one that only a tag has kept, the latest again, once under a claim.

    Later snapshots and their tags go, and the files only they had. Raises `StaleRollback` where the latest is not the one expected, or
    `TableDamaged` where files of the snapshot are missing or cut off.
    """
    _may(lake, table)
    if dry_run:
        require_whole(table, to, data=True)
        tags = tags_of(lake, table)
        removed = [snapshot for snapshot in lake.snapshots(table) if snapshot.id > to.id]
        later = [entry.name for entry in tags if entry.snapshot.id > to.id]
        return _removed(removed, _left_by_rollback(lake, table, removed, to, dry_run=True), later)
    if tag is not None:
        done = lake.history.rollback_to_tag(table, tag, expected=expected, claim=claim)
    else:
        done = lake.history.rollback_to_snapshot(table, to.id, expected=expected, claim=claim)
    lake.step("rolled back")
    garbage = _left_by_rollback(lake, table, done.removed, done.to)
    if not (done.tidy and _deleted(table, garbage)):
        garbage = Garbage()
    return _removed(done.removed, garbage, done.tags)


def _left_by_rollback(lake: Lake, table: LakeTable, removed: Sequence[Snapshot], to: Snapshot, *, dry_run: bool = False) -> Garbage:
    """What goes with snapshots that are rolled back, by what is kept once they are: a branch may have been made of one until then.

    Main may even have gone forward to such a branch since, and its snapshots and tags are those that were removed.
    """

    def look() -> Garbage:
        with lake.catalog.consistent() as tx:
            history = [Snapshot.from_json(row.body) for row in tx.snapshots.history(table.table_id, table.identifier.branch)]
            tags = [entry.snapshot for entry in _tags(tx, table)]
            remaining = _kept_elsewhere(tx, table)
        before = [*(snapshot for snapshot in history if snapshot.id < to.id), to]
        if dry_run:  # as it would be: what is to go is there still
            tags, history = [snapshot for snapshot in tags if snapshot.id <= to.id], []
        back = [snapshot for snapshot in history if snapshot.id > to.id]
        return left_by_rollback(table.files, table.schema, removed, before, [*tags, *back, *remaining])

    return _garbage(table, look)


def left_behind(table: LakeTable, gone: Sequence[Snapshot], to: Snapshot | None) -> Removed:
    """The snapshots of a branch that ended, and the files only they had besides what ``to`` has: `remove_orphan_files` finds them."""
    own = [snapshot for snapshot in gone if to is None or snapshot.key != to.key]
    return _removed(gone, _garbage(table, lambda: left_by_branch(table.files, table.schema, own, [] if to is None else [to])))
