"""Topics of Kafka through Spark's own connector."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from model.errors import InvalidOption, Unavailable
from model.schema.types import Field, TimestampType
from sql.connectors import ConnectorScope, ConnectorTable
from sql.connectors.kafka import (
    BOUNDED_MODE,
    BOUNDED_OFFSETS,
    BOUNDED_TIMESTAMP,
    GROUP_ID,
    LONGEST_TOPIC,
    OFFSET_RESET,
    STARTUP_MODE,
    STARTUP_OFFSETS,
    STARTUP_TIMESTAMP,
    TOPIC,
    TOPIC_PATTERN,
    Side,
    check_written,
    sides,
    specific_offsets,
    topics_of,
)
from sql.spark.connectors.base import SparkConnector
from sql.spark.connectors.formats import decoded, decoded_values, encoded
from sql.spark.read.reads import named, once, tagged
from sql.spark.read.types import to_spark
from sql.spark.streaming.partitions import PARTITION, name_of, names_in

_TIMESTAMP_TYPES = {-1: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
_OWN_PROPERTIES = frozenset({"properties.group.id", "properties.auto.offset.reset"})


class SparkKafka(SparkConnector):
    """Reads and writes topics."""

    def read(self, session: SparkSession, table: ConnectorTable, scope: ConnectorScope) -> DataFrame:
        """What is in the topic now, or up to the table's bound."""
        if _starts_at_end(table):  # where it ends, too; Spark's batches know no such start
            table = replace(table, options={**table.options, STARTUP_MODE.key: "earliest-offset"})
            return _shown(_loaded(_set_up(session.read, table)).where(F.lit(False)), table)
        reader = _set_up(session.read, table)
        # Which offset a time is, only the broker knows; Spark refuses one behind the end, where Flink reads nothing. Without that end it
        # reads what is there, of which what lies behind the bound is left out.
        started = STARTUP_TIMESTAMP.read(table.options) if STARTUP_MODE.read(table.options) == "timestamp" else None
        match BOUNDED_MODE.read(table.options):
            case "specific-offsets":
                ending = self._ending(session, table)
                if started is None:
                    reader = reader.option("endingOffsets", ending)
                return _shown(_loaded(reader).where(_before(table)), table)
            case "timestamp":
                bound = BOUNDED_TIMESTAMP.read(table.options)
                if started is not None and bound is not None and started >= bound:
                    return _shown(_loaded(reader).where(F.lit(False)), table)
                reader = reader.option("endingTimestamp", str(bound))
        return _shown(_loaded(reader), table)

    def _ending(self, session: SparkSession, table: ConnectorTable) -> str:
        """Where each partition ends, as Spark's JSON; raises `InvalidOption` as `_require_bound` does.

        Of a partition that is not named nothing is read, as in Flink; Spark wants all of them all the same.
        """
        topic, bounds = _bounds(table)
        ends = self._require_bound(session, table)
        started = STARTUP_OFFSETS.read(table.options)
        starts = {} if started is None else json.loads(specific_offsets(table, started))[topic]
        latest = {name.removeprefix(f"{topic}-"): -1 for name in ends}
        # Spark refuses a start behind the end; what lies behind the bound is left out all the same.
        return json.dumps({topic: {**latest, **{partition: max(bound, starts.get(partition, 0)) for partition, bound in bounds.items()}}})

    def _require_bound(self, session: SparkSession, table: ConnectorTable) -> dict[str, int]:
        """Raise `InvalidOption` for a specific bound that is not there yet, for which Flink would wait; returns where partitions end."""
        topic, bounds = _bounds(table)
        ends = self._ends(session, table)
        for partition, bound in bounds.items():
            end = ends.get(name_of(topic, partition))
            if end is None:
                raise InvalidOption(
                    f"{table.name}: '{BOUNDED_OFFSETS.key}' names partition {partition}, which topic {topic} does not have."
                )
            if bound > end:
                raise InvalidOption(
                    f"{table.name}: '{BOUNDED_OFFSETS.key}' names offset {bound} of partition {partition}, which ends at {end}: nobody "
                    f"waits here for records to come. Name {end} at most, or '{BOUNDED_MODE.key}' = 'latest-offset'."
                )
        return ends

    def follow(self, session: SparkSession, table: ConnectorTable, scope: ConnectorScope) -> DataFrame:
        """All records from the table's start on; what lies beyond its bound is left out."""
        frame = _loaded(_set_up(session.readStream, table))
        match BOUNDED_MODE.read(table.options):
            case "specific-offsets":
                self._require_bound(session, table)  # the stream ends with what is there
                frame = frame.where(_before(table))
            case "timestamp":
                end = BOUNDED_TIMESTAMP.read(table.options)
                if end is None or end > time.time() * 1000:
                    raise InvalidOption(
                        f"{table.name}: a stream's 'scan.bounded.timestamp-millis' lies in the past: it ends with what is there."
                    )
                frame = frame.where(F.unix_millis("timestamp") < F.lit(end))
        return _shown(frame, table, partition=table.watermark is not None)

    def partitions(self, session: SparkSession, table: ConnectorTable, scope: ConnectorScope) -> list[str]:
        """Those of its topics, the empty ones, too."""
        return sorted(self._ends(session, table))

    def _ends(self, session: SparkSession, table: ConnectorTable) -> dict[str, int]:
        """The partitions and where each ends: a stream that is at their end says where it is in each."""
        options = {key: value for key, value in table.options.items() if not key.startswith(("scan.startup.", "scan.bounded."))}
        at_end = replace(table, options={**options, STARTUP_MODE.key: "latest-offset"})
        frame = _loaded(_set_up(session.readStream, at_end)).select(F.lit(1))
        query = frame.writeStream.format("noop").trigger(availableNow=True).start()
        query.awaitTermination()
        progress: Any = query.lastProgress
        if progress is None:
            return {}
        return names_in((progress if isinstance(progress, Mapping) else progress.jsonValue)["sources"][0]["endOffset"])

    def write(self, frame: DataFrame, table: ConnectorTable, scope: ConnectorScope) -> int:
        """Append a record for each row, at least once."""
        check_written(table)
        key, value = sides(table)
        by_key = {key_: name for name, key_ in table.metadata.items() if name not in table.virtual}
        columns = [_encoded(value, table).alias("value")]
        if key is not None:
            columns.append(_encoded(key, table).alias("key"))
        if "headers" in by_key:
            entries = F.map_entries(named(by_key["headers"]))
            columns.append(F.transform(entries, lambda e: F.struct(e["key"].alias("key"), e["value"].alias("value"))).alias("headers"))
        if "partition" in by_key:
            columns.append(named(by_key["partition"]).alias("partition"))
        topics = topics_of(table)
        if len(topics) != 1:  # else all go to that one, as in Flink
            columns.append(_topic(named(by_key["topic"]), table, topics).alias("topic"))
        records = frame.select(*columns)
        writer: Any = records.write.format("kafka").options(**_properties(table))
        if len(topics) == 1:
            writer = writer.option("topic", topics[0])
        records.persist()
        try:
            _loaded(writer, "save")
            return records.count()  # an observation of Spark's never ends where the old write interface of this connector is used
        finally:
            records.unpersist()


def _topic(name: Column, table: ConnectorTable, topics: list[str]) -> Column:
    """The topic that a row names, which has to be one of the table's."""
    if topics:
        known = name.isin(*topics)
    else:  # the pattern was judged for names as long as Kafka takes them
        pattern = rf"\A(?:{TOPIC_PATTERN.read(table.options)})\z"
        known = F.when(F.length(name) <= F.lit(LONGEST_TOPIC), name.rlike(pattern)).otherwise(F.lit(False))
    prefix = F.coalesce(F.substring(name, 1, LONGEST_TOPIC), F.lit("NULL"))
    message = F.concat(F.lit(f"{table.name}: the topic of a row is none of the table's: "), prefix)
    return F.when(known, name).otherwise(F.raise_error(message).cast("string"))


def _loaded(at: Any, verb: str = "load") -> Any:
    """Load or save; where Spark lacks the connector, say what to do."""
    try:
        return getattr(at, verb)()
    except AnalysisException as problem:
        if "kafka" in str(problem).lower() and "find data source" in str(problem).lower():
            raise Unavailable(
                "Spark was started without its Kafka connector. Start the server with SLUICE_SPARK_JARS naming the jars "
                "(`scripts/kafka-jars` fetches them with Maven and prints their paths) or with "
                "SLUICE_SPARK_PACKAGES=org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0."
            ) from problem
        raise


def _properties(table: ConnectorTable) -> dict[str, str]:
    properties = {key: value for key, value in table.options.items() if key.startswith("properties.") and key not in _OWN_PROPERTIES}
    options = {f"kafka.{key.removeprefix('properties.')}": value for key, value in properties.items()}
    # A broker that is away is told within the time a person waits, unless the table says otherwise.
    return {"kafka.default.api.timeout.ms": "20000", "kafka.request.timeout.ms": "15000"} | options


def _set_up(reader: Any, table: ConnectorTable) -> Any:
    """Spark's reader, batch or stream, for the table's topics and start."""
    options = table.options
    reader = reader.format("kafka").options(**_properties(table)).option("includeHeaders", "true")
    if TOPIC.read(options) is not None:
        reader = reader.option("subscribe", ",".join(topics_of(table)))
    else:
        reader = reader.option("subscribePattern", f"^(?:{TOPIC_PATTERN.read(options)})$")  # Spark alone looks for it anywhere in a name
    if (group := GROUP_ID.read(options)) is not None:
        reader = reader.option("groupIdPrefix", group)
    match STARTUP_MODE.read(options):
        case "earliest-offset":
            return reader.option("startingOffsets", "earliest")
        case "latest-offset":
            return reader.option("startingOffsets", "latest")
        case "timestamp":
            reader = reader.option("startingTimestamp", str(STARTUP_TIMESTAMP.read(options)))
            return reader.option("startingOffsetsByTimestampStrategy", "latest")
        case "specific-offsets":
            return reader.option("startingOffsets", specific_offsets(table, STARTUP_OFFSETS.read(options) or ""))
    reset = OFFSET_RESET.read(options)
    if reset is None:
        raise InvalidOption(
            f"{table.name}: say where to start, by 'scan.startup.mode' = 'earliest-offset' (or latest-offset, timestamp, "
            "specific-offsets); a consumer group's offsets are not read here."
        )
    return reader.option("startingOffsets", reset)


def _starts_at_end(table: ConnectorTable) -> bool:
    """Whether reading starts behind what is there."""
    mode = STARTUP_MODE.read(table.options)
    return mode == "latest-offset" or (mode == "group-offsets" and OFFSET_RESET.read(table.options) == "latest")


def _bounds(table: ConnectorTable) -> tuple[str, dict[str, int]]:
    """The topic, and of each partition that its specific bound names the first offset not read."""
    ((topic, bounds),) = json.loads(specific_offsets(table, BOUNDED_OFFSETS.read(table.options) or "")).items()
    return topic, bounds


def _before(table: ConnectorTable) -> Column:
    """Whether a record lies before the table's specific bound; of a partition it does not name none does, as in Flink."""
    _, bounds = _bounds(table)
    condition = F.lit(False)
    for partition, offset in bounds.items():
        condition = F.when(F.col("partition") == F.lit(int(partition)), F.col("offset") < F.lit(offset)).otherwise(condition)
    return condition


def _shown(frame: DataFrame, table: ConnectorTable, *, partition: bool = False) -> DataFrame:
    """Records as the table's columns, and with the hidden one that says where each comes from, where it is asked for.

    Records without a value are no rows, unless the value is taken as it is.
    """
    key, value = sides(table)
    if value.format != "raw":
        frame = frame.where(F.col("value").isNotNull())
    parsed, sound = decoded_values("value", value, table)
    if sound is not None:
        frame = frame.where(sound)
    frame = frame.withColumn("__value", parsed)
    if key is not None:
        frame = frame.withColumn("__key", decoded("key", key, table)[0])
    columns = []
    for column in table.columns:
        if (metadata := table.metadata.get(column.name)) is not None:
            columns.append(tagged(_of_record(metadata, column), column))
        else:
            parts = [("__value", value)] if column in value.columns else []
            if key is not None and column in key.columns:  # the value's goes over the key's, as in Flink
                parts.append(("__key", key))
            values = [F.col(part).getField(side.inner(column)).cast(to_spark(column.type)) for part, side in parts]
            columns.append(tagged(F.coalesce(*values), column))
    if partition:
        columns.append(F.concat_ws("-", "topic", "partition").alias(PARTITION))
    return frame.select(*columns)


def _of_record(key: str, column: Field) -> Column:
    match key:
        case "timestamp-type":
            kinds = F.create_map(*[F.lit(part) for pair in _TIMESTAMP_TYPES.items() for part in pair])
            return F.element_at(kinds, F.col("timestampType"))
        case "headers":
            return F.map_from_entries(_last_of_each(F.coalesce(F.col("headers"), F.array().cast("array<struct<key:string,value:binary>>"))))
        case "timestamp":
            instant = F.col("timestamp").cast("timestamp_ltz")
            return instant.cast("timestamp_ntz") if isinstance(column.type, TimestampType) else instant
    return F.col(key).cast(to_spark(column.type))


def _last_of_each(headers: Column) -> Column:
    """Of the headers of one name the last one, as Flink's map keeps them: Kafka takes several, and Spark makes no map of them."""
    placed = F.transform(headers, lambda one, at: F.struct(one["key"].alias("key"), (-at).alias("at"), one["value"].alias("value")))

    def firsts(ordered: Column) -> Column:
        last = F.filter(ordered, lambda one, at: ~F.get(ordered, at - 1)["key"].eqNullSafe(one["key"]))
        return F.transform(last, lambda one: F.struct(one["key"].alias("key"), one["value"].alias("value")))

    distinct = once(F.array_sort(placed), firsts)
    names = F.transform(headers, lambda one: one["key"])
    return F.when(F.size(F.array_distinct(names)) == F.size(names), headers).otherwise(distinct)


def _encoded(side: Side, table: ConnectorTable) -> Column:
    return encoded(F.struct(*[named(column.name).alias(side.inner(column)) for column in side.columns]), side, table)
