"""A plan as data: what each table contributes, down to its files; the answer of ``EXPLAIN JSON_EXECUTION_PLAN``."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lake import LakeTable
from model.predicate import And, Compare, In, IsNull, Or, Predicate
from model.text.sql_text import literal
from sql.execution.results import ResultSet
from sql.statements.base import ExecutionContext
from table.scan.planning.entry_scan import ScanPlan
from table.scan.skipping.skipped import PicturedFile, pictured


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePicture:
    """One mention of a table, and what of it will be read."""

    name: str
    plan: ScanPlan
    tells_counts: bool
    """Whether the caller may know how much there is and is read of it."""
    files: Sequence[PicturedFile] | None
    """None for very many, and where the caller may not know of all of them."""

    def to_json(self) -> dict[str, Any]:
        """The table as clients get it."""
        plan, tells_counts, shown_files = self.plan, self.tells_counts, None
        if self.files is not None:
            shown_files = [
                {"partition": f.partition, "bucket": f.bucket, "bytes": f.size, "rows": f.rows, "fate": f.fate.value} for f in self.files
            ]
        return {
            "table": self.name,
            "snapshot": plan.snapshot_id,
            "files": {"total": plan.total_files, "kept": len(plan.files)} if tells_counts else None,
            "bytes": {"total": plan.total_bytes, "kept": plan.kept_bytes} if tells_counts else None,
            "rowsToRead": plan.kept_rows if tells_counts else None,
            "pushed": shown(plan.predicate),
            "fates": shown_files,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanPicture:
    """How a statement would be answered."""

    answered_in: str
    """``gateway``, ``metadata`` where no file is read, or ``Spark``."""
    tables: Sequence[TablePicture]
    plan: str | None
    """Spark's; None where it was not asked."""

    def result(self) -> ResultSet:
        """One row with the JSON."""
        body = {"answeredIn": self.answered_in, "tables": [table.to_json() for table in self.tables], "plan": self.plan}
        return ResultSet.of_strings(("result",), [(json.dumps(body, ensure_ascii=False),)])


def table_picture(context: ExecutionContext, name: str, table: LakeTable, plan: ScanPlan) -> TablePicture:
    """The picture of a planned read; where a part of the table is kept from the caller, so are its files and what they count."""
    tells_counts = context.lake.tells_counts(table)
    return TablePicture(
        name=name, plan=plan, tells_counts=tells_counts, files=pictured(table.files, table.schema, plan) if tells_counts else None
    )


def shown(predicate: Predicate | None) -> str:
    """A predicate as text."""
    match predicate:
        case None:
            return "nothing"
        case Compare(column=column, op=op, value=value):
            return f"{column} {op} {_literal(value)}"
        case In(column=column, values=values):
            return f"{column} IN ({', '.join(map(_literal, values))})"
        case IsNull(column=column, negated=negated):
            return f"{column} IS {'NOT ' if negated else ''}NULL"
        case And(parts=parts):
            return " AND ".join(shown(part) for part in parts)
        case Or(parts=parts):
            return "(" + " OR ".join(shown(part) for part in parts) + ")"


def _literal(value: object) -> str:
    if isinstance(value, str | dt.date):
        return literal(str(value))
    return repr(value)
