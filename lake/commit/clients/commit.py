"""Commits that clients built: compared with the table, decided in Postgres, published. Never grouped, never rebuilt.

The rules of what is taken, refused or a repeat: `architecture.md`, second decision; `docs/catalog.md` tells them to users.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from uuid import UUID

from cachetools import LRUCache

from catalog import CatalogStore
from catalog.commits.decisions import Decision, Held
from catalog.commits.reservations import Client
from catalog.records import HeadRow, SnapshotRow
from lake.commit.clients.judgement import Judge, Judged, RowsChanged
from lake.commit.clients.past_lists import PastLists
from lake.commit.clients.rights import EVERY_RIGHT, Rights
from lake.commit.clients.schema_named import check_older_schema, check_placed, check_replaced, check_schema
from lake.commit.clients.told_gone import require_not_told_gone
from lake.commit.core import CommitCore, Prepared
from lake.commit.metrics import CommitNote, noting
from lake.commit.publish import Publisher
from lake.commit.turns import ClientTurns
from lake.commit.writers import Writers, same_committer
from lake.inspect.counts import added_by, by_name, committed_by, takes_files_away
from lake.reserve import StorageReserve
from model.catalog_errors import InvalidCommit, MetadataOnlyTable
from model.errors import CommitConflict, LakeError, OutcomeUnknown, TableDiverged, TableNotExist, Unavailable
from model.identifier import Identifier
from model.partition import PartitionStatistics
from model.schema.replaced import means_other_columns
from model.schema.schema import Schema, other_kind
from model.snapshot import BATCH_COMMIT_IDENTIFIER, TAKES_FILES, CommitKind, Snapshot
from model.text.sql_text import literal
from table.format.io.directory import Directory
from table.format.io.file_io import FileIO
from table.format.store import TableFiles
from table.write.snapshot_builder import COMMITTED_BY

_TURN_SECONDS = 0.5
"""For so long a commit waits for another of the same table: its turn saves work, the decision needs none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCommit:
    """A snapshot a client built, and what it built it on."""

    snapshot: Snapshot
    table_id: UUID | None = None
    """The table the client opened; None from clients that do not say."""
    base_given: bool = False
    """Whether the client named the snapshot it built on; clients up to 1.4 do not, and ids alone decide."""
    base: str | None = None
    identifier_decides: bool = False
    """Whether user, identifier and kind alone tell a repeat: our Spark source writes the files of a repeated micro-batch anew."""
    statistics: tuple[PartitionStatistics, ...] = ()
    principal: str = ""
    """Who sent it."""
    judged: Callable[[RowsChanged], None] = lambda rows: None
    """Told what it does to rows, once that is known."""
    waiting: Callable[[], AbstractContextManager[bool]] = lambda: contextlib.nullcontext(True)
    """Whether its loser may wait for its turn: `WaitingPlaces.place`, where a thread of the server waits with it."""

    @property
    def client(self) -> Client:
        """Who built it."""
        return Client(self.principal, self.snapshot.commit_user)


class ClientCommitter:
    """Takes or refuses commits of clients."""

    def __init__(
        self,
        catalog: CatalogStore,
        file_io: FileIO,
        publisher: Publisher,
        core: CommitCore,
        noted: Callable[[CommitNote], None] = lambda note: None,
        *,
        reserve: StorageReserve,
    ) -> None:
        self._catalog = catalog
        self._reserve = reserve
        self._io = file_io
        self._publisher = publisher
        self._core = core
        self._noted = noted
        self._turns_of_clients = ClientTurns(catalog)
        self._lock = threading.Lock()
        self._judge = Judge()
        self._past = PastLists(catalog)
        self._writers = Writers(catalog)
        self._schemas: LRUCache[tuple[UUID, str, int], Schema] = LRUCache(1000)
        self._turns: LRUCache[Identifier, threading.Lock] = LRUCache(1000)
        self._heads: LRUCache[Identifier, HeadRow] = LRUCache(10_000)
        """Tables as they were when this process last committed to them; which snapshot is the newest is the publisher's to guess."""

    def commit(self, table: Identifier, commit: ClientCommit, rights: Rights = EVERY_RIGHT) -> str | None:
        """Make the snapshot the table's latest; None when the client must look again and rebuild.

        Returns the key of the snapshot it is: its own, or of a repeat the one that landed, whose files may be others.
        Raises `TableNotExist` (also for a table dropped and made anew), `InvalidCommit`, `TableDiverged`, `Unavailable`,
        `StorageFull` for rows that come while the reserve is being used, or `OutcomeUnknown` when Postgres stays away after a lost
        answer, and what the caller's ``rights`` raise.
        """
        with noting(self._noted, str(table), writer="client") as note:
            before = self._remembered(table)
            with self._turn(table):
                quickly = self._as_remembered(table, commit, before, rights)
            landed = self._as_asked(table, commit, rights) if quickly is None else commit.snapshot.key if quickly else None
            if landed is None:
                note.outcome = "conflict"
                self._take_turn(table, commit)
            return landed

    def _take_turn(self, table: Identifier, commit: ClientCommit) -> None:
        with self._lock:
            head = self._heads.get(table)
        table_id = commit.table_id or (head.table_id if head is not None else None)
        if table_id is not None:
            self._turns_of_clients.lost((table_id, table.branch), commit.client, commit.waiting)

    @contextlib.contextmanager
    def _turn(self, table: Identifier) -> Iterator[None]:
        """One commit to a table at a time in this process, as long as they are quick: all but one would only lose to each other."""
        with self._lock:
            turn = self._turns.setdefault(table, threading.Lock())
        mine = turn.acquire(timeout=_TURN_SECONDS)
        try:
            yield
        finally:
            if mine:
                turn.release()

    def _as_asked(self, table: Identifier, commit: ClientCommit, rights: Rights) -> str | None:
        """The commit by what Postgres says of the table now."""
        head = self._head(table, commit)
        if head is None:
            return None
        files = TableFiles(self._io, head.location, table.branch, name=table.written(), allowed=head.allowed_locations)
        if head.stale:
            self._publisher.remove_stale(head.table_id, files)
        if (landed := self._repeat(table, head, files, commit)) is not None:
            return landed
        if head.diverged_at:
            raise TableDiverged(table, path=head.diverged_at)
        if not _goes_on(head, commit):
            return None
        try:
            judged = self._judged(table, head, files, commit, rights)
            if head.snapshot_key and not head.published and not self._publisher.known(head.table_id, table.branch, head.snapshot_key):
                self._publisher.try_to_catch_up(head.table_id, files, table.branch)
            self._publisher.check_free(head.table_id, files, table, commit.snapshot.id, head.snapshot_key)
        except CommitConflict:
            return self._lost(table, head, files, commit)
        except InvalidCommit:  # of what it found of itself, perhaps: sent to another server too, it has landed since it was looked for
            if (landed := self._lost(table, head, files, commit)) is not None:
                return landed
            raise
        with self._core.places([(table, head.table_id, files)]) as (place,):
            taken = self._take(table, head, commit, judged, files, place)
        return commit.snapshot.key if taken else self._lost(table, head, files, commit)

    def _as_remembered(self, table: Identifier, commit: ClientCommit, before: HeadRow | None, rights: Rights) -> bool | None:
        """The commit by what this process knows of the table: the decision confirms all of it. None says nothing: Postgres is to be asked.

        ``before`` is what was known when the commit came.
        """
        head, snapshot = self._remembered(table), commit.snapshot
        if head is None or commit.table_id not in (None, head.table_id) or snapshot.commit_identifier != BATCH_COMMIT_IDENTIFIER:
            return None
        if before is not None and head.snapshot_id != before.snapshot_id and head.snapshot_id == snapshot.id:
            return None if head.snapshot_key == snapshot.key else False  # lost to one that was decided since this one came
        files = TableFiles(self._io, head.location, table.branch, name=table.written(), allowed=head.allowed_locations)
        if not _goes_on(head, commit):
            return None
        try:
            judged = self._judged(table, head, files, commit, rights)
        except LakeError:  # what is remembered may be old
            self._publisher.doubt(head.table_id, table.branch)
            return None
        try:
            with self._core.places([(table, head.table_id, files)], make=False) as (place,):
                free = not place.exists(files.layout.snapshot_name(snapshot.id))
                taken = free and self._take(table, head, commit, judged, files, place, still=bool(judged.versions))
            if taken:
                return True
        except FileNotFoundError:  # the table was dropped or has moved
            pass
        self._publisher.doubt(head.table_id, table.branch)
        return None

    def _remembered(self, table: Identifier) -> HeadRow | None:
        """The table as it was at this process's last commit to it; None where there was none lately."""
        with self._lock:
            head = self._heads.get(table)
        newest = None if head is None else self._publisher.guess(head.table_id, table.branch)
        return None if head is None or newest is None else _after(head, newest)

    def _take(  # noqa: PLR0913 - a commit, what it does and what it is held against
        self,
        table: Identifier,
        head: HeadRow,
        commit: ClientCommit,
        judged: Judged,
        files: TableFiles,
        place: Directory,
        *,
        still: bool = False,
    ) -> bool:
        """Decide and publish; False where the head is not what the table is, ``still`` also by its other branches and tags.

        The files are the client's to sync.
        """
        if judged.rows.taken and commit.snapshot.commit_kind is CommitKind.APPEND:
            properties = {**commit.snapshot.properties, TAKES_FILES: "true"}
            commit = replace(commit, snapshot=replace(commit.snapshot, properties=properties))
        prepared = Prepared(identifier=table, table_id=head.table_id, files=files, snapshot=commit.snapshot, place=place)

        def remember() -> None:
            with self._lock:
                self._heads[table] = head
            self._judge.decided(head.table_id, table.branch, files, commit.snapshot, judged)
            self._past.decided(head.table_id, table.branch, _at(head), commit.snapshot)

        return self._core.commit([prepared], lambda: self._decide(table, head, commit, judged, still=still), on_decided=remember)

    def _head(self, table: Identifier, commit: ClientCommit) -> HeadRow | None:
        """The table as it is; None while its directory is being moved."""
        with self._catalog.reading() as tx:
            head = tx.snapshots.head(table)
        if head is None or (commit.table_id is not None and commit.table_id != head.table_id):
            raise TableNotExist(str(table))
        return None if head.moving_from else head

    def _repeat(self, table: Identifier, head: HeadRow, files: TableFiles, commit: ClientCommit) -> str | None:
        """The key of the snapshot this very commit has made, whose file is seen to; None where it has not been made."""
        snapshot = commit.snapshot
        told_apart = snapshot.commit_identifier != BATCH_COMMIT_IDENTIFIER
        past = head.snapshot_id is not None and snapshot.id <= head.snapshot_id
        if not told_apart and not past:  # nearly every commit: nothing to ask
            return None
        candidates: list[SnapshotRow] = []
        with self._catalog.reading() as tx:
            landed = tx.snapshots.by_uuid(head.table_id, snapshot.key, table.branch) if past else None
            if landed is None and told_apart:
                kind, by = snapshot.commit_kind.value, snapshot.properties.get(COMMITTED_BY)
                user, identifier = snapshot.commit_user, snapshot.commit_identifier
                rows = tx.snapshots.by_commit(head.table_id, table.branch, user=user, identifier=identifier, kind=kind)
                candidates = [row for row in rows if same_committer(row.body, by)]
        if landed is None:
            landed = next((row for row in candidates if commit.identifier_decides or _sent_again(files, row, snapshot)), None)
        if landed is None:
            return None
        if not landed.published:
            self._publisher.try_to_catch_up(head.table_id, files, table.branch)
        return landed.snapshot_uuid

    def _decide(self, table: Identifier, head: HeadRow, commit: ClientCommit, judged: Judged, *, still: bool) -> bool:
        snapshot = commit.snapshot
        added = added_by(judged.statistics)
        keys = tuple(head.partition_keys)
        decision = Decision(
            held=Held(name=table, table_id=head.table_id, location=head.location, schema_id=head.schema_id),
            base=head.snapshot_key,
            snapshot_id=snapshot.id,
            key=snapshot.key,
            body=snapshot.to_json(),
            added=added,
            writer=commit.client.writer,
            beside=head.beside if still else None,
        )
        named = by_name(judged.statistics, keys)
        try:
            if keys and takes_files_away(judged.statistics):
                with self._catalog.transaction(brief=True) as tx:
                    decided = tx.decisions.decide(decision)
                    if decided:
                        tx.partitions.add(head.table_id, table.branch, named, by=committed_by(snapshot))
            else:
                with self._catalog.deciding() as tx:
                    decided = tx.decisions.decide(replace(decision, partitions=named, by=committed_by(snapshot)))
            return decided
        except Unavailable as away:  # its client is not told before Postgres answers again
            raise OutcomeUnknown(away.message) from away

    def _judged(self, table: Identifier, head: HeadRow, files: TableFiles, commit: ClientCommit, rights: Rights) -> Judged:
        """What the commit does; raises for what it may not do."""
        snapshot = commit.snapshot
        rights.table(head.table_id)
        if not rights.take_over:
            self._writers.require_own(table, head.table_id, snapshot)
        check_schema(table, head, snapshot)
        schema, base = self._schema(table, head), self._base(table, head)
        if (kind := other_kind(schema.options)) not in (None, "materialized-table"):
            raise MetadataOnlyTable(str(table), kind)
        files.partition_types = [field.type for field in schema.partition_fields]
        judged = self._judge.judge(table, head.table_id, files, schema, base, snapshot, rights)
        self._check_versions(table, head, files, snapshot, judged.versions)
        if snapshot.schema_id < (head.snapshot_schema_id or 0):
            check_older_schema(table, files, snapshot)
        if added_by(judged.statistics).size > 0:  # what takes away, or merges, frees space, though only as the past expires
            self._reserve.require()
        if judged.versions:  # it adds files
            self._past.require_new(table, head.table_id, _at(head), head.beside, snapshot)
            require_not_told_gone(table, files, snapshot)
        commit.judged(judged.rows)
        return judged

    def _check_versions(self, table: Identifier, head: HeadRow, files: TableFiles, snapshot: Snapshot, added: frozenset[int]) -> None:
        """Raise where a file was written by a version of the schema that is gone, or replaced by other columns: nobody could read it.

        But for a way back to a snapshot whose rows have been read without their values of such columns since these were replaced.
        """
        versions = {snapshot.schema_id, *added}
        if not versions - {head.schema_id}:
            return
        with self._catalog.reading() as tx:
            there = {schema_id: Schema.from_json(body) for schema_id, body in tx.tables.schemas(head.table_id, table.branch)}
        present = self._schema(table, head)
        versions_there = {number: there[number] for number in versions & there.keys()}
        if replaced := {number: one for number, one in versions_there.items() if means_other_columns(one, present)}:
            check_replaced(table, files, snapshot, replaced, present, lambda: self._all_kept(table, head))
        check_placed(table, versions_there, present)
        if gone := sorted(versions - there.keys()):
            raise InvalidCommit(
                f"Version {gone[0]} of the schema of {table} is gone, as after fast_forward. Load the table again and write with its "
                "present schema."
            )

    def _all_kept(self, table: Identifier, head: HeadRow) -> list[tuple[str, Snapshot]]:
        """The snapshots of the table or branch, the newest first, then its tags, each with what means it in a CALL."""
        with self._catalog.reading() as tx:
            bodies = [(str(row.snapshot_id), row.body) for row in reversed(tx.snapshots.history(head.table_id, table.branch))]
            bodies += [(literal(tag.name), tag.snapshot) for tag in tx.tags.all(head.table_id, table.branch)]
        return [(meant, Snapshot.from_json(body)) for meant, body in bodies]

    def _base(self, table: Identifier, head: HeadRow) -> Snapshot | None:
        """The snapshot the table points at."""
        if head.snapshot_id is None:
            return None
        guess = self._publisher.guess(head.table_id, table.branch)
        if guess is not None and guess.key == head.snapshot_key:
            return guess
        with self._catalog.reading() as tx:
            row = tx.snapshots.get(head.table_id, table.branch, head.snapshot_id)
        if row is None or row.snapshot_uuid != head.snapshot_key:
            raise CommitConflict(str(table), expected=head.snapshot_key)
        return Snapshot.from_json(row.body)

    def _schema(self, table: Identifier, head: HeadRow) -> Schema:
        key = (head.table_id, table.branch, head.schema_id)
        with self._lock:
            schema = self._schemas.get(key)
        if schema is None:
            with self._catalog.reading() as tx:
                body = tx.tables.schema(head.table_id, head.schema_id, table.branch)
            if body is None:
                raise TableNotExist(str(table))
            schema = Schema.from_json(body)
            with self._lock:
                self._schemas[key] = schema
        return schema

    def _lost(self, table: Identifier, head: HeadRow, files: TableFiles, commit: ClientCommit) -> str | None:
        """What a decision that moved nothing means: dropped, marked, a repeat that was faster, or a race lost (None)."""
        with self._catalog.reading() as tx:
            now = tx.snapshots.head(table)
        if now is None or now.table_id != head.table_id:
            raise TableNotExist(str(table))
        if now.diverged_at:
            raise TableDiverged(table, path=now.diverged_at)
        return self._repeat(table, now, files, commit) if now.location == head.location else None


def _goes_on(head: HeadRow, commit: ClientCommit) -> bool:
    """Whether the commit is built on what the table points at."""
    return commit.snapshot.id == (head.snapshot_id or 0) + 1 and (not commit.base_given or commit.base == head.snapshot_uuid)


def _sent_again(files: TableFiles, landed: SnapshotRow, snapshot: Snapshot) -> bool:
    """Whether a commit of a landed one's user, identifier and kind is that one again, and no new one of a writer that went back.

    Who builds on a snapshot has seen what landed up to it: a job started from an older savepoint sends its identifiers again with other
    rows, and Java drops partitions in batches of one identifier. Clients that build anew without looking for their own (Java 1.0, pypaimon
    1.2) name the same list, or the same files in another: refused, they would remove files that are committed.
    """
    if landed.snapshot_id >= snapshot.id or landed.body.get("deltaManifestList") == snapshot.delta_manifest_list:
        return True
    try:
        changed, sent = (
            {(entry.kind, entry.key()) for entry in files.delta_entries(one)} for one in (Snapshot.from_json(landed.body), snapshot)
        )
    except LakeError:  # of the landed one that expired since, or of what the judge is to refuse
        return False
    return bool(sent) and changed == sent


def _at(head: HeadRow) -> tuple[int, str] | None:
    """The snapshot the table points at."""
    return None if head.snapshot_id is None or head.snapshot_key is None else (head.snapshot_id, head.snapshot_key)


def _after(head: HeadRow, newest: Snapshot) -> HeadRow:
    """The head once it points at this snapshot."""
    return replace(
        head,
        snapshot_id=newest.id,
        snapshot_key=newest.key,
        snapshot_uuid=newest.uuid,
        snapshot_schema_id=newest.schema_id,
        published=True,
    )
