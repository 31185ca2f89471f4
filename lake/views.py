"""Views and functions: kept for every engine; SQL here runs views whose query it can read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from catalog import CatalogStore
from catalog.listing import EVERYTHING, Slice
from catalog.records import NamedRow
from lake.names import check_name
from model.catalog_errors import FunctionAlreadyExist, FunctionNotExist, ViewAlreadyExist, ViewNotExist
from model.errors import TableAlreadyExist
from model.identifier import Identifier
from model.view import FunctionChange, View, ViewChange, change_function, change_view

Pair = tuple[str, str]


class Views:
    """The views of all databases."""

    def __init__(self, catalog: CatalogStore) -> None:
        self._catalog = catalog

    def page(self, database: str, wanted: Slice = EVERYTHING) -> list[NamedRow]:
        """A database's views by name; raises `DatabaseNotExist`."""
        with self._catalog.reading() as tx:
            rows = tx.views.page(database, wanted)
            if not rows:
                tx.databases.get(database)
            return rows

    def everywhere(self, *, databases: str | None, names: str | None, after: Pair | None, limit: int) -> list[Pair]:
        """Database and name of views in all databases."""
        with self._catalog.reading() as tx:
            return tx.views.everywhere(databases=databases, names=names, after=after, limit=limit)

    def get(self, name: Identifier) -> NamedRow:
        """The view; raises `ViewNotExist`."""
        with self._catalog.reading() as tx:
            row = tx.views.find(name.database, name.table)
        if row is None:
            raise ViewNotExist(str(name))
        return row

    def find_all(self, names: Sequence[Pair]) -> dict[Pair, View]:
        """Those of the names that are views."""
        with self._catalog.reading() as tx:
            return {(row.database, row.name): View.from_json(row.body) for row in tx.views.find_all(names)}

    def create(self, name: Identifier, view: View, *, by: str | None = None, replace: bool = False, if_not_exists: bool = False) -> bool:
        """Add a view; False when there is one of that name and that is fine. Raises `ViewAlreadyExist`, or `TableAlreadyExist`."""
        check_name(name.table, "view")
        with self._catalog.transaction() as tx:
            tx.databases.lock(name.database)
            if tx.tables.find(name) is not None:
                raise TableAlreadyExist(str(name))
            if (found := tx.views.lock(name.database, name.table)) is not None:
                if replace:
                    tx.views.replace(found.id, view.to_json(), by=by)
                    return True
                if if_not_exists:
                    return False
                raise ViewAlreadyExist(str(name))
            tx.views.create(name.database, name.table, view.to_json(), by=by)
            return True

    def alter(self, name: Identifier, changes: Sequence[ViewChange], *, by: str | None = None) -> None:
        """Change a view; raises `ViewNotExist`, `DialectNotExist`, `DialectAlreadyExist`."""
        with self._catalog.transaction() as tx:
            row = tx.views.lock(name.database, name.table)
            if row is None:
                raise ViewNotExist(str(name))
            tx.views.replace(row.id, change_view(View.from_json(row.body), changes, name=str(name)).to_json(), by=by)

    def rename(self, source: Identifier, target: Identifier) -> None:
        """Give a view another name; raises `ViewNotExist`, `ViewAlreadyExist`, `TableAlreadyExist`, `DatabaseNotExist`."""
        check_name(target.table, "view")
        with self._catalog.transaction() as tx:
            tx.databases.lock(target.database)
            row = tx.views.lock(source.database, source.table)
            if row is None:
                raise ViewNotExist(str(source))
            if tx.tables.find(target) is not None:
                raise TableAlreadyExist(str(target))
            tx.views.rename(row.id, target.database, target.table)

    def drop(self, name: Identifier, *, if_exists: bool = False) -> None:
        """Remove a view; raises `ViewNotExist`."""
        with self._catalog.transaction() as tx:
            if not tx.views.drop(name.database, name.table) and not if_exists:
                raise ViewNotExist(str(name))


class Functions:
    """The functions of all databases; kept and served, not run here."""

    def __init__(self, catalog: CatalogStore) -> None:
        self._catalog = catalog

    def page(self, database: str, wanted: Slice = EVERYTHING) -> list[NamedRow]:
        """A database's functions by name; raises `DatabaseNotExist`."""
        with self._catalog.reading() as tx:
            rows = tx.functions.page(database, wanted)
            if not rows:
                tx.databases.get(database)
            return rows

    def everywhere(self, *, databases: str | None, names: str | None, after: Pair | None, limit: int) -> list[Pair]:
        """Database and name of functions in all databases."""
        with self._catalog.reading() as tx:
            return tx.functions.everywhere(databases=databases, names=names, after=after, limit=limit)

    def get(self, name: Identifier) -> NamedRow:
        """The function; raises `FunctionNotExist`."""
        with self._catalog.reading() as tx:
            row = tx.functions.find(name.database, name.table)
        if row is None:
            raise FunctionNotExist(str(name))
        return row

    def create(self, name: Identifier, body: Mapping[str, Any], *, by: str | None = None) -> UUID:
        """Add a function; raises `FunctionAlreadyExist`."""
        check_name(name.table, "function")
        with self._catalog.transaction() as tx:
            if tx.functions.find(name.database, name.table) is not None:
                raise FunctionAlreadyExist(str(name))
            return tx.functions.create(name.database, name.table, body, by=by)

    def alter(self, name: Identifier, changes: Sequence[FunctionChange], *, by: str | None = None) -> None:
        """Change a function; raises `FunctionNotExist`, `DefinitionNotExist`, `DefinitionAlreadyExist`."""
        with self._catalog.transaction() as tx:
            row = tx.functions.lock(name.database, name.table)
            if row is None:
                raise FunctionNotExist(str(name))
            tx.functions.replace(row.id, change_function(row.body, changes, name=str(name)), by=by)

    def drop(self, name: Identifier) -> None:
        """Remove a function; raises `FunctionNotExist`."""
        with self._catalog.transaction() as tx:
            if not tx.functions.drop(name.database, name.table):
                raise FunctionNotExist(str(name))
