"""SELECT and EXPLAIN, run by Spark."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from sql.execution.results import ResultSet
from sql.local import plan_locally
from sql.parsing import trees
from sql.statements.base import ExecutionContext, handles
from sql.statements.plan_json import PlanPicture, shown, table_picture
from sql.statements.rows.changing import target_of
from sql.statements.rows.merge import explained
from table.retention.health import before_write

if TYPE_CHECKING:
    from sql.spark.read.prepared import Prepared
    from sql.statements.insert import Target


_LOCATIONS = re.compile(r"^Location(?: \[not included in comparison\])?:.*\n?", re.MULTILINE)


@handles(exp.Select, exp.SetOperation, exp.Subquery, exp.Values, exp.Query)
@dataclass(frozen=True)
class Query:
    """Any query."""

    tree: exp.Expr
    needs_spark = True

    def run(self, context: ExecutionContext) -> ResultSet:
        """Run it; few rows are kept in memory, many go through the spool."""
        from sql.spark.read.prepared import prepared
        from sql.spark.read.results import result_of

        with prepared(context, self.tree) as query:
            context.cancellation.check()
            return result_of(context, query)


@handles(trees.Explain)
@dataclass(frozen=True)
class Explain:
    """``EXPLAIN``: what each table contributes, then Spark's plan."""

    tree: trees.Explain
    needs_spark = True

    def run(self, context: ExecutionContext) -> ResultSet:
        """Plan the statement and tell about it; nothing is read or written."""
        from sql.spark.read.prepared import prepared

        inner = self.tree.this
        query = inner.args["expression"] if isinstance(inner, exp.Insert) else inner
        if isinstance(inner, trees.DeleteRows | trees.UpdateRows | trees.MergeRows):
            table, _ = target_of(context, inner)
            query = explained(inner, table) if isinstance(inner, trees.MergeRows) else inner.this
        local = isinstance(inner, exp.Select | trees.DeleteRows | trees.UpdateRows) and plan_locally(inner, context) is not None
        with prepared(context, query) as rows:
            if self.tree.args.get("json"):
                tables = tuple(table_picture(context, planned.name, planned.table, planned.plan) for planned in rows.tables)
                picture = PlanPicture(answered_in="gateway" if local else "Spark", tables=tables, plan=_plan_told(context, rows))
                return picture.result()
            lines = ["Answered in the gateway; Spark's plan below is what it would do instead.", ""] if local else []
            lines += ["== Tables =="] if rows.tables else []
            for planned in rows.tables:
                plan = planned.plan
                lines += [f"{planned.table.identifier} at snapshot {plan.snapshot_id if plan.snapshot_id is not None else '(none)'}"]
                if context.lake.tells_counts(planned.table):
                    lines += [
                        f"  files: {len(plan.files)} kept, {plan.skipped_files} skipped, of {plan.total_files}",
                        f"  bytes: {plan.kept_bytes} of {plan.total_bytes}; rows to read: {plan.kept_rows}",
                    ]
                else:
                    lines += ["  files, bytes, rows: not told, as only a part of the table may be read"]
                lines += [f"  pushed: {shown(plan.predicate)}"]
            lines += _advice(context, inner) if isinstance(inner, exp.Insert) else []
            lines += ["", "== Spark =="] if lines else ["== Spark =="]
            text = _plan_told(context, rows)
        return ResultSet.of_strings(("result",), [("\n".join(lines) + "\n" + text.strip(),)])


def _advice(context: ExecutionContext, insert: exp.Insert) -> list[str]:
    """What `sys.doctor` would say of the table rows go to, and what the write itself would suffer from."""
    from sql.statements.insert import connector_sink, target_of
    from sql.statements.procedures.doctor import WRITERS, findings

    if connector_sink(context, insert) is not None:
        return []
    target = target_of(context, insert)
    table = target.table
    advice = before_write(table.schema, table=table.identifier, writers=WRITERS, at_once=_partitions_written(insert, target))
    advice += findings(table) if context.lake.tells_counts(table) else []
    return [line for finding in advice for line in ("", "== Advice ==", f"{finding.what}: {finding.why}", f"  {finding.statement}")]


def _partitions_written(insert: exp.Insert, target: Target) -> int | None:
    """To how many partitions an INSERT brings rows, at most; None where its text does not tell."""
    schema, rows = target.table.schema, insert.args["expression"]
    chosen = [key for key in schema.partition_keys if key not in target.fixed]
    if not chosen:
        return 1
    names = target.columns or tuple(field.name for field in schema.fields if field.name not in target.fixed)
    if not isinstance(rows, exp.Values) or not set(chosen) <= set(names):
        return None
    at = [names.index(key) for key in chosen]
    tuples = [row.expressions if isinstance(row, exp.Tuple) else [row] for row in rows.expressions]
    if any(len(row) != len(names) or not all(_is_constant(row[n]) for n in at) for row in tuples):
        return None
    return len({tuple(row[n].sql("spark") for n in at) for row in tuples})


def _is_constant(value: exp.Expr) -> bool:
    inner = value.this if isinstance(value, exp.Neg | exp.Cast) else value
    return isinstance(inner, exp.Literal | exp.Null | exp.Boolean)


def _plan_told(context: ExecutionContext, query: Prepared) -> str:
    """Spark's plan; nothing of it to who sees only a part of a table.

    A plan differs by which files a condition leaves and by their sizes, so that conditions would find hidden values by halving.
    """
    hidden = [str(planned.table.identifier) for planned in query.tables if not context.lake.tells_counts(planned.table)]
    return f"not told, as it depends on rows of {', '.join(hidden)} that may not be read" if hidden else _named_plan(query)


def _named_plan(query: Prepared) -> str:
    """What ``DataFrame.explain`` prints, which has no other public form, with the tables' names for its views'.

    Without the lines that list files: their paths are the server's, and partitions stand in them that a policy may hide.
    """
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        query.frame.explain("formatted")
    text = _LOCATIONS.sub("", out.getvalue())
    for view, name in query.views.items():
        text = text.replace(view, name)
    return text
