"""Views and functions: kept for every engine; SQL here runs views whose query it can read."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from uuid import UUID

from catalog import CatalogStore, CatalogTransaction
from catalog.listing import EVERYTHING, Slice
from catalog.objects.views_and_functions import NamedRepository
from catalog.records import NamedRow
from lake.access.callers import AccessControl, Caller
from lake.access.guard import require_to_move
from lake.base import seen
from lake.commit.claims import Claim, claimed_in
from lake.register.standing import Standing
from model.access import Access, Grant, Resource, ResourceType, database_resource
from model.catalog_errors import FunctionAlreadyExist, FunctionNotExist, ViewAlreadyExist, ViewNotExist
from model.errors import Forbidden, ResourceError, TableAlreadyExist
from model.identifier import Identifier
from model.names import check_name
from model.options.masking import unmasked
from model.schema.lengths import check_comment_lengths, check_option_lengths
from model.schema.types import Field
from model.view import FunctionChange, View, ViewChange, change_function, change_view

Pair = tuple[str, str]


def views_among(tx: CatalogTransaction, names: Sequence[Pair]) -> dict[Pair, View]:
    """Those of the names that are views, each behind its database's."""
    return {(row.database, row.name): View.from_json(row.body) for row in tx.views.find_all(names)}


def named_resource(type_: ResourceType, database: str, name: str) -> Resource:
    """A view or a function as grants speak of it."""
    return Resource(type=type_, database=database, name=name)


class _Named:
    """What views and functions have in common."""

    _type: ResourceType
    _missing: type[ResourceError]

    def __init__(self, catalog: CatalogStore, caller: Caller, access: AccessControl, standing: Standing) -> None:
        self.standing = standing
        self._catalog = catalog
        self._caller = caller
        self._access = access

    def _of(self, tx: CatalogTransaction) -> NamedRepository:
        return tx.views if self._type is ResourceType.VIEW else tx.functions

    def names(self, database: str, wanted: Slice = EVERYTHING) -> list[str]:
        """The names of those in a database that the caller may see or list, in order; raises `DatabaseNotExist`."""
        return [row.name for row in self._page(database, wanted, Caller.lists)]

    def describe_all(self, database: str, wanted: Slice = EVERYTHING) -> list[NamedRow]:
        """Those of a database that the caller may do something with, by name; raises `DatabaseNotExist`."""
        return self._page(database, wanted, Caller.sees)

    def _page(self, database: str, wanted: Slice, shows: Callable[[Caller, Resource], bool]) -> list[NamedRow]:
        self._caller.require_sight_of_database(database)
        with self._catalog.reading() as tx:
            repository = self._of(tx)
            rows = seen(
                lambda part: repository.page(database, part),
                lambda row: row.name,
                lambda name: shows(self._caller, named_resource(self._type, database, name)),
                wanted,
                all_=self._caller.administrator,
            )
            if not rows:
                tx.databases.get(database)
            now = self._caller_now(tx, database)
            return [row for row in rows if now is self._caller or shows(now, named_resource(self._type, database, row.name))]

    def everywhere(self, *, databases: str | None, names: str | None, after: Pair | None, limit: int) -> list[Pair]:
        """Database and name of those in all databases that the caller may see."""
        pairs: list[Pair] = []
        with self._catalog.reading() as tx:
            while len(pairs) < limit:
                page = self._of(tx).everywhere(databases=databases, names=names, after=after, limit=limit)
                pairs += [pair for pair in page if self._caller.lists(named_resource(self._type, *pair))]
                if len(page) < limit:
                    break
                after = page[-1]
        return pairs[:limit]

    def get(self, name: Identifier) -> NamedRow:
        """The one of that name; raises what says that there is none."""
        with self._catalog.reading() as tx:
            row = self._of(tx).find(name.database, name.object_name)
            now = self._caller_now(tx, name.database, name.object_name)
        if not now.sees(named_resource(self._type, name.database, name.object_name)):
            raise Forbidden(f"{now.principal} may not do this: nothing is granted on {self._type.lower()} {name} to it.")
        if row is None:
            raise self._none(name)
        return row

    def drop(self, name: Identifier, *, if_exists: bool = False, claim: Claim | None = None) -> None:
        """Remove the one of that name, once under a claim; raises what says that there is none."""
        self._require(Access.DROP, name)
        self.standing.require_own()
        with self._catalog.transaction() as tx, claimed_in(tx, claim):
            if self._of(tx).lock(name.database, name.object_name) is not None:
                self._require_now(tx, Access.DROP, name)
            if not self._of(tx).drop(name.database, name.object_name) and not if_exists:
                raise self._none(name)
            tx.grants.forget_object(self._type, name.database, name.object_name)
        self._access.forget()

    def _caller_now(self, tx: CatalogTransaction, database: str, name: str | None = None) -> Caller:
        """The caller with its present rights on those of a database, or on one of them, which was read before.

        What is remembered of a caller may be about another of the name, that was dropped or renamed at another server since.
        """
        caller = self._caller
        others = tuple(grant for grant in caller.grants if not self._is_on(grant.resource, database, name))
        if caller.administrator or len(others) == len(caller.grants):
            return caller
        return dataclasses.replace(caller, grants=(*others, *tx.grants.of_objects(self._type, database, name, caller.names)))

    def _is_on(self, resource: Resource, database: str, name: str | None) -> bool:
        return resource.type is self._type and resource.database == database and name in (None, resource.name)

    def _require_now(self, tx: CatalogTransaction, access: Access, name: Identifier) -> None:
        """`_require` of one that is held."""
        now = self._caller_now(tx, name.database, name.object_name)
        now.require(access, named_resource(self._type, name.database, name.object_name))

    def _require(self, access: Access, name: Identifier) -> None:
        self._caller.require(access, named_resource(self._type, name.database, name.object_name))

    def _none(self, name: Identifier) -> ResourceError:
        return self._missing(str(name))  # type: ignore[call-arg] # such classes take the name alone

    def _own(self, tx: CatalogTransaction, name: Identifier) -> None:
        """Give all of what is being made to its maker, and nothing to whom earlier versions granted a name that was none."""
        tx.grants.forget_object(self._type, name.database, name.object_name)
        if not self._caller.administrator:
            resource = named_resource(self._type, name.database, name.object_name)
            tx.grants.put(Grant(resource=resource, access=Access.ALL, principal=self._caller.principal), table_id=None)
        self._access.forget()


class Views(_Named):
    """The views of all databases."""

    _type = ResourceType.VIEW
    _missing = ViewNotExist

    def find_all(self, names: Sequence[Pair]) -> dict[Pair, View]:
        """Those of the names that are views."""
        with self._catalog.reading() as tx:
            return views_among(tx, names)

    def readable(self, names: Sequence[Pair]) -> dict[Pair, View]:
        """`find_all` for a query; raises `Forbidden` for a view the caller may not read. The tables behind it are checked by themselves."""
        with self._catalog.reading() as tx:
            views = views_among(tx, names)
            for database, name in views:
                now = self._caller_now(tx, database, name)
                now.require(Access.SELECT, named_resource(self._type, database, name))
        return views

    def create(
        self, name: Identifier, view: View, *, replace: bool = False, if_not_exists: bool = False, claim: Claim | None = None
    ) -> bool:
        """Add a view; False when there is one of that name and that is fine. Raises `ViewAlreadyExist`, or `TableAlreadyExist`."""
        check_name(name.object_name, "view")
        check_option_lengths(view.options)
        self._caller.require(Access.CREATEVIEW, database_resource(name.database))
        self.standing.require_own()
        with self._catalog.transaction() as tx, claimed_in(tx, claim):
            tx.databases.lock(name.database)
            if tx.tables.find(name) is not None:
                raise TableAlreadyExist(str(name))
            present = tx.views.lock(name.database, name.object_name)
            old = View.from_json(present.body) if present is not None and replace else None
            check_comment_lengths(view, old, what=f"view {name}")
            view = dataclasses.replace(view, options=unmasked(view.options, old.options if old is not None else {}))
            if present is not None:
                if replace:
                    self._require_now(tx, Access.ALTER, name)
                    tx.views.replace(present.id, view.to_json(), by=self._caller.principal)
                    return True
                if if_not_exists:
                    return False
                raise ViewAlreadyExist(str(name))
            tx.views.create(name.database, name.object_name, view.to_json(), by=self._caller.principal)
            self._own(tx, name)
            return True

    def alter(self, name: Identifier, changes: Sequence[ViewChange], *, claim: Claim | None = None) -> None:
        """Change a view, once under a claim; raises `ViewNotExist`, `DialectNotExist`, `DialectAlreadyExist`."""
        self._require(Access.ALTER, name)
        self.standing.require_own()
        with self._catalog.transaction() as tx, claimed_in(tx, claim):
            row = tx.views.lock(name.database, name.object_name)
            if row is None:
                raise ViewNotExist(str(name))
            self._require_now(tx, Access.ALTER, name)
            old = View.from_json(row.body)
            new = change_view(old, changes, name=str(name))
            check_option_lengths({key: value for key, value in new.options.items() if old.options.get(key) != value})
            check_comment_lengths(new, old, what=f"view {name}")
            tx.views.replace(row.id, new.to_json(), by=self._caller.principal)

    def rename(self, source: Identifier, target: Identifier, *, claim: Claim | None = None) -> None:
        """Give a view another name; another database takes GRANT on it, where it is its mover's.

        Raises `ViewNotExist`, `ViewAlreadyExist`, `TableAlreadyExist`, `DatabaseNotExist`.
        """
        check_name(target.object_name, "view")
        self._require(Access.ALTER, source)
        require_to_move(self._caller, named_resource(self._type, source.database, source.object_name), target.database)
        self._caller.require(Access.CREATEVIEW, database_resource(target.database))
        self.standing.require_own()
        with self._catalog.transaction() as tx, claimed_in(tx, claim):
            tx.databases.lock(target.database)
            row = tx.views.lock(source.database, source.object_name)
            if row is None:
                raise ViewNotExist(str(source))
            self._require_now(tx, Access.ALTER, source)
            if tx.tables.find(target) is not None:
                raise TableAlreadyExist(str(target))
            tx.views.rename(row.id, target.database, target.object_name)
            if source != target:
                tx.grants.forget_object(self._type, target.database, target.object_name)
            if source.database == target.database:
                tx.grants.rename_object(self._type, source.database, source.object_name, target.object_name)
            else:
                tx.grants.forget_object(self._type, source.database, source.object_name)
                self._own(tx, target)
        self._access.forget()


class Functions(_Named):
    """The functions of all databases; kept and served, not run here."""

    _type = ResourceType.FUNCTION
    _missing = FunctionNotExist

    def create(self, name: Identifier, body: Mapping[str, Any]) -> UUID:
        """Add a function; raises `FunctionAlreadyExist`."""
        check_name(name.object_name, "function")
        _check_function(name, body)
        self._caller.require(Access.CREATEFUNCTION, database_resource(name.database))
        self.standing.require_own()
        with self._catalog.transaction() as tx:
            if tx.functions.find(name.database, name.object_name) is not None:
                raise FunctionAlreadyExist(str(name))
            stored = {**body, "options": unmasked(body.get("options") or {}, {})}
            made = tx.functions.create(name.database, name.object_name, stored, by=self._caller.principal)
            self._own(tx, name)
            return made

    def alter(self, name: Identifier, changes: Sequence[FunctionChange]) -> None:
        """Change a function; raises `FunctionNotExist`, `DefinitionNotExist`, `DefinitionAlreadyExist`."""
        self._require(Access.ALTER, name)
        self.standing.require_own()
        with self._catalog.transaction() as tx:
            row = tx.functions.lock(name.database, name.object_name)
            if row is None:
                raise FunctionNotExist(str(name))
            self._require_now(tx, Access.ALTER, name)
            body = change_function(row.body, changes, name=str(name))
            _check_function(name, body, row.body)
            tx.functions.replace(row.id, body, by=self._caller.principal)


def _check_function(name: Identifier, new: Mapping[str, Any], old: Mapping[str, Any] | None = None) -> None:
    """Raise for options and comments that are too long, those of parameters too; what the function had stays allowed."""
    before = old or {}
    options = before.get("options") or {}
    check_option_lengths({key: value for key, value in (new.get("options") or {}).items() if options.get(key) != value})
    check_comment_lengths(_described(new), _described(before), what=f"function {name}")


def _described(body: Mapping[str, Any]) -> View:
    """A function's comment and parameters, in the form that the rule of lengths reads."""
    entries = [*(body.get("inputParams") or ()), *(body.get("returnParams") or ())]
    return View(fields=tuple(Field.from_json(entry) for entry in entries), query="", comment=body.get("comment"))
