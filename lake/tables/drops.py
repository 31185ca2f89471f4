"""Drops that can be taken back: DROP, UNDROP and what removes a dropped table when its time is over.

A drop marks the table's row (`catalog/objects/drops.py`); its files, snapshots, tags, branches, grants, policies and consumers stay where
they are, and the name is free at once. After `drop.retention`, or at once with PURGE, the row goes and the directory becomes garbage, which
is removed as it always was: decided first, removed after, and again by whoever finds it left.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from uuid import UUID

from catalog import CatalogTransaction
from catalog.listing import Slice
from catalog.objects.drops import DroppedDatabase, DroppedTable
from catalog.records import TableRow
from lake.access.before_drop import CallerBefore, as_kept
from lake.access.callers import Caller
from lake.access.guard import asks_itself, needs, require_known, require_rights_of_jobs
from lake.base import LakeBase
from lake.commit.claims import Claim, claimed_in
from lake.commit.decided import follow
from lake.register.operations import rewrite_all
from lake.register.restored.used_since import note_undrop
from lake.rewrite.garbage import own_directory
from lake.tables.databases import shows_a_table
from lake.tables.names import check_table_name, refuse_branch
from lake.tables.unused_drops import unused_drops
from lake.tables.views import views_among
from model.access import CATALOG, Access, Resource, database_resource, inside, table_resource
from model.catalog_errors import DropNotExist
from model.errors import DatabaseAlreadyExist, DatabaseNotExist, Forbidden, InvalidName, LakeError, TableAlreadyExist, TableNotExist
from model.identifier import DEFAULT_DATABASE, MAIN_BRANCH, Identifier
from model.names import check_name
from model.options.maintenance import DROP_RETENTION
from model.view import Views
from model.work.job import Job, JobRequest

_log = logging.getLogger(__name__)
_AT_ONCE = timedelta(0)
Restarts = Callable[[Sequence[Job], Sequence[Identifier], Views], Iterable[UUID]]
"""Which of the caller's jobs start again with tables that are back, among views as they are then."""
_TRIED_AGAIN_AFTER = timedelta(minutes=10)
"""A directory that could not be removed when it was given up is tried again by the sweeps after so long."""
_SWEPT_AT_ONCE = 50
"""Tables whose rows are removed in one transaction."""


def no_restarts(jobs: Sequence[Job], tables: Sequence[Identifier], views: Views) -> Iterable[UUID]:
    """None of them."""
    return ()


class LakeDrops(LakeBase):
    """Dropping tables and databases, and bringing them back."""

    # Dropping

    @needs(Access.DROP)
    def drop_table(self, table: Identifier, *, if_exists: bool = False, purge: bool = False, claim: Claim | None = None) -> None:
        """Remove a table, once under a claim; it can be brought back for its `drop.retention`.

        With ``purge``, which takes PURGE, it is gone for good and at once.
        """
        alone = "CALL sys.delete_branch({table}, {branch}) drops the branch alone."
        refuse_branch(table, "a table is dropped with all its branches", alone)
        try:
            with self.catalog.transaction() as tx, claimed_in(tx, claim):
                row = tx.tables.lock(table)
                require_known(self.caller, table, row.table_id)
                garbage = self._drop(tx, row, self._retention_of(row, purge=purge))
        except TableNotExist:
            if not if_exists:
                raise
            return
        self._dropped(garbage)

    @needs(Access.DROP)
    def discard_table(self, table: Identifier, table_id: UUID) -> bool:
        """Take back a table that a statement made and could not fill, not another of its name; False where others put rows there."""
        try:
            with self.catalog.transaction() as tx:
                row = tx.tables.lock(table)
                if row.table_id != table_id:
                    return True
                require_known(self.caller, table, row.table_id)
                if tx.snapshots.there_are(row.table_id):
                    return False
                garbage = self._drop(tx, row, _AT_ONCE)
        except TableNotExist:
            return True
        self._dropped(garbage)
        return True

    @asks_itself
    def take_back(self, table: Identifier, table_id: UUID, problem: BaseException) -> None:
        """`discard_table` after what kept a statement from filling it; where the table stays the error tells so."""
        try:
            more = "" if self.discard_table(table, table_id) else ", and stays: others have written to it meanwhile."
        except LakeError as hindered:  # what stopped the statement is what its caller is to know
            more = f", and was not taken back: {hindered.message}"
        if more and isinstance(problem, LakeError):
            problem.tell(f" The table {table} was made{more}")

    @needs(Access.DROP)
    def drop_database(
        self, name: str, *, if_exists: bool = False, cascade: bool = False, unlisted: str | None = None, purge: bool = False,
        claim: Claim | None = None,
    ) -> None:  # fmt: skip
        """Remove a database, once under a claim; one that holds something only with ``cascade``, which drops all of it in one decision.

        Where the caller's list of tables, without those of a kind that is ``unlisted``, shows none, ``cascade`` does not count. All of it
        can be brought back for `drop.retention`; with ``purge``, which takes PURGE on all in it, it is gone for good at once.
        """
        if name == DEFAULT_DATABASE:
            raise InvalidName("The database default cannot be dropped: statements without a database name mean it.")
        if purge:
            self.caller.require(Access.PURGE, inside(name))
        garbage: list[str] = []
        try:
            with self.catalog.transaction() as tx, claimed_in(tx, claim):
                tx.drops.in_turn()
                tx.databases.lock(name)
                if not cascade or (unlisted is not None and not shows_a_table(self.caller, tx, name, but_type=unlisted)):
                    tx.databases.require_empty(name)
                rows = [tx.tables.lock(Identifier(name, table)) for table in tx.tables.names(name)]
                if rows or tx.views.page(name, Slice(limit=1)) or tx.functions.page(name, Slice(limit=1)):
                    self.caller.require(Access.DROP, inside(name))
                retained = [(row, self._retention_of(row, purge=purge)) for row in rows]
                retention = _AT_ONCE if purge else self.drop_retention
                drop_id = tx.drops.keep_database(name, by=self.caller.principal, retention=retention)
                for row, its_own in retained:
                    garbage += self._drop(tx, row, its_own, parent=drop_id)
                if not retention:
                    tx.drops.remove_database(*tx.drops.databases(drop_id=drop_id))
        except DatabaseNotExist:
            if not if_exists:
                raise
        self._dropped(garbage)

    def _retention_of(self, row: TableRow, *, purge: bool) -> timedelta:
        """How long a table is kept; less than this server's retention takes PURGE, however that is said."""
        own = DROP_RETENTION.read(row.schema.get("options", {}))
        if not purge and (own is None or own >= self.drop_retention):
            return self.drop_retention if own is None else own
        resource = table_resource(Identifier(row.database, row.name))
        if not purge and not self.caller.may(Access.PURGE, resource):
            raise Forbidden(
                f"{self.caller.principal} may not drop {resource}: its '{DROP_RETENTION.key}' is shorter than this server's, which takes "
                f"PURGE. GRANT PURGE ON {resource.sql()} TO … gives it; ALTER TABLE … RESET ('{DROP_RETENTION.key}') lets it be kept as "
                "long as others."
            )
        self.caller.require(Access.PURGE, resource)
        return _AT_ONCE if purge or own is None else own

    def _drop(self, tx: CatalogTransaction, row: TableRow, retention: timedelta, *, parent: int | None = None) -> list[str]:
        """Drop a table that is locked; returns its directory where that is garbage now. No file is looked at: a store may be away."""
        if retention:
            tx.drops.keep_table(row.table_id, by=self.caller.principal, retention=retention, parent=parent)
            return []
        directory = own_directory(row)
        if directory is not None:
            require_no_backup = tx.holds.none_ahead(f"Dropping {row.database}.{row.name} for good")
            if tx.snapshots.there_are(row.table_id):
                require_no_backup()
        tx.tables.drop(row.table_id, directory)
        return [] if directory is None else [directory]

    def _dropped(self, garbage: Sequence[str]) -> None:
        self.access.forget()
        self._hook("drop decided")
        for directory in garbage:
            self._remove_soon(directory)

    # What is dropped

    @asks_itself
    def dropped_tables(self, database: str | None = None) -> list[DroppedTable]:
        """The dropped tables that are kept and that the caller could see before, the newest drop first."""
        with self.catalog.reading() as tx:
            dropped = tx.drops.tables(database=database)
            callers = self._before(tx)
        seen = [table for table in dropped if callers.of(table).sees(table_resource(as_kept(table)))]
        return [table if callers.tells_counts(table) else replace(table, record_count=None, file_size=None) for table in seen]

    @asks_itself
    def dropped_databases(self) -> list[DroppedDatabase]:
        """The dropped databases that are kept and that the caller could see before, the newest drop first."""
        with self.catalog.reading() as tx:
            dropped = tx.drops.databases()
            callers = self._before(tx)
        return [database for database in dropped if callers.everywhere.sees_database(database.kept_as)]

    @asks_itself
    def undroppable(self, tables: Sequence[DroppedTable], databases: Sequence[DroppedDatabase]) -> frozenset[int]:
        """The drops among these that the caller may take back, by their ids."""
        with self.catalog.reading() as tx:
            callers = self._before(tx)
        drop_ids = [dropped.drop_id for dropped in tables if callers.of(dropped).may(Access.DROP, table_resource(as_kept(dropped)))]
        drop_ids += [dropped.drop_id for dropped in databases if callers.everywhere.may(Access.DROP, database_resource(dropped.kept_as))]
        return frozenset(drop_ids)

    def _before(self, tx: CatalogTransaction) -> CallerBefore:
        """The caller with what was granted to it on what is dropped."""
        if self.caller.administrator:
            return CallerBefore(self.caller, {}, frozenset())
        names = self.caller.names
        above = [grant for grant in self.caller.grants if grant.resource.name is None]
        everywhere = replace(self.caller, grants=(*above, *tx.grants.of_dropped_databases(names)))
        by_table = {table_id: everywhere.plus(grants) for table_id, grants in tx.grants.of_dropped_tables(names).items()}
        return CallerBefore(everywhere, by_table, frozenset(tx.policies.binding_dropped(names)))

    # Bringing back

    @asks_itself
    def undrop_table(
        self,
        table: Identifier,
        *,
        drop_id: int | None = None,
        to: Identifier | None = None,
        restarts: Restarts = no_restarts,
        claim: Claim | None = None,
    ) -> Identifier:
        """Bring a dropped table back as it was, once under a claim: the newest of that name or the one of a drop; returns its name.

        It takes DROP on the table as it was granted then; another name takes CREATETABLE there, and another database GRANT as well, as it
        was granted then. Raises `DropNotExist`, `TableAlreadyExist` where the name is taken, and `DatabaseNotExist` where its database was
        dropped too.
        """
        self.standing.require_own()
        if to is not None:
            check_table_name(to)
        with self.catalog.transaction() as tx, claimed_in(tx, claim):
            tx.drops.in_turn()
            dropped = self._table_to_change(tx, table, drop_id, Access.DROP, "a dropped table comes back with all its branches")
            target = to or dropped.identifier
            if to is not None or not dropped.housed:
                self.caller.require(Access.CREATETABLE, database_resource(target.database))
            if target.database != dropped.database or not dropped.housed:  # a database of the name that was made since is another one
                what = f"the dropped table {table}, where it goes to another database"
                _require(self._before(tx).of(dropped), Access.GRANT, table_resource(as_kept(dropped)), what)
            elsewhere = f" UNDROP TABLE {table} AS … brings it back under another name."
            try:
                tx.databases.get(target.database)
                if tx.views.find(target.database, target.table) is not None:
                    raise TableAlreadyExist(str(target))
                tx.drops.bring_back_table(dropped, target)
            except TableAlreadyExist as taken:
                taken.tell(elsewhere)
                raise
            except DatabaseNotExist as gone:
                if to is None:
                    gone.tell(f" UNDROP DATABASE {target.database} brings it back with all that went with it.{elsewhere}")
                raise
            self._restart(tx, [target], restarts)
        self._brought_back([target], [dropped])
        return target

    @asks_itself
    def undrop_database(
        self, name: str, *, drop_id: int | None = None, to: str | None = None, restarts: Restarts = no_restarts, claim: Claim | None = None
    ) -> list[Identifier]:
        """Bring a dropped database back, once under a claim, with its views, functions, grants and tables that went with it; returns those.

        It takes DROP on the database as it was granted then; another name takes CREATEDATABASE. Raises `DropNotExist` and
        `DatabaseAlreadyExist`.
        """
        self.standing.require_own()
        if to is not None:
            check_name(to, "database")
            self.caller.require(Access.CREATEDATABASE, CATALOG)
        with self.catalog.transaction() as tx, claimed_in(tx, claim):
            tx.drops.in_turn()
            dropped = self._database_to_change(tx, name, drop_id, Access.DROP)
            target = to or dropped.name
            recoverable = [table for table in tx.drops.of_database(dropped.drop_id) if table.kept_in == dropped.kept_as]
            tables = [Identifier(target, table.name) for table in recoverable]
            try:
                tx.drops.bring_back_database(dropped, target)
            except DatabaseAlreadyExist as taken:
                taken.tell(f" UNDROP DATABASE {name} AS … brings it back under another name.")
                raise
            self._restart(tx, tables, restarts)
        self._brought_back(tables, recoverable)
        return tables

    def _restart(self, tx: CatalogTransaction, tables: Sequence[Identifier], restarts: Restarts) -> None:
        """Let the caller's jobs start again that are to, in the same decision."""
        principal = None if self.caller.administrator else self.caller.principal
        for job_id in restarts(tx.jobs.all(principal=principal), tables, partial(views_among, tx)):
            require_rights_of_jobs(tx, self.caller)
            tx.jobs.request(job_id, JobRequest.RESTART)

    def _brought_back(self, tables: Sequence[Identifier], dropped: Sequence[DroppedTable]) -> None:
        """What was decided and not published when a table was dropped is published now, or by whoever opens it next."""
        self.access.forget()
        self._tell_that_jobs_changed()
        self._hook("undrop decided")
        for one in dropped:
            follow(partial(note_undrop, self.file_io, one), f"Table {one.identifier} is back, and its directory does not tell so")
        for table in tables:
            follow(partial(self._publish_all, table), f"What was decided of table {table} before it was dropped could not be published")

    def _publish_all(self, table: Identifier) -> None:
        """Put the files of what was decided before a drop there, of every branch."""
        with self.catalog.reading() as tx:
            branches = tx.branches.names(tx.tables.get(table).table_id)
        for branch in (MAIN_BRANCH, *branches):
            opened = self._ready(self._row_of(replace(table, branch=branch)))
            self._publisher.try_to_catch_up(opened.table_id, opened.files, branch)
            rewrite_all(self.catalog, opened, self._hook)  # an upgrade does it only of tables that are there

    def _row_of(self, table: Identifier) -> TableRow:
        with self.catalog.reading() as tx:
            return tx.tables.get(table)

    def _table_to_change(self, tx: CatalogTransaction, table: Identifier, drop_id: int | None, access: Access, rule: str) -> DroppedTable:
        """The dropped table a statement means, locked; its newest drop where no other is named.

        It may have a branch's name itself, as `restore --as` of earlier versions could give it one; else a branch is refused by ``rule``.
        """
        callers = self._before(tx)
        for dropped in tx.drops.tables(database=table.database, table=table.object_name, drop_id=drop_id):
            resource = table_resource(as_kept(dropped))
            if not callers.of(dropped).sees(resource) or not tx.drops.lock(dropped.drop_id):
                continue
            for now in tx.drops.tables(drop_id=dropped.drop_id):  # its database may have been brought back before it was locked
                _require(callers.of(dropped), access, resource, f"the dropped table {table}")
                return now
        refuse_branch(table, rule)
        raise DropNotExist(f"table {table}", drop_id)

    def _database_to_change(self, tx: CatalogTransaction, name: str, drop_id: int | None, access: Access) -> DroppedDatabase:
        everywhere = self._before(tx).everywhere
        for dropped in tx.drops.databases(name=name, drop_id=drop_id):
            if not everywhere.sees_database(dropped.kept_as) or not tx.drops.lock(dropped.drop_id):
                continue
            _require(everywhere, access, database_resource(dropped.kept_as), f"the dropped database {name}")
            return dropped
        raise DropNotExist(f"database {name}", drop_id)

    # Removing for good

    @asks_itself
    def purge_dropped_table(self, table: Identifier, *, drop_id: int | None = None, claim: Claim | None = None) -> None:
        """Remove a dropped table for good before its time; takes PURGE as it was granted then. Raises `DropNotExist`."""
        self.standing.require_own()
        with self.catalog.transaction() as tx, claimed_in(tx, claim):
            tx.drops.in_turn()
            dropped = self._table_to_change(tx, table, drop_id, Access.PURGE, "a dropped table is removed with all its branches")
            tx.holds.require_no_backup(f"Removing the dropped table {table} for good")
            tx.drops.remove_table(dropped)
        self._dropped([] if dropped.own_directory is None else [dropped.own_directory])

    @asks_itself
    def sweep_drops(self) -> int:
        """Remove for good what was dropped longer ago than it is kept, by Postgres's clock; returns how many tables and databases.

        A table whose files show that it was used since its drop stays, and is told of (`Standing.troubles`): a catalog that is older than
        its warehouse does not know that it was brought back. Raises `ClockInDoubt` where that clock cannot be believed, and
        `BackupRunning`.
        """
        self.caller.administers()
        self.standing.require_own()
        self.clock.require()
        swept, left_out = 0, set[int]()
        while True:
            garbage, removed = list[str](), 0
            unused = unused_drops(self.catalog, self.file_io, self.standing, left_out, most=_SWEPT_AT_ONCE)
            with self.catalog.transaction() as tx:
                tx.drops.in_turn()
                tx.holds.require_no_backup("Removing dropped tables whose time is over")
                for drop_id in tx.drops.expired(limit=_SWEPT_AT_ONCE, but=left_out):
                    if drop_id not in unused:
                        continue
                    for table in tx.drops.tables(drop_id=drop_id):
                        tx.drops.remove_table(table)
                        garbage += [] if table.own_directory is None else [table.own_directory]
                        _log.info("Table %s, dropped at %s, is removed for good", table.identifier, table.dropped_at)
                        removed += 1
                    for database in tx.drops.databases(drop_id=drop_id):
                        removed += tx.drops.remove_database(database)
            self._hook("sweep decided")
            for directory in garbage:
                self._remove_soon(directory)
            swept += removed
            if not removed:
                break
        with self.catalog.reading() as tx:
            left = tx.directories.dropped_directories(older_than=_TRIED_AGAIN_AFTER)
        for directory in left:
            follow(partial(self._remove_left, directory), f"The directory {directory} of a dropped table could not be removed")
        return swept


def _require(caller: Caller, access: Access, resource: Resource, label: str) -> None:
    if not caller.may(access, resource):
        raise Forbidden(f"{caller.principal} may not do this: it takes {access} on {label}, as it was granted before the drop.")
