"""Joins of streams: their conditions written so that Spark sees which rows can find no partner any more, and lets go of them."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import types as st
from sqlglot import exp

from model.errors import UnsupportedStatement
from sql.spark.session.texts import frame_of
from sql.spark.session.zone import in_utc, zone_of

DELAY = "spark.watermarkDelayMs"
"""Where Spark itself keeps that a column is event time."""
_ORDERED = (exp.GT, exp.GTE, exp.LT, exp.LTE)


def with_bounds(session: SparkSession, tree: exp.Expr, views: Collection[str]) -> None:
    """Write the conditions of a streaming query's joins anew, in place; their meaning stays.

    Spark finds a bound in time only in comparisons, not in BETWEEN, and only between columns of TIMESTAMP_LTZ: without it an outer join is
    refused and an inner one keeps its rows for ever. And where it keeps rows by their key, one NULL finds the other.
    Raises `UnsupportedStatement` for what Spark would refuse or answer wrongly all the same.
    """
    for select in list(tree.find_all(exp.Select)):
        joins = select.args.get("joins") or []
        if not joins:
            continue
        for join in joins:
            if join.side == "FULL" and (join.args.get("using") or join.method == "NATURAL") and _goes_on(session, select, views):
                raise UnsupportedStatement(
                    "FULL JOIN … USING and NATURAL FULL JOIN of streams are not available: Spark takes two keys that are NULL for one. "
                    "Write the condition with ON, and coalesce(a.k, b.k) for the column.",
                    fragment="FULL",
                )
        for holder in [*joins, *filter(None, [select.args.get("where")])]:
            _bound(session, select, holder, views)


def check_equalities(session: SparkSession, tree: exp.Expr, views: Collection[str]) -> None:
    """Raise `UnsupportedStatement` for a join of two streams in a query that says nowhere that two values are equal.

    Spark keeps the rows of both by the values that are equal, and finds in its first micro-batch that there are none. Where an equality
    stands elsewhere in the query it may move it into the join: then Spark's own word counts.
    """
    equal_by_name = any(call.name.lower() == "equal_null" for call in tree.find_all(exp.Anonymous))
    if equal_by_name or tree.find(exp.EQ, exp.NullSafeEQ, exp.In, exp.NEQ) is not None:
        return
    for select in tree.find_all(exp.Select):
        joins = select.args.get("joins") or []
        if any(join.args.get("using") or join.method == "NATURAL" for join in joins):
            continue
        if joins and sum(_follows(session, select, source, views) for source in _joined(select)) > 1:
            raise UnsupportedStatement(
                "A join of two streams needs an equality of their columns (ON a.k = b.k AND …), by which their rows are kept.",
                fragment="JOIN",
            )


def _joined(select: exp.Select) -> Iterator[exp.Expr]:
    """What stands in a query's FROM and behind its JOINs."""
    if (from_ := select.args.get("from_")) is not None:
        yield from_.this
    for join in select.args.get("joins") or []:
        yield join.this


def _follows(session: SparkSession, select: exp.Select, source: exp.Expr, views: Collection[str]) -> bool:
    """Whether one source of a query is a stream."""
    named = select.args.get("with_")
    alone = exp.Select(expressions=[exp.Star()], from_=exp.From(this=source.copy()), with_=named and named.copy())
    alone.parent = select.parent  # whose WITH it may name, too
    return _goes_on(session, alone, views)


def _bound(session: SparkSession, select: exp.Select, holder: exp.Expr, views: Collection[str]) -> None:
    key = "on" if isinstance(holder, exp.Join) else "this"
    condition = holder.args.get(key)
    if condition is None:
        return
    parts_of = [(conjunct, _comparisons(conjunct)) for conjunct in _conjuncts(condition)]
    compared = [column for _, parts in parts_of for part in parts for column in part.find_all(exp.Column)]
    times = _event_times(session, select, compared, views)
    conjuncts: list[exp.Expr] = []
    for conjunct, parts in parts_of:
        columns = {column.sql() for part in parts for column in part.find_all(exp.Column)}
        if parts and columns <= times.keys():
            local = any(isinstance(times[name], st.TimestampNTZType) for name in columns)
            if local and not in_utc(session):
                _check_zone(session, holder)
                parts = [conjunct]
            elif local:
                parts = [_of_instants(part, times) for part in parts]
            conjuncts += parts
        else:
            conjuncts += [conjunct, *_not_null(conjunct)]
    holder.set(key, exp.and_(*conjuncts, copy=False))


def _conjuncts(condition: exp.Expr) -> list[exp.Expr]:
    """What must all hold."""
    condition = condition.unnest()
    if not isinstance(condition, exp.And):
        return [condition]
    return [conjunct for side in (condition.this, condition.expression) for conjunct in _conjuncts(side)]


def _comparisons(conjunct: exp.Expr) -> list[exp.Expr]:
    """A condition on the order of columns, with an interval or without, as comparisons; none where it is something else."""
    if isinstance(conjunct, exp.Between) and not conjunct.args.get("symmetric"):
        value, low, high = conjunct.this, conjunct.args["low"], conjunct.args["high"]
        bounds: list[exp.Expr] = [exp.GTE(this=value.copy(), expression=low.copy()), exp.LTE(this=value.copy(), expression=high.copy())]
    else:
        bounds = [conjunct] if isinstance(conjunct, _ORDERED) else []
    return bounds if all(_is_shifted(side) for part in bounds for side in (part.this, part.expression)) else []


def _is_shifted(side: exp.Expr) -> bool:
    """Whether it is a column, an interval later or earlier perhaps."""
    side = side.unnest()
    if isinstance(side, exp.Add) and isinstance(side.this.unnest(), exp.Interval):
        return _is_shifted(side.expression)
    if isinstance(side, exp.Add | exp.Sub):
        return isinstance(side.expression.unnest(), exp.Interval) and _is_shifted(side.this)
    return isinstance(side, exp.Column)


def _event_times(
    session: SparkSession, select: exp.Select, columns: Collection[exp.Column], views: Collection[str]
) -> dict[str, st.DataType]:
    """Types of those columns that are event time, by their text in the query."""
    if not columns:
        return {}
    names = sorted({column.sql() for column in columns})
    by_name = {column.sql(): column for column in columns}
    aliased = [exp.alias_(by_name[name].copy(), f"c{at}", quoted=True) for at, name in enumerate(names)]
    with contextlib.suppress(AnalysisException):  # a name of a query around this one, or none: the whole query tells
        schema = frame_of(session, _sources(select, aliased), views).schema
        return {name: field.dataType for name, field in zip(names, schema.fields, strict=True) if DELAY in field.metadata}
    return {}


def _goes_on(session: SparkSession, select: exp.Select, views: Collection[str]) -> bool:
    """Whether what a query's FROM gives is a stream."""
    with contextlib.suppress(AnalysisException):
        return frame_of(session, _sources(select, [exp.Star()]), views).isStreaming
    return False


def _sources(select: exp.Select, given: list[exp.Expr]) -> exp.Select:
    """A query of the same FROM with other columns and no condition; it knows the names that WITH gives around it."""
    probe = exp.Select(expressions=given)
    for key in ("from_", "joins", "laterals"):
        value = select.args.get(key)
        probe.set(key, [node.copy() for node in value] if isinstance(value, list) else value and value.copy())
    named = [query for outer in reversed(list(_around(select))) for query in outer.expressions]
    if named:
        probe.set("with_", exp.With(expressions=[query.copy() for query in named]))
    return probe


def _around(node: exp.Expr) -> Iterator[exp.With]:
    at: exp.Expr | None = node
    while at is not None:
        if isinstance(at.args.get("with_"), exp.With):
            yield at.args["with_"]
        at = at.parent


def _of_instants(comparison: exp.Expr, times: dict[str, st.DataType]) -> exp.Expr:
    """The comparison with its TIMESTAMP columns as the instants they are in UTC."""
    comparison = comparison.copy()
    for column in list(comparison.find_all(exp.Column)):
        if isinstance(times[column.sql()], st.TimestampNTZType):
            column.replace(exp.Cast(this=column.copy(), to=exp.DataType(this=exp.DType.TIMESTAMPLTZ)))
    return comparison


def _not_null(conjunct: exp.Expr) -> list[exp.Expr]:
    """What an equality of two sides says, too: neither is NULL."""
    if not isinstance(conjunct, exp.EQ) or conjunct.find(exp.Query, exp.AggFunc) is not None:
        return []
    sides = [conjunct.this, conjunct.expression]
    if any(side.find(exp.Column) is None for side in sides):
        return []
    return [exp.Not(this=exp.Is(this=exp.paren(side.copy()), expression=exp.Null())) for side in sides]


def _check_zone(session: SparkSession, holder: exp.Expr) -> None:
    if isinstance(holder, exp.Join) and holder.side in ("LEFT", "RIGHT", "FULL"):
        raise UnsupportedStatement(
            f"A {holder.side} JOIN of streams whose bound in time is of TIMESTAMP columns is not available in zone {zone_of(session)}: "
            "their watermarks are in UTC. RESET 'table.local-time-zone'.",
            fragment=holder.side,
        )
