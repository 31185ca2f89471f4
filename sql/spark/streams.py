"""Tables as streaming frames."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from model.errors import InvalidOption, UnsupportedStatement
from model.table_options import stream_options
from model.watermark import watermark_of
from pyspark_sluice.pushed import predicate_text
from sql.analysis.predicates import pushed
from sql.analysis.references import TableReference
from sql.connectors.registry import hinted
from sql.spark.connectors import spark_connector
from sql.spark.event_time import with_watermark
from sql.statements.base import ExecutionContext
from sql.system.names import is_system


def stream_of(context: ExecutionContext, session: SparkSession, reference: TableReference) -> DataFrame:
    """What a table holds, from where its options say, and all that comes; raises for what cannot be followed."""
    own = context.session.temporary_tables.get(reference.parts[0]) if len(reference.parts) == 1 else None
    if own is not None:
        own = hinted(own, reference, context.connector_scope)
        frame = spark_connector(own).follow(session, own, context.connector_scope)
        return frame if own.watermark is None else with_watermark(frame, own.watermark)
    if is_system(reference.parts):
        raise UnsupportedStatement(f"{reference.name} is a system table; system tables are not followed.", fragment=reference.name)
    if reference.as_of is not None:
        raise InvalidOption(f"{reference.name} is followed from where its scan options say; AS OF is for batch queries.")
    table = context.lake.open(context.session.identifier(reference.parts))
    stream_options(table.schema.options, reference.options)
    door = context.own_door()
    reader = session.readStream.format("sluice").option("uri", door.uri).options(**reference.options).option("timeZone", context.zone)
    if door.token is not None:
        reader = reader.option("token", door.token)
    predicate = pushed(reference, table.schema)
    if predicate is not None:
        reader = reader.option("filter", predicate_text(predicate))
    frame = reader.load(str(table.identifier))
    watermark = watermark_of(table.schema.options)
    return frame if watermark is None else with_watermark(frame, watermark)
