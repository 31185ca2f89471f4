"""Row filters over rows that are written: whoever sees a part of a table makes no rows outside of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from lake.access.callers import Caller
from lake.tables.handle import LakeTable
from model.access import ReadRules
from model.errors import Forbidden
from table.write.copy_on_write import Judge, any_row


def judge_of(table: LakeTable, rules: ReadRules, caller: Caller) -> Judge:
    """A judge that takes only rows the caller will see; raises `Forbidden` for others."""
    filters = [policy.rule for policy in rules.filters]
    if not filters:
        return any_row

    def judge(rows: pa.RecordBatch) -> None:
        for rule in filters:
            if not pc.all(satisfied(rule, rows)).as_py():
                raise Forbidden(
                    f"A new row of table {table.identifier} would be none that {caller.principal} sees, whom a row policy binds. "
                    "Write only rows that you may read, or let somebody write whom the policy does not bind."
                )

    return judge


def satisfied(rule: Mapping[str, Any], rows: pa.RecordBatch) -> pa.BooleanArray:
    """Of each row, whether a row filter's rule is true; what is NULL is not."""
    if rule["kind"] == "COMPOUND":
        join = pc.and_ if rule["function"] == "AND" else pc.or_
        return reduce(join, [satisfied(child, rows) for child in rule["children"]])
    column = rows.column(rows.schema.get_field_index(rule["transform"]["fieldRef"]["name"]))
    function, literals = rule["function"], rule["literals"]
    if function in ("IS_NULL", "IS_NOT_NULL"):
        return column.is_null() if function == "IS_NULL" else column.is_valid()
    if pa.types.is_boolean(column.type):  # Arrow orders no booleans
        column, literals = column.cast(pa.int8()), [int(literal) for literal in literals]
    if pa.types.is_integer(column.type):
        column = column.cast(pa.int64())
    answer = _FUNCTIONS[function](column, [pa.scalar(literal, column.type) for literal in literals])
    return pc.fill_null(answer, fill_value=False)


_FUNCTIONS: dict[str, Callable[[pa.Array, list[pa.Scalar]], pa.Array]] = {
    "EQUAL": lambda column, literals: pc.equal(column, literals[0]),
    "NOT_EQUAL": lambda column, literals: pc.not_equal(column, literals[0]),
    "LESS_THAN": lambda column, literals: pc.less(column, literals[0]),
    "LESS_OR_EQUAL": lambda column, literals: pc.less_equal(column, literals[0]),
    "GREATER_THAN": lambda column, literals: pc.greater(column, literals[0]),
    "GREATER_OR_EQUAL": lambda column, literals: pc.greater_equal(column, literals[0]),
    "IN": lambda column, literals: reduce(pc.or_, [pc.equal(column, literal) for literal in literals]),
    "NOT_IN": lambda column, literals: reduce(pc.and_, [pc.not_equal(column, literal) for literal in literals]),
    "BETWEEN": lambda column, literals: pc.and_(pc.greater_equal(column, literals[0]), pc.less_equal(column, literals[1])),
    "STARTS_WITH": lambda column, literals: pc.starts_with(column, literals[0].as_py()),
    "ENDS_WITH": lambda column, literals: pc.ends_with(column, literals[0].as_py()),
    "CONTAINS": lambda column, literals: pc.match_substring(column, literals[0].as_py()),
}
