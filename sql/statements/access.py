"""GRANT, REVOKE, roles, policies, and what shows them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lake.access.permissions import BINDS, Permissions
from model.access import Access, Columns, Grant, Policy, Resource, ResourceType
from model.errors import InvalidGrant
from sql.analysis.policies import mask, row_filter
from sql.execution.results import ResultColumn, ResultSet, strings
from sql.parsing import trees
from sql.parsing.access import resource_of
from sql.statements.base import ExecutionContext, LocalStatement, LookingStatement, handles


def _permissions(context: ExecutionContext) -> Permissions:
    return context.lake.permissions


def _narrowed(resource: Resource, columns: Columns | None) -> Resource:
    """A SELECT of some columns is about the COLUMN resource."""
    if columns is None:
        return resource
    if resource.type is not ResourceType.TABLE:
        raise InvalidGrant(f"Columns can be named for a table only, not for {resource}.")
    return replace(resource, type=ResourceType.COLUMN)


@handles(trees.Grant)
@dataclass(frozen=True)
class GrantAccess(LocalStatement):
    """``GRANT accesses ON resource TO principals``."""

    tree: trees.Grant

    def run(self, context: ExecutionContext) -> ResultSet:
        """Give all of them, or none."""
        args = self.tree.args
        resource = resource_of(args["what"], args["name"], context.session.current_database)
        accesses: tuple[tuple[Access, Columns | None], ...] = args["accesses"]
        until: dt.datetime | None = args["until"]
        grants = [
            Grant(resource=_narrowed(resource, columns), access=access, principal=principal, columns=columns, expires_at=until)
            for principal in args["principals"]
            for access, columns in accesses
        ]
        _permissions(context).grant(*grants, claim=context.idempotency)
        return ResultSet.ok()


@handles(trees.Revoke)
@dataclass(frozen=True)
class RevokeAccess(LocalStatement):
    """``REVOKE accesses ON resource FROM principals``."""

    tree: trees.Revoke

    def run(self, context: ExecutionContext) -> ResultSet:
        """Take all of them back, or none; a grant of columns is taken back as a whole."""
        args = self.tree.args
        resource = resource_of(args["what"], args["name"], context.session.current_database)
        taken = [
            (_narrowed(resource, columns), access, principal) for principal in args["principals"] for access, columns in args["accesses"]
        ]
        _permissions(context).revoke_all(taken, claim=context.idempotency)
        return ResultSet.ok()


@handles(trees.GiveRole)
@dataclass(frozen=True)
class GiveRole(LocalStatement):
    """``GRANT ROLE role TO principals``, ``REVOKE ROLE role FROM principals``."""

    tree: trees.GiveRole

    def run(self, context: ExecutionContext) -> ResultSet:
        """Change who has the role."""
        permissions = _permissions(context)
        change = permissions.grant_role if self.tree.args["give"] else permissions.revoke_role
        change(self.tree.args["role"], *self.tree.args["principals"], claim=context.idempotency)
        return ResultSet.ok()


@handles(trees.CreateRole)
@dataclass(frozen=True)
class CreateRole(LocalStatement):
    """``CREATE ROLE name``."""

    tree: trees.CreateRole

    def run(self, context: ExecutionContext) -> ResultSet:
        """Add the role."""
        _permissions(context).create_role(self.tree.args["name"], if_not_exists=self.tree.args["if_not_exists"], claim=context.idempotency)
        return ResultSet.ok()


@handles(trees.DropRole)
@dataclass(frozen=True)
class DropRole(LocalStatement):
    """``DROP ROLE name``."""

    tree: trees.DropRole

    def run(self, context: ExecutionContext) -> ResultSet:
        """Remove the role and what was granted to it."""
        args = self.tree.args
        _permissions(context).drop_role(args["name"], if_exists=args["if_exists"], claim=context.idempotency)
        return ResultSet.ok()


@handles(trees.CreatePolicy)
@dataclass(frozen=True)
class CreatePolicy(LocalStatement):
    """``CREATE [MASKING] POLICY name ON table …``."""

    tree: trees.CreatePolicy

    def run(self, context: ExecutionContext) -> ResultSet:
        """Check the rule against the table and put it there."""
        args = self.tree.args
        table = context.lake.open_whole(context.session.identifier(args["table"]), BINDS)
        column: str | None = args["column"]
        if column is None:
            rule = row_filter(args["rule"], table.schema)
        else:
            rule = mask(args["rule"], table.schema.field(column, table=str(table.identifier)), table.schema)
        policy = Policy(name=args["name"], column=column, principals=tuple(args["principals"]), sql=args["source"], rule=rule)
        _permissions(context).create_policy(table.identifier, policy, claim=context.idempotency)
        return ResultSet.ok()


@handles(trees.DropPolicy)
@dataclass(frozen=True)
class DropPolicy(LocalStatement):
    """``DROP [MASKING] POLICY name ON table``."""

    tree: trees.DropPolicy

    def run(self, context: ExecutionContext) -> ResultSet:
        """Take the policy away."""
        args = self.tree.args
        table = context.session.identifier(args["table"])
        _permissions(context).drop_policy(table, args["name"], if_exists=args["if_exists"], claim=context.idempotency)
        return ResultSet.ok()


@handles(trees.ShowGrants)
@dataclass(frozen=True)
class ShowGrants(LookingStatement):
    """``SHOW GRANTS [ON resource | FOR principal]``."""

    tree: trees.ShowGrants

    def columns(self, context: ExecutionContext) -> Sequence[ResultColumn]:
        """Who may do what, where and how long."""
        return strings("principal", "access", "resource", "expires at")

    def rows(self, context: ExecutionContext) -> Iterable[tuple[object, ...]]:
        """One row for each grant and each role given, as far as the caller may see them."""
        args, permissions = self.tree.args, _permissions(context)
        principal: str | None = args.get("principal")
        rows: list[tuple[str | None, ...]] = []
        if args.get("what") is not None:
            resource = resource_of(args["what"], args["name"], context.session.current_database)
            grants = permissions.grants_on(resource)
            if resource.type is ResourceType.TABLE:
                grants += permissions.grants_on(replace(resource, type=ResourceType.COLUMN))
        else:
            grants = permissions.grants_of(principal)
            memberships = [pair for pair in permissions.memberships() if principal in (None, pair[1])]
            rows = [(member, "ROLE", role, None) for role, member in memberships]
        rows += [(g.principal, g.words, g.resource.sql(), g.expires_at.isoformat() if g.expires_at else None) for g in grants]
        return rows


@handles(trees.ShowRoles)
@dataclass(frozen=True)
class ShowRoles(LookingStatement):
    """``SHOW ROLES``."""

    tree: trees.ShowRoles

    def columns(self, context: ExecutionContext) -> Sequence[ResultColumn]:
        """Names alone."""
        return strings("role name")

    def rows(self, context: ExecutionContext) -> Iterable[tuple[object, ...]]:
        """The roles the caller may know of."""
        return [(name,) for name in _permissions(context).roles()]


@handles(trees.ShowPolicies)
@dataclass(frozen=True)
class ShowPolicies(LookingStatement):
    """``SHOW POLICIES ON table``."""

    tree: trees.ShowPolicies

    def columns(self, context: ExecutionContext) -> Sequence[ResultColumn]:
        """A policy and the rule it is."""
        return strings("policy name", "kind", "column", "principals", "rule")

    def rows(self, context: ExecutionContext) -> Iterable[tuple[object, ...]]:
        """The table's row filters and masks."""
        table = context.session.identifier(self.tree.args["table"])
        policies = _permissions(context).policies(table)
        return [(p.name, "MASK" if p.column else "ROW", p.column, ", ".join(p.principals) or "everyone", p.sql) for p in policies]
