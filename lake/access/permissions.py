"""Tokens, roles, grants and policies, made and taken on behalf of a caller."""

from __future__ import annotations

import datetime as dt
import secrets
from collections.abc import Sequence
from uuid import UUID

from catalog import CatalogStore, CatalogTransaction
from catalog.records import TableRow
from lake.access.callers import ADMINISTRATOR, EVERYBODY, TOKEN_PREFIX, AccessControl, Caller, token_digest
from lake.access.guard import needs, require_known, with_present_rights
from lake.commit.claims import Claim, claimed_in
from lake.register.standing import Standing
from lake.tables.names import refuse_branch
from model.access import (
    ADMIN,
    PUBLIC,
    Access,
    AccessToken,
    Grant,
    Policy,
    Resource,
    ResourceType,
    check_principal,
    columns_in,
    table_resource,
)
from model.catalog_errors import FunctionNotExist, ViewNotExist
from model.errors import AccessAlreadyExist, AccessNotExist, Forbidden, InvalidGrant
from model.identifier import Identifier

_OWN_NAMES = (EVERYBODY.principal, ADMINISTRATOR.principal)
_MOST_TOLD = 5
_TABLE_BOUND = (ResourceType.TABLE, ResourceType.COLUMN)
BINDS = "a policy binds a table with all its branches, by the columns of main"
"""Why a policy is put on a table, and never on a branch."""


class Permissions:
    """What a caller may see and change of who may do what."""

    def __init__(self, catalog: CatalogStore, access: AccessControl, caller: Caller, standing: Standing) -> None:
        self.standing = standing
        self._catalog = catalog
        self._access = access
        self.caller = caller

    def renew(self) -> None:
        """Read the caller's rights anew: a name means another table than when they were read."""
        self.caller = self._access.anew(self.caller)

    def _table(self, tx: CatalogTransaction, resource: Resource) -> TableRow:
        """The table of a resource, of which the caller's rights speak; raises `TableNotExist`, `RenamedMeanwhile`."""
        name = Identifier(resource.database or "", resource.name or "")
        row = tx.tables.get(name)
        require_known(self.caller, name, row.table_id)
        return row

    def _held(self, tx: CatalogTransaction, resource: Resource) -> TableRow:
        """The same, and no ALTER goes on until the transaction ends: it asks which columns rules name."""
        tx.tables.hold(self._table(tx, resource).table_id)
        return self._table(tx, resource)

    # Tokens

    def create_token(
        self, name: str, *, principal: str | None = None, administrator: bool = False, expires_at: dt.datetime | None = None
    ) -> tuple[AccessToken, str]:
        """Make a token; its secret is told now and never again. The first of an open server is an administrator's."""
        self.caller.administers()
        check_principal(name)
        check_principal(principal or name)
        if (principal or name) in _OWN_NAMES:
            raise InvalidGrant(f"{principal or name} is the server's own name for a caller; a token speaks for somebody else.")
        now = dt.datetime.now(dt.UTC)
        if expires_at is not None and expires_at <= now:
            raise InvalidGrant(f"The token would have expired at {expires_at.isoformat(sep=' ', timespec='seconds')}, before it was made.")
        secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
        made = AccessToken(name=name, principal=principal or name, administrator=administrator, created_at=now, expires_at=expires_at)
        with self._catalog.transaction() as tx:
            tx.tokens.lock()
            if not administrator and not tx.tokens.any() and not self._access.has_own_token:
                raise InvalidGrant("The first token closes an open server, so it must be an administrator's: nobody could make another.")
            if made.principal in tx.roles.names():
                raise InvalidGrant(f"{made.principal} is a role; a token belongs to a user, to whom roles are granted.")
            if (
                administrator
                and not any(token.administrator for token in tx.tokens.of(made.principal))
                and tx.jobs.all(principal=made.principal)
            ):
                raise InvalidGrant(
                    f"{made.principal} has jobs, which would run with an administrator's rights from now on, and which its other tokens "
                    "steer. Make the token for another principal."
                )
            digest = token_digest(secret)
            tx.tokens.create(name, principal=made.principal, administrator=administrator, digest=digest, expires_at=expires_at)
        self._access.forget()
        return made, secret

    def tokens(self) -> list[AccessToken]:
        """Every token, without its secret."""
        self.caller.administers()
        with self._catalog.reading() as tx:
            return tx.tokens.all()

    def revoke_token(self, name: str) -> bool:
        """Make a token worthless; True where it was the last and the server is open from now on."""
        self.caller.administers()
        with self._catalog.transaction() as tx:
            tx.tokens.lock()
            tx.tokens.drop(name)
            left = tx.tokens.all()
            now = tx.state.clock().now  # by which tokens expire
            administrators = [token for token in left if token.administrator and (token.expires_at is None or token.expires_at > now)]
            if left and not self._access.has_own_token and not administrators:
                raise InvalidGrant(f"{name} is the last administrator's token while others exist: nobody could make or revoke any more.")
        self._access.forget()
        return not left and not self._access.has_own_token

    # Roles

    def roles(self) -> list[str]:
        """All roles to an administrator, one's own to others."""
        if not self.caller.administrator:
            return sorted(self.caller.roles | {PUBLIC})
        with self._catalog.reading() as tx:
            return tx.roles.names()

    def create_role(self, name: str, *, if_not_exists: bool = False, claim: Claim | None = None) -> None:
        """Add a role, once under a claim."""
        self.caller.administers()
        self.standing.require_own()
        check_principal(name)
        with self._catalog.transaction() as tx, claimed_in(tx, claim):
            tx.tokens.lock()
            if any(token.principal == name for token in tx.tokens.all()):
                raise InvalidGrant(f"{name} is a user with a token; a role needs a name of its own.")
            if not tx.roles.create(name) and not if_not_exists:
                raise AccessAlreadyExist(f"There is a role {name}.")
        self._access.forget()

    def drop_role(self, name: str, *, if_exists: bool = False, claim: Claim | None = None) -> None:
        """Remove a role, once under a claim, and with it what was granted to it.

        Raises `InvalidGrant` while a policy binds it, or a role that others have by it.
        """
        self.caller.administers()
        self.standing.require_own()
        if name in (ADMIN, PUBLIC):
            raise InvalidGrant(f"The role {name} is part of the server; what was granted to it can be revoked.")
        with self._catalog.transaction() as tx, claimed_in(tx, claim):
            passed_on = tx.roles.of(name) if any(role == name for role, _ in tx.roles.members()) else []
            if not tx.roles.drop(name):
                if not if_exists:
                    raise AccessNotExist(f"There is no role {name}.")
            # Asked when the role is gone, for which policies in the making were waited for.
            elif bound := tx.policies.naming(name, *passed_on):
                first = ", ".join(f"{policy} on {database}.{table}" for database, table, policy in bound[:_MOST_TOLD])
                raise InvalidGrant(
                    f"Policies bind the role {name} or one given to it, and whoever has it would see more without: {first}"
                    f"{', …' if len(bound) > _MOST_TOLD else ''}. Drop those first (a dropped table keeps its own until it is purged)."
                )
            tx.quotas.forget_role(name)
        self._access.forget()

    def grant_role(self, role: str, *members: str, claim: Claim | None = None) -> None:
        """Give a role to users or to other roles, all or none, once under a claim."""
        self.caller.administers()
        self.standing.require_own()
        for member in members:
            check_principal(member)
        if PUBLIC in (role, *members):
            raise InvalidGrant("Everybody has the role public, and it has no roles.")
        with self._catalog.transaction() as tx, claimed_in(tx, claim):
            for member in members:
                if member == role or member in tx.roles.of(role):
                    raise InvalidGrant(f"The role {role} is, directly or not, given to {member}, so it cannot be the other way round, too.")
                tx.roles.add(role, member)
        self._access.forget()

    def revoke_role(self, role: str, *members: str, claim: Claim | None = None) -> None:
        """Take a role back, from all or none, once under a claim."""
        self.caller.administers()
        with self._catalog.transaction() as tx, claimed_in(tx, claim):
            for member in members:
                if not tx.roles.remove(role, member):
                    raise AccessNotExist(f"{member} has not been given the role {role}.")
        self._access.forget()

    def memberships(self) -> list[tuple[str, str]]:
        """(role, member) of all to an administrator, of oneself to others."""
        with self._catalog.reading() as tx:
            members = tx.roles.members()
        return [pair for pair in members if self.caller.administrator or pair[1] in self.caller.names]

    # Grants

    def grant(self, *grants: Grant, claim: Claim | None = None) -> None:
        """Give accesses, all or none; takes GRANT on each of the resources. What was given can be taken back in any catalog."""
        self.standing.require_own()
        with_present_rights(self, lambda: self._grant(grants, claim))
        self._access.forget()

    def _grant(self, grants: Sequence[Grant], claim: Claim | None) -> None:
        with self._catalog.transaction() as tx, claimed_in(tx, claim):
            for grant in grants:
                self.caller.require(Access.GRANT, grant.resource)
                tx.grants.put(grant, table_id=self._table_id(tx, grant))

    def _table_id(self, tx: CatalogTransaction, grant: Grant) -> UUID | None:
        """The table of a grant; None for other things, which are held until the transaction ends and may not be names alone."""
        if grant.resource.type not in _TABLE_BOUND:
            _hold_named(tx, grant.resource)
            return None
        row = self._table(tx, grant.resource) if grant.columns is None else self._held(tx, grant.resource)
        names = {field["name"] for field in row.schema["fields"]}
        if grant.columns is not None and (unknown := [name for name in grant.columns.names if name not in names]):
            raise InvalidGrant(f"{grant.resource} has no column {unknown[0]}.")
        return row.table_id

    def revoke(self, resource: Resource, accesses: Sequence[Access], principal: str) -> None:
        """Take accesses to one resource back; see `revoke_all`."""
        self.revoke_all([(resource, access, principal) for access in accesses])

    def revoke_all(self, taken: Sequence[tuple[Resource, Access, str]], *, claim: Claim | None = None) -> None:
        """Take accesses back, all or none, once under a claim; raises `AccessNotExist` for one that was not given."""
        with_present_rights(self, lambda: self._revoke(taken, claim))
        self._access.forget()

    def _revoke(self, taken: Sequence[tuple[Resource, Access, str]], claim: Claim | None) -> None:
        for resource, _, _ in taken:
            self.caller.require(Access.GRANT, resource)
        with self._catalog.transaction() as tx, claimed_in(tx, claim):
            for resource, access, principal in taken:
                table_id = self._table(tx, resource).table_id if resource.type in _TABLE_BOUND else None
                if not tx.grants.remove(resource, access, principal, table_id=table_id):
                    raise AccessNotExist(f"{access} on {resource} has not been granted to {principal}.")

    def grants_on(self, resource: Resource) -> list[Grant]:
        """The grants on a resource: all to who may GRANT there, one's own to others."""
        return with_present_rights(self, lambda: self._grants_on(resource))

    def _grants_on(self, resource: Resource) -> list[Grant]:
        with self._catalog.consistent() as tx:
            if resource.type in _TABLE_BOUND:
                self._table(tx, resource)
            grants = tx.grants.on(resource)
        may_grant = self.caller.may(Access.GRANT, resource)
        return [grant for grant in grants if may_grant or grant.principal in self.caller.names]

    def grants_of(self, principal: str | None = None) -> list[Grant]:
        """The grants of one principal, or all that concern the caller; others' are an administrator's to see."""
        if principal is not None and not self.caller.administrator and principal not in self.caller.names:
            raise Forbidden(f"{self.caller.principal} may not see what is granted to {principal}: it takes the role {ADMIN}.")
        with self._catalog.reading() as tx:
            if principal is None and self.caller.administrator:
                return tx.grants.all()
            return tx.grants.of([principal] if principal is not None else self.caller.names)

    # Policies

    @needs(Access.GRANT)
    def create_policy(self, table: Identifier, policy: Policy, *, claim: Claim | None = None) -> None:
        """Put a row filter or column mask on a table, once under a claim; takes GRANT on it.

        Raises `InvalidGrant` where it names a column that main's newest schema has not, and for a mask that would show what another
        one masks.
        """
        refuse_branch(table, BINDS)
        for principal in policy.principals:
            check_principal(principal)
        with self._catalog.transaction() as tx, claimed_in(tx, claim):
            row = self._held(tx, table_resource(table))
            if missing := sorted(policy.columns - {field["name"] for field in row.schema["fields"]}):
                raise InvalidGrant(f"Policy {policy.name} names column {missing[0]}, which table {row.database}.{row.name} has not.")
            if policy.column is not None:
                _require_masked_apart(table, policy, policy.column, tx.policies.of(row.table_id))
            tx.roles.hold(policy.principals)  # `drop_role` waits for this one, or this one for it
            tx.policies.create(row.table_id, policy)
        self._access.forget()

    @needs(Access.GRANT)
    def drop_policy(self, table: Identifier, name: str, *, if_exists: bool = False, claim: Claim | None = None) -> None:
        """Take a policy away, once under a claim; takes GRANT on the table."""
        refuse_branch(table, BINDS)
        with self._catalog.transaction() as tx, claimed_in(tx, claim):
            if not tx.policies.drop(self._table(tx, table_resource(table)).table_id, name) and not if_exists:
                raise AccessNotExist(f"Table {table} has no policy {name}.")
        self._access.forget()

    def policies(self, table: Identifier) -> list[Policy]:
        """A table's policies: all to who may GRANT on it, those that bind them to others."""
        return with_present_rights(self, lambda: self._policies(table))

    def _policies(self, table: Identifier) -> list[Policy]:
        self.caller.require_sight(table)
        with self._catalog.reading() as tx:
            policies = tx.policies.of(self._table(tx, table_resource(table)).table_id)
        may_grant = self.caller.may(Access.GRANT, table_resource(table))
        return [policy for policy in policies if may_grant or policy.binds(self.caller.names)]


def _hold_named(tx: CatalogTransaction, resource: Resource) -> None:
    """Hold a view or function; raises `ViewNotExist`, `FunctionNotExist`: a grant on a name alone would wait for whoever makes one."""
    database, name = resource.database or "", resource.name or ""
    if resource.type is ResourceType.VIEW and tx.views.lock(database, name) is None:
        raise ViewNotExist(f"{database}.{name}")
    if resource.type is ResourceType.FUNCTION and tx.functions.lock(database, name) is None:
        raise FunctionNotExist(f"{database}.{name}")


def _require_masked_apart(table: Identifier, made: Policy, column: str, there: Sequence[Policy]) -> None:
    """Raise `InvalidGrant` where a mask would read a column that is masked itself, or mask one that another mask reads."""
    for other in there:
        if other.column is None or other.column == column:
            continue
        if other.column in columns_in(made.rule):
            raise InvalidGrant(
                f"The mask of column {column} reads column {other.column}, which is masked itself (by {other.name}) and would be shown raw."
            )
        if column in columns_in(other.rule):
            raise InvalidGrant(
                f"Column {column} is read by the mask of column {other.column}, which would show it raw. "
                f"DROP MASKING POLICY {other.name} ON {table} first, and make it anew without {column}."
            )


def sees_part(caller: Caller, table: Identifier, *, bound: bool) -> bool:
    """Whether a caller is not told what a table holds, as a part of it, or all, is kept from it; ``bound`` says a policy binds it.

    Who writes to a table and reads nothing of it is told.
    """
    if caller.may(Access.SELECT, table_resource(table)):
        return bound
    return bool(caller.columns(table)) or not caller.writes(table)


def require_to_replace_files(catalog: CatalogStore, caller: Caller, table: Identifier, table_id: UUID) -> None:
    """Raise `Forbidden` for one from whom rows or columns of a table are kept: what it puts in the place of files, nobody compares."""
    if _part_is_kept(catalog, caller, table, table_id):
        raise Forbidden(
            f"{caller.principal} may not commit a compaction of table {table}: a policy or a grant on columns keeps a part of it from "
            f"{caller.principal}, and others would lie in the place of its files. CALL sys.compact(table => '{table}') merges them."
        )


def require_to_add_indexes(catalog: CatalogStore, caller: Caller, table: Identifier, table_id: UUID) -> None:
    """Raise `Forbidden` for one from whom rows or columns of a table are kept: an index tells of all its rows, and nobody compares it."""
    if _part_is_kept(catalog, caller, table, table_id):
        raise Forbidden(
            f"{caller.principal} may not add an index to table {table}: a policy or a grant on columns keeps a part of it from "
            f"{caller.principal}, and readers leave rows out by what an index says. Whoever sees all of the table can add it."
        )


def _part_is_kept(catalog: CatalogStore, caller: Caller, table: Identifier, table_id: UUID) -> bool:
    if caller.administrator:
        return False
    with catalog.reading() as tx:
        bound = any(policy.binds(caller.names) for policy in tx.policies.of(table_id))
    return bound or sees_part(caller, table, bound=bound)
