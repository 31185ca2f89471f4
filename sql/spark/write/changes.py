"""The rows a statement changes and what it gives them, found by Spark: in the spool, by file and place, until files are written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as st
from sqlglot import exp

from lake import LakeTable
from lake.rewrite.change_rows import Changes
from model.access import ReadRules
from model.errors import ExecutionError
from model.schema.types import Field, RowType
from model.snapshot import Snapshot
from sql.execution.spool import SpoolEntry
from sql.spark.read.places import FILE, ROW
from sql.spark.read.prepared import TARGET, prepared
from sql.spark.read.results import write_rows
from sql.spark.read.rows import TargetRows
from sql.spark.read.types import to_spark
from sql.spark.session.zone import plain
from sql.spark.write.assign import checked, in_years, kept_physical, stored
from sql.statements.base import ExecutionContext
from sql.statements.rows.assignments import Assignment, Clause, Kind
from table.format.io.file_io import FileIO
from table.format.io.storage_errors import translating
from table.format.parquet.batches import bounded_batches, opened
from table.scan.evolution import evolved
from table.scan.planning.entry_scan import PlannedFile
from table.write.copy_on_write import CLAUSE, FileChange, Positions

CLAUSE_OF = "__sluice_clause"
"""The column of a query that says by which clause a row changes."""
NO_CLAUSE = -1
"""What it says of a row that is matched and stays: no second row may match it either."""
_BATCH_ROWS = 16_384
Numbers = npt.NDArray[np.int8]


def changes_of(  # noqa: PLR0913 - a statement and what it is held against
    context: ExecutionContext,
    query: exp.Select,
    values: Sequence[exp.Expr],
    table: LakeTable,
    snapshot: Snapshot | None,
    rules: ReadRules,
    clauses: Sequence[Clause],
    *,
    clause: exp.Expr | None = None,
    once: bool = True,
) -> Changes:
    """What the query over the table and its values mean for the rows of a snapshot that the rules leave its caller.

    ``clause``: the expression that says which clause a row is for, NULL where the row is none of the statement's; None where there is one
    clause, for all. ``once``: whether a row that stands twice in the query is an error.
    """
    fields = [field for field in table.schema.fields if any(field.name in each.assigned or each.kind is Kind.INSERT for each in clauses)]
    bases = list(dict.fromkeys(a.field.name for each in clauses for a in each.assignments if a.nested))
    target = query.args["from_"].this
    target.meta[TARGET] = True
    qualifier = target.alias or target.name
    named_clause = exp.alias_(clause or exp.Literal.number(0), CLAUSE_OF, quoted=True)
    places = [exp.column(name, table=qualifier, quoted=True) for name in (FILE, ROW)]
    query.set("expressions", [*places, named_clause, *values, *(exp.column(name, table=qualifier, quoted=True) for name in bases)])
    rows = TargetRows(table, snapshot, rules, query)
    entry = context.spool.new(context.cancellation, caller=context.lake.caller)
    try:
        with prepared(context, query, target=rows.source) as on_spark:
            context.cancellation.check()
            changed_rows = _Given(on_spark.frame, {name: 3 + len(values) + at for at, name in enumerate(bases)}, table)
            frame = changed_rows.changes(clauses, fields).orderBy(FILE, ROW)
            with plain(frame.sparkSession):
                columns = [kept_physical(field) for field in fields]
                write_rows(frame.select(FILE, ROW, CLAUSE_OF, *columns), entry.path)
        entry.finish()
        changes = _Spooled(context, entry, fields).changes(table, rows.files, clauses, once=once)
        return replace(changes, predicate=rows.predicate, whole=rows.whole)
    except BaseException:
        entry.remove()
        raise


class _Given:
    """A query's columns: where a row lies, its clause, the values, and the old values of rows of which parts are given."""

    def __init__(self, frame: DataFrame, bases: Mapping[str, int], table: LakeTable) -> None:
        self._types = frame.schema.fields
        self._frame = frame.toDF(*[f"c{at}" for at in range(len(self._types))])
        self._bases, self._table = bases, str(table.identifier)
        self._of_places = frozenset(table.schema.partition_keys)

    def changes(self, clauses: Sequence[Clause], fields: Sequence[Field]) -> DataFrame:
        """Where each row lies, its clause, and what the columns hold then."""
        values = [self._value(field, clauses).alias(field.name) for field in fields]
        rows = self._frame.filter(F.col("c2").isNotNull())
        return rows.select(F.col("c0").alias(FILE), F.col("c1").alias(ROW), F.col("c2").cast("tinyint").alias(CLAUSE_OF), *values)

    def _value(self, field: Field, clauses: Sequence[Clause]) -> Column:
        value: Column | None = None
        for number, clause in enumerate(clauses):
            assignment = next((a for a in clause.assignments if a.field.name == field.name), None)
            if assignment is None and clause.kind is not Kind.INSERT:
                continue
            column = self._assigned(assignment or Assignment(field=field))
            column = in_years(column, field) if field.name in self._of_places else column
            condition = F.col("c2") == number
            value = F.when(condition, column) if value is None else value.when(condition, column)
        assert value is not None
        return value

    def _assigned(self, assignment: Assignment) -> Column:
        field = assignment.field
        if assignment.nested:
            return checked(self._with_parts(field, F.col(f"c{self._bases[field.name]}"), dict(assignment.parts)), field)
        return stored(field, self._source(assignment.value), None, self._table)

    def _source(self, value: int | None) -> tuple[Column, st.StructField] | None:
        return None if value is None else (F.col(f"c{3 + value}"), self._types[3 + value])

    def _with_parts(self, field: Field, old: Column, parts: Mapping[tuple[str, ...], int | None]) -> Column:
        """A ROW with some parts anew and the others as they were: of one that is NULL they are NULL, as in Spark."""
        if () in parts:
            return stored(field, self._source(parts[()]), None, self._table)
        assert isinstance(field.type, RowType)
        columns = []
        for part in field.type.fields:
            inner = {path[1:]: value for path, value in parts.items() if path[0] == part.name}
            column = self._with_parts(part, old.getField(part.name), inner) if inner else old.getField(part.name)
            columns.append(column.cast(to_spark(part.type)).alias(part.name))
        return F.struct(*columns)


@dataclass(frozen=True, slots=True)
class _Part:
    """A file of the spool, and which of all rows are in it."""

    path: str
    first: int
    rows: int


@dataclass(frozen=True, slots=True)
class _Run:
    """The rows of one file of the table, next to each other in the spool."""

    file: str | None
    """None for rows that are new."""
    first: int
    rows: Positions
    clauses: Numbers


class _Spooled:
    """Rows in the spool, sorted by where they lie."""

    def __init__(self, context: ExecutionContext, entry: SpoolEntry, fields: Sequence[Field]) -> None:
        self._io: FileIO = context.spool.file_io
        self._entry, self._fields = entry, fields
        self._check = context.cancellation.check
        self._parts: list[_Part] = []

    def changes(self, table: LakeTable, files: Mapping[str, PlannedFile], clauses: Sequence[Clause], *, once: bool) -> Changes:
        """The changes by file; raises `ExecutionError` where a row is changed twice."""
        kinds = np.array([*(list(Kind).index(clause.kind) for clause in clauses), -1], np.int8)  # what no clause is for comes last
        assigned = {number: clause.assigned for number, clause in enumerate(clauses) if clause.kind is Kind.UPDATE}
        update, delete, insert = (list(Kind).index(kind) for kind in (Kind.UPDATE, Kind.DELETE, Kind.INSERT))
        names = [field.name for field in self._fields if any(field.name in columns for columns in assigned.values())]
        changed: list[tuple[PlannedFile, FileChange]] = []
        inserted: list[tuple[int, npt.NDArray[np.bool_]]] = []
        for run in self._runs():
            kind = kinds[run.clauses]
            if run.file is None:
                inserted.append((run.first, kind == insert))
                continue
            if once and (np.diff(run.rows) == 0).any():
                raise ExecutionError(
                    f"A row of table {table.identifier} is matched by several rows of the source, and what it would hold then depends on "
                    "their order; let the source have one row for each."
                )
            deleted = np.unique(run.rows[kind == delete])
            values = partial(self._values, [(run.first, kind == update)], names, with_clause=True)
            change = FileChange(deleted=deleted, updated=run.rows[kind == update], values=values, assigned=assigned)
            if change.rows:
                changed.append((files[run.file], change))
        return Changes(
            files=changed,
            inserted=partial(self._values, inserted, [field.name for field in self._fields], with_clause=False),
            inserted_rows=sum(int(mask.sum()) for _, mask in inserted),
            moves=not table.schema.place_columns.isdisjoint(names),
            release=self._entry.remove,
        )

    def _runs(self) -> Iterator[_Run]:
        """The rows of each file, in order."""
        file: str | None = None
        first = at = 0
        rows: list[Positions] = []
        numbers: list[Numbers] = []
        for batch in self._places():
            names = batch.column(0).dictionary_encode()
            codes = names.indices.fill_null(-1).to_numpy(zero_copy_only=False)
            known = names.dictionary.to_pylist()
            places = batch.column(1).fill_null(-1).to_numpy(zero_copy_only=False)
            clauses = batch.column(2).to_numpy(zero_copy_only=False)
            starts = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), batch.num_rows]
            for start, end in pairwise(starts):
                name = None if codes[start] < 0 else str(known[codes[start]])
                if name != file and rows:
                    yield _Run(file, first, np.concatenate(rows), np.concatenate(numbers))
                    rows, numbers, first = [], [], at + start
                file = name
                rows.append(places[start:end])
                numbers.append(clauses[start:end])
            at += batch.num_rows
        if rows:
            yield _Run(file, first, np.concatenate(rows), np.concatenate(numbers))

    def _places(self) -> Iterator[pa.RecordBatch]:
        """Where the rows lie and their clauses; notes which are in which file of the spool."""
        first = 0
        for status in sorted(self._io.list(self._entry.path), key=lambda found: found.path):
            if not status.path.endswith(".parquet"):
                continue
            rows = 0
            with translating(status.path), self._io.open_input(status.path) as source:
                for batch in bounded_batches(source, [FILE, ROW, CLAUSE_OF]):
                    self._check()
                    if batch.num_rows:
                        rows += batch.num_rows
                        yield batch.select([FILE, ROW, CLAUSE_OF])
            self._parts.append(_Part(status.path, first, rows))
            first += rows

    def _values(
        self, wanted: Sequence[tuple[int, npt.NDArray[np.bool_]]], names: Sequence[str], *, with_clause: bool
    ) -> Iterator[pa.RecordBatch]:
        """The values of marked rows, each mark counted from a row of the spool, under the table's types."""
        fields = [field for field in self._fields if field.name in names]
        more = [CLAUSE_OF] if with_clause else []
        for first, mask in wanted:
            for at, batch in self._rows(first, len(mask), [*more, *(field.name for field in fields)]):
                self._check()
                here = mask[at - first : at - first + batch.num_rows]
                rows = batch if here.all() else batch.filter(pa.array(here))
                if not rows.num_rows:
                    continue
                arrays = [evolved(rows.column(rows.schema.get_field_index(f.name)), f.type, f.type, f.name) for f in fields]
                clauses = [rows.column(rows.schema.get_field_index(CLAUSE_OF))] if with_clause else []
                yield pa.RecordBatch.from_arrays([*clauses, *arrays], names=[*([CLAUSE] if with_clause else []), *(f.name for f in fields)])

    def _rows(self, first: int, count: int, columns: Sequence[str]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """So many rows from one on, in batches with the number of each one's first."""
        last = first + count
        for part in self._parts:
            if part.first + part.rows <= first or part.first >= last:
                continue
            with translating(part.path), self._io.open_input(part.path) as source:
                metadata = opened(source).metadata
                sizes = [metadata.row_group(number).num_rows for number in range(metadata.num_row_groups)]
                starts = part.first + np.concatenate([[0], np.cumsum(sizes)])
                groups = [n for n in range(len(sizes)) if starts[n] < last and starts[n + 1] > first]
                at = int(starts[groups[0]])
                for batch in bounded_batches(source, columns, most_rows=_BATCH_ROWS, row_groups=groups):
                    low, high = max(first - at, 0), min(last - at, batch.num_rows)
                    if low < high:
                        yield at + low, batch.slice(low, high - low)
                    at += batch.num_rows
