"""Files of the import directories: read once, or watched."""

from __future__ import annotations

from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st

from model.schema.types import Field
from sql.connectors import ConnectorScope, ConnectorTable
from sql.connectors.filesystem import (
    CSV_COMMENTS,
    CSV_DELIMITER,
    CSV_ESCAPE,
    CSV_HEADER,
    CSV_NULL,
    CSV_QUOTE,
    FORMAT,
    IGNORE_ERRORS,
    JSON_IGNORE_ERRORS,
    PATH,
    check_path,
    in_store,
    no_such_file,
)
from sql.spark.connectors.base import SparkConnector
from sql.spark.connectors.far_numbers import as_texts, from_texts, has_decimal
from sql.spark.connectors.map_keys import has_map, last_of_each_key
from sql.spark.read.reads import literal, named, tagged
from sql.spark.read.types import to_spark

_NEVER = "36500d"


class SparkFilesystem(SparkConnector):
    """Reads files with Spark's own readers."""

    def read(self, session: SparkSession, table: ConnectorTable, scope: ConnectorScope) -> DataFrame:
        """The rows of the files; they are checked again, since a link may have changed."""
        path = PATH.read(table.options)
        paths = check_path(path, scope)
        # What was found here is named; a store's pattern is Spark's to find.
        wanted = paths if in_store(path) else [literal(one) for one in paths]
        try:
            return _shown(_reader(session.read, table).load(wanted), table)
        except AnalysisException as problem:
            if problem.getCondition() != "PATH_NOT_FOUND":
                raise
            raise no_such_file(path) from problem

    def follow(self, session: SparkSession, table: ConnectorTable, scope: ConnectorScope) -> DataFrame:
        """The rows of each file once, in the order the files were changed."""
        path = PATH.read(table.options)
        reader = _reader(session.readStream, table)
        if not table.columns:
            reader = reader.schema(_reader(session.read, table).load(path).schema)
        # Files that are moved in keep their times: without a bound of its own Spark passes over those a week older than the newest.
        reader = reader.option("maxFileAge", _NEVER)
        return _shown(reader.load(path), table)


def _reader(reader: Any, table: ConnectorTable) -> Any:
    """Spark's reader, batch or stream, set up for the table's format."""
    options, format_ = table.options, FORMAT.read(table.options)
    if table.columns:
        own = [f for f in table.columns if f.name not in table.metadata]
        schema = st.StructType([st.StructField(f.name, to_spark(f.type), True) for f in own])
        reader = reader.schema(schema if format_ == "parquet" else as_texts(schema))
    if format_ == "csv":
        reader = reader.options(
            sep=CSV_DELIMITER.read(options),
            header=CSV_HEADER.read(options),
            quote=CSV_QUOTE.read(options),
            escape=CSV_ESCAPE.read(options) or '"',
            nullValue=CSV_NULL.read(options),
            mode="PERMISSIVE" if IGNORE_ERRORS.read(options) else "FAILFAST",
            enforceSchema=True,
        )
        if CSV_COMMENTS.read(options):
            reader = reader.option("comment", "#")
    elif format_ == "json":
        reader = reader.option("mode", "PERMISSIVE" if JSON_IGNORE_ERRORS.read(options) else "FAILFAST")
    return reader.format(format_)


def _shown(frame: DataFrame, table: ConnectorTable) -> DataFrame:
    """The table's columns and no others: Spark adds some that directories are called by. Without columns it has all that there are."""
    if table.columns:
        return frame.select(*[_column(f, table) for f in table.columns])
    fields = frame.schema.fields
    if not any(has_map(f.dataType) for f in fields):
        return frame
    return frame.select(*[last_of_each_key(named(f.name), f.dataType).alias(f.name) for f in fields])


def _column(field: Field, table: ConnectorTable) -> Column:
    """A column of the table: the file's own, or what Spark knows about the file under ``_metadata.file_…``."""
    key = table.metadata.get(field.name)
    if key is not None:
        return tagged(F.col("_metadata").getField(key.replace(".", "_").replace("-", "_")), field)
    type_, column = to_spark(field.type), named(field.name)
    format_ = FORMAT.read(table.options)
    if format_ != "parquet" and has_decimal(type_):
        column = from_texts(column, type_, ignoring=(IGNORE_ERRORS if format_ == "csv" else JSON_IGNORE_ERRORS).read(table.options))
    return last_of_each_key(column, type_).alias(field.name)
