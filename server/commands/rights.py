"""Who may do what after a restore and might not before it: a backup cannot know what was taken back, or hidden, since it was made."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from uuid import UUID

from catalog import CatalogStore
from lake.register.restored.after_restore import Difference
from model.access import AccessToken, Columns, Grant, Policy
from model.identifier import Identifier
from model.text.sql_text import literal, quote

_SINCE = "as when the backup was made; the catalog it replaced did not let it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What a catalog says of who may do what."""

    grants: tuple[Grant, ...]
    tokens: tuple[AccessToken, ...]
    members: tuple[tuple[str, str], ...]
    """Each role with whom it is given to."""
    policies: Mapping[UUID, Mapping[str, Policy]]
    """Of each table, by name, those of dropped tables that are kept among them."""
    tables: Mapping[UUID, Identifier]
    """The names of the tables that are not dropped."""
    dropped: Mapping[UUID, Identifier] = field(default_factory=dict)
    """The names that those had which are dropped and kept."""


def rights_of(catalog: CatalogStore) -> Rights:
    """Read them, all as of one moment."""
    with catalog.consistent() as tx:
        tables = {row.table_id: Identifier(row.database, row.name) for row in tx.tables.all()}
        dropped = {row.table_id: row.identifier for row in tx.drops.tables()}
        return Rights(
            grants=tuple(tx.grants.all()),
            tokens=tuple(tx.tokens.all()),
            members=tuple(tx.roles.members()),
            policies={table_id: {policy.name: policy for policy in tx.policies.of(table_id)} for table_id in (*tables, *dropped)},
            tables=tables,
            dropped=dropped,
        )


def given_again(before: Rights, after: Rights) -> Iterator[Difference]:
    """Grants, tokens, roles and policies by which somebody may do or see what the catalog that was replaced did not let them."""
    now = dt.datetime.now(dt.UTC)
    yield from grants_given_again(before.grants, after.grants)
    for token in after.tokens:
        if token not in before.tokens and (token.expires_at is None or token.expires_at > now):
            who = f"{token.principal}, as administrator," if token.administrator else token.principal
            yield Difference(
                table=f"token {token.name}", what=f"it speaks for {who} again, {_SINCE}", statement=f"sluice token revoke {token.name}"
            )
    for role, member in after.members:
        if (role, member) not in before.members:
            statement = f"REVOKE ROLE {quote(role)} FROM {quote(member)}"
            yield Difference(table=f"role {role}", what=f"{member} has it again, {_SINCE}", statement=statement)
    for table_id, policies in before.policies.items():
        name = after.tables.get(table_id) or before.tables.get(table_id) or before.dropped.get(table_id)
        for policy in policies.values() if name is not None else ():
            there = after.policies.get(table_id, {}).get(policy.name)
            if name is not None and there != policy:
                yield _policy_lost(name, policy, there, once=_way_back(table_id, after))
    yield from _grants_lost(before, after)


def _way_back(table_id: UUID, after: Rights) -> str:
    """When what is said of a table can be said again, where it is not there now."""
    if table_id in after.tables:
        return ""
    return (
        "; make it as soon as UNDROP has brought the table back"
        if table_id in after.dropped
        else ("; the backup has no such table: make it as soon as CALL sys.register_table has, before anybody is granted something on it")
    )


def _grants_lost(before: Rights, after: Rights) -> Iterator[Difference]:
    """Grants on tables that the backup lacks: who registers them begins without."""
    now = dt.datetime.now(dt.UTC)
    lacking = {(name.database, name.table) for table_id, name in before.tables.items() if table_id not in after.policies}
    for grant in before.grants:
        if (grant.resource.database, grant.resource.name) not in lacking or (grant.expires_at is not None and grant.expires_at <= now):
            continue
        columns = "" if grant.columns is None else _columns(grant.columns)
        until = "" if grant.expires_at is None else f" UNTIL {literal(grant.expires_at.isoformat())}"
        statement = f"GRANT {grant.access.value}{columns} ON {grant.resource.sql()} TO {quote(grant.principal)}{until}"
        what = f"{grant.principal} might {grant.access.value} and may not once the table, which the backup lacks, is registered again"
        yield Difference(table=str(grant.resource), what=what, statement=statement)


def grants_given_again(before: tuple[Grant, ...], after: tuple[Grant, ...]) -> Iterator[Difference]:
    """Grants that were not there any more, or never, or of fewer columns, or for a shorter time."""
    now = dt.datetime.now(dt.UTC)
    had = {(grant.resource, grant.access, grant.principal): grant for grant in before}
    for grant in after:
        known = had.get((grant.resource, grant.access, grant.principal))
        if grant.expires_at is not None and grant.expires_at <= now:
            continue
        columns = "" if grant.columns is None else _columns(grant.columns)
        statement = f"REVOKE {grant.access.value}{columns} ON {grant.resource.sql()} FROM {quote(grant.principal)}"
        if known is None:
            what = f"{grant.principal} may {grant.access.value} again, {_SINCE}"
        elif wider := [*_more_columns(known.columns, grant.columns), *_longer(known.expires_at, grant.expires_at)]:
            what = f"{grant.principal} may {grant.access.value} {' and '.join(wider)}, as when the backup was made, before it was made less"
        else:
            continue
        yield Difference(table=str(grant.resource), what=what, statement=statement)


def _columns(columns: Columns) -> str:
    return f"{' EXCEPT' if columns.excluded else ''} ({', '.join(map(quote, columns.names))})"


def _more_columns(before: Columns | None, after: Columns | None) -> Iterator[str]:
    if before is None or after is None or before == after:
        return
    old, new = set(before.names), set(after.names)
    if before.excluded and after.excluded:
        fewer = old <= new
    else:
        fewer = not before.excluded and not after.excluded and new <= old
    if not fewer:
        yield f"all columns but {', '.join(after.names)} again" if after.excluded else f"the columns {', '.join(after.names)} again"


def _longer(before: dt.datetime | None, after: dt.datetime | None) -> Iterator[str]:
    if before is not None and (after is None or after > before):
        yield "without an end again" if after is None else f"until {after.isoformat()} again"


def _policy_lost(table: Identifier, policy: Policy, there: Policy | None, *, once: str = "") -> Difference:
    """What a policy that was made, or made anew, since the backup hid."""
    masking = "" if policy.column is None else "MASKING "
    hidden = "rows it hid are shown" if policy.column is None else f"column {policy.column} is shown raw"
    on = table.quoted()
    column = "" if policy.column is None else f" ({quote(policy.column)})"
    to = f" TO {', '.join(map(quote, policy.principals))}" if policy.principals else ""
    statement = f"CREATE {masking}POLICY {quote(policy.name)} ON {on}{column}{to} USING ({policy.sql})"
    if there is None:
        what = f"policy {policy.name} was made since the backup and is gone: {hidden}"
    else:
        what = f"policy {policy.name} was made anew since the backup and is as it was then: {hidden}, as far as only the newer one kept it"
        statement = f"DROP {'' if there.column is None else 'MASKING '}POLICY {quote(policy.name)} ON {on}; {statement}"
    return Difference(table=str(table), what=what + once, statement=statement)
