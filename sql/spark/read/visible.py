"""What one caller sees of a table's rows: filtered, masked and narrowed before any query is put on them."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame

from lake import LakeTable
from model.access import Policy, ReadRules
from sql.dialect import parse_one
from sql.spark.read.reads import named
from sql.spark.read.types import to_spark
from sql.spark.session.texts import column_of


def visible(frame: DataFrame, table: LakeTable, rules: ReadRules, *, beside: Sequence[str] = (), masked: bool = True) -> DataFrame:
    """The rows and columns the rules leave, which are those of this very table as it was opened.

    ``beside``: columns that are none of the table's, and stay. ``masked``: whether masked columns are shown as their masks, or not at all.
    """
    for policy in rules.filters:
        frame = frame.filter(_expression(policy))
    if rules.filters:
        # Of all rows: Spark moves no condition below a sample. Next to the rules it would ask the query's first where it infers one from
        # another, calls Python for a column, or takes out what is said twice; one that fails would tell of a row that is not shown.
        frame = frame.sample(fraction=1.0, seed=0)
    fields = [field for field in table.schema.fields if rules.columns is None or field.name in rules.columns]
    fields = [field for field in fields if masked or field.name not in rules.masks]
    columns = []
    for field in fields:
        mask = rules.masks.get(field.name)
        column = named(field.name) if mask is None else _expression(mask).cast(to_spark(field.type))
        columns.append(column.alias(field.name))
    return frame.select(*columns, *map(named, beside))


def _expression(policy: Policy) -> Column:
    select = parse_one(f"SELECT {policy.sql}", stored=True)
    return column_of(select.selects[0])  # type: ignore[attr-defined] # a SELECT was parsed
