"""Decide a commit in Postgres, publish its file (`architecture.md`, first two decisions).

Appends that arrive together on one table share a snapshot; a lost race rebuilds the commit on the newest snapshot.
"""

from __future__ import annotations

import contextlib
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from uuid import UUID, uuid4

from catalog import CatalogStore, CatalogTransaction
from catalog.snapshots import Held
from lake.commit.metrics import CommitNote, noting
from lake.commit.publish import Hook, Publisher, no_hook
from lake.counts import added_by, follow, statistics_of
from lake.table import LakeTable
from model.errors import CommitConflict, LakeError, OutcomeUnknown, RewriteConflict, TableDiverged, TableNotExist, Unavailable
from model.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from table.commit import COMMITTED_BY, CommitRequest, build_snapshot
from table.directory import Directory

MAX_GROUP = 64
_FIRST_WAIT, _LONGEST_WAIT = 0.005, 0.2
_OUTCOME_SECONDS = 20.0
"""How long to look for the outcome of a commit whose answer was lost."""

Listener = Callable[[UUID, int], None]
"""Told of each commit of this process: the table, and how many files were added. It must be quick and may not fail."""

AnswerOf = Callable[[Snapshot], Mapping[str, Any]]


class Claim(Protocol):
    """Something that must hold in the transaction that decides a commit: `IdempotencyClaim`, `lake.jobs.BatchClaim`."""

    def finish(self, tx: CatalogTransaction, answer: Mapping[str, Any]) -> None:
        """Note that it is done; raises where it does not hold any more, and then nothing is committed."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A claim, and what to answer its repeats once the commit is in."""

    claim: Claim
    answer: AnswerOf


@dataclass(slots=True, kw_only=True, eq=False)
class _Waiting:
    """One writer's commit on its way into a group."""

    table: LakeTable
    request: CommitRequest
    claimed: Claimed | None
    done: threading.Event = field(default_factory=threading.Event)
    snapshot: Snapshot | None = None
    failure: BaseException | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Built:
    """A snapshot ready to be decided, and where its file is to lie."""

    table: LakeTable
    base: Snapshot | None
    snapshot: Snapshot
    place: Directory


class _Queue:
    """The commits waiting for one table; whoever holds the lock commits for all."""

    def __init__(self) -> None:
        self.leader = threading.Lock()
        self.guard = threading.Lock()
        self.waiting: list[_Waiting] = []


class Committer:
    """Commits to tables, one decision at a time per table in this process, by compare-and-set across processes."""

    def __init__(
        self,
        catalog: CatalogStore,
        publisher: Publisher,
        hook: Hook = no_hook,
        heard: Listener | None = None,
        noted: Callable[[CommitNote], None] = lambda note: None,
    ) -> None:
        self._catalog = catalog
        self._publisher = publisher
        self._heard = heard
        self._noted = noted
        self._hook = hook
        self._queues: dict[tuple[UUID, str], _Queue] = {}
        self._lock = threading.Lock()

    def _queue(self, table: LakeTable) -> _Queue:
        with self._lock:
            return self._queues.setdefault((table.table_id, table.identifier.branch), _Queue())

    def commit(self, table: LakeTable, request: CommitRequest, claimed: Claimed | None = None) -> Snapshot:
        """Commit and return the snapshot that holds the change.

        An append never fails on a conflict. Raises `RewriteConflict`, `TableDiverged`, `TableNotExist` when the table was
        dropped or moved meanwhile, `Unavailable`, or `OutcomeUnknown` when Postgres stays away after a lost answer.
        """
        me = _Waiting(table=table, request=request, claimed=claimed)
        queue = self._queue(table)
        with queue.guard:
            queue.waiting.append(me)
        while not me.done.is_set():
            with queue.leader:
                if me.done.is_set():
                    break
                self._lead(queue)
        if me.failure is not None:
            raise me.failure
        assert me.snapshot is not None
        return me.snapshot

    def _lead(self, queue: _Queue) -> None:
        """Commit the next waiting write, and with it the plain appends right behind it."""
        with queue.guard:
            group = [queue.waiting.pop(0)]
            while queue.waiting and len(group) < MAX_GROUP and _share(group[0], queue.waiting[0]):
                group.append(queue.waiting.pop(0))
        if len(group) > 1 and not self._try(group):
            for member in group:
                self._try([member], alone=True)
        elif len(group) == 1:
            self._try(group, alone=True)

    def _try(self, group: Sequence[_Waiting], *, alone: bool = False) -> bool:
        """Commit a group; a failure is each member's own only when it is tried alone or nobody can know the outcome."""
        try:
            snapshot = self.commit_all([group[0].table], [[member.request for member in group]], [m.claimed for m in group if m.claimed])[0]
        except BaseException as failure:
            if not alone and not isinstance(failure, OutcomeUnknown | Unavailable):
                return False
            for member in group:
                member.failure = failure
                member.done.set()
            return True
        for member in group:
            member.snapshot = snapshot
            member.done.set()
        return True

    def commit_all(
        self, tables: Sequence[LakeTable], requests: Sequence[Sequence[CommitRequest]], claimed: Sequence[Claimed] = ()
    ) -> list[Snapshot]:
        """Commit to several tables in one transaction: all or none."""
        names = ", ".join(str(table.identifier) for table in tables)
        with noting(self._noted, names, writer="server", writes=sum(map(len, requests))) as note:
            return self._until_decided(tables, requests, claimed, note)

    def _until_decided(
        self, tables: Sequence[LakeTable], requests: Sequence[Sequence[CommitRequest]], claimed: Sequence[Claimed], note: CommitNote
    ) -> list[Snapshot]:
        uuids = [str(uuid4()) for _ in tables]
        attempt = 0
        while True:
            try:
                return self._attempt(tables, requests, uuids, claimed)
            except CommitConflict:
                note.conflicts += 1
                for table in tables:
                    self._publisher.doubt(table.table_id, table.identifier.branch)
                # The race may have been lost to ourselves: a COMMIT whose answer was lost can land after we looked for it.
                if landed := self._landed(tables, uuids):
                    return landed
                wait = min(_FIRST_WAIT * 2**attempt, _LONGEST_WAIT)
                time.sleep(wait * random.uniform(0.5, 1.2))
                attempt = min(attempt + 1, 20)

    def _landed(self, tables: Sequence[LakeTable], uuids: Sequence[str]) -> list[Snapshot]:
        """The snapshots of these uuids, published, where an earlier attempt decided them after all; else nothing."""
        with self._catalog.reading() as tx:
            rows = [tx.snapshots.by_uuid(table.table_id, uuid, table.identifier.branch) for table, uuid in zip(tables, uuids, strict=True)]
        found = [row for row in rows if row is not None]
        if len(found) < len(rows):
            return []
        for table, row in zip(tables, found, strict=True):
            with contextlib.suppress(LakeError):
                self._publisher.ready(table.table_id, table.files, table.identifier.branch, row)
        return [Snapshot.from_json(row.body) for row in found]

    def _publish(self, table: LakeTable, snapshot: Snapshot, place: Directory) -> None:
        # Decided is decided: a publication that fails now is made up for by whoever looks at the table next; a dropped one needs none.
        with contextlib.suppress(LakeError, FileNotFoundError):
            self._publisher.publish(table.table_id, table.files, table.identifier.branch, snapshot, place)

    def _attempt(
        self, tables: Sequence[LakeTable], requests: Sequence[Sequence[CommitRequest]], uuids: Sequence[str], claimed: Sequence[Claimed]
    ) -> list[Snapshot]:
        built: list[_Built] = []
        with contextlib.ExitStack() as places:
            for table, of_table, uuid in zip(tables, requests, uuids, strict=True):
                if len(tables) == 1 and (repeated := self._repeat(table, of_table)):
                    return [repeated]
                latest, snapshot = self._build(table, of_table, uuid)
                self._publisher.check_free(table.table_id, table.files, table.identifier, snapshot.id)
                place = places.enter_context(table.files.snapshots())
                built.append(_Built(table=table, base=latest, snapshot=snapshot, place=place))
            self._hook("built")
            self._decide(built, claimed)
            self._hook("decided")
            for table, of_table in zip(tables, requests, strict=True) if self._heard else ():
                assert self._heard is not None
                self._heard(table.table_id, sum(len(request.adds) for request in of_table))
            for one in built:
                self._publish(one.table, one.snapshot, one.place)
        return [one.snapshot for one in built]

    def _build(self, table: LakeTable, requests: Sequence[CommitRequest], uuid: str) -> tuple[Snapshot | None, Snapshot]:
        """The snapshot and what it is built on: for plain appends, which cost little to build anew, what is probably the newest."""
        plain = all(request.plain_append for request in requests)
        guess = self._publisher.guess(table.table_id, table.identifier.branch) if plain else None
        latest = guess or table.latest()
        try:
            snapshot = build_snapshot(table.files, table.schema, latest, requests, uuid=uuid, time_millis=time.time_ns() // 1_000_000)
        except Unavailable as gone:
            if guess is None:
                raise
            raise CommitConflict(str(table.identifier), expected=guess.key) from gone  # it is old, and its files have expired
        if latest and latest.schema_id > snapshot.schema_id:  # an ALTER came between the write and its commit
            snapshot = replace(snapshot, schema_id=latest.schema_id)
        return latest, snapshot

    def _decide(self, built: Sequence[_Built], claimed: Sequence[Claimed]) -> None:
        """Compare and set every pointer: of one table in one statement where nothing else has to happen with it."""
        first = built[0]
        try:
            if len(built) == 1 and not claimed and not first.table.schema.partition_keys and self._at_once(first):
                return
            with self._catalog.transaction() as tx:
                self._advance(tx, built)
                for claim in claimed:
                    claim.claim.finish(tx, claim.answer(first.snapshot))
        except OutcomeUnknown:
            self._find_outcome(first)

    def _at_once(self, one: _Built) -> bool:
        """Whether a single statement decided the commit; where not, `_advance` tells why."""
        table, snapshot = one.table, one.snapshot
        held = Held(name=table.identifier, table_id=table.table_id, location=table.location, schema_id=table.schema.id)
        added = added_by(statistics_of(table, snapshot))
        with self._catalog.deciding() as tx:
            return tx.snapshots.decide(
                held,
                base=one.base.key if one.base else None,
                snapshot_id=snapshot.id,
                key=snapshot.key,
                body=snapshot.to_json(),
                added=added,
            )

    def _repeat(self, table: LakeTable, requests: Sequence[CommitRequest]) -> Snapshot | None:
        """The snapshot of a streaming writer's earlier, identical commit. Batch writers all share one identifier: never a repeat."""
        first = requests[0]
        if len(requests) > 1 or first.commit_identifier == BATCH_COMMIT_IDENTIFIER:
            return None
        with self._catalog.reading() as tx:
            row = tx.snapshots.by_commit(
                table.table_id, table.identifier.branch, user=first.commit_user, identifier=first.commit_identifier, kind=first.kind.value
            )
        return Snapshot.from_json(row.body) if row else None

    def _advance(self, tx: CatalogTransaction, built: Sequence[_Built]) -> None:
        """Compare and set every pointer, in one order for all, so that two such transactions cannot wait for each other."""
        for one in sorted(built, key=lambda one: str(one.table.table_id)):
            table, snapshot = one.table, one.snapshot
            row = tx.tables.find_for_commit(table.identifier)
            if row is None or row.table_id != table.table_id or row.location != table.location:
                raise TableNotExist(str(table.identifier))
            if row.diverged_at:
                raise TableDiverged(table.identifier, path=row.diverged_at)
            if row.schema["options"].get("bucket") != table.schema.options.get("bucket"):
                raise RewriteConflict(
                    f"The number of buckets of {table.identifier} changed while rows were being written; nothing was committed, repeat it.",
                    resource_name=str(table.identifier),
                )
            changed = statistics_of(table, snapshot)
            tx.snapshots.advance(
                table.table_id,
                table.identifier.branch,
                base=one.base.key if one.base else None,
                snapshot_id=snapshot.id,
                uuid=snapshot.key,
                body=snapshot.to_json(),
                added=added_by(changed),
            )
            follow(tx, table, changed)

    def _find_outcome(self, first: _Built) -> None:
        """Look for the snapshot's uuid: there means the commit happened; not there, once Postgres answers, that it did not."""
        deadline = time.monotonic() + _OUTCOME_SECONDS
        table, snapshot = first.table, first.snapshot
        while True:
            try:
                with self._catalog.reading() as tx:
                    found = tx.snapshots.by_uuid(table.table_id, snapshot.key, table.identifier.branch)
            except Unavailable as gone:
                if time.monotonic() > deadline:
                    raise OutcomeUnknown(
                        f"The catalog database went away while snapshot {snapshot.id} of {table.identifier} was being committed; "
                        "it may or may not hold the rows. Look at the table once the database is back."
                    ) from gone
                time.sleep(0.2)
                continue
            if found is None:
                raise CommitConflict(str(table.identifier), expected=None)
            return


def _share(first: _Waiting, other: _Waiting) -> bool:
    """Whether two waiting commits may become one snapshot: plain batch appends of one schema."""
    return (
        first.request.plain_append
        and other.request.plain_append
        and first.request.commit_identifier == other.request.commit_identifier == BATCH_COMMIT_IDENTIFIER
        and {*first.request.properties, *other.request.properties} <= {COMMITTED_BY}  # the snapshot names all of them
        and first.table.schema.id == other.table.schema.id
        and first.table.location == other.table.location
    )
