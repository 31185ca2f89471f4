"""The table's own rows: ``t$ro``, ``t$audit_log``, ``t$binlog``, ``t$row_tracking``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pyarrow as pa

from lake import LakeTable
from model.errors import UnsupportedStatement
from model.options.table import is_on
from model.schema.types import ArrayType, DataType, VarCharType
from sql.execution.results import ResultColumn, result_arrow_type
from sql.system.base import SystemScan, SystemTable
from table.scan.planning.entry_scan import only_columns
from table.scan.planning.plan import ScanPlan
from table.scan.read import Selection, read_batches
from table.scan.row_ids import read_with_row_ids, with_row_ids
from table.scan.time_travel import plan_batch

ROW_KIND = "rowkind"


def _columns(table: LakeTable, shown: Callable[[DataType], DataType] = lambda type_: type_) -> tuple[ResultColumn, ...]:
    return tuple(ResultColumn(f.name, shown(f.type)) for f in table.schema.fields)


def _read_optimized(table: LakeTable) -> SystemTable:
    """An append table has nothing to merge, so what is optimized for reading is all of it."""
    return SystemTable(name="ro", columns=_columns(table), read=_rows, holds_data=True)


def _audit_log(table: LakeTable) -> SystemTable:
    """Rows with what became of them: in an append table every row was inserted."""
    kind = ResultColumn(ROW_KIND, VarCharType())
    return SystemTable(name="audit_log", columns=(kind, *_columns(table)), read=_audited, holds_data=True)


def _binlog(table: LakeTable) -> SystemTable:
    """As `_audit_log`, each value in an array: an update would hold what was and what is."""
    columns = _columns(table, lambda type_: ArrayType(element=type_.with_nullable(True)))
    columns = (ResultColumn(ROW_KIND, VarCharType()), *columns)
    return SystemTable(name="binlog", columns=columns, read=_packed, holds_data=True, holds_values=False)


def _row_tracking(table: LakeTable) -> SystemTable:
    """Rows with their ids and the number of the snapshot that wrote them last."""
    if not is_on(table.schema.options, "row-tracking.enabled"):
        raise UnsupportedStatement(f"Rows of table {table.identifier} have no ids: it was made without 'row-tracking.enabled' = 'true'.")
    columns = tuple(ResultColumn(f.name, f.type) for f in with_row_ids(table.schema).fields)
    return SystemTable(name="row_tracking", columns=columns, read=_with_ids, holds_data=True)


def plan_of(scan: SystemScan) -> ScanPlan:
    """The files whose rows may matter."""
    table = scan.opened
    predicate = only_columns(scan.predicate, lambda name: table.schema.find(name) is not None)
    return plan_batch(table.files, table.schema, scan.of_rows, predicate)


def _rows(scan: SystemScan, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    table = scan.opened
    # A batch without a column has no rows; those that are only counted are told by the first one.
    wanted = list(names) or [table.schema.fields[0].name]
    selection = Selection(columns=wanted, principal=scan.lake.caller.principal)
    return read_batches(table.files, table.schema, plan_of(scan).files, selection)


def _with_ids(scan: SystemScan, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    table = scan.opened
    wanted = list(names) or [table.schema.fields[0].name]
    return read_with_row_ids(table.files, with_row_ids(table.schema), plan_of(scan).files, wanted)


def _audited(scan: SystemScan, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    own = [name for name in names if name != ROW_KIND]
    for batch in _rows(scan, own):
        kinds = pa.repeat(pa.scalar("+I", result_arrow_type(VarCharType())), batch.num_rows)
        yield pa.RecordBatch.from_arrays([kinds, *batch.select(own).columns], names=[ROW_KIND, *own])


def _packed(scan: SystemScan, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    for batch in _audited(scan, names):
        bounds = pa.array(range(batch.num_rows + 1), pa.int32())
        packed = [
            column if name == ROW_KIND else pa.ListArray.from_arrays(bounds, column)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(packed, names=batch.schema.names)


DATA_TABLES: dict[str, Callable[[LakeTable], SystemTable]] = {
    "audit_log": _audit_log,
    "binlog": _binlog,
    "ro": _read_optimized,
    "read_optimized": _read_optimized,
    "row_tracking": _row_tracking,
}
"""By the word behind the ``$``; ``read_optimized`` is what this server has called Paimon's ``ro``."""
