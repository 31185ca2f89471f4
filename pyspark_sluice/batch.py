"""The batch source: one version of the table."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from model.options.table import check_hint
from model.schema.schema import Schema
from pyspark_sluice.catalog import RemoteTable
from pyspark_sluice.options import SourceOptions
from pyspark_sluice.pieces import Piece, Split, read_split, splits
from pyspark_sluice.pushed import predicate_of
from pyspark_sluice.versions import scan_of
from table.scan.time_travel import plan_batch


class BatchReader(DataSourceReader):
    """Reads what the scan options say, or the latest snapshot; one task for each partition and bucket."""

    def __init__(self, options: SourceOptions, schema: Schema | None, shape: StructType) -> None:
        check_hint(options.scan)
        self._options = options
        self._pinned = schema
        self._shape = shape

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks; Spark wants one even for nothing."""
        with contextlib.closing(RemoteTable(self._options)) as table:
            return self._plan(table)

    def _plan(self, table: RemoteTable) -> list[Split]:
        schema = self._pinned or table.schema
        wanted = scan_of(table, self._options, schema)
        plan = plan_batch(table.files, schema, wanted, predicate_of(self._options.filter))
        pieces = [Piece(planned=planned, start=0, stop=planned.file.row_count) for planned in plan.files]
        return splits(table.files, schema, pieces, parallelism=self._options.parallelism) or [Split(table.files, schema, ())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one, in order."""
        assert isinstance(partition, Split)
        return read_split(partition, self._shape.names, self._shape)
