"""Streaming SELECTs that only filter and pick columns: a tail of a table, read in this process."""

from __future__ import annotations

import pickle
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from lake import LakeTable, StreamStep, TableStream
from lake.streams.snapshot_steps import TURN_SECONDS
from model.access import WHOLE
from model.errors import StreamChanged, UnsupportedStatement, UnsupportedType
from model.options.table import stream_options
from model.predicate import Predicate
from model.schema.schema import Schema
from model.schema.types import Field
from sql.analysis.predicates import pushed
from sql.analysis.references import TableReference
from sql.analysis.views import sources_of
from sql.execution.reading_memory import StepMemory, reading_bytes
from sql.execution.results import ResultColumn, ResultSet, result_schema
from sql.execution.session_settings import RUNTIME_MODE
from sql.local.conditions import Conditions
from sql.local.literals import NotLocal
from sql.local.scope import Scope, limit_of, only_parts, only_stored_table, opened
from sql.local.stream_checks import all_end_now, is_bounded
from sql.parsing import trees
from sql.statements.base import ExecutionContext, LocalStatement
from table.format.rows.arrow import arrow_type
from table.scan.read import Selection, read_batches

STREAM_BATCH_ROWS = 8192
"""Rows handed on at once: what a slow client holds in memory."""
_MEMORY_SECONDS = 1.0
"""After so long a stream looks again whether there is memory to read."""
_SHARED_BYTES = 256 << 10
_SHARED_ROWS = 1 << 16
"""Data files of a commit whose rows are kept a moment for other streams, which wait for them on their threads: of so few bytes and rows."""


@dataclass(frozen=True, kw_only=True)  # without slots: it remembers its text
class Tail(LocalStatement):
    """``SELECT columns FROM t [WHERE …] [LIMIT n]`` in streaming mode."""

    reference: TableReference
    table: LakeTable
    columns: Sequence[tuple[str, Field]]
    """The result's columns: their names, and the table's columns they show."""
    predicate: Predicate | None
    condition: pc.Expression | None
    condition_columns: frozenset[str]
    limit: int | None

    @cached_property
    def _text(self) -> str:
        """Of two tails with the same one the rows are the same."""
        condition = None if self.condition is None else pickle.dumps(self.condition)
        return repr((self.table.schema.id, [(name, field.id) for name, field in self.columns], condition))

    def run(self, context: ExecutionContext) -> ResultSet:
        """Find the start, which may be refused; rows are read as the result is."""
        options = stream_options(self.table.schema.options, self.reference.options)
        stream = context.lake.follow(self.table, options, predicate=self.predicate, zone=context.zone)
        columns = [ResultColumn(name, field.type) for name, field in self.columns]
        memory = StepMemory()
        result = ResultSet.streaming(columns, lambda: self._batches(stream, memory), close=stream.close)
        result.unbounded, result.waiting, result.steps = True, stream, memory
        return result

    def _batches(self, stream: TableStream, memory: StepMemory) -> Iterator[pa.RecordBatch]:
        """The rows of each snapshot; an empty batch where none is there now."""
        schema = result_schema([ResultColumn(name, field.type) for name, field in self.columns])
        nothing = pa.RecordBatch.from_arrays([pa.array([], kind) for kind in schema.types], schema=schema)
        left = self.limit
        yield nothing  # who reads learns the columns at once
        if left == 0:
            return
        for batch in self._found(stream, memory, schema):
            if batch is None:
                yield nothing
                continue
            if left is None and batch.num_rows <= STREAM_BATCH_ROWS:
                yield batch  # as it is, so that who writes it knows it again
                continue
            for start in range(0, batch.num_rows, STREAM_BATCH_ROWS):
                piece = batch.slice(start, STREAM_BATCH_ROWS)
                if left is not None:
                    piece = piece.slice(0, left)
                    left -= piece.num_rows
                yield piece
                if left == 0:
                    return

    def _found(self, stream: TableStream, memory: StepMemory, schema: pa.Schema) -> Iterator[pa.RecordBatch | None]:
        """The rows of each snapshot; None where none came, or none was found in a while and it is others' turn."""
        for step in stream.steps():
            if step is None:
                yield None
                continue
            began = time.monotonic()
            for batch in self._shared_rows(stream, memory, step, schema):
                if batch is None:
                    yield None
                    began = time.monotonic()
                    continue
                if not batch.num_rows and time.monotonic() - began < TURN_SECONDS:
                    continue
                if not batch.num_rows:
                    stream.come_again()
                yield batch if batch.num_rows else None
                began = time.monotonic()

    def _shared_rows(self, stream: TableStream, memory: StepMemory, step: StreamStep, schema: pa.Schema) -> Iterable[pa.RecordBatch | None]:
        """The rows of a step, read once for all streams of the same text; large ones are read by each, and never held whole."""
        files = [planned_file.file for planned_file in step.planned]
        if sum(file.file_size for file in files) > _SHARED_BYTES or sum(file.row_count for file in files) > _SHARED_ROWS:
            return self._large_rows(stream, memory, step, schema)
        key = ("rows", step.snapshot.key, tuple(file.file_name for file in files), step.table.schema.id, self._text)
        return stream.follower.once(key, lambda: list(self._rows(step, schema, stream.who)))

    def _large_rows(self, stream: TableStream, memory: StepMemory, step: StreamStep, schema: pa.Schema) -> Iterator[pa.RecordBatch | None]:
        """The same, counted while it is read; None while there is no memory for it."""
        size = reading_bytes(planned_file.file.file_size for planned_file in step.planned)
        while (give := memory.take(size)) is None:
            stream.pause(_MEMORY_SECONDS)
            yield None
        try:
            yield from self._rows(step, schema, stream.who)
        finally:
            give()

    def _rows(self, step: StreamStep, schema: pa.Schema, principal: str) -> Iterator[pa.RecordBatch]:
        self._check_types(step.table.schema)
        names = list(dict.fromkeys(field.name for _, field in self.columns))
        positions = [names.index(field.name) for _, field in self.columns]
        selection = Selection(columns=names, filter=self.condition, filter_columns=self.condition_columns, empty=True, principal=principal)
        # Under the schema the stream began with: columns are found by their ids, whatever they are called by now.
        for batch in read_batches(step.table.files, self.table.schema, step.planned, selection):
            yield pa.RecordBatch.from_arrays([batch.column(at) for at in positions], schema=schema)

    def _check_types(self, now: Schema) -> None:
        """Raise `StreamChanged` where a column the stream shows has got a type whose values its own cannot hold."""
        if now.id == self.table.schema.id:
            return
        used = {field.name for _, field in self.columns} | self.condition_columns
        present = {field.id: field for field in now.fields}
        for field in self.table.schema.fields:
            changed = present.get(field.id)
            if field.name in used and changed is not None and arrow_type(changed.type) != arrow_type(field.type):
                raise StreamChanged(str(self.table.identifier), column=field.name, was=str(field.type), now=str(changed.type))


def is_stream(tree: exp.Expr | None, context: ExecutionContext) -> bool:
    """Whether the statement is a query to be run as a stream: in streaming mode, over a table that can grow."""
    if RUNTIME_MODE.read(context.settings) != "streaming" or tree is None:
        return False
    if isinstance(tree, trees.Explain):
        raise UnsupportedStatement("EXPLAIN in streaming mode is not available yet; SET 'execution.runtime-mode' = 'batch' to see a plan.")
    if not isinstance(tree, exp.Query):
        return False
    return not all_end_now(context, sources_of(context, tree))


def plan_tail(tree: exp.Expr, context: ExecutionContext) -> Tail:
    """The statement; raises `NotLocal` for what needs Spark: all but columns of one table, a plain condition and a LIMIT."""
    if not isinstance(tree, exp.Select) or not only_parts(tree, _PARTS):
        raise NotLocal
    reference = only_stored_table(tree, context)
    table = opened(reference, context)
    if is_bounded(table, reference):
        raise NotLocal
    scope = Scope(reference, table.schema)
    columns = [column for part in tree.expressions for column in _columns(scope, part)]
    conditions = Conditions(scope.column)
    where = tree.args.get("where")
    condition = conditions.translate(where.this) if where is not None else None
    return Tail(
        reference=reference,
        table=table,
        columns=columns,
        predicate=pushed(reference, table.schema, WHOLE),  # of a part there are no streams
        condition=condition,
        condition_columns=frozenset(conditions.columns),
        limit=limit_of(tree),
    )


def _columns(scope: Scope, part: exp.Expr) -> list[tuple[str, Field]]:
    projected = scope.projected(part)
    try:
        for _, field in projected:
            arrow_type(field.type)
    except UnsupportedType:
        raise NotLocal from None
    return projected


_PARTS = frozenset({"expressions", "from_", "where", "limit", "hint"})
