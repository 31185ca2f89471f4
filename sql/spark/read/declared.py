"""Types as tables declare them, kept through Spark, whose own know no precision and no length.

A table's column carries its type as metadata; Spark hands that on with every plain reference, through aliases, joins,
subqueries and grouping. Two things are seen to here: calls such as MIN give a value of their argument's type, and a
UNION has, for Spark, the metadata of its first query. Both are asked of Spark by probes: variants of the query
that are analysed and never run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import prod

from pyspark.errors import PySparkException
from pyspark.sql import types as st
from sqlglot import exp

from model.schema.types import DataType, parse_type
from sql.execution.results import ResultColumn
from sql.spark.read.types import from_spark, to_spark

_KEY = "sluice.type"
_MOST_PROBES = 8
"""A query of more unions than this is answered with Spark's types: a probe costs a few milliseconds."""
_KEEPING = frozenset({"any_value", "first", "first_value", "last", "last_value", "nth_value", "min_by", "max_by", "mode"})
"""Functions, besides MIN and MAX, whose value is one of those their first argument has."""
_NEIGHBOURS = frozenset({"lag", "lead"})
"""The same as long as no default is given."""

Schema = Callable[[exp.Expr], st.StructType]


def metadata(type_: DataType) -> dict[str, str]:
    """What a column of a table carries through Spark; nothing where Spark's own type tells all."""
    bare = type_.with_nullable(True)
    return {} if from_spark(to_spark(bare)) == bare else {_KEY: json.dumps(bare.to_json())}


def result_columns(tree: exp.Expr, schema: st.StructType, analysed: Schema, *, tagged: bool) -> list[ResultColumn]:
    """The columns of a query's result; ``analysed`` gives the schema of a variant of it, ``tagged`` tells whether a table has metadata."""
    types = _declared(schema)
    if tagged:
        chains = _unions(tree)
        if chains or any(_keeps(node) for node in tree.walk()):
            types = _agreed(tree, [len(chain) for chain in chains], types, analysed)
    return [
        ResultColumn(f.name, from_spark(f.dataType, nullable=f.nullable) if type_ is None else type_.with_nullable(f.nullable))
        for f, type_ in zip(schema.fields, types, strict=True)
    ]


def _declared(schema: st.StructType) -> list[DataType | None]:
    types = []
    for field in schema.fields:
        text = field.metadata.get(_KEY)
        type_ = parse_type(json.loads(text)) if text else None
        types.append(type_ if type_ is not None and to_spark(type_) == field.dataType else None)
    return types


def _agreed(tree: exp.Expr, lengths: Sequence[int], types: list[DataType | None], analysed: Schema) -> list[DataType | None]:
    """The type of each column that is the same whichever query of a UNION is asked."""
    unknown: list[DataType | None] = [None] * len(types)
    if prod(lengths) > _MOST_PROBES:
        return unknown
    declared: list[list[DataType | None]] = []
    for turns in product(*map(range, lengths)):
        try:
            turn = _declared(analysed(_probe(tree, turns)))
        except PySparkException:  # a name that only the first query gives, a recursion begun at its step
            return unknown if lengths else types
        if len(turn) != len(types):
            return unknown
        declared.append(turn)
    return [first if all(other == first for other in others) else None for first, *others in zip(*declared, strict=True)]


def _probe(tree: exp.Expr, turns: Sequence[int]) -> exp.Expr:
    """The query with another member first in each UNION, and MIN(a) as MIN(named_struct('v', a)).v, which has a's metadata."""
    tree = tree.copy()
    for node in reversed(list(tree.walk())):
        if _keeps(node):
            _wrap(node)
    for chain, turn in zip(_unions(tree), turns, strict=True):
        turned = [member.copy() for member in (*chain[turn:], *chain[:turn])]
        for member, other in zip(chain, turned, strict=True):
            member.replace(other)
    return tree


def _unions(tree: exp.Expr) -> list[list[exp.Expr]]:
    """The members of each UNION, innermost UNION first; one of many members is one UNION."""
    tops = [node for node in tree.find_all(exp.Union) if not isinstance(node.parent, exp.Union)]
    return [list(_members(top)) for top in reversed(tops)]


def _members(node: exp.Expr) -> Iterator[exp.Expr]:
    if isinstance(node, exp.Union):
        yield from _members(node.this)
        yield from _members(node.expression)
    else:
        yield node


def _arguments(call: exp.Expr) -> list[exp.Expr]:
    return list(call.expressions) if isinstance(call, exp.Anonymous) else [call.this]


def _keeps(node: exp.Expr) -> bool:
    if isinstance(node, exp.Anonymous):
        name, arguments = node.name.lower(), node.expressions
        keeps = (name in _KEEPING and bool(arguments)) or (name in _NEIGHBOURS and 1 <= len(arguments) <= 2)
    else:
        keeps = isinstance(node, exp.Min | exp.Max)
    return keeps and isinstance(_arguments(node)[0], exp.Column | exp.Dot)


def _wrap(call: exp.Expr) -> None:
    argument = _arguments(call)[0]
    argument.replace(exp.Anonymous(this="named_struct", expressions=[exp.Literal.string("v"), argument.copy()]))
    whole = call
    while isinstance(whole.parent, exp.Filter | exp.Window | exp.IgnoreNulls | exp.RespectNulls) and whole.parent.this is whole:
        whole = whole.parent
    value = exp.Dot(this=exp.Paren(this=whole.copy()), expression=exp.to_identifier("v"))
    # Spark takes no metadata over to a name it made up itself.
    whole.replace(exp.alias_(value, "v") if isinstance(whole.parent, exp.Select) and whole.arg_key == "expressions" else value)
