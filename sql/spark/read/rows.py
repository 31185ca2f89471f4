"""Where in a table's files the rows lie for which a condition is true, as Spark decides it."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Generator

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from lake import LakeTable
from lake.rewrite.change_rows import Changes, deletion_of
from model.access import ReadRules
from model.predicate import Predicate
from model.schema.types import BigIntType
from model.snapshot import Snapshot
from sql.analysis.predicates import pushed
from sql.analysis.references import TableReference
from sql.execution.results import STRING, ResultColumn
from sql.spark.read.places import FILE, ROW, numbered
from sql.spark.read.prepared import TARGET, prepared
from sql.spark.read.results import FEW_ROWS, in_arrow, rows_at, write_rows
from sql.spark.read.visible import visible
from sql.spark.session.damage import Reading
from sql.statements.base import ExecutionContext
from table.scan.planning.entry_scan import PlannedFile, plan_every_file, plan_scan
from table.write.copy_on_write import NO_ROWS, Positions

_PLACES = (ResultColumn("file", STRING), ResultColumn("row", BigIntType()))


def rows_where(
    context: ExecutionContext,
    query: exp.Expr,
    table: LakeTable,
    snapshot: Snapshot | None,
    rules: ReadRules,
    *,
    clean: Collection[str] | None = None,
) -> Changes:
    """The deletion of the rows of a snapshot that the query over the table gives, and that the rules leave its caller.

    ``clean``: as of `ChangesRows.find`.
    """
    query = query.copy()
    query.set("expressions", [exp.column(FILE, quoted=True), exp.column(ROW, quoted=True)])
    query.args["from_"].this.meta[TARGET] = True
    rows = TargetRows(table, snapshot, rules, query, clean=clean)
    files = rows.files

    positions: dict[str, list[Positions]] = {}
    with prepared(context, query, target=rows.source) as query_on_spark:
        context.cancellation.check()
        few = sum(planned.file.row_count for planned in files.values()) <= FEW_ROWS
        frame = query_on_spark.frame
        with contextlib.closing(_collected(frame) if few else _spooled(context, frame)) as batches:
            for batch in batches:
                context.cancellation.check()
                _add(positions, batch)
    places = [(planned, np.sort(np.concatenate(positions.get(name, [NO_ROWS])))) for name, planned in files.items()]
    return deletion_of(places, rows.predicate, whole=rows.whole)


class TargetRows:
    """The rows of a table that a query changes: as its caller sees them, each with where it lies."""

    def __init__(
        self, table: LakeTable, snapshot: Snapshot | None, rules: ReadRules, query: exp.Expr, *, clean: Collection[str] | None = None
    ) -> None:
        """``clean``: as of `ChangesRows.find`."""
        self._table, self._snapshot, self._rules, self._clean = table, snapshot, rules, clean
        # Those of queries inside stand for columns of theirs.
        stars = any(not isinstance(star.parent, exp.Count | exp.Select) for star in query.find_all(exp.Star))
        names = {part.name for column in query.find_all(exp.Column) for part in column.parts}
        self._mentioned = None if stars or rules.restricted else names
        self.predicate: Predicate | None = None
        """What is certain of every row that matters, once the mention is planned."""
        self.whole = len(list(query.find_all(exp.Query))) > 1 or bool(query.args.get("joins"))
        """Whether rows of other mentions matter, too, of which some may be of the same table."""
        self.files: dict[str, PlannedFile] = {}
        """The files that were planned, by what stands beside their rows."""

    def source(self, session: SparkSession, reference: TableReference, reading: Reading) -> DataFrame:
        """The frame of the mention whose rows are changed."""
        table, rules, clean = self._table, self._rules, self._clean
        self.predicate = pushed(reference, table.schema, rules)
        if clean is None:
            plan = plan_scan(table.files, table.schema, self._snapshot, self.predicate)
        else:
            plan = plan_every_file(table.files, table.schema, self._snapshot, self.predicate, but=clean)
        reading.add(table, plan)
        frame, files = numbered(session, table, plan.files, self._mentioned, surely=clean is not None)
        self.files.update(files)
        return visible(frame, table, rules, beside=(FILE, ROW), masked=False) if rules.restricted else frame


def _collected(frame: DataFrame) -> Generator[pa.RecordBatch]:
    yield from frame.toArrow().to_batches()


def _spooled(context: ExecutionContext, frame: DataFrame) -> Generator[pa.RecordBatch]:
    """The rows a bounded batch at a time: neither Spark's heap nor this process holds the files' names for each of many rows."""
    entry = context.spool.new(context.cancellation, caller=context.lake.caller)
    try:
        write_rows(in_arrow(frame, list(_PLACES)), entry.path)
        entry.finish()
        yield from rows_at(context.spool.file_io, entry.path, list(_PLACES))
    finally:
        entry.remove()


def _add(positions: dict[str, list[Positions]], batch: pa.RecordBatch) -> None:
    """Sort the rows of a batch by the files they lie in."""
    names, rows = batch.column(0).dictionary_encode(), batch.column(1).to_numpy(zero_copy_only=False)
    numbers = names.indices.to_numpy()
    for number, name in enumerate(names.dictionary.to_pylist()):
        positions.setdefault(name, []).append(rows[numbers == number])
