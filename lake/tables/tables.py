"""Tables of a catalog: opened, made, changed, moved and dropped; the catalog decides, the files follow."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from uuid import UUID, uuid4

from catalog import CatalogTransaction
from catalog.listing import Slice
from catalog.objects.tables import Numbering
from catalog.records import TableRow
from lake.access.guard import asks_itself, its_database, needs, require_known, require_options, require_to_move, with_present_rights
from lake.base import seen
from lake.commit.claims import Claim, claimed_in
from lake.commit.decided import follow, table_writable_beside, writable_beside
from lake.rewrite.replace import advance_schema, replace_schema
from lake.tables.handle import LakeTable
from lake.tables.metadata import LakeMetadata
from lake.tables.names import check_table_name, refuse_branch
from model.access import Access, database_resource, table_resource
from model.catalog_errors import MetadataOnlyTable
from model.errors import (
    CommitConflict,
    Forbidden,
    InvalidData,
    InvalidName,
    InvalidSchema,
    LakeError,
    TableAlreadyExist,
    TableNotExist,
)
from model.identifier import MAIN_BRANCH, Identifier
from model.location import Location
from model.options.deletion_vectors import ENABLED as DELETION_VECTORS
from model.options.masking import unmasked
from model.repeats import REPEATS
from model.schema.change import RemoveOption, SchemaChange, SetOption, apply_changes
from model.schema.findable import findable
from model.schema.loadable import check_taken
from model.schema.schema import DIRECTORY_KINDS, Schema, other_kind
from model.schema.types import Field
from model.snapshot import Snapshot
from table.format.deletions import deletions_of
from table.format.rows.cast import default_of

_log = logging.getLogger(__name__)
Decided = Callable[[Schema], None]


class LakeTables(LakeMetadata):
    """The tables of a catalog, as one caller may use them."""

    @asks_itself
    def describe_all(self, database: str, wanted: Slice, *, type_: str | None = None, but_type: str | None = None) -> list[TableRow]:
        """A database's tables as the catalog has them, as far as the caller may open them; raises `DatabaseNotExist`.

        Fewer than wanted are there only where the list ends.
        """
        self.caller.require_sight_of_database(database)
        ready: list[TableRow] = []
        left = wanted
        while True:
            rows = with_present_rights(self, partial(self._rows, database, left, type_, but_type))
            ready += [row for row in rows if self._is_ready(row)]
            missing = 0 if wanted.limit is None else wanted.limit - len(ready)  # dropped meanwhile: others follow behind them
            if not missing or len(rows) < (left.limit or 0):
                return ready
            left = replace(wanted, after=rows[-1].name, limit=missing)

    def _rows(self, database: str, wanted: Slice, type_: str | None, but_type: str | None) -> list[TableRow]:
        with self.catalog.reading() as tx:
            rows = seen(
                lambda part: tx.tables.rows(database, part, type_=type_, but_type=but_type),
                lambda row: row.name,
                lambda name: self.caller.sees(table_resource(Identifier(database, name))),
                wanted,
                all_=self.caller.administrator,
            )
            if not rows:
                tx.databases.get(database)
        for row in rows:
            require_known(self.caller, Identifier(row.database, row.name), row.table_id)
        return rows

    @asks_itself
    def open(self, table: Identifier) -> LakeTable:
        """The table as the catalog has it now.

        Raises `TableNotExist`, `DatabaseNotExist`, `Forbidden`, or `MetadataOnlyTable` for what other engines run.
        """
        opened = self.open_any(table)
        if (kind := other_kind(opened.schema.options)) is not None:
            raise MetadataOnlyTable(str(table), kind)
        return opened

    @asks_itself
    def open_whole(self, table: Identifier, rule: str) -> LakeTable:
        """The table with all its branches; raises `InvalidName` for a branch, as ``rule`` says (`lake.tables.names.refuse_branch`)."""
        refuse_branch(table, rule)
        return self.open(table)

    @asks_itself
    def open_any(self, table: Identifier) -> LakeTable:
        """The table, of whatever kind."""
        return self._found_ready(lambda: self._visible(table))[1]

    def _is_ready(self, row: TableRow) -> bool:
        """Whether a table that was listed a moment ago is there, its files in place as far as its store lets them be put there."""
        try:
            self._ready(row)
        except FileNotFoundError:  # perhaps it is another's place by now
            with contextlib.suppress(TableNotExist):
                self._found_ready(lambda: self._by_id(row.table_id))
                return True
            return False
        except TableNotExist:
            return False
        except (LakeError, OSError) as problem:  # the others are to be listed, and it is told as the catalog has it
            _log.warning("Table %s.%s could not be put in order: %s", row.database, row.name, problem, extra=REPEATS)
        return True

    def _by_id(self, table_id: UUID) -> TableRow:
        with self.catalog.reading() as tx:
            row = tx.tables.by_id(table_id)
        if row is None:
            raise TableNotExist(str(table_id))
        return row

    @asks_itself
    def open_to_write(self, table: Identifier, *, overwrite: bool = False) -> LakeTable:
        """The table, for a caller who may add rows, and with ``overwrite`` take rows away."""
        return self._to_write(self.open(table), overwrite=overwrite)

    @asks_itself
    def remembered_to_write(self, table: Identifier) -> LakeTable | None:
        """The table as it was a moment ago, for a caller who may add rows; None where the catalog must be asked.

        For one append, which is tried anew with the table as it is where it fails.
        """
        row = self.remembered.get(table)
        if row is None or not self.caller.sees(table_resource(table)) or not self.caller.knows(table, row.table_id):
            return None
        try:
            opened = replace(self._ready(row), remembered=True)
        except FileNotFoundError:
            return None
        return None if other_kind(opened.schema.options) is not None else self._to_write(opened)

    def _to_write(self, opened: LakeTable, *, overwrite: bool = False) -> LakeTable:
        table = opened.identifier
        self.caller.require(Access.UPDATE, table_resource(table))
        if overwrite:
            self.caller.require(Access.DELETE, table_resource(table))
        return opened

    @asks_itself
    def open_to_change(self, table: Identifier) -> LakeTable:
        """The table, for a caller who may add rows or take them away; what is done with it asks for the one or the other."""
        opened = self.open(table)
        if not self.caller.may(Access.DELETE, table_resource(table)):
            self.caller.require(Access.UPDATE, table_resource(table))
        return opened

    @asks_itself
    def describe(self, table: Identifier) -> TableRow:
        """What the catalog says of a table of whatever kind, its schema's file in place."""
        return self._found_ready(lambda: self._visible(table))[0]

    @asks_itself
    def describe_id(self, table_id: UUID) -> TableRow:
        """The same of a table known by its id."""

        def look() -> TableRow:
            row = self._by_id(table_id)
            name = Identifier(row.database, row.name)
            self._come_to_know(name, table_id)
            if not self.caller.sees(table_resource(name)):
                raise TableNotExist(str(table_id))
            return row

        return self._found_ready(look)[0]

    def _visible(self, table: Identifier) -> TableRow:
        """The table's row, for who may know of it: to others it does not exist or is forbidden, by what they may know of its database."""

        def look() -> TableRow:
            if self.caller.sees(table_resource(table)):
                return self._row(table)
            if self.caller.sees_database(table.database):
                self._row(table)
            raise Forbidden(f"{self.caller.principal} may not do this: nothing is granted on table {table} to it.")

        return with_present_rights(self, look)

    def _row(self, table: Identifier) -> TableRow:
        with self.catalog.reading() as tx:
            row = tx.tables.find(table)
            if row is None:
                self.remembered.forget(table)
                tx.databases.get(table.database)
                raise TableNotExist(str(table))
        self.remembered.seen(table, row)
        require_known(self.caller, table, row.table_id)
        return row

    def _open(self, table: Identifier, *, wait: bool = False) -> LakeTable:
        return self._ready(self._row(table), wait=wait)

    @needs(Access.CREATETABLE, its_database)
    def create_table(
        self,
        table: Identifier,
        schema: Schema,
        *,
        if_not_exists: bool = False,
        path: str | None = None,
        claim: Claim | None = None,
        begun_as: UUID | None = None,
    ) -> UUID | None:
        """Add a table, once under a claim, and return its id; None when one of that name exists and that is fine.

        The row is decided first, under a lock on the directory, then the schema file is written; `open` writes it
        where a crash came between. With a ``path`` the files lie there and stay when the table is dropped.
        One that a killed server has made under the id ``begun_as`` and not filled is taken for made now.
        Raises `TableAlreadyExist`, `DatabaseNotExist`, `InvalidName`, and `InvalidOption` for stars in place of a secret, and for a schema
        that Java's clients would not load.
        """
        check_table_name(table)
        _check_defaults(schema.fields)
        options = unmasked(schema.options, {})
        stamped = replace(schema, options=options, time_millis=schema.time_millis or time.time_ns() // 1_000_000)
        with contextlib.ExitStack() as beside:
            try:
                with self.catalog.transaction() as tx, claimed_in(tx, claim):
                    table_id = begun_as or uuid4()
                    if (begun := tx.tables.by_id(begun_as) if begun_as else None) is not None:
                        if _is_empty(tx, begun, table):
                            return table_id
                        table_id = uuid4()
                    tx.tables.require_free(table)
                    stamped = findable(stamped)  # not sooner: who makes a table unless it is there need not be told what it should be like
                    check_taken(stamped)
                    location = self._place(tx, table, table_id, path)
                    require_writable = _nothing
                    if other_kind(schema.options) not in DIRECTORY_KINDS:
                        require_writable = beside.enter_context(writable_beside(self.file_io, location.rpartition("/")[0]))
                    self._require_empty(table, location)
                    require_writable()
                    tx.tables.create(
                        table,
                        table_id,
                        location=location,
                        schema_id=stamped.id,
                        schema=stamped.to_json(),
                        external=path is not None,
                        by=self.caller.principal,
                    )
                    owned = self._own(tx, table_resource(table), table_id=table_id)
            except TableAlreadyExist:
                if not if_not_exists:
                    raise
                return None
            self._owns(owned)
            self._hook("table decided")

            def publish() -> None:
                self._publish_schemas(table_id, self._files_of(table, table_id, location, ()), MAIN_BRANCH, stamped)
                if other_kind(schema.options) == "object-table":  # its makers put files there at once
                    self.file_io.mkdirs(location)

            follow(publish, f"The files of the new table {table} could not be written")
            return table_id

    @needs(Access.ALTER)
    def alter_table(
        self, table: Identifier, changes: Sequence[SchemaChange], *, check: Decided | None = None, claim: Claim | None = None
    ) -> Schema:
        """Apply changes as one new schema version, once under a claim; an ALTER that comes second is applied on the first's outcome.

        Raises `InvalidSchemaChange`, also for a column that a policy or a column grant names, and `TableDiverged`.
        """
        while True:
            opened = self._open(table)
            snapshot, numbering = self._latest_numbered(opened)
            now = time.time_ns() // 1_000_000
            marked = (concerns_deletions := _concerns_deletions(changes)) and self._has_marks(opened)
            new = apply_changes(opened.schema, changes, table=str(table), has_snapshot=snapshot is not None, time_millis=now, marked=marked)
            _check_defaults(new.fields, before=opened.schema.fields)
            if check is not None:
                check(new)
            if replace(new, id=opened.schema.id, time_millis=opened.schema.time_millis) == opened.schema:
                return opened.schema
            require_options(self.caller, table, opened.schema.options, new.options)
            new = replace(new, id=numbering[0] + 1)
            with contextlib.ExitStack() as beside, contextlib.suppress(CommitConflict):
                if other_kind(new.options) not in DIRECTORY_KINDS:
                    require_writable = beside.enter_context(table_writable_beside(opened.files))
                    # Its snapshots may have a schema of that version, by which a repair could not read them any more.
                    self._publisher.require_free_schema(opened.table_id, opened.files, table, snapshot, numbering)
                    require_writable()
                with self.catalog.transaction() as tx, claimed_in(tx, claim):
                    if concerns_deletions:  # commits wait for its end, and are then looked at by the new options
                        tx.tables.lock(table)
                    advance_schema(tx, opened, new, self.caller.principal, masks_go_along=True)
                    if concerns_deletions and _marks(tx, opened) != (None if snapshot is None else snapshot.index_manifest):
                        raise CommitConflict(str(table), expected=None)  # by a commit that may have marked rows
                self.remembered.forget(table)
                self._hook("schema decided")
                publish = partial(self._publish_schemas, opened.table_id, opened.files, table.branch, new)
                follow(publish, f"The new schema of {table} could not be published")
                return new

    def _has_marks(self, opened: LakeTable) -> bool:
        """Whether deletion vectors mark rows of a snapshot or tag that is kept: other clients read each of them by the present options."""
        snapshots = [*reversed(self.snapshots(opened)), *(Snapshot.from_json(tag.snapshot) for tag in self.tags.all(opened))]
        return any(deletions_of(opened.files, opened.schema, snapshot) for snapshot in snapshots)

    def _latest_numbered(self, opened: LakeTable) -> tuple[Snapshot | None, Numbering]:
        """The newest snapshot, its file in place, and how the table's schemas are numbered at that moment."""
        with self.catalog.reading() as tx:
            numbering = tx.tables.numbered_ahead(opened.table_id)
            row = tx.snapshots.latest(opened.table_id, opened.identifier.branch)
        latest = None if row is None else self._publisher.ready(opened.table_id, opened.files, opened.identifier.branch, row)
        return latest, numbering()

    @needs(Access.ALTER)
    def rename_table(self, source: Identifier, target: Identifier, *, claim: Claim | None = None) -> None:
        """Give a table another name, once under a claim; its directory stays where it is. Another database takes GRANT on the table."""
        alone = "CALL sys.rename_branch({table}, {branch}, …) renames the branch alone."
        source = self._of_a_branchs_name(source)
        refuse_branch(source, "a table is renamed with all its branches", alone)
        check_table_name(target)
        require_to_move(self.caller, table_resource(source), target.database)
        self.caller.require(Access.CREATETABLE, database_resource(target.database))
        with self.catalog.transaction() as tx, claimed_in(tx, claim):
            row = tx.tables.lock(source)
            require_known(self.caller, source, row.table_id)
            if tx.views.find(target.database, target.table) is not None:
                raise TableAlreadyExist(str(target))
            tx.tables.rename(row.table_id, target)
        self.access.forget()
        self._hook("rename decided")

    def _of_a_branchs_name(self, source: Identifier) -> Identifier:
        """The table that has a branch's name itself, as `restore --as` of earlier versions could give it one; else what is named."""
        if source.branch == MAIN_BRANCH:
            return source
        table = Identifier(source.database, source.object_name)
        with self.catalog.reading() as tx:
            if tx.tables.find(table) is None:
                return source
        self.caller.require(Access.ALTER, table_resource(table))
        return table

    @needs(Access.ALTER)
    def replace_table(self, table: Identifier, schema: Schema, *, path: str | None = None) -> None:
        """Empty a table and give it another schema, in one decision; see `lake.rewrite.replace.replace_schema`."""
        self.caller.require(Access.DELETE, table_resource(table))
        there = self._open(table)
        schema = replace(schema, options=unmasked(schema.options, there.schema.options))
        if path is not None and Location.parse(path) != Location.parse(there.location):
            raise InvalidName(f"Table {table} cannot be replaced by one at {path}: where a table lies does not change.")
        opening = partial(self._open, table)
        replace_schema(self._core, opening, schema, publish=partial(opening, wait=True), by=self.caller.principal)


def _nothing() -> None:
    return None


def _concerns_deletions(changes: Sequence[SchemaChange]) -> bool:
    """Whether an ALTER may say of deletion vectors that there are none: only then it is worth a look at their files."""
    return any(isinstance(change, SetOption | RemoveOption) and change.key == DELETION_VECTORS for change in changes)


def _marks(tx: CatalogTransaction, opened: LakeTable) -> str | None:
    """The name of what marks rows of the branch's newest snapshot; None where nothing does."""
    row = tx.snapshots.latest(opened.table_id, opened.identifier.branch)
    return None if row is None else Snapshot.from_json(row.body).index_manifest


def _is_empty(tx: CatalogTransaction, row: TableRow, table: Identifier) -> bool:
    """Whether a row is the table of a name, and nothing was written to it yet."""
    there = tx.tables.find(table)
    return there is not None and there.table_id == row.table_id and tx.snapshots.latest(row.table_id, MAIN_BRANCH) is None


def _check_defaults(fields: Iterable[Field], *, before: Iterable[Field] = ()) -> None:
    """Raise `InvalidSchema` for a default that is no value of its column; those of fields inside a ROW nobody reads.

    One that was none ``before``, as another client stored it, is let be.
    """
    known = {field.id: field for field in before}
    for field in fields:
        old = known.get(field.id)
        if old is not None and old.default_value == field.default_value and (old.type == field.type or not _has_valid_default(old)):
            continue
        try:
            default_of(field)
        except InvalidData as problem:
            raise InvalidSchema(problem.message) from problem


def _has_valid_default(field: Field) -> bool:
    try:
        default_of(field)
    except LakeError:
        return False
    return True
