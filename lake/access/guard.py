"""What each of the lake's methods takes: said once, beside the method, and checked before it runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar, runtime_checkable
from uuid import UUID

from catalog import CatalogTransaction
from lake.access.callers import Caller
from lake.tables.handle import LakeTable
from model.access import CATALOG, PUBLIC, Access, Resource, database_resource, table_resource
from model.errors import Forbidden, Unavailable
from model.identifier import Identifier
from model.options.maintenance import PUSH_OUT, TAKE_AWAY
from model.options.masking import names_secret
from model.options.table import TABLE_OPTIONS
from model.options.watermark import PREFIX as WATERMARK
from model.schema.schema import CONNECTOR_KIND, other_kind

P = ParamSpec("P")
T = TypeVar("T")
A = TypeVar("A")


_READING = frozenset({Access.SELECT, Access.DESCRIBE})
_DEFINING = frozenset({Access.CREATEDATABASE, Access.CREATETABLE, Access.ALTER})
"""What makes directories and schemas. All else writes into those that are there, and is too frequent to look each time."""
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


class Owned(Protocol):
    """What knows whether the warehouse is this catalog's: `lake.register.standing.Standing`."""

    def require_own(self) -> None:
        """Raise `WarehouseMismatch` where it is not."""

    def require_own_now(self) -> None:
        """The same after another look at the warehouse."""


class Guarded(Protocol):
    """What `needs` stands before; one that looks tables up by their names is `Renewable`, too."""

    caller: Caller

    @property
    def standing(self) -> Owned:
        """Asked before anything is changed."""


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


def needs(
    access: Access, on: Callable[[object], Resource] = itself, *, instead: Access | None = None
) -> Callable[[Method[G, A, P, T]], Method[G, A, P, T]]:
    """Let a method run only for callers with this access on what its first argument means, or with the one that does ``instead``.

    One that is more than reading runs only where the warehouse is this catalog's: nothing is written or removed in another's.
    """

    def guard(method: Method[G, A, P, T]) -> Method[G, A, P, T]:
        @wraps(method)
        def guarded(self: G, subject: A, /, *args: P.args, **kwargs: P.kwargs) -> T:
            if access in _DEFINING:
                self.standing.require_own_now()
            elif access not in _READING:
                self.standing.require_own()
            if self.caller.administrator:
                return method(self, subject, *args, **kwargs)

            def run() -> T:
                resource = on(subject)
                if instead is None or not self.caller.may(instead, resource):
                    self.caller.require(access, resource)
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
    keys = TAKE_AWAY | PUSH_OUT if "tag.num-retained-max" in new else TAKE_AWAY
    begins = TABLE_OPTIONS.read(old, "write-only") and not TABLE_OPTIONS.read(new, "write-only")  # all that the options say, at once
    if begins or any(old.get(key) != new.get(key) for key in keys):
        caller.require(Access.DELETE, table_resource(table))
    if other_kind(new) == CONNECTOR_KIND and not caller.may(Access.ALL, table_resource(table)):
        _require_secrets_stay(table, old, new)


def _require_secrets_stay(table: Identifier, old: Mapping[str, str], new: Mapping[str, str]) -> None:
    """Raise `Forbidden` where secrets that are only shown as stars would be used with other options than they were given with."""
    secrets = [key for key in old if names_secret(key) and old[key] == new.get(key)]
    changed = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    changed = [key for key in changed if not names_secret(key) and not key.startswith(WATERMARK)]
    if secrets and changed:
        raise Forbidden(
            f"Option '{changed[0]}' of {table} takes ALL on it: the table's '{secrets[0]}', which is not shown, would be used with it. "
            "Let one who holds ALL change it, or make a table with secrets of your own."
        )


def require_to_move(caller: Caller, moved: Resource, to: str) -> None:
    """Raise `Forbidden` where something would go to another database, and the caller may not say who may do what with it."""
    if to != moved.database and not caller.may(Access.GRANT, moved):
        raise Forbidden(
            f"{caller.principal} may not move {moved} to database {to}: what is granted on all that is in a database is granted on what "
            f"comes there, too, so that it takes GRANT. GRANT GRANT ON {moved.sql()} TO … gives it; another name within database "
            f"{moved.database} takes ALTER alone."
        )


def require_rights_of_jobs(tx: CatalogTransaction, caller: Caller) -> None:
    """Raise `Forbidden` where the caller's jobs, which run for its principal and come with no token, have other rights than it has now.

    More of them by an administrator's token; fewer bonds without the roles that an issuer's claims give: policies bind those, too.
    """
    if caller.administrator:
        return
    name = caller.principal
    if any(token.administrator for token in tx.tokens.of(name)):
        raise Forbidden(
            f"This token of {name} may not start a job: jobs run with the rights of their principal, and another token of it is an "
            "administrator's. Start the job with that one, or as a principal of its own."
        )
    if claimed := sorted(caller.roles - {*tx.roles.of(name), PUBLIC}):
        raise Forbidden(
            f"{name} may not start a job: jobs run with the rights that {name} has here, and its token's issuer gives it roles beside them "
            f"({', '.join(claimed)}), whose policies would not bind its jobs. GRANT ROLE {claimed[0]} TO {name} lets them have it; or "
            "start the job as a principal of its own."
        )
