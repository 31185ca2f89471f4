"""Event time in streams: which column of a table is time, and windows that close when the watermark has passed them."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator
from datetime import timedelta
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as st
from sqlglot import exp

from model.errors import InvalidSchema, UnsupportedStatement
from model.options.watermark import END_OF_TIME, Watermark
from sql.analysis.windows import WINDOW_COLUMNS, window_of
from sql.parsing.windows import Window
from sql.spark.read.reads import named
from sql.spark.session.texts import frame_of
from sql.spark.session.zone import in_utc, plain, zone_of
from sql.spark.streaming.joins import DELAY, check_equalities, with_bounds
from sql.spark.streaming.partitions import PARTITION, Partitions, times

_ROWTIME = "sluice.rowtime"
"""The same for the column of the table, wherever it is passed on: the watermark's delay in milliseconds."""
_HIDDEN = "__sluice_event_time"
_ONE_WATERMARK = "spark.sql.streaming.statefulOperator.allowMultiple"


def with_watermark(frame: DataFrame, watermark: Watermark, *, ends: bool = False, partitions: Partitions | None = None) -> DataFrame:
    """A streaming frame whose event time is the watermark's column; a TIMESTAMP is read as UTC, which Spark's own refuses.

    ``partitions``: each has a watermark of its own, and the slowest counts. Spark takes several in one plan where `several_stages` are
    not, and of several the least; a condition keeps those of the query behind them all, so that each partition's rows are seen.

    ``ends``: the frame's last row ends event time and is none of the table's. It is left out behind the watermark by a condition
    Spark does not move another past (one that is not deterministic): those of the query would keep the row from the watermark.
    """
    millis = int(watermark.delay() / timedelta(milliseconds=1))
    field = frame.schema[watermark.column]
    with plain(frame.sparkSession):
        instant = named(watermark.column).cast(st.TimestampType())
        if partitions is not None and len(partitions.names) > 1:
            hidden_ones = [f"{_HIDDEN}_{at}" for at in range(len(partitions.names))]
            columns = times(instant, partitions, frame.sparkSession)
            marked = frame.select("*", *[column.alias(name) for name, column in zip(hidden_ones, columns, strict=True)])
            for name in hidden_ones:
                marked = marked.withWatermark(name, f"{millis} milliseconds")
            marked = marked.where(F.spark_partition_id() >= 0).drop(PARTITION, *hidden_ones)
            return marked.withMetadata(watermark.column, {**field.metadata, DELAY: millis})
        marked = frame.withColumn(_HIDDEN, instant).withWatermark(_HIDDEN, f"{millis} milliseconds")
        if ends:
            hidden = F.col(_HIDDEN)
            marked = marked.where((hidden.isNull() | (hidden < F.timestamp_millis(F.lit(END_OF_TIME)))) & (F.spark_partition_id() >= 0))
        marked = marked.drop(_HIDDEN, PARTITION)
    return marked.withMetadata(watermark.column, {**field.metadata, DELAY: millis, _ROWTIME: millis})


def rowtime_of(schema: st.StructType) -> tuple[int, int] | None:
    """Which column of a result is a table's event time as it was read, and the delay in milliseconds; None where none or several are."""
    rowtimes = [(at, int(field.metadata[_ROWTIME])) for at, field in enumerate(schema.fields) if _ROWTIME in field.metadata]
    return rowtimes[0] if len(rowtimes) == 1 else None


def several_stages(tree: exp.Expr, *, followed: int | None = None) -> bool:
    """Whether a query keeps rows back more than once, as a join of aggregates does.

    ``followed``: how many mentions of sources go on; a join with one that does not keeps nothing back.
    """
    joins = sum(1 for _ in tree.find_all(exp.Join))
    if followed is not None:
        joins = min(joins, max(followed - 1, 0))
    distinct = (node for node in tree.find_all(exp.Select, exp.SetOperation) if node.args.get("distinct"))
    return sum(1 for _ in tree.find_all(exp.Group)) + joins > 1 or next(distinct, None) is not None


@contextlib.contextmanager
def windowed_views(session: SparkSession, tree: exp.Expr, views: dict[str, str]) -> Iterator[None]:
    """Put views in the place of a streaming query's window functions, innermost first, and write its joins' conditions as Spark needs them.

    Inside the block Spark judges lateness as we do.
    """
    for node in reversed(list(tree.find_all(exp.Subquery))):
        window = window_of(node)
        if window is None:
            continue
        _check_named(tree, node, window)
        name = f"__sluice_{uuid4().hex}"
        _windowed(session, node, window, views).createTempView(name)
        views[name] = window.kind
        alias = node.args.get("alias") or exp.TableAlias(this=exp.to_identifier(name, quoted=True))
        table = exp.Table(this=exp.to_identifier(name, quoted=True), alias=alias)
        for key in ("joins", "laterals", "pivots"):
            if node.args.get(key):
                table.set(key, node.args[key])
        node.replace(table)
    check_equalities(session, tree, views)
    with_bounds(session, tree, views)
    # With several stateful operators Spark calls a row late one batch later than with one.
    several = several_stages(tree)
    before = session.conf.get(_ONE_WATERMARK, "true")
    session.conf.set(_ONE_WATERMARK, str(several).lower())
    try:
        yield
    finally:
        session.conf.set(_ONE_WATERMARK, before or "true")


def _check_named(tree: exp.Expr, node: exp.Subquery, window: Window) -> None:
    named_queries = {cte.alias for cte in tree.find_all(exp.CTE)}
    for table in node.this.find_all(exp.Table):
        if len(table.parts) == 1 and table.name in named_queries:
            raise UnsupportedStatement(
                f"{window.kind} over {table.name}, which WITH names, is not available in a stream; write its query in parentheses there.",
                fragment=table.name,
            )


def _windowed(session: SparkSession, node: exp.Subquery, window: Window, views: Collection[str]) -> DataFrame:
    alone = exp.Subquery(this=node.this.copy())  # without what is joined with it, which stays beside
    if not frame_of(session, exp.select("*").from_(alone.copy()), views).isStreaming:
        alone.meta.update(node.meta)
        return frame_of(session, exp.select("*").from_(alone), views)  # a table that is read as it is now, beside a stream
    if window.kind == "SESSION":
        raise UnsupportedStatement(
            "SESSION in a stream is not available: its windows have no end before the next row comes; TUMBLE, HOP and CUMULATE are, and "
            "SET 'execution.runtime-mode' = 'batch' runs SESSION over what is there.",
            fragment="SESSION",
        )
    alone.meta.update(node.meta)
    with_bounds(session, alone, views)
    frame = frame_of(session, exp.select("*").from_(alone), views)
    field = next((f for f in frame.schema.fields if f.name == window.column), None)
    if field is None or DELAY not in field.metadata:
        raise InvalidSchema(
            f"{window.kind}: DESCRIPTOR({window.column}) is no event time; a stream needs WATERMARK FOR {window.column} in its table "
            f"(ALTER TABLE … ADD WATERMARK FOR {window.column} AS {window.column} - INTERVAL '5' SECOND)."
        )
    if isinstance(field.dataType, st.TimestampType) and not in_utc(session):
        raise UnsupportedStatement(
            f"{window.kind} of the TIMESTAMP_LTZ column {window.column} in zone {zone_of(session)} is not available in a stream: its "
            "watermark is in UTC. RESET 'table.local-time-zone', or use a TIMESTAMP column.",
            fragment=window.column,
        )
    delay = field.metadata[DELAY]
    _, end, _ = WINDOW_COLUMNS
    rest = {key: value for key, value in field.metadata.items() if key != DELAY}
    return frame.withMetadata(window.column, rest).withMetadata(end, {DELAY: delay})
