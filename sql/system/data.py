"""``t$audit_log`` and ``t$read_optimized``: the table's own rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from lake import LakeTable
from model.schema.types import VarCharType
from sql.execution.results import ResultColumn, result_arrow_type
from sql.system.base import SystemScan, SystemTable
from table.scan.entry_scan import only_columns, plan_scan
from table.scan.read import Selection, read_batches

ROW_KIND = "rowkind"


def _columns(table: LakeTable) -> tuple[ResultColumn, ...]:
    return tuple(ResultColumn(f.name, f.type) for f in table.schema.fields)


def _read_optimized(table: LakeTable) -> SystemTable:
    """An append table has nothing to merge, so what is optimized for reading is all of it."""
    return SystemTable(name="read_optimized", columns=_columns(table), read=_rows, holds_data=True)


def _audit_log(table: LakeTable) -> SystemTable:
    """Rows with what became of them: in an append table every row was inserted."""
    kind = ResultColumn(ROW_KIND, VarCharType())
    return SystemTable(name="audit_log", columns=(kind, *_columns(table)), read=_audited, holds_data=True)


def _rows(scan: SystemScan, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    table = scan.opened
    predicate = only_columns(scan.predicate, lambda name: table.schema.find(name) is not None)
    plan = plan_scan(table.files, table.schema, scan.snapshot, predicate)
    # A batch without a column has no rows; those that are only counted are told by the first one.
    wanted = list(names) or [table.schema.fields[0].name]
    return read_batches(table.files, table.schema, plan.files, Selection(columns=wanted))


def _audited(scan: SystemScan, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    own = [name for name in names if name != ROW_KIND]
    for batch in _rows(scan, own):
        kinds = pa.repeat(pa.scalar("+I", result_arrow_type(VarCharType())), batch.num_rows)
        yield pa.RecordBatch.from_arrays([kinds, *batch.select(own).columns], names=[ROW_KIND, *own])


DATA_TABLES: dict[str, Callable[[LakeTable], SystemTable]] = {"audit_log": _audit_log, "read_optimized": _read_optimized}
