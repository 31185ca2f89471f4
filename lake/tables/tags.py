"""Tags: the catalog's and those clients put into the directory themselves, as one list (`paimon-rest.md` §5.4)."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import partial

from cachetools import LRUCache

from catalog import CatalogStore, CatalogTransaction
from catalog.records import SnapshotRow, TagRow
from lake.access.callers import EVERYBODY, Caller
from lake.access.guard import needs
from lake.commit.claims import Claim, claimed_in
from lake.commit.decided import follow, require_table_writable
from lake.commit.publish import Publisher
from lake.register.expired import check_there, forget_expired
from lake.register.standing import Standing
from lake.register.whole import require_whole
from lake.store_places import locked_beside_store
from lake.tables.handle import LakeTable, require_newest
from lake.tables.stale import remove_stale, stale_snapshot, stale_tag
from lake.tables.tag_files import content_of, fault_of_tag, parse_retained, replacement, stored_tags, tag_bytes, tag_in
from model.access import Access
from model.catalog_errors import ChangedMeanwhile, TagAlreadyExist
from model.errors import SnapshotNotExist, TableDamaged, TableNotExist, TagNotExist
from model.names import check_name
from model.snapshot import Snapshot

_log = logging.getLogger(__name__)
_REFUSED: LRUCache[tuple[str, str, str], bool] = LRUCache(1000)
"""Files told of already, as tags are looked at often."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundTags:
    """What the catalog and the directory told of a table's tags at a moment; `Tags.take_in` goes by what has changed since."""

    rows: list[TagRow]
    """The catalog's, just before the directory was read."""
    present: list[TagRow]
    """Of these by name those that clients have not removed."""
    new: list[TagRow]
    """Those whose files clients wrote."""
    removed: list[TagRow]
    """Those whose files clients removed."""
    lost: list[TagRow]
    """Those whose files are to be written again, as beside a client's that came since they would count as removed."""
    replaced: list[tuple[TagRow, TagRow]]
    """Those whose files clients replaced, as the catalog has them and as the files tell."""
    line: Mapping[int, SnapshotRow]
    """The snapshots that tags of the last three name, where the catalog has them."""


class Tags:
    """Makes, lists and removes tags. Each is a row and a file; a file some client removed takes the row along."""

    def __init__(self, catalog: CatalogStore, publisher: Publisher, standing: Standing, caller: Caller = EVERYBODY) -> None:
        self.standing = standing
        self._catalog = catalog
        self._publisher = publisher
        self.caller = caller

    @needs(Access.UPDATE)
    def create(  # noqa: PLR0913 - the arguments of a statement
        self,
        table: LakeTable,
        name: str,
        *,
        snapshot_id: int | None = None,
        retained: str | None = None,
        if_not_exists: bool = False,
        dry_run: bool = False,
        claim: Claim | None = None,
    ) -> TagRow | None:
        """Keep a snapshot (the latest where none is named) under a name; None when there is one of that name and that is fine.

        A snapshot that has expired, and that another tag keeps, is one, too.
        Raises `SnapshotNotExist`, `TableDamaged`, `TableDiverged`, `TagAlreadyExist`, `InvalidName`, or `InvalidOption` for a retention
        that is no duration.
        """
        check_name(name, "tag")
        if retained is not None:
            parse_retained(retained)
        latest = table.latest()
        forget_expired(self._catalog, table)
        require_newest(self._publisher, table)
        self.all(table)  # a client may have put a file of that name there
        branch = table.identifier.branch
        if not dry_run:
            require_table_writable(table.files)
        with self._catalog.transaction(keep=not dry_run) as tx, claimed_in(tx, claim):
            hold_retention(tx, table)  # the snapshot must not expire at this moment
            snapshot = to_tag(tx, table, latest.id if latest and snapshot_id is None else snapshot_id)
            require_whole(table, snapshot)
            now = tx.state.now_millis()
            body = snapshot.to_json()
            made = tx.tags.put(table.table_id, name, body, branch, created_millis=now, retained=retained)
            if not made and not if_not_exists:
                raise TagAlreadyExist(name, str(table.identifier))
        if not made:
            return None
        tag = TagRow(name=name, snapshot=body, created_millis=now, retained=retained, published=False)
        if not dry_run:
            self.publish_soon(table, tag)
        return tag

    def publish_soon(self, table: LakeTable, tag: TagRow) -> bool:
        """Write the file of a tag that is decided; False where that failed, and whoever looks at the tags does it."""
        return follow(lambda: self.publish(table, tag), f"The file of tag {tag.name} of {table.identifier} could not be written")

    def publish(self, table: LakeTable, tag: TagRow) -> None:
        """Write a tag's file, unless the tag is no more: it would come back as one that a client made.

        Where the files of all tags are lost the others are written again with it.
        """
        for each in (tag, *self._lost_beside(table)):
            self._publish(table, each)

    def _lost_beside(self, table: LakeTable) -> list[TagRow]:
        """The tags whose files are to be written again since all of them are lost, as that is on record now.

        Before any file is written: beside one that is there those that are missing count as removed by a client (`_is_lost`).
        """
        files, id_, branch = table.files, table.table_id, table.identifier.branch
        if (files.io.atomic_rename and files.io.exists(files.layout.tag_dir())) or stored_tags(files):
            return []
        lost = [row for row in self.look(table).present if row.published]
        if lost:
            with self._catalog.transaction() as tx:
                if not _held(tx, table):
                    return []
                for row in lost:
                    tx.tags.published(id_, row.name, branch, published=False)
        return lost

    def _publish(self, table: LakeTable, tag: TagRow) -> None:
        """Write the file of one; what a tag of its name that ended has left, on record as a file that goes, is its own from here on."""
        with locked_beside_store(self._catalog, partial(_held, table=table)) as (tx, is_there):
            if not is_there:
                return
            row = tx.tags.find(table.table_id, tag.name, table.identifier.branch)
            if row is None or row.snapshot != tag.snapshot:
                return
            path = table.files.layout.tag_file(tag.name)
            table.files.require_there()
            table.files.io.write(path, tag_bytes(tag))
            tx.stale.keep(table.table_id, *stale_snapshot(table.files, path, tag.snapshot))
            tx.tags.published(table.table_id, tag.name, table.identifier.branch)

    def publish_all(self, table: LakeTable) -> None:
        """Write the files of all tags that are decided and have none yet."""
        with self._catalog.reading() as tx:
            rows = tx.tags.all(table.table_id, table.identifier.branch)
        for row in rows:
            if not row.published:
                self.publish(table, row)

    def all(self, table: LakeTable) -> list[TagRow]:
        """All tags, by name."""
        tags = self.look(table)
        rows = tags.present
        if not self._publisher.is_own:
            return rows
        if tags.new or tags.removed or tags.lost or tags.replaced:  # perhaps: others may be making and removing tags at this moment
            with self._catalog.transaction() as tx:
                if _held(tx, table):
                    rows = self.take_in(tx, table, tags)
        for row in rows:
            if not row.published:
                self.publish_soon(table, row)
        return rows

    def take_in(self, tx: CatalogTransaction, table: LakeTable, found: FoundTags) -> list[TagRow]:
        """All tags, by name, once those whose files clients wrote are the catalog's, and those whose files clients removed are not.

        The transaction holds the table's row, as whoever makes or removes tags does; no file is read, as a store may be slow. What has
        changed since it was looked at stays as the catalog has it, for the next who looks.
        """
        id_, branch = table.table_id, table.identifier.branch
        rows = tx.tags.all(id_, branch)
        present = {row.name: row for row in rows}

        def still(tag: TagRow) -> bool:
            """Whether what was found of a tag holds: by its snapshot, or, where that has expired, by the other tags."""
            number = int(tag.snapshot["id"])
            before, now = found.line.get(number), tx.snapshots.get(id_, branch, number)
            if before is None or now is None:
                return before is now and rows == found.rows
            return before.snapshot_uuid == now.snapshot_uuid

        leaving = tx.stale.paths(id_) if found.new else set()
        for tag in found.new:
            file = table.files.layout.below(table.files.layout.tag_file(tag.name))
            if tag.name not in present and file not in leaving and still(tag):
                present[tag.name] = _put(tx, table, tag)
        for row, tag in found.replaced:
            if present.get(row.name) == row and still(tag):
                tx.tags.drop(id_, row.name, branch)
                present[tag.name] = _put(tx, table, tag)
                before, now = row.snapshot["id"], tag.snapshot["id"]
                _log.info("Tag %s of %s is of snapshot %s, no more of %s: its file was replaced.", row.name, table.identifier, now, before)
        lost = {row.name for row in found.lost}
        for row in (*found.lost, *found.removed):
            if present.get(row.name) != row or not still(row):
                continue
            if row.name in lost:
                tx.tags.published(id_, row.name, branch, published=False)
                present[row.name] = replace(row, published=False)
            else:
                tx.tags.drop(id_, row.name, branch)
                del present[row.name]
                _log.info("Tag %s of %s, snapshot %s, is no more: its file was removed.", row.name, table.identifier, row.snapshot["id"])
        return sorted(present.values(), key=lambda row: row.name)

    def look(self, table: LakeTable) -> FoundTags:
        """What the catalog and the directory tell of the tags; before the table is held, as a store may be slow.

        The catalog's first: the file of a tag that it calls published was there before, so one that is not there now was removed.
        """
        files, id_, branch = table.files, table.table_id, table.identifier.branch
        with self._catalog.reading() as tx:
            rows = tx.tags.all(id_, branch)
        stored = stored_tags(files)
        present = [row for row in rows if row.name in stored or not row.published]
        missing = [row for row in rows if row.published and row.name not in stored]
        unknown = stored.keys() - {row.name for row in rows}
        others = [(row, tag) for row in present if row.name in stored and (tag := replacement(files, row, stored[row.name])) is not None]
        if not unknown and not missing and not others:
            return FoundTags(rows=rows, present=present, new=[], removed=[], lost=[], replaced=[], line={})
        with self._catalog.reading() as tx:
            leaving = tx.stale.paths(id_) if unknown else set()
        unknown = {name for name in unknown if files.layout.below(files.layout.tag_file(name)) not in leaving}
        read = [tag for name in sorted(unknown) if (tag := tag_in(files, name)) is not None]
        with self._catalog.reading() as tx:
            numbers = {int(tag.snapshot["id"]) for tag in (*read, *missing, *(tag for _, tag in others))}
            line = {number: row_there for number in numbers if (row_there := tx.snapshots.get(id_, branch, number)) is not None}
        new = [tag for tag in read if self._is_the_tables(table, tag, line)]
        tagged = {int(row.snapshot["id"]) for row in (*present, *new)}
        removed, in_doubt = [], bool(missing or others) and self._is_in_doubt(table)
        replaced = [(row, tag) for row, tag in others if not in_doubt and self._is_the_tables(table, tag, line)]
        all_lost = self._all_lost(rows, stored, new) and not in_doubt
        lost = [row for row in missing if _has_lists(table, row)] if all_lost else []
        written_again = {row.name for row in lost}
        for row in missing:
            if row.name in written_again or self._is_lost(table, row, {*line, *tagged}, any_stored=bool(stored), in_doubt=in_doubt):
                present.append(row)
            else:  # whoever removed the file removed the tag
                removed.append(row)
        present.sort(key=lambda row: row.name)
        return FoundTags(rows=rows, present=present, new=new, removed=removed, lost=lost, replaced=replaced, line=line)

    def _all_lost(self, rows: Sequence[TagRow], stored: Collection[str], new: Sequence[TagRow]) -> bool:
        """Whether the directory of the tags was lost before a client put a tag into it: none of several that were there is.

        Where a client removed them all and made another one they come back, where it left what they name: that costs little, and to take
        them for removed costs rows. One alone may have been renamed, or be the last of those that a client makes and removes by periods.
        """
        published = [row for row in rows if row.published]
        return bool(new) and len(published) > len(new) and not any(row.name in stored for row in published)

    def _is_in_doubt(self, table: LakeTable) -> bool:
        """Whether files of another time than the catalog's lie there, as after a copy was put back: what is missing, nobody removed.

        The newest snapshot, which no client removes, is not there, the warehouse is another catalog's, or the table is marked as diverged.
        """
        with self._catalog.reading() as tx:
            row = tx.tables.by_id(table.table_id)
            ids = tx.snapshots.ids(table.table_id, table.identifier.branch)
        newest = next((snapshot_id for snapshot_id, published in reversed(ids) if published), None)
        if not self._publisher.is_own:
            return True
        is_there = newest is None or table.files.io.file_exists(table.files.layout.snapshot_file(newest))
        return not is_there or (row is not None and row.diverged_at is not None)

    def _is_lost(self, table: LakeTable, tag: TagRow, kept_besides: Set[int], *, any_stored: bool, in_doubt: bool) -> bool:
        """Whether a tag's missing file is damage, so that the tag stays: what no client does, or what would cost rows.

        Nobody removes the directory of the tags, which is gone where a disk is; on an object store nothing tells it from tags that were
        removed one by one. A tag that alone keeps its snapshot goes with the lists that it names where Java's client removes it; where
        they are there its file was lost, or removed by a client that cleans nothing (pypaimon), and its rows go by a statement only.
        """
        files = table.files
        if not any_stored and (in_doubt or (files.io.atomic_rename and not files.io.exists(files.layout.tag_dir()))):
            return True
        snapshot = Snapshot.from_json(tag.snapshot)
        if snapshot.id in kept_besides and not in_doubt and (any_stored or files.io.atomic_rename):
            return False
        return _has_lists(table, tag)

    def _is_the_tables(self, table: LakeTable, tag: TagRow, line: Mapping[int, SnapshotRow]) -> bool:
        """Whether a tag that came as a file may be kept: whoever may write files may have made up what it names."""
        snapshot = Snapshot.from_json(tag.snapshot)
        row = line.get(snapshot.id)
        if row is not None and _tells_the_same(Snapshot.from_json(row.body), snapshot):
            return True
        problem = fault_of_tag(table, snapshot)
        if problem is not None and (seen := (table.location, tag.name, problem)) not in _REFUSED:
            _REFUSED[seen] = True
            _log.warning("The file of tag %s of %s is not taken for a tag: %s", tag.name, table.identifier, problem)
        return problem is None

    def find(self, table: LakeTable, name: str) -> TagRow | None:
        """The tag, or None."""
        return next((row for row in self.all(table) if row.name == name), None)

    def of_expired(self, table: LakeTable, snapshot_id: int) -> TagRow | None:
        """The first tag, by name, of a snapshot that has expired; None where there is none, or the snapshot is there yet."""
        row = next((row for row in self.all(table) if int(row.snapshot["id"]) == snapshot_id), None)
        if row is None:
            return None
        with self._catalog.reading() as tx:
            return row if tx.snapshots.get(table.table_id, table.identifier.branch, snapshot_id) is None else None

    def get(self, table: LakeTable, name: str, *, to_change: bool = False) -> TagRow:
        """The tag; raises `TagNotExist`, and where it is ``to_change`` what `require_newest` raises."""
        if to_change:
            require_newest(self._publisher, table)
        row = self.find(table, name)
        if row is None:
            raise TagNotExist(name, str(table.identifier))
        return row

    def require_whole(self, table: LakeTable, tag: TagRow, *, data: bool = False) -> None:
        """Raise what `require_whole` raises for a tag's snapshot, and what `require_same` raises where it is another by now."""
        try:
            require_whole(table, Snapshot.from_json(tag.snapshot), data=data)
        except TableDamaged:
            with self._catalog.reading() as tx:
                require_same(tx, table, tag)
            raise

    @needs(Access.DELETE)
    def delete(self, table: LakeTable, name: str) -> None:
        """Remove a tag; raises `TagNotExist`, `TableDiverged`, or `Unavailable` where the table's directory is not there."""
        table.files.require_there()
        self.get(table, name, to_change=True)
        with self._catalog.transaction() as tx:
            hold_retention(tx, table)
            tx.holds.require_no_backup(f"Deleting tag {name} of {table.identifier}")
            row = tx.tags.find(table.table_id, name, table.identifier.branch)
            if row is None:
                raise TagNotExist(name, str(table.identifier))
            self.drop(tx, table, row)
        self.tidy(table)

    def drop(self, tx: CatalogTransaction, table: LakeTable, tag: TagRow) -> None:
        """End a tag, whose file goes once that is decided (`tidy`); the transaction holds the table's row."""
        tx.tags.drop(table.table_id, tag.name, table.identifier.branch)
        stale_tag(tx, table, table.files, tag)

    def tidy(self, table: LakeTable) -> bool:
        """Remove the files of tags that are no more; False where that is still to be done."""
        return remove_stale(self._publisher, table)


def _put(tx: CatalogTransaction, table: LakeTable, tag: TagRow) -> TagRow:
    """Give the catalog a tag that a client wrote; returns it."""
    created, retained, branch = tag.created_millis, tag.retained, table.identifier.branch
    tx.tags.put(table.table_id, tag.name, tag.snapshot, branch, created_millis=created, retained=retained, published=tag.published)
    return tag


def _has_lists(table: LakeTable, tag: TagRow) -> bool:
    """Whether the manifest lists are there that a tag names: Java's client removes them with the tag that alone keeps them."""
    snapshot = Snapshot.from_json(tag.snapshot)
    lists = (snapshot.base_manifest_list, snapshot.delta_manifest_list)
    return all(table.files.io.file_exists(table.files.layout.manifest(name)) for name in lists)


def _tells_the_same(decided: Snapshot, tagged: Snapshot) -> bool:
    """Whether a tag's file tells a decided snapshot: what it holds, and the times and ids that a way back to it would go on from."""
    first, other = (
        (content_of(each), each.time_millis, each.watermark, each.next_row_id, each.changelog_record_count) for each in (decided, tagged)
    )
    return first == other


def _held(tx: CatalogTransaction, table: LakeTable) -> bool:
    """Keep others from making and removing tags of the table until the transaction ends; False where it is not there any more."""
    return tx.tables.lock_retention(table.identifier) == (table.table_id, table.location)


def hold_retention(tx: CatalogTransaction, table: LakeTable) -> None:
    """Keep what is retained from being changed by others until the transaction ends; commits go on. Raises `TableNotExist`."""
    if not _held(tx, table):
        raise TableNotExist(str(table.identifier))


def to_tag(tx: CatalogTransaction, table: LakeTable, snapshot_id: int | None) -> Snapshot:
    """The snapshot that a tag is to keep, the latest where none is named; one that has expired is what another tag has kept of it.

    The transaction holds the table's row. Raises `SnapshotNotExist`, or `TableDamaged` where its file is missing.
    """
    branch = table.identifier.branch
    row = tx.snapshots.latest(table.table_id, branch) if snapshot_id is None else tx.snapshots.get(table.table_id, branch, snapshot_id)
    if row is not None:
        check_there(table, row)
        return Snapshot.from_json(row.body)
    bodies = (tag.snapshot for tag in tx.tags.all(table.table_id, branch) if int(tag.snapshot["id"]) == snapshot_id)
    if (body := next(bodies, None)) is not None:
        return Snapshot.from_json(body)
    which = "no snapshot to tag yet" if snapshot_id is None else f"no snapshot {snapshot_id} to tag"
    raise SnapshotNotExist(f"Table {table.identifier} has {which}.", resource_name=str(snapshot_id or 0))


def require_same(tx: CatalogTransaction, table: LakeTable, tag: TagRow) -> None:
    """Raise `TagNotExist` or `ChangedMeanwhile` where a tag is gone, or another snapshot's, since it was looked for.

    In the transaction that goes by it, which holds the table: the files that its snapshot alone needed go with it.
    """
    row = tx.tags.find(table.table_id, tag.name, table.identifier.branch)
    if row is None:
        raise TagNotExist(tag.name, str(table.identifier))
    if row.snapshot != tag.snapshot:
        name = str(table.identifier)
        raise ChangedMeanwhile(f"Tag {tag.name} of {name} was given to another snapshot meanwhile. Repeat it.", resource_name=name)
