"""What a query over one table may name, and the few clauses read alike everywhere in this package."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlglot import exp

from lake import LakeTable
from model.catalog_errors import MetadataOnlyTable
from model.errors import TableNotExist
from model.schema.schema import Schema
from model.schema.types import Field
from model.text.whole_number import whole_number
from sql.analysis.references import TableReference, table_references
from sql.analysis.views import is_view
from sql.connectors.stored import means_connector
from sql.local.literals import NotLocal
from sql.statements.base import ExecutionContext

_MOST_ROWS = 2**31 - 1
"""The largest LIMIT that Spark takes; it words the error for others."""

_TABLE_PARTS = frozenset({"this", "db", "catalog", "alias"})


class Scope:
    """The names a query over one table may use."""

    def __init__(self, reference: TableReference, schema: Schema) -> None:
        self._schema = schema
        alias = reference.node.alias
        self._qualifiers = {(alias,)} if alias else {reference.parts[at:] for at in range(len(reference.parts))}

    def column(self, node: exp.Column) -> Field:
        """The table's column a name means; a name that means none, or a part of a ROW, is Spark's to resolve."""
        if not isinstance(node.this, exp.Identifier) or not self._qualified(node):
            raise NotLocal
        field = self._schema.find(node.name)
        if field is None:
            raise NotLocal
        return field

    def _qualified(self, node: exp.Column) -> bool:
        parts = tuple(part.name for part in node.parts[:-1])
        return not parts or parts in self._qualifiers

    def projected(self, node: exp.Expr) -> list[tuple[str, Field]]:
        """The result's columns a projection stands for."""
        match node:
            case exp.Star() if is_star(node):
                return [(field.name, field) for field in self._schema.fields]
            case exp.Column(this=exp.Star() as star) if is_star(star) and self._qualified(node):
                return [(field.name, field) for field in self._schema.fields]
            case exp.Alias(this=exp.Column() as column) if not isinstance(column.this, exp.Star):
                return [(node.alias, self.column(column))]
            case exp.Column():
                field = self.column(node)
                return [(field.name, field)]
        raise NotLocal


def only_table(tree: exp.Select) -> TableReference:
    """The one table a query reads; raises `NotLocal` unless it stands alone in FROM itself, in no subquery, with nothing behind it but an
    alias that leaves its columns their names."""
    from_ = tree.args.get("from_")
    node = from_.this if from_ is not None else None
    if not isinstance(node, exp.Table) or not only_parts(node, _TABLE_PARTS):
        raise NotLocal
    alias = node.args.get("alias")
    references = table_references(tree)
    if len(references) != 1 or references[0].node is not node or (alias is not None and alias.args.get("columns")):
        raise NotLocal
    return references[0]


def only_stored_table(tree: exp.Select, context: ExecutionContext) -> TableReference:
    """The same where it is a table of the catalog or a branch of one: none of its system tables, and none of the session."""
    reference = only_table(tree)
    if "$" in reference.parts[-1].replace("$branch_", "", 1) or (
        len(reference.parts) == 1 and reference.parts[0] in context.session.temporary_tables
    ):
        raise NotLocal
    return reference


@contextmanager
def connectors_not_local() -> Iterator[None]:
    """Raise `NotLocal` where the block opens what a connector stands for."""
    try:
        yield
    except MetadataOnlyTable as other:
        if means_connector(other):
            raise NotLocal from None
        raise


def opened(reference: TableReference, context: ExecutionContext) -> LakeTable:
    """The table of a reference; raises `NotLocal` for a view and for what a connector reads, and else what `Lake.open` does."""
    try:
        with connectors_not_local():
            return context.lake.open(context.session.identifier(reference.parts))
    except TableNotExist:
        if is_view(context, reference.parts):
            raise NotLocal from None
        raise


def limit_of(tree: exp.Select) -> int | None:
    """The number of LIMIT, or None; raises `NotLocal` for anything but a number."""
    limit = tree.args.get("limit")
    if limit is None:
        return None
    count = limit.args.get("expression")
    if not isinstance(limit, exp.Limit) or not isinstance(count, exp.Literal) or count.is_string:
        raise NotLocal
    rows = whole_number(count.name, most=_MOST_ROWS)
    if rows is None:
        raise NotLocal
    if any(value for key, value in limit.args.items() if key != "expression"):
        raise NotLocal
    return rows


def only_parts(tree: exp.Expr, known: frozenset[str]) -> bool:
    """Whether a query says nothing but these parts."""
    return not any(value for key, value in tree.args.items() if key not in known)


def is_star(node: exp.Expr) -> bool:
    """Whether a node is a plain ``*``."""
    return isinstance(node, exp.Star) and not any(node.args.values())
