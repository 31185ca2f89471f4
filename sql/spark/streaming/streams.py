"""Tables as streaming frames."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from lake import LakeTable
from model.access import WHOLE
from model.catalog_errors import JobTableReplaced
from model.errors import InvalidOption, UnsupportedStatement
from model.options.table import TABLE_OPTIONS, stream_options
from model.options.watermark import watermark_of
from pyspark_sluice.position import Position
from pyspark_sluice.pushed import predicate_text
from sql.analysis.columns import needed_columns
from sql.analysis.predicates import pushed
from sql.analysis.references import TableReference, table_references
from sql.connectors.registry import hinted
from sql.connectors.stored import find_connector
from sql.local import ends_now, is_bounded
from sql.spark.connectors import spark_connector
from sql.spark.read.reads import named, tagged
from sql.spark.session.damage import Reading
from sql.spark.streaming.alignment import idle_timeout
from sql.spark.streaming.event_time import several_stages, with_watermark
from sql.spark.streaming.partitions import Partitions
from sql.statements.base import ExecutionContext
from sql.system.names import is_system

_TARGET, _BAD_ROWS = "target", "bad rows"
"""Beside the mentions, which have a number in front."""


class StartPositions:
    """Where the tables of a query begin, and which its rows go to. What is known stays as it is, whatever its table holds by now."""

    def __init__(self, known: Mapping[str, Any] | None = None) -> None:
        self.known: dict[str, Any] = dict(known or {})
        """Offsets of `format("sluice")` as JSON, by mention: its place in the query, and the table's id and branch; these of the target.

        Also of the table for bad rows.
        """

    def begin(self, context: ExecutionContext, place: int, table: LakeTable, options: Mapping[str, str]) -> str:
        """The offset a mention of a table begins with. Raises what `LakeStreams.follow` raises, and `JobTableReplaced`."""
        mention = f"{place}:{table.table_id}/{table.identifier.branch}"
        if mention in self.known:
            context.lake.require_stream(table, options)
        elif any(known.startswith(f"{place}:") for known in self.known):
            raise JobTableReplaced(table.identifier, "reads")
        else:
            # Now, and not when Spark asks for it: what is committed after the answer belongs to the stream.
            self.known[mention] = Position(cursor=context.lake.stream_start(table, options, zone=context.zone)).to_json()
        return json.dumps(self.known[mention])

    def into(self, table: LakeTable) -> None:
        """Keep whose the rows are, which earlier versions did not; raises `JobTableReplaced` where the name is another table's by now."""
        self._hold(_TARGET, table, "writes to")

    def aside(self, table: LakeTable) -> None:
        """The same for the rows that do not fit."""
        self._hold(_BAD_ROWS, table, "puts rows into that do not fit")

    def _hold(self, key: str, table: LakeTable, does: str) -> None:
        present = f"{table.table_id}/{table.identifier.branch}"
        if self.known.setdefault(key, present) != present:
            raise JobTableReplaced(table.identifier, does)


def stream_of(  # noqa: C901, PLR0913 - each option of a table that Spark's source is told; a mention of a table and the query it stands in
    context: ExecutionContext,
    session: SparkSession,
    reference: TableReference,
    tree: exp.Expr,
    *,
    place: int,
    starts: StartPositions,
    micro_batch: int | None,
    drain: bool,
    reading: Reading,
    topics: list[Partitions],
) -> DataFrame | None:
    """What a table holds, from where its options say, and all that comes; None for one that is to be read as it is (`scan.bounded`).

    Raises for what cannot be followed. ``tree`` is the query that mentions it and decides which columns are read; ``micro_batch`` bounds
    the bytes of data files read at once, and is None where the query is only checked. ``drain``: event time ends with what is there.
    ``topics`` takes what must watch partitions with an event time of their own. ``place`` counts the mentions of tables in the query.
    """
    own = find_connector(context.lake, context.session, reference.parts)
    if own is not None:
        scope = context.connector_scope
        own = hinted(own, reference, scope)
        source = spark_connector(own, scope)
        reading.sources.append(own)
        frame = source.follow(session, own, scope)
        if own.watermark is None:
            return frame
        partitions: Partitions | None = None
        several = several_stages(tree, followed=_followed(context, tree))
        if micro_batch is not None or several:
            names = source.partitions(session, own, scope)
            if len(names) > 1 and several:
                raise UnsupportedStatement(
                    f"{reference.name} has {len(names)} partitions, and a query of several stages (two of GROUP BY, JOIN and DISTINCT) "
                    "has one watermark for all: rows of slow partitions would be late and dropped. Write the first stage into a table by a "
                    "job of its own and read that, or leave WATERMARK out of the topic's table.",
                    fragment=reference.name,
                )
            if len(names) > 1:
                partitions = Partitions(names, idle_timeout(own.options), context.spool)
                topics.append(partitions)
        return with_watermark(frame, own.watermark, ends=source.ends_event_time(own), partitions=partitions)
    if is_system(reference.parts):
        raise UnsupportedStatement(f"{reference.name} is a system table; system tables are not followed.", fragment=reference.name)
    if reference.as_of is not None:
        raise InvalidOption(f"{reference.name} is followed from where its scan options say; AS OF is for batch queries.")
    table = context.lake.open(context.session.identifier(reference.parts))
    if is_bounded(table, reference):
        return None
    reading.add(table, None)
    options = stream_options(table.schema.options, reference.options)
    reading.has_consumer |= TABLE_OPTIONS.read(options, "consumer-id") is not None
    start = starts.begin(context, place, table, options)
    access = context.delegated_access()
    columns = needed_columns(tree, table.schema)
    watermark = watermark_of(table.schema.options)
    if watermark is not None and table.schema.find(watermark.column) is None:
        watermark = None  # on a computed column, which only Flink knows
    if watermark is not None and watermark.column not in columns:
        columns = [*columns, watermark.column]
    reader_options = dict(reference.options) | {
        "uri": access.uri,
        "tableId": str(table.table_id),
        "timeZone": context.zone,
        "columns": json.dumps(columns),
        "parallelism": str(session.sparkContext.defaultParallelism),
        "startingOffset": start,
    }
    ends = drain or TABLE_OPTIONS.read(options, "scan.bounded.watermark") is not None
    if watermark is not None and ends:
        reader_options["endOfTime"] = watermark.column
    if drain:
        reader_options["drain"] = "true"
    if micro_batch is not None:
        reader_options["maxBytesPerTrigger"] = str(micro_batch)
    if access.token is not None:
        reader_options["token"] = access.token
    predicate = pushed(reference, table.schema, WHOLE)  # of a part there are no streams
    if predicate is not None:
        reader_options["filter"] = predicate_text(predicate)
    frame = session.readStream.format("sluice").options(**reader_options).load(str(table.identifier))
    frame = frame.select(*[tagged(named(name), table.schema.field(name)) for name in columns])
    return frame if watermark is None else with_watermark(frame, watermark, ends=ends)


def _followed(context: ExecutionContext, tree: exp.Expr) -> int:
    """How many mentions of sources in a query go on; its views are expanded."""
    return sum(1 for reference in table_references(tree) if _goes_on(context, reference))


def _goes_on(context: ExecutionContext, reference: TableReference) -> bool:
    """Whether a source is followed; connectors all are, those that end, too."""
    return find_connector(context.lake, context.session, reference.parts) is not None or not ends_now(context, reference)
