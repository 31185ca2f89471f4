"""Who a caller is and what it may do: the one place that all protocols ask."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol
from uuid import UUID

from cachetools import LRUCache

from catalog import CatalogStore, CatalogTransaction
from lake.access.owner import Owner
from lake.access.remembered import RememberedAnswers
from lake.access.shared_grants import SharedGrants
from model.access import ADMIN, PUBLIC, Access, Columns, Grant, Resource, ResourceType, covering, database_resource, table_resource
from model.errors import Forbidden, NotAuthorized
from model.identifier import DEFAULT_DATABASE, Identifier

TOKEN_PREFIX = "slc_"
"""What the secret of every token made here begins with, so that a leaked one is recognised."""
_ANY_TOKEN = b""
_NAMED = b"principal "
"""Before the name of one, in the place of a token's digest."""
_MOST_LENT = 10_000
_OBJECT_ACCESSES = frozenset(
    {Access.ALL, Access.SELECT, Access.UPDATE, Access.DELETE, Access.ALTER, Access.DROP, Access.PURGE, Access.GRANT}
)


@dataclass(frozen=True, kw_only=True)
class Caller:
    """Somebody who asks for something, with all that was granted when the request came."""

    principal: str
    administrator: bool = False
    roles: frozenset[str] = frozenset()
    claimed: frozenset[str] = frozenset()
    """Those of the roles that the claims of its token's issuer give."""
    grants: tuple[Grant, ...] = ()
    filtered: frozenset[tuple[str | None, str | None]] = frozenset()
    """Database and name of each table of which a row policy keeps rows from it: nothing takes those away as a whole."""
    tables: frozenset[tuple[tuple[str, str], UUID]] = frozenset()
    """What its grants and those policies name, and which table that was when the request came: rights are a table's, not a name's."""
    token: bytes | None = None
    """The digest of the token it came with; None for who needs none or has the settings' own."""
    by_name: bool = False
    """Whether it came with no token because nobody speaks for it, as for the principal of a job."""

    @cached_property
    def owner(self) -> Owner:
        """Whose is what it makes and comes back for."""
        return Owner(principal=self.principal, administrator=self.administrator, claimed=self.claimed)

    @cached_property
    def names(self) -> frozenset[str]:
        """All names under which something may have been granted to it."""
        return self.roles | {self.principal, PUBLIC}

    @cached_property
    def _held(self) -> Mapping[Resource, frozenset[Access]]:
        by_resource: dict[Resource, set[Access]] = {}
        for grant in self.grants:
            by_resource.setdefault(grant.resource, set()).add(grant.access)
        return {resource: frozenset(accesses) for resource, accesses in by_resource.items()}

    @cached_property
    def _databases(self) -> frozenset[str | None]:
        return frozenset(resource.database for resource in self._held)

    @cached_property
    def _tables(self) -> Mapping[tuple[str, str], UUID]:
        return dict(self.tables)

    @cached_property
    def _table_ids(self) -> frozenset[UUID]:
        return frozenset(self._tables.values())

    def is_still(self, other: Caller, grants: tuple[Grant, ...], filtered: Mapping[tuple[str, str], UUID]) -> bool:
        """Whether it is another one with these grants and row policies, each of the same table."""
        return (
            replace(self, grants=(), filtered=frozenset(), tables=frozenset()) == other
            and self.grants == grants
            and all(mine is theirs or mine.table_id == theirs.table_id for mine, theirs in zip(self.grants, grants, strict=True))
            and self.filtered == frozenset(filtered)
            and all(self._tables.get(name) == table_id for name, table_id in filtered.items())
        )

    def knows(self, table: Identifier, table_id: UUID) -> bool:
        """Whether a table had this name when the caller's rights were read, or was none that they name.

        Where it had not, what `may` says of the name is about another table: the caller is to be known anew (`AccessControl.anew`).
        """
        if self.administrator:
            return True
        named = self._tables.get((table.database, table.table))
        return table_id not in self._table_ids if named is None else named == table_id

    def may(self, access: Access, resource: Resource) -> bool:
        """Whether it may do this with all of the resource: DELETE reaches no table of which a row policy keeps rows from it."""
        return self._granted(access, resource) and not (access is Access.DELETE and self._filtered(resource))

    def writes(self, table: Identifier) -> bool:
        """Whether it may add rows to a table, or take some away."""
        return any(self.may(access, table_resource(table)) for access in (Access.UPDATE, Access.DELETE))

    def _granted(self, access: Access, resource: Resource) -> bool:
        wanted = {access, Access.ALL}
        return self.administrator or any(not wanted.isdisjoint(self._held.get(covered, ())) for covered in covering(resource))

    def _filtered(self, resource: Resource) -> bool:
        return not self.administrator and resource.type is ResourceType.TABLE and (resource.database, resource.name) in self.filtered

    def require(self, access: Access, resource: Resource) -> None:
        """Raise `Forbidden` unless it may do this with all of the resource; see `may`."""
        self._require_granted(access, resource)
        if access is Access.DELETE and self._filtered(resource):
            raise Forbidden(
                f"{self.principal} may not do this: a row policy keeps rows of {resource} from it, and this would take those or their "
                "history away, too. DELETE, UPDATE and MERGE INTO change the rows it sees."
            )

    def require_to_change_rows(self, table: Resource) -> None:
        """Raise `Forbidden` unless it may take those rows away that it sees, one by one; the others stay."""
        self._require_granted(Access.DELETE, table)

    def _require_granted(self, access: Access, resource: Resource) -> None:
        if not self._granted(access, resource):
            raise Forbidden(
                f"{self.principal} may not do this: it takes {access} on {resource}. GRANT {access} ON {resource.sql()} TO … gives it."
            )

    def administers(self) -> None:
        """Raise `Forbidden` unless it is an administrator."""
        if not self.administrator:
            raise Forbidden(f"{self.principal} may not do this: it takes the role {ADMIN}.")

    def sees(self, resource: Resource) -> bool:
        """Whether it may know that a table, view or function exists."""
        if self.administrator or any(not _OBJECT_ACCESSES.isdisjoint(self._held.get(covered, ())) for covered in covering(resource)):
            return True
        return replace(resource, type=ResourceType.COLUMN) in self._held

    def lists(self, resource: Resource) -> bool:
        """Whether its name is shown in lists: also to those who may LIST its database."""
        return self.sees(resource) or self.may(Access.LIST, database_resource(resource.database or ""))

    def sees_database(self, name: str) -> bool:
        """Whether it may know that a database exists: everybody of the default one, others whoever may do anything in it."""
        return (
            self.administrator
            or name == DEFAULT_DATABASE
            or not self._databases.isdisjoint({name})
            or Resource(type=ResourceType.CATALOG_ALL) in self._held
        )

    def require_sight(self, table: Identifier) -> None:
        """Raise `Forbidden` for a table it may do nothing with."""
        if not self.sees(table_resource(table)):
            raise Forbidden(f"{self.principal} may not do this: nothing is granted on table {table} to it.")

    def require_sight_of_database(self, name: str) -> None:
        """Raise `Forbidden` for a database it may do nothing in."""
        if not self.sees_database(name):
            raise Forbidden(f"{self.principal} may not do this: nothing is granted in database {name} to it.")

    def columns(self, table: Identifier) -> list[Columns]:
        """What COLUMN grants open of a table."""
        wanted = replace(table_resource(table), type=ResourceType.COLUMN)
        return [grant.columns for grant in self.grants if grant.resource == wanted and grant.columns is not None]

    def plus(self, grants: Iterable[Grant]) -> Caller:
        """The same caller, after something was granted to it."""
        grants = tuple(grants)
        tables = {**self._tables, **_tables_of(grants)}
        return replace(self, grants=(*self.grants, *grants), tables=frozenset(tables.items()))


EVERYBODY = Caller(principal="anonymous", administrator=True)
"""Whoever calls a server that asks for no token, and the server itself."""
ADMINISTRATOR = Caller(principal="administrator", administrator=True)
"""The holder of the server's own token (``SLUICE_TOKEN``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who somebody is by the word of an issuer of tokens."""

    principal: str
    roles: frozenset[str]
    """Those the issuer's claims give, beside what is granted here."""
    expires_at: float
    """Seconds since 1970."""

    def digest(self) -> bytes:
        """What it is remembered by: equal for equal identities."""
        return hashlib.sha256(repr((self.principal, sorted(self.roles), self.expires_at)).encode()).digest()


class Issuer(Protocol):
    """Judges tokens that were not made here."""

    def identify(self, token: str) -> Identity | None:
        """Who a token speaks for; None where it is none of this kind; raises `NotAuthorized` for a bad one, `Unavailable`."""


def reserved_principal(name: str) -> bool:
    """Whether a name is the server's own, so that nobody outside may bear it."""
    return name in (EVERYBODY.principal, ADMINISTRATOR.principal, ADMIN, PUBLIC)


class AccessControl:
    """Knows callers by their tokens; remembers for a moment what Postgres said, and a little longer while it is away."""

    def __init__(self, catalog: CatalogStore, *, token: str | None = None) -> None:
        self._catalog = catalog
        self._token = token
        self.issuer: Issuer | None = None
        """Set where tokens of an issuer are taken besides those made here; the server is never open then."""
        self._identities: LRUCache[bytes, Identity] = LRUCache(10_000)
        self._lock = threading.Lock()
        self._answers: RememberedAnswers[Caller | bool] = RememberedAnswers()
        self._shared = SharedGrants()
        self._lent: LRUCache[Caller, str] = LRUCache(_MOST_LENT)
        self._borrowers: LRUCache[str, Caller] = LRUCache(_MOST_LENT)

    def open(self) -> bool:
        """Whether no token is configured anywhere, so that everybody may do everything."""
        return self._token is None and self.issuer is None and not self._answers.ask(_ANY_TOKEN, self._any_token)

    def _any_token(self) -> bool:
        with self._catalog.reading() as tx:
            return tx.tokens.any()

    @property
    def has_own_token(self) -> bool:
        """Whether an administrator can always come in: by the token of the settings."""
        return self._token is not None

    def caller(self, token: str | None) -> Caller:
        """Who sends this token; raises `NotAuthorized`. On an open server everybody is welcome, whatever they send."""
        if self.open():
            return EVERYBODY
        if token is None:
            raise NotAuthorized("This server wants a token: send the header 'Authorization: Bearer …'.")
        if self._token is not None and hmac.compare_digest(token.encode(), self._token.encode()):
            return ADMINISTRATOR
        with self._lock:
            borrower = self._borrowers.get(token)
        if borrower is not None:
            return self.renewed(borrower)
        if self.issuer is not None and (identity := self.issuer.identify(token)) is not None:
            return self.identified(identity)
        if not token.startswith(TOKEN_PREFIX):  # Postgres has not to be asked
            raise _unknown_token()
        return self._holder(token_digest(token))

    def identified(self, identity: Identity) -> Caller:
        """Somebody an issuer vouches for, with what is granted here; raises `NotAuthorized` once that is over."""
        digest = identity.digest()
        with self._lock:
            self._identities[digest] = identity
        return self._holder(digest)

    def returning(self, digest: bytes) -> Caller:
        """Who came with the token of this SHA-256 before; raises `NotAuthorized` once it is revoked, expired or replaced."""
        if self._token is not None and hmac.compare_digest(digest, token_digest(self._token)):
            return ADMINISTRATOR
        return self._holder(digest)

    def _holder(self, digest: bytes) -> Caller:
        holder = self._found(digest)
        if not isinstance(holder, Caller):
            raise _unknown_token()
        return holder

    def renewed(self, caller: Caller) -> Caller:
        """The same caller with what is granted to it now; raises `NotAuthorized` once its token is revoked or has expired.

        Of a principal that was `named`, once it has none left.
        """
        if caller.by_name:
            return self.named(caller.principal)
        digest = caller.token
        if digest is None:
            return caller
        holder = self._found(digest)
        if not isinstance(holder, Caller):
            raise NotAuthorized("The token this began with was revoked or has expired.")
        return holder

    def _found(self, digest: bytes) -> Caller | bool | None:
        with self._lock:
            identity = self._identities.get(digest)
        if _is_over(identity):
            return None
        return self._answers.ask(digest, lambda: self._look_up(digest, identity))

    def at(self, tx: CatalogTransaction, caller: Caller) -> Caller:
        """The same caller with what is granted to it at the moment of a transaction that is `consistent`; raises what `renewed` raises.

        For whoever looks at many tables there: what it may see of them is of the same moment as their names.
        """
        if caller.administrator or (caller.token is None and not caller.by_name):
            return caller
        if caller.token is None:
            identified = self._named_in(tx, caller.principal, caller)
        else:
            with self._lock:
                identity = self._identities.get(caller.token)
            identified = None if _is_over(identity) else self._held_in(tx, caller.token, identity, caller)
        if identified is None:
            raise NotAuthorized("The token this began with was revoked or has expired.")
        return identified

    def _look_up(self, digest: bytes, identity: Identity | None) -> Caller | None:
        with self._catalog.consistent() as tx:
            return self._held_in(tx, digest, identity, self._answers.last(digest))

    def lend(self, caller: Caller) -> str | None:
        """A token by which this process's own helpers come in as the caller; None where nobody is asked for one."""
        if self.open():
            return None
        with self._lock:
            token = self._lent.get(caller)
            if token is None:
                token = self._lent[caller] = f"lent-{secrets.token_urlsafe(32)}"
                self._borrowers[token] = caller
            return token

    def named(self, principal: str) -> Caller:
        """A principal nobody speaks for now, with its present grants; raises `NotAuthorized` where it has no token left."""
        if self.open():
            return EVERYBODY
        if principal == ADMINISTRATOR.principal and self._token is not None:
            return ADMINISTRATOR
        named = self._answers.ask(_NAMED + principal.encode(), lambda: self._look_up_named(principal))
        if not isinstance(named, Caller):
            raise NotAuthorized(f"{principal} has no token any more; its jobs do not run.")
        return named

    def _look_up_named(self, principal: str) -> Caller | None:
        with self._catalog.consistent() as tx:
            return self._named_in(tx, principal, self._answers.last(_NAMED + principal.encode()))

    def _held_in(self, tx: CatalogTransaction, digest: bytes, identity: Identity | None, last: Caller | bool | None) -> Caller | None:
        """Who a token speaks for, an issuer's where there is an identity; None where it is none that is valid. ``last`` as `_of`'s."""
        if identity is not None:
            if tx.roles.exists(identity.principal):
                raise NotAuthorized(
                    f"The token is not taken: '{identity.principal}' is the name of a role here, and no caller bears one. "
                    "Let SLUICE_OIDC_PRINCIPAL_CLAIM name another claim, or make the role anew under another name."
                )
            who = Caller(principal=identity.principal, roles=identity.roles, claimed=identity.roles, token=digest)
            return self._of(tx, who, last, administrator=False)
        token = tx.tokens.valid(digest)
        if token is None:
            return None
        return self._of(tx, Caller(principal=token.principal, token=digest), last, administrator=token.administrator)

    def _named_in(self, tx: CatalogTransaction, principal: str, last: Caller | bool | None) -> Caller | None:
        """A principal nobody speaks for; None where it has no token left."""
        tokens = tx.tokens.of(principal)
        if not tokens:
            return None
        who = Caller(principal=principal, by_name=True)
        return self._of(tx, who, last, administrator=any(token.administrator for token in tokens))

    def _of(self, tx: CatalogTransaction, who: Caller, last: Caller | bool | None, *, administrator: bool) -> Caller:
        """Somebody with all that is granted to it; where that is what it was, the caller it was ``last``, which has looked through it."""
        roles = frozenset(tx.roles.of(who.principal, *who.roles)) | who.roles
        if administrator or ADMIN in roles:
            return replace(who, administrator=True, roles=roles | {ADMIN})
        caller = replace(who, roles=roles)
        grants = self._shared.of(tx, who.principal, caller.names)
        filtered = tx.policies.binding(caller.names, of_rows=True)
        if isinstance(last, Caller) and last.is_still(caller, grants, filtered):
            return last
        tables = {**filtered, **_tables_of(grants)}
        return replace(caller, grants=grants, filtered=frozenset(filtered), tables=frozenset(tables.items()))

    def anew(self, caller: Caller) -> Caller:
        """The same caller with what is granted to it now, and no moment earlier; raises what `renewed` raises."""
        self.forget()
        return self.renewed(caller)

    def forget(self) -> None:
        """Ask Postgres anew from now on: something was granted, revoked, renamed or dropped here."""
        self._answers.forget()


def token_digest(token: str) -> bytes:
    """What the catalog, and a browser's cookie, keep of a token instead of it."""
    return hashlib.sha256(token.encode()).digest()


def _unknown_token() -> NotAuthorized:
    return NotAuthorized("The token is not one this server knows, or it has expired.")


def _is_over(identity: Identity | None) -> bool:
    """Whether an issuer's word is one that counts no more."""
    return identity is not None and identity.expires_at <= time.time()


def _tables_of(grants: Iterable[Grant]) -> dict[tuple[str, str], UUID]:
    """Which table each name in these grants means."""
    return {(grant.resource.database or "", grant.resource.name or ""): grant.table_id for grant in grants if grant.table_id is not None}
