"""What each of the lake's methods takes: said once, beside the method, and checked before it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar, runtime_checkable
from uuid import UUID

from lake.access.callers import Caller
from lake.tables.handle import LakeTable
from model.access import CATALOG, Access, Resource, database_resource, table_resource
from model.errors import Unavailable
from model.identifier import Identifier
from model.options.maintenance import TAKE_AWAY

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")


_TRIES = 3
"""Of something whose table gets another name each time."""


class RenamedMeanwhile(Unavailable):
    """A name means another table than when the caller's rights were read, so that they say nothing of it; nothing was changed."""

    def __init__(self, table: Identifier) -> None:
        super().__init__(
            f"Table {table} was dropped or renamed meanwhile, and the name is another table's. Nothing was changed; try again."
        )


@runtime_checkable
class Renewable(Protocol):
    """Something that works for a caller, by what it may do when that was read."""

    def renew(self) -> None:
        """Read the caller's rights anew."""


class Guarded(Protocol):
    """What `needs` stands before; one that looks tables up by their names is `Renewable`, too."""

    caller: Caller


G = TypeVar("G", bound=Guarded)
Method = Callable[Concatenate[G, A, P], T]


def with_present_rights(worker: Renewable, run: Callable[[], T]) -> T:
    """Do something for a caller, and again with its rights read anew where a name was given to another table since they were."""
    for _ in range(_TRIES - 1):
        try:
            return run()
        except RenamedMeanwhile:
            worker.renew()
    return run()


def require_known(caller: Caller, table: Identifier, table_id: UUID) -> None:
    """Raise `RenamedMeanwhile` where a caller's rights were read when the name was another table's, or the table had another."""
    if not caller.knows(table, table_id):
        raise RenamedMeanwhile(table)


def itself(subject: object) -> Resource:
    """The table or database the first argument is or names."""
    if isinstance(subject, LakeTable):
        return table_resource(subject.identifier)
    if isinstance(subject, Identifier):
        return table_resource(subject)
    return database_resource(str(subject))


def its_database(subject: object) -> Resource:
    """The database of the table the first argument names."""
    assert isinstance(subject, Identifier)
    return database_resource(subject.database)


def the_catalog(subject: object) -> Resource:
    """The catalog, whatever the first argument is."""
    return CATALOG


def needs(access: Access, on: Callable[[object], Resource] = itself) -> Callable[[Method[G, A, P, T]], Method[G, A, P, T]]:
    """Let a method run only for callers with this access on what its first argument means."""

    def guard(method: Method[G, A, P, T]) -> Method[G, A, P, T]:
        @wraps(method)
        def guarded(self: G, subject: A, /, *args: P.args, **kwargs: P.kwargs) -> T:
            if self.caller.administrator:
                return method(self, subject, *args, **kwargs)

            def run() -> T:
                self.caller.require(access, on(subject))
                return method(self, subject, *args, **kwargs)

            return with_present_rights(self, run) if isinstance(self, Renewable) else run()

        guarded.__needs__ = access  # type: ignore[attr-defined] # a test asks every method for it
        return guarded

    return guard


def asks_itself(method: Callable[Concatenate[G, P], T]) -> Callable[Concatenate[G, P], T]:
    """Mark a method that asks `Caller` in its own body, where one access on one resource does not say it."""
    method.__needs__ = None  # type: ignore[attr-defined]
    return method


def require_options(caller: Caller, table: Identifier, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Raise `Forbidden` where a table gets other options by which the server takes rows or history away, and the caller may not."""
    if any(old.get(key) != new.get(key) for key in TAKE_AWAY):
        caller.require(Access.DELETE, table_resource(table))
