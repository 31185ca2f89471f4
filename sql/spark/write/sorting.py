"""Sort compaction: some files' rows written anew in the order of some columns, or of a curve through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.functions import arrow_udf

from lake import LakeTable
from lake.commit.write_context import Write
from lake.rewrite.compaction import Rewriter
from model.options.clustering import cluster_columns
from model.options.table import TABLE_OPTIONS
from model.schema.schema import Schema
from sql.spark.read.reads import dataframe, named
from sql.spark.write.ranges import RangeRules, in_ranges
from sql.spark.write.writes import Arrange, write
from sql.spark.write.zorder import alike, zorder_numbers
from table.compaction.clustering import Clustering, strategy_of
from table.compaction.curves import hilbert_keys, zorder_keys
from table.compaction.rewrite import planned
from table.compaction.task import CompactionTask
from table.format.formats import FileFormat
from table.format.manifests.entries import FileSource, ManifestEntry, NewFile
from table.scan.going_on import Check
from table.scan.planning.entry_scan import ScanPlan

_KEY = "__sluice_sort_key"
_MOST_TASKS = 1000


def sort_files(session: SparkSession, table: LakeTable, entries: Sequence[ManifestEntry], order: Order) -> list[NewFile]:
    """Write the rows of the files anew, sorted within each partition; returns the new files, not yet committed."""
    size = sum(entry.file.file_size for entry in entries)
    files = planned(table.files, table.schema, entries)
    plan = ScanPlan(snapshot_id=None, files=tuple(files), total_files=len(files), count_bytes=lambda: size)
    tasks = max(1, min(_MOST_TASKS, round(size / FileFormat.of(table.schema).target_bytes)))
    narrow = alike(entries, table.schema, order.columns) if order.strategy == "zorder" else frozenset()
    rows = sum(entry.file.row_count for entry in entries)
    arrange = order.arrange(tasks, alike=narrow, rows=rows, rules=RangeRules.of(table.schema))
    written = write(session, dataframe(session, table, plan), table, arrange=arrange, rewrites=True)
    return [replace(new, file=replace(new.file, file_source=FileSource.COMPACT)) for new in written]


def cluster_files(session: SparkSession) -> Rewriter:
    """A rewriter that sorts each task's files together and gives the outputs the task's level.

    Rows that earlier versions put into another bucket or partition than theirs go where they belong. Where that is no task's place, their
    files are the first task's, of the level of new rows.
    """

    def run(table: LakeTable, write: Write, tasks: Sequence[CompactionTask], check: Check) -> list[list[NewFile]]:
        check()
        clustering = Clustering.of(table.schema)
        assert clustering is not None
        order = Order(columns=clustering.columns, strategy=clustering.strategy, text_bytes=text_bytes(table.schema), local=clustering.local)
        entries = [entry for task in tasks for entry in task.inputs]
        index = {(task.partition, task.bucket): at for at, task in enumerate(tasks)}
        done: list[list[NewFile]] = [[] for _ in tasks]
        for new in sort_files(session, table, entries, order):
            at = index.get((clustering.written_as(new.partition), new.bucket))
            level = 0 if at is None else tasks[at].level or 0
            done[at or 0].append(replace(new, file=replace(new.file, level=level)))
        for files in done:
            write.add(files)
        return done

    return run


def text_bytes(schema: Schema) -> int:
    """How much of a text the z-order curve looks at."""
    length: int = TABLE_OPTIONS.read(schema.options, "zorder.var-length-contribution")
    return length


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """How rows are sorted."""

    columns: Sequence[str]
    strategy: str
    """``order``, ``zorder`` or ``hilbert``."""
    text_bytes: int
    local: bool = False
    """Whether each task sorts the rows it has, without an exchange before."""

    @classmethod
    def of_writes(cls, schema: Schema) -> Order | None:
        """How the rows of a bulk write are sorted before they become files; None where they are not."""
        columns = cluster_columns(schema.options) if schema.bucket <= 0 else ()  # a bucket's rows come in the order of their INSERT
        bit_by_bit = TABLE_OPTIONS.read(schema.options, "clustering.incremental")
        if not columns or (bit_by_bit and not TABLE_OPTIONS.read(schema.options, "clustering.incremental.optimize-write")):
            return None
        return cls(columns=columns, strategy=strategy_of(schema, columns), text_bytes=text_bytes(schema))

    def arrange(
        self, tasks: int | None = None, *, alike: frozenset[str] = frozenset(), rows: int = 0, rules: RangeRules | None = None
    ) -> Arrange:
        """Puts rows in this order, over so many tasks, or as many as Spark finds fit; ``alike`` as in `zorder_numbers`.

        ``rules`` part so many rows among the tasks; without them Spark does, by their number.
        """

        def run(frame: DataFrame, keys: list[Column]) -> DataFrame:
            if self.strategy == "order":
                by = [*keys, *(named(name) for name in self.columns)]
            else:
                made = (zorder_numbers(frame, self.columns, alike=alike) if self.strategy == "zorder" else None) or [self._curve()]
                curve = {f"{_KEY}{at}": column for at, column in enumerate(made)}
                frame = frame.withColumns(curve)
                by = [*keys, *(F.col(name) for name in curve)]
            if rules is not None and tasks is not None and tasks > 1 and not self.local:
                frame = in_ranges(frame, by, rows=rows, ranges=tasks, rules=rules)
            elif not self.local:
                frame = frame.repartitionByRange(*by) if tasks is None else frame.repartitionByRange(tasks, *by)
            return frame.sortWithinPartitions(*by)

        return run

    def _curve(self) -> Column:
        strategy, text_bytes = self.strategy, self.text_bytes

        def several(*arrays: pa.Array) -> pa.Array:
            return zorder_keys(arrays, text_bytes=text_bytes) if strategy == "zorder" else hilbert_keys(arrays)

        def one(array: pa.Array) -> pa.Array:
            return several(array)

        def two(a: pa.Array, b: pa.Array) -> pa.Array:
            return several(a, b)

        fixed: dict[int, Callable[..., pa.Array]] = {1: one, 2: two}
        function: Any = arrow_udf(fixed.get(len(self.columns), several), "binary")  # type: ignore[call-overload]
        made: Column = function(*[named(name) for name in self.columns])
        return made
