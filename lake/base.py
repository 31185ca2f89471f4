"""What every part of the lake stands on: catalog, files, and the caller all is done for."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Self, TypeVar
from uuid import UUID

from catalog import CatalogStore, CatalogTransaction
from catalog.listing import Slice
from catalog.records import TableRow
from lake.access import EVERYBODY, AccessControl, Caller
from lake.commit.core import CommitCore
from lake.commit.publish import Hook, Publisher, no_hook
from lake.follow import OpenStreams
from lake.guard import asks_itself
from lake.jobs import Jobs
from lake.permissions import Permissions, read_rules
from lake.table import LakeTable
from model.access import Access, Grant, ReadRules, Resource
from model.errors import Forbidden
from model.identifier import Identifier
from model.schema import Schema
from table.file_io import FileIO, file_io_for, local_path
from table.store import TableFiles

T = TypeVar("T")


class LakeBase:
    """One catalog and warehouse, as one caller may use them."""

    def __init__(
        self,
        catalog: CatalogStore,
        warehouse: str,
        *,
        file_io: FileIO | None = None,
        hook: Hook = no_hook,
        token: str | None = None,
        import_dirs: Sequence[str] = (),
    ) -> None:
        self.caller = EVERYBODY
        self.access = AccessControl(catalog, token=token)
        self.catalog = catalog
        # One spelling of a place, so that tables made under /x are the same under file:///x.
        self.warehouse = local_path(warehouse).rstrip("/")
        self.file_io = file_io or file_io_for(warehouse)
        self.import_dirs = tuple(import_dirs)
        """Where what lies may be read and taken over."""
        self._hook = hook
        self._publisher = Publisher(catalog, hook)
        self._core = CommitCore(catalog, self._publisher, hook)
        self.open_streams = OpenStreams()

    def for_caller(self, caller: Caller) -> Self:
        """The same lake with what this caller may do; everything else raises `Forbidden`."""
        seen = copy.copy(self)
        seen.caller = caller
        return seen

    @property
    def permissions(self) -> Permissions:
        """Tokens, roles, grants and policies, as the caller may see and change them."""
        return Permissions(self.catalog, self.access, self.caller)

    @property
    def jobs(self) -> Jobs:
        """Streaming INSERTs, as the caller may see and steer them."""
        return Jobs(self.catalog, self.caller)

    @asks_itself
    def read_rules(self, table: LakeTable) -> ReadRules:
        """What of a table's rows and columns the caller sees; raises `Forbidden` where it may read nothing of it."""
        return read_rules(self.catalog, self.caller, table.identifier, table.table_id, table.schema.field_names)

    @asks_itself
    def rules_bind(self, row: TableRow) -> bool:
        """Whether something of a table is kept from the caller, so that a client must ask for the rules before it reads."""
        if self.caller.administrator:
            return False
        names = [field["name"] for field in row.schema["fields"]]
        try:
            return read_rules(self.catalog, self.caller, Identifier(row.database, row.name), row.table_id, names).restricted
        except Forbidden:
            return True

    def _ready(self, row: TableRow) -> LakeTable:
        """The open table, once what a crash or another server left half done is finished."""
        if row.moving_from:
            self._finish_move(row)
        files = TableFiles(self.file_io, row.location, row.branch)
        schema = Schema.from_json(row.schema)
        if row.stale:
            self._publisher.remove_stale(row.table_id, files)
        if row.published_schema_id < schema.id:
            self._publisher.schemas(row.table_id, files, row.branch, published=row.published_schema_id, newest=schema)
        return LakeTable(
            identifier=Identifier(row.database, row.name, row.branch),
            table_id=row.table_id,
            schema=schema,
            location=row.location,
            files=files,
            read_latest=self._publisher.latest,
        )

    def _finish_move(self, row: TableRow) -> None:
        """Move the directory of a renamed table; several may try, the lock lets one."""
        assert row.moving_from is not None
        with self.catalog.transaction() as tx:
            tx.tables.lock_location(row.location)
            if self.file_io.exists(row.moving_from) and not self.file_io.exists(row.location):
                self.file_io.rename(row.moving_from, row.location)
            tx.tables.moved(row.table_id)

    def _own(self, tx: CatalogTransaction, *resources: Resource, table_id: UUID | None = None) -> list[Grant]:
        """Give all of what is being made to its maker."""
        if self.caller.administrator:
            return []
        grants = [Grant(resource=resource, access=Access.ALL, principal=self.caller.principal) for resource in resources]
        for grant in grants:
            tx.grants.put(grant, table_id=table_id)
        return grants

    def _owns(self, grants: Sequence[Grant]) -> None:
        """What was made is the caller's, also in the rest of its request."""
        self.caller = self.caller.plus(grants)
        self.access.forget()

    def _remove_directory(self, location: str) -> None:
        with self.catalog.transaction() as tx:
            if tx.tables.lock_location(location):
                self.file_io.delete_tree(location)
                tx.tables.directory_removed(location)


def seen(
    fetch: Callable[[Slice], list[T]], name_of: Callable[[T], str], sees: Callable[[str], bool], wanted: Slice, *, all_: bool
) -> list[T]:
    """The first of a list that a caller may see, as many as are wanted; ``all_`` for one who sees everything."""
    if all_ or wanted.limit is None:
        return [one for one in fetch(wanted) if all_ or sees(name_of(one))]
    found: list[T] = []
    while True:
        page = fetch(wanted)
        found += [one for one in page if sees(name_of(one))]
        if len(found) >= wanted.limit or len(page) < wanted.limit:
            return found[: wanted.limit]
        wanted = Slice(after=name_of(page[-1]), limit=wanted.limit, like=wanted.like)
