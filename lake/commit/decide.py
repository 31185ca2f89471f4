"""Commits of this server: built on the newest snapshot, decided, and built anew where the race was lost."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from uuid import UUID, uuid4

from catalog import CatalogStore, CatalogTransaction
from catalog.commits.decisions import Decision, Held
from catalog.commits.reservations import Place, Turn
from lake.commit.changes_seen import seen_until_now
from lake.commit.claims import AnswerOf as AnswerOf
from lake.commit.claims import Claim as Claim
from lake.commit.claims import Claimed as Claimed
from lake.commit.core import CommitCore, Prepared
from lake.commit.group import Groups
from lake.commit.idempotency import IdempotencyClaim
from lake.commit.metrics import CommitNote, noting
from lake.commit.publish import Publisher
from lake.commit.retries import Retries, before_the_next
from lake.commit.turns import TurnsLost
from lake.commit.write_context import paths_of
from lake.commit.writers import same_committer
from lake.inspect.counts import added_by, by_name, committed_by, follow, statistics_of, takes_files_away
from lake.tables.handle import LakeTable
from model.catalog_errors import IdempotencyKeyTaken, TableChanged, TurnLost
from model.errors import CommitConflict, OutcomeUnknown, RewriteConflict, TableDiverged, TableNotExist, Unavailable
from model.schema.replaced import lays_otherwise, means_other_columns
from model.schema.schema import Schema
from model.snapshot import ANSWERS, BATCH_COMMIT_IDENTIFIER, Snapshot
from table.format.io.beside import puts_beside
from table.write.snapshot_builder import COMMITTED_BY, CommitRequest, build_snapshot, metadata_written

Listener = Callable[[UUID, int], None]
"""Told of each commit of this process: the table, and how many files were added. It must be quick and may not fail."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Built:
    """A snapshot ready to be decided."""

    table: LakeTable
    base: Snapshot | None
    snapshot: Snapshot


@dataclass(slots=True, kw_only=True)
class _Tried:
    """What a commit's attempts leave to the next one."""

    synced: set[str]
    """Files that are on disk already."""
    step_by_step: bool = False
    """Whether one failed in its turn: a single statement moved nothing then, and cannot tell why."""
    turns_lost: TurnsLost = field(default_factory=TurnsLost)


class Committer:
    """Commits to tables, one decision at a time per table in this process, by compare-and-set across processes."""

    def __init__(
        self,
        catalog: CatalogStore,
        publisher: Publisher,
        core: CommitCore,
        heard: Listener | None = None,
        noted: Callable[[CommitNote], None] = lambda note: None,
    ) -> None:
        self._catalog = catalog
        self._publisher = publisher
        self._core = core
        self._heard = heard
        self._noted = noted
        self._turns = core.turns
        self._groups = Groups(
            lambda table, requests, claimed, turn, synced: self._commit_noted([table], [requests], claimed, turn, synced)[0],
            lambda table: self._turns.taken([_place(table)]),
        )

    def commit(self, table: LakeTable, request: CommitRequest, claimed: Claimed | None = None) -> Snapshot:
        """Commit and return the snapshot that holds the change.

        An append fails on no conflict, unless its table limits retries. Raises `RewriteConflict`, `TableDiverged`, `TableNotExist` when
        the table was dropped or moved meanwhile, `Unavailable`, or `OutcomeUnknown` when Postgres stays away after a lost answer.
        """
        synced: set[str] = set()
        if self._turns.contested(_place(table)):  # what can be on disk before the turn comes keeps nobody waiting in it
            synced = {path for new in request.adds for path in paths_of(table.files, table.schema, new)}
            self._core.sync([(table.identifier, table.table_id, table.files)], synced)
        return self._groups.commit(table, request, claimed, synced)

    def commit_all(
        self, tables: Sequence[LakeTable], requests: Sequence[Sequence[CommitRequest]], claimed: Sequence[Claimed] = ()
    ) -> list[Snapshot]:
        """Commit to several tables in one transaction: all or none."""
        return self._commit_noted(tables, requests, claimed)

    def _commit_noted(
        self,
        tables: Sequence[LakeTable],
        requests: Sequence[Sequence[CommitRequest]],
        claimed: Sequence[Claimed],
        turn: Turn | None = None,
        synced: Collection[str] = (),
    ) -> list[Snapshot]:
        names = ", ".join(str(table.identifier) for table in tables)
        with noting(self._noted, names, writer="server", writes=sum(map(len, requests))) as note:
            return self._until_decided(tables, requests, claimed, note, turn, _Tried(synced=set(synced)))

    def _until_decided(  # noqa: C901 - every end of an attempt, around the attempt
        self,
        tables: Sequence[LakeTable],
        requests: Sequence[Sequence[CommitRequest]],
        claimed: Sequence[Claimed],
        note: CommitNote,
        turn: Turn | None,
        tried: _Tried,
    ) -> list[Snapshot]:
        """Attempt after attempt, each after the first in its own turn; ``turn`` is the first one's, which has ended when this returns."""
        for request in (request for of_table in requests for request in of_table):
            request.progress.looked = False
        uuids = [str(uuid4()) for _ in tables]
        places = [_place(table) for table in tables]
        retries = [Retries.of(table.schema.options) for table in tables]
        try:
            while True:
                try:
                    _check(requests)
                    if turn is not None:
                        return self._attempt(tables, requests, uuids, claimed, tried, turn)
                    with self._turns.taken(places) as taken:
                        return self._attempt(tables, requests, uuids, claimed, tried, taken)
                except CommitConflict as conflict:
                    note.conflicts += 1
                    tried.turns_lost.add(conflict, tables[0].identifier, tables[0].location)
                except IdempotencyKeyTaken:
                    # Perhaps by ourselves: what was sent under the key may have landed after we looked for it.
                    if landed := self._landed(tables, requests, uuids):
                        return landed
                    raise
                finally:
                    if turn is not None:
                        turn.end()
                        turn = None
                for place in places:
                    self._publisher.doubt(*place)
                    self._turns.met(place)
                # The race may have been lost to ourselves: a COMMIT whose answer was lost can land after we looked for it.
                if landed := self._landed(tables, requests, uuids):
                    return landed
                before_the_next(tables, retries, note.conflicts)
        except OutcomeUnknown:
            raise
        except Exception as problem:
            for table, of_table in zip(tables, requests, strict=True):
                table.left_behind()
                for request in of_table:
                    request.progress.looked = True
            if not any(request.progress.in_doubt for of_table in requests for request in of_table):
                raise
            raise OutcomeUnknown(
                f"The answer to a commit to {tables[0].identifier} was lost, and repeating it failed: {problem} It may or may not be "
                "there. Look at the table, or repeat it under the same Idempotency-Key."
            ) from problem

    def _landed(self, tables: Sequence[LakeTable], requests: Sequence[Sequence[CommitRequest]], uuids: Sequence[str]) -> list[Snapshot]:
        """The snapshots of these uuids where an attempt whose answer was lost decided them after all; else nothing."""
        progress = [request.progress for of_table in requests for request in of_table]
        if not any(built.in_doubt for built in progress):
            return []
        return self._core.landed([(table.identifier, table.table_id, table.files) for table in tables], uuids, progress)

    def _attempt(
        self,
        tables: Sequence[LakeTable],
        requests: Sequence[Sequence[CommitRequest]],
        uuids: Sequence[str],
        claimed: Sequence[Claimed],
        tried: _Tried,
        turn: Turn | None,
    ) -> list[Snapshot]:
        built: list[_Built] = []
        with puts_beside():
            for table, of_table, uuid in zip(tables, requests, uuids, strict=True):
                if len(tables) == 1 and (repeated := self._repeat(table, of_table)):
                    if not any(request.progress.in_doubt for request in of_table):  # what was in doubt has landed with its claims
                        self._note_repeat(repeated, claimed, turn)
                    return [repeated]
                latest, snapshot = self._build(table, of_table, uuid, turn)
                if turn is not None:
                    turn.require_held()  # else what those left who went on would be found, and taken for a lost race
                self._publisher.check_free(table.table_id, table.files, table.identifier, snapshot.id, latest.key if latest else None)
                built.append(_Built(table=table, base=latest, snapshot=snapshot))
        if (answers := _answers(built[0].snapshot, claimed)) is not None:
            built = [
                replace(one, snapshot=replace(one.snapshot, properties={**one.snapshot.properties, ANSWERS: answers})) for one in built
            ]
        sync = _written(built, requests) - tried.synced
        with self._core.places([(table.identifier, table.table_id, table.files) for table in tables]) as places:
            prepared = [
                Prepared(
                    identifier=entry.table.identifier,
                    table_id=entry.table.table_id,
                    files=entry.table.files,
                    snapshot=entry.snapshot,
                    place=place,
                )
                for entry, place in zip(built, places, strict=True)
            ]
            decided = self._core.commit(
                prepared,
                lambda: self._decide(built, claimed, turn, tried),
                progress=[request.progress for of_table in requests for request in of_table],
                sync=sync,
                on_decided=lambda: self._tell(tables, requests),
            )
        if not decided:
            tried.synced |= sync
            tried.step_by_step |= turn is not None
            raise CommitConflict(str(tables[0].identifier), expected=built[0].base.key if built[0].base else None)
        return [entry.snapshot for entry in built]

    def _tell(self, tables: Sequence[LakeTable], requests: Sequence[Sequence[CommitRequest]]) -> None:
        for table, of_table in zip(tables, requests, strict=True) if self._heard else ():
            assert self._heard is not None
            self._heard(table.table_id, sum(len(request.adds) for request in of_table))

    def _build(self, table: LakeTable, requests: Sequence[CommitRequest], uuid: str, turn: Turn | None) -> tuple[Snapshot | None, Snapshot]:
        """The snapshot and what it is built on: what the turn found; without one, for plain appends, what probably is the newest."""
        plain = all(request.plain_append for request in requests)
        guess = self._publisher.guess(table.table_id, table.identifier.branch) if plain and turn is None else None
        latest = guess or (table.latest() if turn is None else self._found(table, turn))
        for request in requests:
            if request.seen is not None:
                seen_until_now(self._catalog, table, request.seen, latest)
        try:
            snapshot = build_snapshot(table.files, table.schema, latest, requests, uuid=uuid, time_millis=time.time_ns() // 1_000_000)
        except Unavailable as gone:
            if guess is None:
                raise
            raise CommitConflict(str(table.identifier), expected=guess.key) from gone  # it is old, and its files have expired
        # An ALTER may have come between the write and its commit; a branch of the snapshot has the versions up to its own.
        versions = {latest.schema_id if latest else -1, *(new.file.schema_id for request in requests for new in request.adds)}
        if max(versions) > snapshot.schema_id:
            snapshot = replace(snapshot, schema_id=max(versions))
        return latest, snapshot

    def _found(self, table: LakeTable, turn: Turn) -> Snapshot | None:
        """The newest snapshot, as the turn found it; its file, which may be on its way, is looked for before the next one's is written."""
        place = _place(table)
        row = turn.latest.get(place)
        if row is None:
            return None
        if not self._publisher.known(*place, row.snapshot_uuid):
            self._turns.met(place)
        return Snapshot.from_json(row.body)

    def _decide(self, built: Sequence[_Built], claimed: Sequence[Claimed], turn: Turn | None, tried: _Tried) -> bool:
        """Compare and set every pointer: of one table in one round trip, unless more belongs to it than that can hold.

        That round trip ends a turn, also where nothing moved. Where it did not though nobody else could decide, as after an ALTER of the
        table, the next turn goes step by step: it would end as the one before, again and again.
        """
        first = built[0]
        keys = [(request.claim, request.answer(first.snapshot)) for request in claimed if isinstance(request.claim, IdempotencyClaim)]
        if len(built) == 1 and len(keys) == len(claimed) and not (turn is not None and tried.step_by_step):
            decision = self._decision(first)
            if decision is not None:
                if self._at_once(decision, keys, turn):
                    return True
                turn = None  # it has ended
        try:
            with self._catalog.transaction(turn=turn, brief=True) as tx, _claimed(tx, claimed, first.snapshot):
                self._advance(tx, built, turn=turn is not None)
        except TurnLost:
            raise
        except CommitConflict:
            return False
        return True

    def _decision(self, built: _Built) -> Decision | None:
        """What is to be decided in one round trip; None where it takes files away from a partition, whose row may have to go then."""
        table, snapshot = built.table, built.snapshot
        changed = statistics_of(table, snapshot)
        keys = table.schema.partition_keys
        if keys and takes_files_away(changed):
            return None
        return Decision(
            held=Held(name=table.identifier, table_id=table.table_id, location=table.location, schema_id=table.schema.id),
            base=built.base.key if built.base else None,
            snapshot_id=snapshot.id,
            key=snapshot.key,
            body=snapshot.to_json(),
            added=added_by(changed),
            partitions=by_name(changed, keys),
            by=committed_by(snapshot),
            writer=self._core.writer,
        )

    def _at_once(self, decision: Decision, keys: Sequence[tuple[IdempotencyClaim, Mapping[str, Any]]], turn: Turn | None) -> bool:
        """Whether a single round trip decided the commit; where not, `_advance` tells why."""
        with self._catalog.deciding(turn) as tx:
            if not keys:
                return tx.decisions.decide(decision, turn=turn is not None)
            outcome = tx.decisions.decide_under([(claim.as_key, answer) for claim, answer in keys], decision, turn=turn is not None)
        for (claim, _), mine in zip(keys, outcome.keys, strict=True):
            if mine:
                claim.had(mine)
        for (claim, _), mine, other in zip(keys, outcome.keys, outcome.others, strict=True):
            claim.had(mine, other)
        return outcome.moved

    def _repeat(self, table: LakeTable, requests: Sequence[CommitRequest]) -> Snapshot | None:
        """The snapshot of a streaming writer's earlier, identical commit. Batch writers all share one identifier: never a repeat."""
        first = requests[0]
        if len(requests) > 1 or first.commit_identifier == BATCH_COMMIT_IDENTIFIER:
            return None
        with self._catalog.reading() as tx:
            there = tx.snapshots.by_commit(
                table.table_id, table.identifier.branch, user=first.commit_user, identifier=first.commit_identifier, kind=first.kind.value
            )
        by = first.properties.get(COMMITTED_BY)
        return next((Snapshot.from_json(row.body) for row in there if same_committer(row.body, by)), None)

    def _note_repeat(self, repeated: Snapshot, claimed: Sequence[Claimed], turn: Turn | None) -> None:
        """Note as done what a catalog that was put back from an older dump has forgotten, and the table has."""
        if not claimed:
            return
        with self._catalog.transaction(turn=turn, brief=True) as tx, _claimed(tx, claimed, repeated):
            pass

    def _advance(self, tx: CatalogTransaction, built: Sequence[_Built], *, turn: bool) -> None:
        """Compare and set every pointer, in one order for all, so that two such transactions cannot wait for each other."""
        for entry in sorted(built, key=lambda one: str(one.table.table_id)):
            table, snapshot = entry.table, entry.snapshot
            row = tx.tables.find_for_commit(table.identifier)
            if row is None or row.table_id != table.table_id or row.location != table.location:
                raise TableNotExist(str(table.identifier))
            if row.schema_id != table.schema.id and (table.remembered or not _is_read_by(tx, table, row.schema)):
                raise TableChanged(table.identifier)
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
                base=entry.base.key if entry.base else None,
                snapshot_id=snapshot.id,
                uuid=snapshot.key,
                body=snapshot.to_json(),
                added=added_by(changed),
                writer=self._core.writer,
                turn=turn,
            )
            follow(tx, table, changed, snapshot)


@contextmanager
def _claimed(tx: CatalogTransaction, claimed: Sequence[Claimed], snapshot: Snapshot) -> Iterator[None]:
    """Hold all claims while the block decides what they are of, and note that it is done."""
    for claim in sorted(claimed, key=lambda one: one.claim.order):
        claim.claim.begin(tx)
    yield
    for claim in claimed:
        claim.claim.finish(tx, claim.answer(snapshot))


def _is_read_by(tx: CatalogTransaction, table: LakeTable, present: Mapping[str, Any]) -> bool:
    """Whether rows can be read by the present schema: the version they were written by is there, and was not replaced by other columns.

    Nor by one that puts rows into other directories or buckets.
    """
    if tx.tables.schema(table.table_id, table.schema.id, table.identifier.branch) is None:
        return False
    now = Schema.from_json(present)
    return not means_other_columns(table.schema, now) and not lays_otherwise(table.schema, now)


def _answers(snapshot: Snapshot, claimed: Sequence[Claimed]) -> str | None:
    """What is answered under idempotency keys, by their works' ids: a catalog that is older than the snapshot learns it by a repair."""
    answers = {str(one.claim.work): one.answer(snapshot) for one in claimed if isinstance(one.claim, IdempotencyClaim)}
    return json.dumps(answers, separators=(",", ":")) if answers else None


def _check(requests: Sequence[Sequence[CommitRequest]]) -> None:
    """Raise where somebody whose commit it is was told to stop, before the next attempt is built and stands in line.

    Not once it is in doubt: what may be decided already is decided to its end, also for the others of its group.
    """
    for request in (request for of_table in requests for request in of_table):
        if not request.progress.in_doubt:
            request.progress.decider.check()


def _place(table: LakeTable) -> Place:
    return table.table_id, table.identifier.branch


def _written(built: Sequence[_Built], requests: Sequence[Sequence[CommitRequest]]) -> set[str]:
    """Every file that must be on disk before the snapshots are decided: data files with what lies beside them, and metadata."""
    paths: set[str] = set()
    for table, of_table in zip(built, requests, strict=True):
        files, schema = table.table.files, table.table.schema
        paths.update(path for request in of_table for new in request.adds for path in paths_of(files, schema, new))
        paths.update(metadata_written(files, schema, table.base, table.snapshot))
    return paths
