"""The lake as a whole: what is committed to its tables, read of them, and mended; called from SQL and REST."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from itertools import chain
from typing import Any
from uuid import UUID, uuid4

from catalog import CatalogStore
from lake.access.audit import AuditLog
from lake.access.callers import EVERYBODY
from lake.access.guard import asks_itself, needs, require_known, with_present_rights
from lake.access.permissions import require_to_add_indexes, require_to_replace_files
from lake.commit.built import BuiltCommit, decide_built
from lake.commit.claims import claimed_in
from lake.commit.clients.commit import ClientCommit, ClientCommitter
from lake.commit.clients.rights import Rights
from lake.commit.decide import AnswerOf, Claim, Claimed, Committer, Listener
from lake.commit.idempotency import Idempotency, IdempotencyClaim, Replay
from lake.commit.metrics import CommitNote, noting
from lake.commit.publish import Hook, no_hook
from lake.inspect.checked import note_checked
from lake.inspect.past import CatalogVersions
from lake.recovery import Finishing, Recovered, recover
from lake.register.check import Checked, Planned, TableCheck
from lake.register.expired import forget_expired
from lake.register.looks.cut_off import cut_off_faults
from lake.register.looks.faults import Fault, once, refusals_too
from lake.register.looks.in_catalog import lines_of, of_unknown_branches
from lake.register.looks.side_by_side import SideBySide
from lake.register.looks.strays import of_strays
from lake.register.register import LakeAdoption
from lake.register.repair import Repair, repair
from lake.register.upgrade import upgrade_operations
from lake.reserve import StorageReserve
from lake.rewrite.mark_done import mark_at_end
from lake.rewrite.replace import Contents, named_partitions, partition_filter, replace_schema, replaced
from lake.rewrite.undo import undo_compaction
from lake.streams.streams import LakeStreams
from lake.tables.drops import LakeDrops
from lake.tables.handle import LakeTable
from lake.tables.metadata import Spec
from lake.tables.partitions import Partition, partitions
from lake.tables.tables import LakeTables
from model.access import Access, table_resource
from model.catalog_errors import PartitionNotExist, TableChanged
from model.errors import InvalidOption
from model.event_time import is_far_ahead
from model.identifier import MAIN_BRANCH, Identifier
from model.options.table import TABLE_OPTIONS
from model.partition import partition_name
from model.schema.replaced import REPLACE_TABLE
from model.schema.schema import Schema
from model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Operation, Snapshot
from model.work.deciding import to_the_end
from table.format.io.file_io import FileIO, file_io_for
from table.format.manifests.entries import NewFile
from table.scan.time_travel import BatchScan, resolve
from table.write.snapshot_builder import COMMITTED_BY, CommitRequest, everything

_END_INPUT = "end-input.watermark"


class Lake(LakeTables, LakeDrops, LakeAdoption, LakeStreams):
    """All tables of one catalog and warehouse, as one caller may use them."""

    def __init__(  # noqa: PLR0913 - parts of a server, each with a default
        self,
        catalog: CatalogStore,
        warehouse: str,
        *,
        file_io: FileIO | None = None,
        sync: bool = True,
        hook: Hook = no_hook,
        token: str | None = None,
        import_dirs: Sequence[str] = (),
        audit_kept: timedelta = timedelta(days=30),
        audit_erasures: bool = False,
        reserve: StorageReserve | None = None,
        drop_retention: timedelta = timedelta(0),
    ) -> None:
        """``drop_retention``: how long dropped tables and databases can be brought back; 0 removes them at once."""
        file_io = file_io or file_io_for(warehouse, sync=sync)
        super().__init__(catalog, warehouse, file_io=file_io, hook=hook, token=token, import_dirs=import_dirs, reserve=reserve)
        self.drop_retention = drop_retention
        self.listeners: list[Listener] = []
        """Told of each commit made through this lake."""
        self.commit_counters: list[Callable[[CommitNote], None]] = []
        """Told how each attempt to commit ended."""
        self._committer = Committer(catalog, self._publisher, self._core, self._heard, self._noted)
        self._client_committer = ClientCommitter(catalog, self.file_io, self._publisher, self._core, self._noted, reserve=self.reserve)
        self.idempotency = Idempotency(catalog, self.clock)
        self.audit = AuditLog(catalog, kept=audit_kept, erasures=audit_erasures, reserve=self.reserve, clock=self.clock)

    def _heard(self, table_id: UUID, added: int) -> None:
        for listener in self.listeners:
            listener(table_id, added)

    def _noted(self, note: CommitNote) -> None:
        for counter in self.commit_counters:
            counter(note)

    def close(self) -> None:
        """Stop background work; the catalog store is its owner's to close."""
        self.idempotency.close()
        self._publisher.close()
        self.audit.close()
        self.quotas.close()

    # Commits

    @asks_itself
    def commit(self, table: LakeTable, request: CommitRequest, *, claim: Claim | None = None, answer: AnswerOf | None = None) -> Snapshot:
        """Commit to one table; see `Committer.commit`."""
        self.standing.require_own()
        self._require(table, request)
        claimed = Claimed(claim=claim, answer=answer or _bare_answer) if claim else None
        snapshot = self._committer.commit(table, self._signed(table, request), claimed)
        self._ended(table, request)
        return snapshot

    def _ended(self, table: LakeTable, *requests: CommitRequest) -> None:
        """What follows a batch's commit by the table's options, which ask for no right of the caller's."""
        if TABLE_OPTIONS.read(table.schema.options, "partition.end-input-to-done"):
            partitions = {new.partition for request in requests if _is_batch(request) for new in request.adds}
            with to_the_end():
                mark_at_end(self.for_caller(EVERYBODY), table, partitions)

    def _require(self, table: LakeTable, request: CommitRequest) -> None:
        """Raise `Forbidden` for a caller who may not do what the commit does."""
        if self.caller.administrator:
            return
        resource = table_resource(self._name_now(table))
        if request.in_place:  # what is added was there before, and what is taken away are rows the caller sees
            self.caller.require_to_change_rows(resource)
            if request.operation in (Operation.UPDATE, Operation.MERGE):
                self.caller.require(Access.UPDATE, resource)
            return
        if request.takes_away:
            self.caller.require(Access.DELETE, resource)
        if request.adds or not request.takes_away:
            self.caller.require(Access.UPDATE, resource)

    def _signed(self, table: LakeTable, request: CommitRequest) -> CommitRequest:
        """A request that says who commits, where callers are told apart, under the table's options."""
        prefix = TABLE_OPTIONS.read(table.schema.options, "commit.user-prefix")
        if prefix and request.commit_identifier == BATCH_COMMIT_IDENTIFIER:
            request = replace(request, commit_user=f"{prefix}_{request.commit_user}")
        if _is_batch(request) and request.watermark is None:
            request = replace(request, watermark=_end_of_input(table))
        if self.caller == EVERYBODY:
            return request
        return replace(request, properties={**request.properties, COMMITTED_BY: self.caller.principal})

    @asks_itself
    def commit_all(
        self,
        commits: Sequence[tuple[LakeTable, CommitRequest]],
        *,
        claim: Claim | None = None,
        answer: AnswerOf | None = None,
    ) -> list[Snapshot]:
        """Commit to several tables in one transaction, all of them or none; appends to the same table share a snapshot.

        Raises `TableChanged` where that was opened before an ALTER for one and after it for another.
        """
        self.standing.require_own()
        for table, request in commits:
            self._require(table, request)
        claimed = [Claimed(claim=claim, answer=answer or _bare_answer)] if claim else []
        tables: dict[tuple[UUID, str], LakeTable] = {}
        for table, _ in commits:
            if tables.setdefault((table.table_id, table.identifier.branch), table).schema.id != table.schema.id:
                raise TableChanged(table.identifier)  # one snapshot holds them, whose files are laid out in one way
        requests: dict[tuple[UUID, str], list[CommitRequest]] = {key: [] for key in tables}
        for table, request in commits:
            requests[(table.table_id, table.identifier.branch)].append(self._signed(table, request))
        snapshots = self._committer.commit_all(list(tables.values()), list(requests.values()), claimed)
        for key, opened in tables.items():
            self._ended(opened, *requests[key])
        return snapshots

    @needs(Access.ALTER)
    def replace_filled(
        self, table: Identifier, schema: Schema, fill: Callable[[LakeTable], Iterable[NewFile]]
    ) -> tuple[int, Snapshot | None]:
        """Replace a table by other columns and rows, in one decision; returns how many rows, and the snapshot (None where none was nor is).

        ``fill`` writes the rows to the table as it will be; what it raises leaves the table as it was. Raises what `replace_table` does,
        and `TableChanged` where the table was altered or replaced while they were written.
        """
        opened = partial(self._open, table)
        publish = partial(opened, wait=True)
        for right in (Access.DELETE, Access.UPDATE):
            self.caller.require(right, table_resource(table))
        there = replaced(self._core, opened, schema)
        with there.write() as write:
            write.add(fill(there))
            request = self._signed(there, write.request(CommitKind.OVERWRITE, overwrite=everything, operation=REPLACE_TABLE))
            contents = Contents(table=there, request=request, on_decided=lambda: self._heard(there.table_id, len(request.adds)))
            with noting(self._noted, str(table), writer="server"):
                snapshot = replace_schema(self._core, opened, schema, publish=publish, by=self.caller.principal, contents=contents)
            self._ended(there, request)
            return write.rows, snapshot

    @asks_itself
    def claim(self, key: str, *, scope: str, body_hash: str) -> IdempotencyClaim | Replay:
        """Take an idempotency key; see `Idempotency.claim`."""
        return self.idempotency.claim(key, scope=scope, body_hash=body_hash)

    # Snapshots

    @asks_itself
    def scan(self, table: LakeTable, options: Mapping[str, str], *, zone: str = "UTC") -> BatchScan:
        """What a batch read with these options sees; see `table.scan.time_travel.resolve`. Reading it takes `read_rules`."""
        tells_counts = self.tells_counts(table)
        return resolve(CatalogVersions(self.catalog, self.tags, table, told=tells_counts), options, table.schema, zone=zone)

    @asks_itself
    def resolve(self, table: LakeTable, options: Mapping[str, str], *, zone: str = "UTC") -> Snapshot | None:
        """The one snapshot the options mean; raises what `scan` raises, and `InvalidOption` where they mean a part of one."""
        scan = self.scan(table, options, zone=zone)
        if not scan.whole:
            raise InvalidOption("The scan options name a part of the table's past; one whole snapshot is wanted here.")
        return scan.snapshot

    @asks_itself
    def partitions(self, table: LakeTable, snapshot: Snapshot | None) -> list[Partition]:
        """The partitions of a snapshot, by name; they show values, so only to who may read all of the table."""
        self.require_whole(table, "partitions")
        return partitions(table, snapshot)

    @asks_itself
    def client_commit(self, table: Identifier, commit: ClientCommit) -> str | None:
        """Take a commit a client built, who may take rows away only with DELETE; returns and raises what `ClientCommitter.commit` does."""
        return with_present_rights(self, lambda: self._client_commit(table, commit))

    def _client_commit(self, table: Identifier, commit: ClientCommit) -> str | None:
        self.standing.require_own()
        resource = table_resource(table)
        if not self.caller.may(Access.DELETE, resource):
            self.caller.require(Access.UPDATE, resource)
        # Ours are the server's word: streams, repairs and jobs believe them, and Java's rollbackToAsLatest copies another snapshot's.
        properties = {key: value for key, value in commit.snapshot.properties.items() if not key.startswith("sluice.")}
        if self.caller != EVERYBODY:  # who commits is the server's word
            properties[COMMITTED_BY] = self.caller.principal
        signed = replace(commit, principal=self.caller.principal, snapshot=replace(commit.snapshot, properties=properties))
        rights = Rights(
            insert=lambda: self.caller.require(Access.UPDATE, resource),
            delete=lambda: self.caller.require(Access.DELETE, resource),
            table=lambda table_id: require_known(self.caller, table, table_id),
            replace=lambda table_id: require_to_replace_files(self.catalog, self.caller, table, table_id),
            index=lambda table_id: require_to_add_indexes(self.catalog, self.caller, table, table_id),
            take_over=self.caller.may(Access.DELETE, resource),  # who could roll the other's commits back
        )
        return self._client_committer.commit(table, signed, rights)

    @needs(Access.DELETE)
    def drop_partitions(
        self, table: LakeTable, specs: Sequence[dict[str, str]], *, ignore_missing: bool = True, claim: Claim | None = None
    ) -> tuple[list[Spec], list[Spec]]:
        """Remove partitions with their rows, in one commit; returns which were there and which were not. Raises `PartitionNotExist`.

        Under a claim they go once: in the commit of their rows, or with their names where none has rows.
        """
        branch = table.identifier.branch
        with self.catalog.reading() as tx:
            newest = tx.snapshots.latest(table.table_id, branch)
        expected = newest.snapshot_uuid if newest else None
        keys = table.schema.partition_keys
        named = named_partitions(table, specs, self.partitions_named(table, specs))
        if named.missing and not ignore_missing:
            raise PartitionNotExist(partition_name(named.missing[0], keys), str(table.identifier))
        completing: AbstractContextManager[None] = nullcontext()
        if named.filled:
            filled = CommitRequest(kind=CommitKind.OVERWRITE, overwrite=partition_filter(table, named.there), commit_user=str(uuid4()))
            claimed, claim = Claimed(claim=claim, answer=_bare_answer) if claim else None, None
            expected = self._committer.commit(table, self._signed(table, filled), claimed).key
            completing = to_the_end()  # their rows are gone
        with completing, self.catalog.transaction() as tx, claimed_in(tx, claim):
            tx.snapshots.wait_for_deciders(table.table_id)
            tx.partitions.drop(table.table_id, branch, [partition_name(spec, keys) for spec in named.there])
            newest = tx.snapshots.latest(table.table_id, branch)
            # Somebody may have put rows into one since, or its name stands for others' rows, too: they are listed anew.
            if newest is not None and (named.shared or newest.snapshot_uuid != expected):
                tx.snapshots.point(table.table_id, branch, newest)
        return named.there, named.missing

    # After a crash, or after somebody else's commit

    @asks_itself
    def claim_warehouse(self, *, dry_run: bool = False) -> UUID:
        """Say that the warehouse is this catalog's, whosever it was; for administrators. Returns the catalog's id."""
        self.caller.administers()
        return self.standing.claim(dry_run=dry_run)

    @needs(Access.ALTER)
    def repair_table(self, table: Identifier, *, dry_run: bool = False) -> Repair:
        """Register or set aside snapshot files the catalog did not decide, so that commits go on; see `lake.register.repair`."""
        opened = self._open(table)
        self.tags.all(opened)  # those that clients removed are not written again
        return repair(self.catalog, self._publisher, opened, self.caller, dry_run=dry_run)

    @asks_itself
    def check_table(
        self, table: LakeTable, *, deep: bool, threads: int | SideBySide, checked: Checked, planned: Planned = lambda *_: None
    ) -> Iterator[Fault]:
        """What is wrong with a table's files, which threads of its own look at, or some that checks share; see `lake.register.check`.

        For who may read all of it.
        """
        self.require_whole(table, "files")
        with self.catalog.reading() as tx:
            names = [MAIN_BRANCH, *tx.branches.names(table.table_id)]
        faults: list[Fault] = []
        opened: dict[str, LakeTable] = {}
        for branch in names:
            faults += refusals_too(branch, self._up_to_date(replace(table.identifier, branch=branch), opened))
            if branch in opened:
                faults += refusals_too(branch, cut_off_faults(opened[branch]))
        lines, branches = lines_of(self.catalog, table)
        check = TableCheck(table, deep=deep, threads=threads, checked=checked, planned=planned, branches=opened)
        branches_unknown = refusals_too(MAIN_BRANCH, of_unknown_branches(self.catalog, table))
        strays = refusals_too(MAIN_BRANCH, of_strays(self.catalog, table, names))
        faults_of_all = once(chain(faults, branches_unknown, strays, check.faults(lines, branches)))
        return self._noting(table, faults_of_all, deep=deep)

    def _up_to_date(self, branch: Identifier, opened: dict[str, LakeTable]) -> Iterator[Fault]:
        """Open a branch and take in what clients changed of it; no fault, but what hinders it may be one.

        A beginning whose files are gone expired, as where the catalog is a backup's.
        """
        table = opened[branch.branch] = self._open(branch)
        forget_expired(self.catalog, table)
        self.tags.all(table)
        yield from ()

    def _noting(self, table: LakeTable, faults: Iterator[Fault], *, deep: bool) -> Iterator[Fault]:
        """The faults, and a note that all was looked at; where a look finds none, the damage that it would have found is over."""
        whole = True
        for fault in faults:
            whole = False
            yield fault
        if whole:
            self.standing.mended(table.identifier, deep=deep)
        if self.standing.is_own_now():  # nothing is written where the disk is away, as long as nobody has noticed
            note_checked(self.file_io, self.warehouse, table.table_id, deep=deep)

    @needs(Access.UPDATE)
    def decide_repaired(self, table: LakeTable, build: Callable[[str], BuiltCommit | None]) -> BuiltCommit | None:
        """Make a snapshot of what is left of a table its latest; see `lake.commit.built.decide_built`."""
        return decide_built(self._core, (table.table_id, table.identifier.branch), build)

    @needs(Access.DELETE)
    def undo_compaction(self, table: LakeTable, *, latest: int) -> bool:
        """Give a client back the files that a compaction took from it; see `lake.rewrite.undo.undo_compaction`."""
        return undo_compaction(self._core, table, latest)

    @asks_itself
    def recover(self) -> Recovered:
        """Finish what a crash left half done, and what earlier versions wrote; see `lake.recovery.recover`."""
        done = self.finish_half_done()
        upgrade_operations(self)
        return done

    @asks_itself
    def finish_half_done(self, go_on: Callable[[], bool] = lambda: True) -> Recovered:
        """What a crash left: directories to remove, schemas, snapshots and tags to publish; as long as it is to go on.

        Raises `WarehouseMismatch` where the warehouse is another catalog's, and `Unavailable` where that is not known yet.
        """
        self.caller.administers()
        self.standing.require_own()
        finishing = Finishing(remove=self._remove_left, finish=self._ready, publish=self._catch_up)
        return recover(self.catalog, finishing, go_on)

    def _catch_up(self, table_id: UUID, branch: str) -> None:
        with self.catalog.reading() as tx:
            row = tx.tables.by_id(table_id)
        if row is not None:
            opened = self._open(Identifier(row.database, row.name, branch))
            self._publisher.catch_up(table_id, opened.files, branch)
            self.tags.all(opened)


def _bare_answer(snapshot: Snapshot) -> Mapping[str, Any]:
    return {"snapshotId": snapshot.id}


def _end_of_input(table: LakeTable) -> int | None:
    """The watermark of a batch's commit; raises `InvalidOption` for one that no event time may pass, unless the table has it already."""
    watermark: int | None = TABLE_OPTIONS.read(table.schema.options, _END_INPUT)
    if watermark is not None and is_far_ahead(watermark):
        latest = table.latest()
        if latest is None or latest.watermark is None or latest.watermark < watermark:
            raise InvalidOption(
                f"Option '{_END_INPUT}' = '{watermark}' of {table.identifier} lies more than a year ahead, and every later snapshot would "
                "inherit it; nothing was committed. Give a time in milliseconds since 1970, or reset the option."
            )
    return watermark


def _is_batch(request: CommitRequest) -> bool:
    """Whether rows are added by a batch writer, and none in the place of others."""
    is_batch = request.commit_identifier == BATCH_COMMIT_IDENTIFIER and request.kind is not CommitKind.COMPACT
    return is_batch and bool(request.adds) and not request.deletes
