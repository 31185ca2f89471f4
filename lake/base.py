"""What every part of the lake stands on: catalog, files, and the caller all is done for."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Self, TypeVar
from uuid import UUID

from catalog import CatalogStore, CatalogTransaction, waited_in_vain
from catalog.listing import Slice
from catalog.records import TableRow
from lake.access.allowed_locations import place_of_new, refuse_guarded, refuse_overlap, table_location
from lake.access.callers import EVERYBODY, AccessControl, Caller
from lake.access.guard import asks_itself, require_known
from lake.access.permissions import Permissions
from lake.access.quotas import Quotas
from lake.access.rules import Closed, read_rules
from lake.clock import Clock
from lake.commit.core import CommitCore
from lake.commit.decided import follow
from lake.commit.publish import PATIENCE_MILLIS, Hook, Publisher, no_hook
from lake.commit.turns import ChangeTurns
from lake.growing import GrowingWork
from lake.jobs import Jobs
from lake.register.damage import live_name
from lake.register.standing import Standing
from lake.reserve import StorageReserve
from lake.rewrite.garbage import clear_left, free_for_table, own_directory, put_on_record_again, remove_discarded
from lake.streams.snapshot_steps import OpenStreams
from lake.tables.handle import LakeTable, schemas_of
from lake.tables.remembered import RememberedTables
from lake.tables.tags import Tags
from model.access import Access, Grant, ReadRules, Resource
from model.errors import Forbidden, InvalidName, LakeError, TableNotExist, Unavailable
from model.identifier import MAIN_BRANCH, Identifier
from model.location import Location
from model.repeats import REPEATS
from model.schema.schema import DIRECTORY_KINDS, Schema, other_kind
from table.format.io.file_io import FileIO, file_io_for
from table.format.layout import TableLayout
from table.format.store import TableFiles

T = TypeVar("T")
_log = logging.getLogger(__name__)
_TRIES = 5
"""To open a table whose directory, or its branch's, is being moved or removed."""


class LakeBase:
    """One catalog and warehouse, as one caller may use them."""

    def __init__(  # noqa: PLR0913 - parts of a server, each with a default
        self,
        catalog: CatalogStore,
        warehouse: str,
        *,
        file_io: FileIO | None = None,
        hook: Hook = no_hook,
        token: str | None = None,
        import_dirs: Sequence[str] = (),
        reserve: StorageReserve | None = None,
    ) -> None:
        self.caller = EVERYBODY
        self.access = AccessControl(catalog, token=token)
        self.catalog = catalog
        # One spelling of a place, so that tables made under /x are the same under file:///x.
        self.warehouse_location = Location.parse(warehouse)
        self.warehouse = str(self.warehouse_location)
        self.file_io = file_io or file_io_for(warehouse)
        self.import_dirs = tuple(import_dirs)
        """Where what lies may be read and taken over."""
        self.reserve = reserve or StorageReserve()
        """Asked before rows, results and compactions are written."""
        self.growing = GrowingWork(self.reserve)
        """Has what is written without a known end."""
        self.quotas = Quotas(catalog)
        """How much of everything each user may take, and takes."""
        self.drop_retention = timedelta(0)
        """How long what is dropped can be brought back, where the table does not say."""
        self.apart = False
        """Whether no new table gets the place an earlier one of its name had: where credentials for places are handed out."""
        self._hook = hook
        self._publisher = Publisher(catalog, hook)
        self._core = CommitCore(catalog, self._publisher, hook)
        self.standing = Standing(catalog, self.file_io, self.warehouse, self._publisher)
        """Whether catalog and warehouse belong together; asked before anything is written or removed."""
        self.clock = Clock(catalog)
        """Asked before anything expires by age."""
        self.open_streams = OpenStreams()
        self.remembered = RememberedTables()
        """What INSERTs take for granted until they are decided."""
        self.changing_rows = ChangeTurns(catalog)
        """Changes of rows that have lost a race, by table and branch: one after another, and automatic compaction after them."""
        self.when_jobs_change: list[Callable[[], None]] = []
        """Called when a job was made here or something was asked of one: who runs jobs in this process looks at once."""
        self.notices: dict[UUID, str] = {}
        """What is to be told of the tables that this caller's statement has read."""

    def for_caller(self, caller: Caller) -> Self:
        """The same lake with what this caller may do; everything else raises `Forbidden`."""
        seen = copy.copy(self)
        seen.caller = caller
        seen.notices = {}
        return seen

    @asks_itself
    def renew(self) -> None:
        """Read the caller's rights anew: a name means another table than when they were read."""
        self.caller = self.access.anew(self.caller)

    @property
    def permissions(self) -> Permissions:
        """Tokens, roles, grants and policies, as the caller may see and change them."""
        return Permissions(self.catalog, self.access, self.caller, self.standing)

    @property
    def jobs(self) -> Jobs:
        """Streaming INSERTs, as the caller may see and steer them."""
        return Jobs(self.catalog, self.caller, self.quotas, changed=self._tell_that_jobs_changed)

    def _tell_that_jobs_changed(self) -> None:
        """After it is decided."""
        for call in self.when_jobs_change:
            call()

    @asks_itself
    def read_rules(self, table: LakeTable) -> ReadRules:
        """What of a table's rows and columns the caller sees; raises `Forbidden` where it may read nothing of it."""
        name = self._name_now(table)
        rules = read_rules(self.catalog, self.caller, name, table.table_id, table.schema)
        if (notice := self.standing.notice(table.table_id)) is not None:
            self.notices[table.table_id] = notice
        return rules

    @asks_itself
    def require_whole(self, table: LakeTable, what: str) -> None:
        """Raise `Forbidden` where rows or columns are kept from the caller: files, partitions and counts tell of them."""
        if self.read_rules(table).restricted:
            raise Forbidden(f"{self.caller.principal} sees only a part of table {table.identifier}, and so not its {what}.")

    @asks_itself
    def tells_counts(self, table: LakeTable) -> bool:
        """Whether the caller may know how much the table holds: who reads all of it, or writes to it and reads nothing."""
        return self._sees_whole(table, unreadable=self.caller.writes(table.identifier))

    @asks_itself
    def sees_whole(self, table: LakeTable) -> bool:
        """Whether the caller reads all of the table, and so its partitions."""
        return self._sees_whole(table, unreadable=False)

    def _sees_whole(self, table: LakeTable, *, unreadable: bool) -> bool:
        try:
            return not self.read_rules(table).restricted
        except Closed:
            return False
        except Forbidden:
            return unreadable

    @asks_itself
    def rules_bind(self, row: TableRow) -> bool:
        """Whether something of a table is kept from the caller, so that a client must ask for the rules before it reads."""
        if self.caller.administrator:
            return False
        try:
            return read_rules(self.catalog, self.caller, Identifier(row.database, row.name), row.table_id, row.schema).restricted
        except Forbidden:
            return True

    def _name_now(self, table: LakeTable) -> Identifier:
        """The name under which the caller's rights say what it may do with a table; raises `TableNotExist`, `RenamedMeanwhile`."""
        if self.caller.knows(table.identifier, table.table_id):
            return table.identifier
        with self.catalog.reading() as tx:
            row = tx.tables.by_id(table.table_id)
        if row is None:
            raise TableNotExist(str(table.identifier))
        name = Identifier(row.database, row.name, table.identifier.branch)
        self._come_to_know(name, table.table_id)
        return name

    def _come_to_know(self, table: Identifier, table_id: UUID) -> None:
        """Read the caller's rights anew where they do not say what it may do with a table of this name; raises `RenamedMeanwhile`."""
        if not self.caller.knows(table, table_id):
            self.renew()
            require_known(self.caller, table, table_id)

    def _ready(self, row: TableRow, *, wait: bool = False) -> LakeTable:
        """The open table, once what a crash or another server left half done is finished.

        With ``wait`` the file of its newest schema is waited for, as after a decision that it follows.
        """
        if row.moving_from:
            row = self._settled(row)
        files = self._files_of(Identifier(row.database, row.name, row.branch), row.table_id, row.location, self.allowed_locations(row))
        schema = Schema.from_json(row.schema)
        if row.stale:  # what only tidies up keeps nobody from reading
            remove = partial(self._publisher.remove_stale, row.table_id, files, wait=False)
            follow(remove, f"Files of what {files.name} had are still there")
        opened = LakeTable(
            identifier=Identifier(row.database, row.name, row.branch),
            table_id=row.table_id,
            schema=schema,
            location=row.location,
            files=files,
            read_latest=self._publisher.latest,
            left_behind=partial(self._left_behind, row),
        )
        if row.published_schema_id < schema.id:
            if row.published_schema_id < 0 and row.branch != MAIN_BRANCH:
                self._publish_before_schemas(opened)
            self._publish_schemas(row.table_id, files, row.branch, schema, wait=wait)
        return opened

    def _found_ready(self, look: Callable[[], TableRow], *, wait: bool = False) -> tuple[TableRow, LakeTable]:
        """The row that a look finds, and the open table, its files in place; raises what the look raises."""
        for left in reversed(range(_TRIES)):
            row = look()
            try:
                return row, self._ready(row, wait=wait)
            except FileNotFoundError as gone:  # its branch is renamed or dropped, or it is: then there is no row the next time
                if not left:
                    name = Identifier(row.database, row.name, row.branch)
                    raise Unavailable(f"Table {name} could not be opened: its directory is removed each time. Try again.") from gone
        raise AssertionError

    def _publish_before_schemas(self, branch: LakeTable) -> None:
        """Put the snapshots and tags of a branch that was just made or renamed there.

        Paimon's clients take a directory with a schema for a branch, and remove as orphans what no snapshot or tag in it names; while
        there is no schema, they remove nothing of the whole table.
        """
        if other_kind(branch.schema.options) not in DIRECTORY_KINDS:
            self._publisher.catch_up(branch.table_id, branch.files, branch.identifier.branch, schemas=False)
            Tags(self.catalog, self._publisher, self.standing).publish_all(branch)

    def _publish_schemas(self, table_id: UUID, files: TableFiles, branch: str, newest: Schema, *, wait: bool = True) -> None:
        """Put the files of the schema versions after one there, where nothing else may lie in the table's directory none.

        Without ``wait`` it is put off where somebody holds the table for long, to before the next snapshot is published here at the latest.
        """
        where = None if other_kind(newest.options) in DIRECTORY_KINDS else files
        try:
            self._publisher.schemas(table_id, where, branch, patience_millis=None if wait else PATIENCE_MILLIS)
        except Unavailable as problem:
            if wait or not waited_in_vain(problem):
                raise
            if where is not None:
                self._publisher.fall_behind(table_id, branch)
        if branch != MAIN_BRANCH and self._is_branch_gone(table_id, branch):
            self._clear_branch(table_id, files.location, branch)
            raise FileNotFoundError(files.layout.branch_dir)

    def _files_of(self, table: Identifier, table_id: UUID, location: str, allowed: Sequence[str]) -> TableFiles:
        named_by = partial(live_name, self.catalog, self.file_io, table_id, location)
        known = partial(schemas_of, self.catalog, table_id, table.branch)
        return TableFiles(
            self.file_io, location, table.branch, name=table.written(), named_by=named_by, known_schemas=known, allowed=allowed
        )

    @asks_itself
    def allowed_locations(self, row: TableRow) -> Sequence[str]:
        """Where files of a table may lie besides its directory."""
        return self.import_dirs if row.allowed_locations is None else row.allowed_locations

    @asks_itself
    def refuse_guarded(self, wanted: Sequence[Location]) -> None:
        """Raise `Forbidden` for places to be read as they lie that are a table's; see `lake.access.allowed_locations.refuse_guarded`."""
        with self.catalog.reading() as tx:
            refuse_guarded(tx, wanted, self.warehouse_location, self.import_dirs)

    def _settled(self, row: TableRow) -> TableRow:
        """A table an earlier version was moving when it was renamed, where its files lie: nothing is moved any more.

        Nothing was committed while it was on its way, so all of it lies where its schemas are. Several may look, the lock lets one.
        """
        assert row.moving_from is not None
        with self.catalog.transaction() as tx:
            tx.directories.lock_location(row.location)
            stayed = self.file_io.exists(TableFiles(self.file_io, row.moving_from).layout.schema_dir())
            location = row.moving_from if stayed else row.location
            tx.tables.settle(row.table_id, location)
            now = tx.tables.by_id(row.table_id)
        if now is None:
            raise TableNotExist(f"{row.database}.{row.name}")
        return replace(row, location=now.location, moving_from=None)

    def _place(self, tx: CatalogTransaction, table: Identifier, table_id: UUID, path: str | None) -> str:
        """The directory of a new table, held until the transaction ends: a place never moves, so a name's may be another table's.

        What lies there is looked at by `_require_empty`.
        """
        self.standing.require_own()
        if path is not None:
            chosen = place_of_new(self.warehouse_location, path)
            refuse_overlap(tx, chosen, f"Table {table} cannot be created")
            location = str(chosen)
        else:
            location = str(table_location(self.warehouse_location, table, beside=table_id.hex[:8] if self.apart else ""))
        free = free_for_table(tx, self.file_io, self.standing, location)
        if path is None and not free:
            location = str(table_location(self.warehouse_location, table, beside=table_id.hex[:8]))
            free = free_for_table(tx, self.file_io, self.standing, location)
        if not free:
            raise _taken(table, location)
        return location

    def _require_empty(self, table: Identifier, location: str) -> None:
        """Raise `InvalidName` where the directory of a new table holds another one's files."""
        if self.file_io.exists(TableFiles(self.file_io, location).layout.schema_dir()):
            raise _taken(table, location)

    def _own(self, tx: CatalogTransaction, *resources: Resource, table_id: UUID | None = None) -> list[Grant]:
        """Give all of what is being made to its maker."""
        if self.caller.administrator:
            return []
        owner = self.caller.principal
        grants = [Grant(resource=resource, access=Access.ALL, principal=owner, table_id=table_id) for resource in resources]
        for grant in grants:
            tx.grants.put(grant, table_id=table_id)
        return grants

    def _owns(self, grants: Sequence[Grant]) -> None:
        """What was made is the caller's, also in the rest of its request."""
        self.caller = self.caller.plus(grants)
        self.access.forget()

    def _left_behind(self, row: TableRow) -> None:
        """Remove what a failed write has left in the directory of a table, or a branch, that was dropped for good beside it."""
        directory = own_directory(row)
        try:
            if row.branch != MAIN_BRANCH and self._is_branch_gone(row.table_id, row.branch):
                self._clear_branch(row.table_id, row.location, row.branch)
            if directory is None or not put_on_record_again(self.catalog, row.table_id, directory):
                return
        except LakeError as problem:
            _log.info("Whether a failed write left something in %s could not be looked at: %s", directory, problem, extra=REPEATS)
            return
        self._remove_soon(directory)

    def _is_branch_gone(self, table_id: UUID, branch: str) -> bool:
        with self.catalog.reading() as tx:
            return tx.tables.by_id(table_id) is not None and branch not in tx.branches.names(table_id)

    def _clear_branch(self, table_id: UUID, location: str, branch: str) -> None:
        """Remove what was written into the directory of a branch after that was dropped or renamed: it would look like one unknown."""
        directory = TableLayout(location, branch).branch_dir

        def remove() -> None:
            with self.catalog.transaction() as tx:
                tx.snapshots.wait_for_deciders(table_id)  # who makes a branch holds the table's row, too
                if tx.tables.by_id(table_id) is None or branch in tx.branches.names(table_id):
                    return
                tx.directories.discard(directory)
            with self.catalog.beside_store(removes=True) as tx:  # commits do not wait for the store
                remove_discarded(tx, self.file_io, self.standing, directory)

        follow(remove, f"What was written into {directory} after its branch was dropped could not be removed")

    def _remove_soon(self, location: str) -> None:
        """Remove the directory of a table that was just dropped; where the store fails it stays on record, for the sweep of drops."""

        def remove() -> None:
            with self.catalog.beside_store(removes=True) as tx:
                remove_discarded(tx, self.file_io, self.standing, location)

        follow(remove, f"The directory {location} of a dropped table could not be removed")

    def _remove_left(self, location: str) -> bool:
        """Remove a directory that is on record, once; False where a later table or branch lies there. Another server may be at it."""
        return clear_left(self.catalog, self.file_io, self.standing, location)


def _taken(table: Identifier, location: str) -> InvalidName:
    return InvalidName(
        f"Table {table} cannot be created: {location} already holds a table's files the catalog does not know by this name. "
        "Move them away or choose another name."
    )


def seen(
    fetch: Callable[[Slice], list[T]], name_of: Callable[[T], str], sees: Callable[[str], bool], wanted: Slice, *, all_: bool
) -> list[T]:
    """The first of a list that a caller may see, as many as are wanted; ``all_`` for one who sees everything."""
    if all_ or wanted.limit is None:
        return [entry for entry in fetch(wanted) if all_ or sees(name_of(entry))]
    visible: list[T] = []
    while True:
        page = fetch(wanted)
        visible += [entry for entry in page if sees(name_of(entry))]
        if len(visible) >= wanted.limit or len(page) < wanted.limit:
            return visible[: wanted.limit]
        wanted = Slice(after=name_of(page[-1]), limit=wanted.limit, like=wanted.like)
