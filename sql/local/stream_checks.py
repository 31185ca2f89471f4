"""What a query in streaming mode is refused for before anything is read."""

from __future__ import annotations

from collections.abc import Iterable

from sqlglot import exp

from lake import LakeTable
from model.catalog_errors import MetadataOnlyTable
from model.errors import InvalidOption, TableNotExist, UnsupportedStatement
from model.options.table import TABLE_OPTIONS
from sql.analysis.references import TableReference, table_references
from sql.analysis.views import sources_of
from sql.connectors import Bound, ConnectorTable, connector_named
from sql.connectors.registry import hinted
from sql.connectors.stored import find_connector
from sql.statements.base import ExecutionContext

_ALIGNMENT = "scan.watermark.alignment."


def is_bounded(table: LakeTable, reference: TableReference) -> bool:
    """Whether a query in streaming mode reads what the table holds now and does not follow it: `scan.bounded`."""
    return bool(TABLE_OPTIONS.read({**table.schema.options, **reference.options}, "scan.bounded"))


def ends_now(context: ExecutionContext, reference: TableReference) -> bool:
    """Whether a mention of a table, with its hint, ends with what is there when it is first read, as files do and bounded topics."""
    own = _connector(context, reference)
    if own is not None:
        return connector_named(own.connector).bound(own) is Bound.NOW
    if "$" in reference.parts[-1]:
        return False
    try:
        return is_bounded(context.lake.open(context.session.identifier(reference.parts)), reference)
    except (TableNotExist, MetadataOnlyTable):
        return False  # nothing that can be followed, as its start says


def all_end_now(context: ExecutionContext, references: Iterable[TableReference]) -> bool:
    """Whether a query of such sources, those of its views among them (`sources_of`), ends with what is there when it begins."""
    return all(ends_now(context, reference) for reference in references)


def check_ends(context: ExecutionContext, tree: exp.Expr) -> None:
    """Raise `InvalidOption` for a source whose bound would be passed over, because another one of the query goes on."""
    references = sources_of(context, tree)
    followed = next((reference for reference in references if not ends_now(context, reference)), None)
    if followed is None:
        return
    for reference in references:
        own = _connector(context, reference)
        option = None if own is None else connector_named(own.connector).shared_end(own)
        if option is not None:
            raise InvalidOption(
                f"{reference.name} has {option}, and {followed.name} does not end with what is there now: a query has one end here. Leave "
                f"the bound out, give {followed.name} one, too, or write what {reference.name} holds into a table by an INSERT of its own."
            )


def holds_back(query: exp.Expr) -> bool:
    """Whether a stream of the query keeps rows until its watermark has passed them, as windows, groups and joins do."""
    return query.find(exp.Group, exp.Join, exp.Distinct, exp.AggFunc) is not None


def check_drain(context: ExecutionContext, query: exp.Expr) -> None:
    """Raise `UnsupportedStatement` for a query, its views expanded, that a drain would end with windows that have not come out.

    A table of the lake ends event time where it is drained; Spark's own sources cannot.
    """
    references = table_references(query)
    if not holds_back(query) or all_end_now(context, references):
        return
    for reference in references:
        own = _connector(context, reference)
        if own is not None and own.watermark is not None:
            raise UnsupportedStatement(
                f"WITH DRAIN: {reference.name} is a {own.connector} table with a WATERMARK, which cannot be told that no more rows come: "
                "the job's open windows would not come out. STOP JOB without DRAIN keeps them in the checkpoint, and ALTER JOB … RESTART "
                f"goes on with them. To drain windows, write what {reference.name} holds into a table by an INSERT of its own.",
                fragment=reference.name,
            )


def check_alignment(context: ExecutionContext, tree: exp.Expr) -> None:
    """Raise `InvalidOption` for a hint that makes a SELECT a member of an alignment group."""
    for reference in sources_of(context, tree):
        key = next((key for key in reference.options if key.startswith(_ALIGNMENT)), None)
        if key is not None:
            raise InvalidOption(
                f"Option '{key}' has no effect on a SELECT: jobs wait for each other. Leave it out, or INSERT what {reference.name} gives "
                "into a table."
            )


def _connector(context: ExecutionContext, reference: TableReference) -> ConnectorTable | None:
    own = find_connector(context.lake, context.session, reference.parts)
    return None if own is None else hinted(own, reference, context.connector_scope)
