"""The data source as Spark sees it; each method answers in a process of its own."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructField, StructType

from model.options.scan_mode import SNAPSHOT_OPTIONS_OF_BATCHES
from model.schema.schema import Schema
from pyspark_sluice.catalog import PATIENCE_SECONDS, RemoteTable
from pyspark_sluice.options import SourceOptions
from pyspark_sluice.types import to_spark
from pyspark_sluice.versions import schema_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark_sluice.batch import BatchReader
    from pyspark_sluice.sink import BatchWriter, StreamWriter
    from pyspark_sluice.stream import StreamReader


class DefaultSource(DataSource):
    """``format("sluice")``."""

    pinned: Schema | None = None
    """The table's schema when the query was analyzed; it travels with the source, so that all of a query reads under one."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` is given."""
        return "sluice"

    def schema(self) -> StructType:
        """The columns, all of them NULL-able: old files may hold NULL where a column is NOT NULL by now.

        Whether the query is a stream is not known here, so that options by which a stream may begin, too, name no other columns.
        """
        options = self._options()
        with contextlib.closing(RemoteTable(options, patience=0)) as table:  # who names a wrong server is told at once
            named = SNAPSHOT_OPTIONS_OF_BATCHES & {*table.schema.options, *options.scan}
            table.patience = PATIENCE_SECONDS  # the server has answered, and is the one that was meant
            self.pinned = schema_of(table, options) if named and options.start is None else table.schema
        names = options.columns or self.pinned.field_names
        return spark_schema(self.pinned, names)

    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802 - Spark's name
        """A reader of the table's stream."""
        from pyspark_sluice.stream import StreamReader

        return StreamReader(self._options(), self.pinned, schema)

    def reader(self, schema: StructType) -> BatchReader:
        """A reader of one version of the table."""
        from pyspark_sluice.batch import BatchReader

        return BatchReader(self._options(), self.pinned, schema)

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """A writer of one commit."""
        from pyspark_sluice.sink import BatchWriter

        return BatchWriter(self._options(), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802 - Spark's name
        """A writer of a commit per micro-batch."""
        from pyspark_sluice.sink import StreamWriter

        return StreamWriter(self._options(), schema, overwrite)

    def _options(self) -> SourceOptions:
        return SourceOptions.read(dict(self.options))


def spark_schema(schema: Schema, names: Sequence[str]) -> StructType:
    """Columns of a table as Spark's; raises `UnsupportedType` or `ColumnNotExist`."""
    return StructType([StructField(name, to_spark(schema.field(name).type), True) for name in names])
