"""SELECT and EXPLAIN, run by Spark."""

from __future__ import annotations

import contextlib
import io
from dataclasses import dataclass

from sqlglot import exp

from model.predicate import And, Compare, In, IsNull, Or, Predicate
from sql import trees
from sql.local import plan_locally
from sql.results import ResultSet
from sql.statements.base import ExecutionContext, handles


@handles(exp.Select, exp.SetOperation, exp.Subquery, exp.Values, exp.Query)
@dataclass(frozen=True)
class Query:
    """Any query."""

    tree: exp.Expr
    needs_spark = True

    def run(self, context: ExecutionContext) -> ResultSet:
        """Run it; few rows are kept in memory, many go through the spool."""
        from sql.spark.prepared import prepared
        from sql.spark.results import result_of

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
        from sql.spark.prepared import prepared

        inner = self.tree.this
        query = inner.args["expression"] if isinstance(inner, exp.Insert) else inner
        local = isinstance(inner, exp.Select) and plan_locally(inner, context) is not None
        with prepared(context, query) as found:
            lines = ["Answered in the gateway; Spark's plan below is what it would do instead.", ""] if local else []
            lines += ["== Tables =="] if found.tables else []
            for planned in found.tables:
                plan = planned.plan
                lines += [
                    f"{planned.table.identifier} at snapshot {plan.snapshot_id if plan.snapshot_id is not None else '(none)'}",
                    f"  files: {len(plan.files)} kept, {plan.skipped_files} skipped, of {plan.total_files}",
                    f"  bytes: {plan.kept_bytes} of {plan.total_bytes}; rows to read: {plan.kept_rows}",
                    f"  pushed: {shown(plan.predicate)}",
                ]
            lines += _advice(context, inner) if isinstance(inner, exp.Insert) else []
            lines += ["", "== Spark =="] if lines else ["== Spark =="]
            text = _spark_plan(found.frame)
            for view, name in found.views.items():
                text = text.replace(view, name)
        return ResultSet.of_strings(("result",), [("\n".join(lines) + "\n" + text.strip(),)])


def _advice(context: ExecutionContext, insert: exp.Insert) -> list[str]:
    """What `sys.doctor` would say of the table rows go to."""
    from sql.statements.doctor import findings
    from sql.statements.insert import target_of

    found = findings(target_of(context, insert).table)
    return [line for one in found for line in ("", "== Advice ==", f"{one.what}: {one.why}", f"  {one.statement}")]


def _spark_plan(frame: object) -> str:
    """What ``DataFrame.explain`` prints; it has no other public form."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        frame.explain("formatted")  # type: ignore[attr-defined]
    return out.getvalue()


def shown(predicate: Predicate | None) -> str:
    """A predicate as text."""
    match predicate:
        case None:
            return "nothing"
        case Compare(column=column, op=op, value=value):
            return f"{column} {op} {value!r}"
        case In(column=column, values=values):
            return f"{column} IN {values!r}"
        case IsNull(column=column, negated=negated):
            return f"{column} IS {'NOT ' if negated else ''}NULL"
        case And(parts=parts):
            return " AND ".join(shown(part) for part in parts)
        case Or(parts=parts):
            return "(" + " OR ".join(shown(part) for part in parts) + ")"
