"""What of a table a caller sees, whatever its columns are called in what is read, and that no ALTER takes a column from under a rule.

Grants and policies name columns as main's newest schema does; a column is the same one where its id is. A branch may have it under
another name, or another column under its name: either is kept from whom the rule binds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any
from uuid import UUID

from catalog import CatalogStore, CatalogTransaction
from lake.access.callers import Caller
from model.access import Access, Columns, Policy, ReadRules, columns_in, table_resource
from model.errors import Forbidden, InvalidSchemaChange, TableNotExist
from model.identifier import MAIN_BRANCH, Identifier
from model.schema.schema import Schema
from model.schema.types import DataType, parse_type
from model.schema.widening import keeps_values

AnySchema = Schema | Mapping[str, Any]
"""A schema, also as the catalog has it."""
Ids = Mapping[str, int]
"""The ids of a schema's columns, by name."""
_NOT_LIKE = re.compile(r"\bNOT\s+LIKE\b", re.IGNORECASE)
"""No row policy can say it; see `read_rules`."""


class Closed(Forbidden):
    """A rule that cannot be kept lets nobody it binds read the table, or know how much it holds."""


def ids_of(schema: AnySchema) -> Ids:
    """The columns of a schema."""
    if isinstance(schema, Schema):
        return {field.name: field.id for field in schema.fields}
    return {field["name"]: int(field["id"]) for field in schema["fields"]}


def _types_of(schema: AnySchema, ids: Collection[int]) -> dict[int, DataType]:
    """The types of those of a schema's columns that have these ids, by them."""
    if isinstance(schema, Schema):
        return {field.id: field.type for field in schema.fields if field.id in ids}
    return {number: parse_type(field["type"]) for field in schema["fields"] if (number := int(field["id"])) in ids}


def read_rules(catalog: CatalogStore, caller: Caller, table: Identifier, table_id: UUID, schema: AnySchema) -> ReadRules:
    """What of a table a caller sees that is read by a schema.

    Raises `Forbidden` for one that may not read any of it, `Closed` where a rule means columns that are not there, and `TableNotExist`.
    """
    if caller.administrator:
        return ReadRules()
    granted: Sequence[Columns] | None = None
    if not caller.may(Access.SELECT, table_resource(table)):
        granted = caller.columns(table)
        if not granted:
            caller.require(Access.SELECT, table_resource(table))
    with catalog.reading() as tx:
        policies = [policy for policy in tx.policies.of(table_id) if policy.binds(caller.names)]
        if granted is None and not policies:
            return ReadRules()
        row = tx.tables.by_id(table_id)
    if row is None:
        raise TableNotExist(str(table))
    main, read = ids_of(row.schema), ids_of(schema)
    binding = _of_present(policies)
    _require_kept(binding, table, main)
    judged = _judged(catalog, table, table_id, row.schema, schema, {name for policy in binding for name in policy.columns})
    masks: dict[str, Policy] = {}
    for policy in binding:
        if policy.column is not None:
            masks.setdefault(policy.column, policy)
    present = {column: mask for column, mask in masks.items() if _is_there(mask, main, judged)}
    columns = None if granted is None else _opened(caller, granted, table, main, read)
    if len(present) < len(masks):  # what is shown in their place is not there, and files may hold what no column shows any more
        unshown = {name for column in masks.keys() - present.keys() for name in _meant(column, main, read)}
        columns = (frozenset(read) if columns is None else columns) - unshown
    if gone := _gone_since(catalog, table, table_id, main, read):  # the rules that bound the caller went with them
        columns = (frozenset(read) if columns is None else columns) - gone
    columns = _without_dropped(columns, policies, read)
    filters = tuple(policy for policy in binding if policy.column is None)
    _require_there(filters, table, main, judged)
    return ReadRules(columns=columns, filters=filters, masks={name: _shown(mask, masks, columns) for name, mask in present.items()})


def _judged(catalog: CatalogStore, table: Identifier, table_id: UUID, main: AnySchema, read: AnySchema, named: set[str]) -> Ids:
    """The columns of what is read without those that rules name and whose values may be others there than in main.

    They may be where the types differ, and a version of the table or of the branch has one that does not keep the values of another: 300 is
    44 as TINYINT.
    """
    numbers = ids_of(read)
    ruled = {numbers[name] for name in named & numbers.keys()}
    of_main, of_read = _types_of(main, ruled), _types_of(read, ruled)
    doubtful = {number for number, type_ in of_main.items() if of_read[number] != type_.with_nullable(of_read[number].nullable)}
    if not doubtful:
        return numbers
    branches = {MAIN_BRANCH, table.branch}
    with catalog.reading() as tx:
        versions = [[_types_of(body, doubtful) for _, body in tx.tables.schemas(table_id, branch)] for branch in branches]
    cast = {number for number in doubtful for each in versions if not _only_widened([one[number] for one in each if number in one])}
    cast |= {
        number
        for number in doubtful
        if not (keeps_values(of_read[number], of_main[number]) or keeps_values(of_main[number], of_read[number]))
    }
    return {name: number for name, number in numbers.items() if number not in cast}


def _only_widened(types: Sequence[DataType]) -> bool:
    return all(keeps_values(old, new) for old, new in pairwise(types))


def _of_present(policies: Iterable[Policy]) -> list[Policy]:
    return [policy for policy in policies if policy.dropped is None]


def _without_dropped(columns: frozenset[str] | None, policies: Iterable[Policy], read: Ids) -> frozenset[str] | None:
    """The columns without those whose masks went along when they were dropped, as a branch may have them, and new ones of their names.

    Also where none is there it is not all of the table: its files hold them.
    """
    for mask in policies:
        if mask.dropped is not None:
            there = {name for name, number in read.items() if number == mask.dropped or name == mask.column}
            columns = (frozenset(read) if columns is None else columns) - there
    return columns


def _gone_since(catalog: CatalogStore, table: Identifier, table_id: UUID, main: Ids, read: Ids) -> frozenset[str]:
    """The columns of an earlier version that neither main nor the branch has any more."""
    gone = frozenset(name for name, number in read.items() if number not in main.values())
    if not gone or table.branch == MAIN_BRANCH:
        return gone
    with catalog.reading() as tx:
        _, newest = max(tx.tables.schemas(table_id, table.branch), key=lambda version: version[0])
    there = ids_of(newest).values()
    return frozenset(name for name in gone if read[name] not in there)


def _shown(mask: Policy, masks: Mapping[str, Policy], columns: frozenset[str] | None) -> Policy:
    """A mask as its reader sees it: NULL where it reads, besides its own, a column that is masked for them or that they may not read.

    None that is made now reads a masked column; earlier versions took one whose column was masked later.
    """
    read = columns_in(mask.rule) - {mask.column}
    if read.isdisjoint(masks) and (columns is None or read <= columns):
        return mask
    return replace(mask, sql="NULL", rule={"name": "NULL"})


def _require_kept(binding: Sequence[Policy], table: Identifier, main: Ids) -> None:
    """Raise `Closed` for policies of which nobody knows any more what they mean."""
    for policy in binding:
        if policy.column is None and _NOT_LIKE.search(policy.sql):
            raise Closed(
                f"Row policy {policy.name} of table {table} says NOT LIKE, of which earlier versions kept LIKE, its opposite; until the "
                "policy is made anew without it nobody it binds reads the table."
            )
        if gone := sorted(policy.columns - main.keys()):
            raise Closed(
                f"Policy {policy.name} of table {table} names column {gone[0]}, which was renamed or dropped; until the policy is "
                "made anew nobody it binds reads the table."
            )


def _require_there(filters: Sequence[Policy], table: Identifier, main: Ids, read: Ids) -> None:
    """Raise `Closed` for row policies by which the rows of what is read cannot be judged."""
    for policy in filters:
        if not _is_there(policy, main, read):
            raise Closed(
                f"Row policy {policy.name} names columns ({', '.join(sorted(policy.columns))}) as main has them, and {table} has not all "
                "of them under these names and with the same values, so that nobody the policy binds reads it. Read main, or give the "
                "columns the same names and types."
            )


def _opened(caller: Caller, granted: Sequence[Columns], table: Identifier, main: Ids, read: Ids) -> frozenset[str]:
    """The columns that grants open; one that leaves out a column that is not there opens nothing, as it may have any name now."""
    opened: set[str] = set()
    for columns in granted:
        if not columns.excluded:
            opened |= {name for name in columns.names if name in main and read.get(name) == main[name]}
        elif main.keys() >= set(columns.names):
            opened |= read.keys() - {each for name in columns.names for each in _meant(name, main, read)}
    lost = sorted({name for columns in granted for name in columns.names if name not in main})
    if not opened and lost:
        raise Closed(
            f"What is granted to {caller.principal} on columns of table {table} names column {lost[0]}, which was renamed or dropped; "
            "until SELECT is granted anew it opens nothing."
        )
    if not opened:
        caller.require(Access.SELECT, table_resource(table))
    return frozenset(opened)


def _is_there(policy: Policy, main: Ids, read: Ids) -> bool:
    """Whether what is read has all columns of a policy, under the names it has for them."""
    return all(read.get(name) == main[name] for name in policy.columns)


def _meant(name: str, main: Ids, read: Ids) -> set[str]:
    """The columns of what is read that a rule about main's column may mean: the same one, whatever its name, and one of its name."""
    return {each for each, number in read.items() if each == name or number == main[name]}


def take_masks_along(tx: CatalogTransaction, table_id: UUID, before: Schema, after: Schema) -> None:
    """Let the masks of main's columns that are dropped go along: what those held stays kept from whom they bind.

    The table's row is held by then, as `require_columns_kept` has it, which judges the other rules.
    """
    old, new = ids_of(before), ids_of(after)
    for policy in _of_present(tx.policies.of(table_id)):
        masked = old.get(policy.column or "")
        if masked is not None and masked not in new.values():
            tx.policies.change_rule(table_id, policy.of_dropped(masked))


def require_columns_kept(
    tx: CatalogTransaction,
    table: Identifier,
    table_id: UUID,
    before: AnySchema,
    after: AnySchema,
    *,
    named: Callable[[], bool] | None = None,
) -> None:
    """Raise `InvalidSchemaChange` where a new schema has not the columns that policies and column grants of the table name, or shows other
    values of those that policies name.

    The table's row is held by then, and when ``named`` was asked (`PolicyRepository.names_columns_ahead`): whoever makes a policy or grants
    columns holds it, too.
    """
    if not (tx.policies.name_columns(table_id) if named is None else named()):
        return
    old, new = ids_of(before), ids_of(after)
    old_types, new_types = (_types_of(schema, old.values()) for schema in (before, after))
    for rule, names, way_out, by_value in _rules_of(tx, table, table_id):
        for name in sorted(names):
            # A branch may get a column under a name that a rule of main has; it is kept from whom the rule binds.
            if old.get(name) != new.get(name) and (name in old or table.branch == MAIN_BRANCH):
                raise InvalidSchemaChange(
                    f"Column {name} of table {table} is named by {rule}, which would mean another column or none from then on. "
                    f"{way_out} first, and make it anew afterwards; nothing was changed."
                )
            number = old.get(name)
            if by_value and number is not None and not keeps_values(old_types[number], new_types[number]):
                raise InvalidSchemaChange(
                    f"Column {name} of table {table} is named by {rule}, which would be held against other values: not all that was "
                    f"written as {old_types[number]} is the same as {new_types[number]}. {way_out} first, and make it anew "
                    "afterwards; nothing was changed."
                )


def _rules_of(tx: CatalogTransaction, table: Identifier, table_id: UUID) -> Iterator[tuple[str, frozenset[str], str, bool]]:
    """Policies and column grants of a table: what they are called, the columns they name, how they go, and whether they go by values."""
    name = f"{table.database}.{table.table}"
    for policy in tx.policies.of(table_id):
        kind = "POLICY" if policy.column is None else "MASKING POLICY"
        what = "row policy" if policy.column is None else "masking policy"
        yield f"{what} {policy.name}", policy.columns, f"DROP {kind} {policy.name} ON {name}", True
    for grant in tx.grants.of_columns(table_id):
        if grant.columns is not None:
            yield (
                f"the grant of {grant.words} to {grant.principal}",
                frozenset(grant.columns.names),
                f"REVOKE {grant.words} ON {name} FROM {grant.principal}",
                False,
            )
