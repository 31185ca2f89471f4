"""Put decided snapshots and schemas where file readers look; whoever needs one first does it."""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from cachetools import LRUCache, TTLCache

from catalog import CatalogStore, CatalogTransaction
from catalog.objects.publications import Note
from catalog.objects.tables import Numbering
from catalog.records import SnapshotRow
from lake.commit.ahead import ahead_of, keep_aside, later_file, may_be_ahead, may_have_later_schema, other_file, with_lost
from lake.commit.hints import hints_beyond, lower_hints, raise_hint
from lake.commit.notifier import Hook as Hook
from lake.commit.notifier import Notifier
from lake.commit.notifier import no_hook as no_hook
from lake.store_places import locked_beside_store
from model.catalog_errors import WarehouseMismatch
from model.errors import CommitConflict, LakeError, TableDiverged, Unavailable
from model.identifier import MAIN_BRANCH, Identifier, branch_of_file
from model.schema.schema import Schema
from model.snapshot import Snapshot
from table.format.io.directory import Directory
from table.format.marked_file import remove_marked
from table.format.store import Published, TableFiles
from table.format.table_directory import is_there

_log = logging.getLogger(__name__)
DOUBT_SECONDS = 1.0
"""For so long after a lost race the newest snapshot is asked for and not guessed."""
LOOKED_SECONDS = 10.0
"""A commit reads the hint, which may tell of snapshots beyond the next, once in so long."""
_PAUSES = (0.02, 0.05, 0.1, 0.2, 0.4)
"""Seconds between looks at a snapshot's file that should not be there."""
_STALE_AT_ONCE = 200
"""So many files are removed in a transaction, which is silent meanwhile."""
PATIENCE_MILLIS = 2000
"""So long who reads a table waits for others who hold it; then the file of its newest schema is left to the next."""
TOLD_SECONDS = 60.0
"""The log tells of a branch that cannot be published once in so long."""


class Publisher:
    """Publishes snapshots in order of their ids."""

    def __init__(self, catalog: CatalogStore, hook: Hook = no_hook) -> None:
        self._catalog = catalog
        self._hook = hook
        self._notifier = Notifier(catalog, hook, self._unsafe, self._late)
        self._lock = threading.Lock()
        self._newest: LRUCache[tuple[UUID, str], Snapshot] = LRUCache(10_000)
        """The newest snapshot of each branch whose file this process knows to be there."""
        self._doubted: TTLCache[tuple[UUID, str], None] = TTLCache(10_000, DOUBT_SECONDS)
        self._put_off: TTLCache[tuple[UUID, str], None] = TTLCache(10_000, TOLD_SECONDS)
        """Branches of which the log has said that they are behind."""
        self._looked: TTLCache[tuple[UUID, str], None] = TTLCache(10_000, LOOKED_SECONDS)
        """Branches whose hint was held against the catalog."""
        self._unflushed: set[tuple[UUID, str, int]] = set()
        """Snapshots whose files could not be flushed: they are written anew, as what a disk dropped is not flushed by a second try."""
        self._behind: dict[tuple[UUID, str], object] = {}
        """Branches with a decided snapshot or schema that could not be published: all of theirs are looked for before the next one is."""
        self.require_own: Callable[[], None] = lambda: None
        """Raises what tells why nothing is to be written or removed (`Standing.require_own`, which sets it)."""

    @property
    def is_own(self) -> bool:
        """Whether files may be written and removed."""
        try:
            self.require_own()
        except (WarehouseMismatch, Unavailable):
            return False
        return True

    def close(self) -> None:
        """Note what is still to be noted, where Postgres answers."""
        self._notifier.close()

    def latest(self, table_id: UUID, files: TableFiles, branch: str) -> Snapshot | None:
        """The newest decided snapshot, its file in place before the answer mentions it, where the store lets it be written."""
        with self._catalog.reading() as tx:
            row = tx.snapshots.latest(table_id, branch)
        return None if row is None else self.ready(table_id, files, branch, row)

    def ready(self, table_id: UUID, files: TableFiles, branch: str, row: SnapshotRow) -> Snapshot:
        """The snapshot of the newest row, its file in place; what Postgres tells does not depend on a write that fails."""
        if not row.published and not self.known(table_id, branch, row.snapshot_uuid):
            self.try_to_catch_up(table_id, files, branch, patience_millis=PATIENCE_MILLIS)
        return Snapshot.from_json(row.body)

    def try_to_catch_up(self, table_id: UUID, files: TableFiles, branch: str, *, patience_millis: int | None = None) -> None:
        """`catch_up`; where the store fails, or somebody holds the table for longer than the patience, it is put off."""
        try:
            self.catch_up(table_id, files, branch, patience_millis=patience_millis)
        except (LakeError, OSError) as problem:
            self.put_off(table_id, branch, files.layout.snapshot_dir(), problem)

    def put_off(self, table_id: UUID, branch: str, path: str, problem: Exception) -> None:
        """Remember that decided snapshots are not published; the next look at the branch tries again, and so does a start."""
        with self._lock:
            is_known = (table_id, branch) in self._put_off
            self._behind[table_id, branch] = object()
            self._put_off[table_id, branch] = None
            self._newest.pop((table_id, branch), None)
        if not is_known:
            bug = None if isinstance(problem, LakeError | OSError) else problem
            _log.warning("A committed snapshot could not be published at %s, which is tried again: %s", path, problem, exc_info=bug)

    def fall_behind(self, table_id: UUID, branch: str) -> None:
        """Have what is not published of a branch, schemas too, published before its next snapshot is."""
        with self._lock:
            self._behind[table_id, branch] = object()

    def publish_next(self, table_id: UUID, files: TableFiles, branch: str, snapshot: Snapshot, place: Directory) -> None:
        """Publish a snapshot that was just decided, behind those before it, some of which another server may still have to publish.

        Its name was free just before the decision (`check_free`).
        """
        with self._lock:
            behind, newest = (table_id, branch) in self._behind, self._newest.get((table_id, branch))
        before = snapshot.id - 1
        is_seen = newest is not None and newest.id == before and not place.follows  # where no directory is held, a look is a request
        if behind or (before and not is_seen and not place.exists(files.layout.snapshot_name(before))):
            self.catch_up(table_id, files, branch, patience_millis=PATIENCE_MILLIS)  # longer, and others of the table wait, too
        else:
            self.publish(table_id, files, branch, snapshot, place, free=True)

    def guess(self, table_id: UUID, branch: str) -> Snapshot | None:
        """What is probably the newest snapshot, its file in place, without asking: the decision tells. None where nothing is known."""
        with self._lock:
            return None if (table_id, branch) in self._doubted else self._newest.get((table_id, branch))

    def doubt(self, table_id: UUID, branch: str) -> None:
        """A guess was wrong: others write the branch too, and it is asked for during the next moment."""
        with self._lock:
            self._newest.pop((table_id, branch), None)
            self._doubted[table_id, branch] = None

    def known(self, table_id: UUID, branch: str, key: str) -> bool:
        """Whether this process has seen to it that the file of the branch's newest snapshot is there."""
        with self._lock:
            newest = self._newest.get((table_id, branch))
            return newest is not None and newest.key == key

    def catch_up(self, table_id: UUID, files: TableFiles, branch: str, *, schemas: bool = True, patience_millis: int | None = None) -> None:
        """Publish every decided snapshot whose file may be missing, oldest first, and before them the ``schemas`` they may be read by.

        Nothing where the table's directory is not there, or the warehouse is another catalog's: who looks later does it.
        One that is not noted may have been published and expired since, by a client or before an old dump was put back: it is left out.
        """
        if not self.is_own:
            return
        with self._lock:
            mark = self._behind.get((table_id, branch))
        try:
            with contextlib.suppress(FileNotFoundError), files.snapshots() as place:
                with self._catalog.reading() as tx:  # once the directory is held: then it is the one the table lies in
                    waiting = tx.publications.unpublished(table_id, branch, location=files.location)
                    versions = tx.tables.unpublished_schemas(table_id, branch) if (waiting or mark) and schemas else None
                if versions is not None and versions.bodies:  # as after a decision of both, or of a branch's for main
                    self.schemas(table_id, files, branch, patience_millis=patience_millis)
                if waiting:  # once the next one lies there, those that are lost before it count as expired by a client
                    waiting = with_lost(self._catalog, table_id, files, branch, place, waiting)
                for snapshot in (Snapshot.from_json(row.body) for row in waiting):
                    if not files.is_expired(snapshot):
                        self.publish(table_id, files, branch, snapshot, place)
        except BaseException:
            self.fall_behind(table_id, branch)
            raise
        with self._lock:  # only now: a snapshot that is decided meanwhile is not published before its schema
            if mark is not None and self._behind.get((table_id, branch)) is mark:
                del self._behind[table_id, branch]

    def publish(self, table_id: UUID, files: TableFiles, branch: str, snapshot: Snapshot, place: Directory, *, free: bool = False) -> bool:
        """Put one snapshot's file there; False where a foreign file lies in its place, which marks the table as diverged.

        ``place`` is the table's directory of snapshots, held since before the decision or since the table was seen to lie there.
        Raises `FileNotFoundError` where the table has been dropped since. ``free``: see `TableFiles.publish_snapshot`.
        """
        with self._lock:
            anew = (table_id, branch, snapshot.id) in self._unflushed
        outcome = files.publish_snapshot(snapshot, place, free=free)
        if anew and outcome is Published.THERE:
            files.write_snapshot_anew(snapshot)
        self._hook("published")
        for pause in _PAUSES if outcome is Published.FOREIGN else ():
            self.remove_stale(table_id, files)  # nothing is left on record where another process has just removed it
            outcome = files.publish_snapshot(snapshot, place)
            if outcome is not Published.FOREIGN:
                break
            time.sleep(pause)  # whoever wrote a snapshot's file after it was rolled back is about to take it away
        if outcome is Published.FOREIGN:
            with self._catalog.transaction() as tx:
                tx.snapshots.wait_for_deciders(table_id)
                if tx.snapshots.by_uuid(table_id, snapshot.key, branch) is not None:  # else rolled back, and the file is the next one's
                    tx.tables.set_diverged(table_id, files.layout.snapshot_file(snapshot.id))
            return False
        if not place.follows and not self._lies_there(table_id, files, branch, snapshot):
            if outcome is Published.WRITTEN and not self._take_back(table_id, files, branch, snapshot.id, snapshot.key):
                # Dropped meanwhile: a file left here would be in the way of the next table of this name.
                place.delete(files.layout.snapshot_name(snapshot.id))
            return True
        # Before it is noted, so that a crash in between leaves a snapshot that is published again, hints and all.
        # A file that was there may be an older one than the hint names, as with an old dump: then only the hint tells of the newer ones.
        # One that was not may have been there and have expired, while this server stood still: on a disk that costs nothing to see, and a
        # store was asked above.
        if not ((place.follows or outcome is Published.THERE) and hints_beyond(files, snapshot.id)):
            files.write_hints(snapshot.id, place, earliest=1 if snapshot.id == 1 else None)
        self._hook("hinted")
        with self._lock:
            newest = self._newest.get((table_id, branch))
            if newest is None or newest.id < snapshot.id:
                self._newest[table_id, branch] = snapshot
            self._unflushed.discard((table_id, branch, snapshot.id))
        self._notifier.note(table_id, files, branch, snapshot, flushed=anew and outcome is Published.THERE)
        return True

    def _unsafe(self, note: Note, files: TableFiles, problem: Exception) -> None:
        """A snapshot's file may not be on disk: it counts as not published."""
        with self._lock:
            self._unflushed.add((note.table_id, note.branch, note.snapshot_id))
        self.put_off(note.table_id, note.branch, files.layout.snapshot_file(note.snapshot_id), problem)

    def _lies_there(self, table_id: UUID, files: TableFiles, branch: str, snapshot: Snapshot) -> bool:
        with self._catalog.reading() as tx:
            row = tx.publications.decided(table_id, branch, snapshot.id, location=files.location)
        return row is not None and row.snapshot_uuid == snapshot.key

    def _late(self, note: Note, files: TableFiles) -> None:
        """A file was written of a snapshot that is no more; where it cannot be taken back the next look at the branch tells."""
        with self._lock:
            newest = self._newest.get((note.table_id, note.branch))
            if newest is not None and newest.key == note.key:
                del self._newest[note.table_id, note.branch]
        try:
            self.require_own()
            if not self._take_back(note.table_id, files, note.branch, note.snapshot_id, note.key) and not files.layout.reach.is_local:
                for hint in (files.layout.latest_hint(), files.layout.earliest_hint()):
                    files.io.delete(hint)  # readers look for themselves where there are none
        except (LakeError, OSError) as problem:
            _log.warning("The file of a snapshot that is no more is at %s: %s", files.layout.snapshot_file(note.snapshot_id), problem)

    def _take_back(self, table_id: UUID, files: TableFiles, branch: str, snapshot_id: int, key: str) -> bool:
        """Where a snapshot's file came after it was rolled back or expired, put what is decided now in its place, or nothing.

        Only the record of its removal, another snapshot of its id, or later ones than it with none before them, tell that: a catalog that
        is older than its warehouse knows nothing of the newest snapshots, and their files are all that is left of them. One that another
        took the place of without such a record is kept aside. Nobody decides, goes back or expires meanwhile. False where no table lies
        there (any more).
        """
        path = files.layout.snapshot_file(snapshot_id)
        with self._catalog.transaction() as tx:
            tx.snapshots.wait_for_deciders(table_id)
            if not tx.tables.lies_at(table_id, files.location):
                return False
            mark = tx.stale.mark_of_removed(table_id, files.layout.below(path))
            row = tx.publications.decided(table_id, branch, snapshot_id, location=files.location)
            stored = files.read_snapshot(snapshot_id)
            earliest = tx.snapshots.earliest(table_id, branch)
            if mark is None and earliest is not None and earliest.snapshot_id > snapshot_id:
                if stored is not None and stored.key == key:
                    files.io.delete(path)
                newest = tx.publications.newest_published([(table_id, branch)]).get((table_id, branch), earliest.snapshot_id)
                raise_hint(files, files.layout.latest_hint(), newest, above=snapshot_id)
                raise_hint(files, files.layout.earliest_hint(), earliest.snapshot_id, above=snapshot_id)
                return True
            if stored is None or stored.key != key or (row is not None and row.snapshot_uuid == key):
                return True
            is_removed = mark is not None and all(stored.to_json().get(name) == value for name, value in mark.items())
            if row is not None:
                # Two were decided, as by a Postgres that failed over to one that lagged, and this one came over the other's file.
                if not is_removed:
                    keep_aside(files, stored)
                files.write_snapshot_anew(Snapshot.from_json(row.body))
                return True
            if not is_removed:
                return True
            files.io.delete(path)
            lower_hints(tx, table_id, files, {files.layout.below(path)})
        return True

    def remove_stale(self, table_id: UUID, files: TableFiles, *, wait: bool = True) -> int:
        """Remove the files of snapshots, schemas and tags that are no more; returns how many were on record.

        One process at a time: between looking at a file and removing it nobody may put the next of its name there. They stay on record
        while the warehouse is another catalog's, and without ``wait`` while somebody else holds the table. What has been removed stays so
        where a later one fails.
        """
        if not self.is_own:
            return 0
        count = removed = self._remove_some_stale(table_id, files, wait=wait)
        while removed == _STALE_AT_ONCE:
            count += (removed := self._remove_some_stale(table_id, files, wait=wait))
        return count

    def _remove_some_stale(self, table_id: UUID, files: TableFiles, *, wait: bool) -> int:
        with self._catalog.transaction() as tx:
            rows = tx.stale.lock(table_id, most=_STALE_AT_ONCE, wait=wait)
            if not rows:
                return 0
            for row in rows:
                tx.stale.hold_on()
                remove_marked(files, row.path, row.mark)
            lower_hints(tx, table_id, files, {row.path for row in rows})
            # A power cut that brought a file back, of which nothing is on record any more, would make the table diverged.
            with contextlib.suppress(FileNotFoundError):
                files.io.sync({files.layout.inside(row.path).rpartition("/")[0] for row in rows})
            tx.stale.removed(table_id, [row.path for row in rows])
        self._notifier.forget(table_id)  # one of them may be the newest snapshot's again, taken away and put back
        with self._lock:
            for key in [key for key in self._newest if key[0] == table_id]:
                del self._newest[key]
        return len(rows)

    def check_free(self, table_id: UUID, files: TableFiles, table: Identifier, snapshot_id: int, base: str | None) -> None:
        """Raise `TableDiverged` when a file of that id lies there before the catalog decided one, or another's in the place of ``base``.

        A file another server has decided and published meanwhile is no divergence but a lost race: `CommitConflict`. What lies in the
        place of the base, of that key, is looked at where this process has not seen to it, and not at each commit.
        """
        with self._lock:
            looked = (table_id, table.branch) in self._looked
            self._looked[table_id, table.branch] = None
        path = files.layout.snapshot_file(snapshot_id)
        if not files.io.file_exists(path):
            if looked:
                return
            is_seen = base is None or self.known(table_id, table.branch, base)
            if later_file(files, snapshot_id) is None and (is_seen or other_file(files, snapshot_id - 1, str(base)) is None):
                return
        self.require_newest(table_id, files, table)
        with self._catalog.reading() as tx:
            row = tx.snapshots.latest(table_id, table.branch)
        if row is not None and row.snapshot_id >= snapshot_id:
            raise CommitConflict(str(table), expected=str(snapshot_id - 1))

    def require_newest(self, table_id: UUID, files: TableFiles, table: Identifier) -> None:
        """Raise `TableDiverged` where files are ahead of the catalog, or the table waits for its repair, perhaps of another branch.

        What the catalog knows is not all that a change would take away then.
        """
        path = self.mark_ahead(table_id, files, table.branch)
        if path is None:
            with self._catalog.reading() as tx:
                row = tx.tables.by_id(table_id)
            path = None if row is None else row.diverged_at
        if path is not None:
            raise TableDiverged(table, path=path)

    def require_free_schema(
        self, table_id: UUID, files: TableFiles, table: Identifier, newest: Snapshot | None, numbering: Numbering
    ) -> None:
        """Raise `TableDiverged` where the next schema's number may be a newer catalog's: files are ahead, or any branch's schemas are.

        ``newest`` and ``numbering`` were read a moment ago.
        """
        top, branches = numbering
        if may_be_ahead(files, newest, top, listed=True):
            self.require_newest(table_id, files, table)
        for branch in {MAIN_BRANCH, *branches} - {table.branch}:
            line = TableFiles(files.io, files.location, branch, name=files.name)
            if may_have_later_schema(line, top):
                self.require_newest(table_id, line, replace(table, branch=branch))

    def mark_ahead(self, table_id: UUID, files: TableFiles, branch: str) -> str | None:
        """The file that tells what the catalog lacks, which marks the table as diverged (`lake.commit.ahead`); None without one."""

        def look(tx: CatalogTransaction) -> str | None:
            return ahead_of(tx, table_id, files, tx.snapshots.latest(table_id, branch))

        with self._catalog.reading() as tx:
            path = look(tx)
        if path is None or (self.remove_stale(table_id, files) and not files.io.file_exists(path)):
            return None
        for pause in _PAUSES:  # as in `publish`
            time.sleep(pause)
            with self._catalog.reading() as tx:
                path = look(tx)
            if path is None:
                return None
        with self._catalog.transaction() as tx:  # nobody decides meanwhile: what lies there now is not on its way
            tx.snapshots.wait_for_deciders(table_id)
            path = None if tx.stale.lock(table_id) else look(tx)
            if path is not None:
                tx.tables.set_diverged(table_id, path)
        return path

    def schemas(self, table_id: UUID, files: TableFiles | None, branch: str, *, patience_millis: int | None = None) -> None:
        """Put the files of all decided schema versions there; without ``files`` the table has none besides its rows'.

        Nobody takes versions away, or brings them back, meanwhile: a file would come back that is gone, or be noted that is not there.
        Another's file in the place of one marks the table as diverged: Paimon's readers would read ours by it. Nothing is written where
        the warehouse is another catalog's, or the directory of a table that has been written is not there.
        """
        if not self.is_own:
            return
        waits = {} if patience_millis is None else dict.fromkeys(("place_seconds", "patience"), patience_millis / 1000)
        with locked_beside_store(self._catalog, lambda tx: tx.tables.hold_schemas(table_id, branch), **waits) as (tx, unpublished):
            if unpublished is None or (files is not None and unpublished.location != files.location):
                return
            if files is not None and (branch != MAIN_BRANCH or unpublished.published >= 0) and not is_there(files.io, files.location):
                return
            foreign: list[str] = []
            if files is not None:
                schemas = map(Schema.from_json, unpublished.bodies)
                foreign = [files.layout.schema_file(one.id) for one in schemas if files.write_schema(one) is Published.FOREIGN]
            if files is None or not foreign or tx.stale.paths(table_id).isdisjoint(map(files.layout.below, foreign)):
                if foreign and branch_of_file(tx.tables.set_diverged(table_id, foreign[0])) != branch:
                    return  # another branch's mark stays until its repair: this one is found again, and marked, after it
                self._hook("schema published")
                tx.tables.schema_published(table_id, unpublished.schema_id, branch)
                return
        self.remove_stale(table_id, files)  # a version that is no more, in the place of the one that has its number now
        self.schemas(table_id, files, branch, patience_millis=patience_millis)
