"""A query on its way to Spark: its tables planned and registered, its text rewritten and checked."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from uuid import uuid4

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

from lake import LakeTable
from model.access import WHOLE
from model.errors import AnalysisError, InvalidOption, UnsupportedType
from model.options.scan_mode import scan_mode
from model.options.table import check_hint
from model.schema.schema import Schema
from model.schema.type_parts import unreadable_in_sql
from model.schema.types import Field
from model.snapshot import Snapshot
from sql.analysis.bounds import multiplies, row_bound
from sql.analysis.columns import mentioned_columns
from sql.analysis.metadata_columns import hide_from_stars, named_columns, wanted_columns
from sql.analysis.predicates import pushed
from sql.analysis.qualified import unqualify
from sql.analysis.references import TableReference, replace_reference, table_references
from sql.analysis.session_values import answer_session_values
from sql.analysis.views import expand_views
from sql.connectors.registry import hinted
from sql.connectors.stored import find_connector
from sql.execution.results import ResultColumn, result_schema
from sql.execution.session import CATALOG
from sql.spark.connectors import spark_connector
from sql.spark.read.declared import metadata, result_columns
from sql.spark.read.deletions import read_by_arrow
from sql.spark.read.places import with_metadata_columns
from sql.spark.read.reads import dataframe, named
from sql.spark.read.visible import visible
from sql.spark.session.damage import Reading
from sql.spark.session.errors import translating
from sql.spark.session.texts import frame_of
from sql.spark.streaming.event_time import windowed_views
from sql.spark.streaming.partitions import Partitions
from sql.spark.streaming.streams import StartPositions, stream_of
from sql.statements.base import ExecutionContext
from sql.system import find_system_table
from sql.system.data import ROW_KIND, plan_of
from sql.system.names import is_system
from table.scan.planning.plan import ScanPlan
from table.scan.row_ids import read_with_row_ids, with_row_ids
from table.scan.time_travel import BatchScan, plan_batch

TARGET = "target"
"""Key of a table node's meta that marks the mention whose rows a statement changes."""
Source = Callable[[SparkSession, TableReference, Reading], DataFrame]
"""Gives the rows of a mention of a table, and notes what it reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTable:
    """One mention of a table, and what of it will be read."""

    name: str
    table: LakeTable
    plan: ScanPlan
    present: Snapshot | None = None
    """The snapshot that was the newest when the table was opened."""
    of_a_time: bool = False
    """Whether the mention or the table's options say which rows are meant: then others that came since are none of its."""


_OF_NOW = frozenset({"latest-full", "latest", "latest-delta"})
"""Modes of a scan that follows the table."""


@dataclass(slots=True, kw_only=True)
class Prepared:
    """A query Spark can run."""

    frame: DataFrame
    columns: Callable[[], list[ResultColumn]]
    """What the result's columns are called and declared as; names may repeat. To be asked while the query is prepared."""
    tables: list[PlannedTable] = field(default_factory=list)
    views: dict[str, str] = field(default_factory=dict)
    """Names of the views it reads, and the users' names of the tables behind."""
    reading: Reading
    bound: int | None = None
    """At most so many rows, where that is known."""
    topics: list[Partitions] = field(default_factory=list)
    """What is to look at a stream's progress, and to be closed with it."""


class Preparation:
    """Opens each table once, so that a statement sees one snapshot of it."""

    def __init__(self, context: ExecutionContext) -> None:
        self._context = context
        self._opened: dict[tuple[object, ...], tuple[LakeTable, BatchScan]] = {}

    def table(self, reference: TableReference, session: SparkSession | None) -> tuple[LakeTable, BatchScan]:
        """The table, with the columns that the mention gives, and what of it the mention means."""
        context = self._context
        identifier = context.session.identifier(reference.parts)
        check_hint(reference.options)
        options = dict(reference.options)
        if reference.as_of is not None:
            options |= self._as_of(reference, session)
        key = (identifier, *sorted(options.items()))
        opened = self._opened.get(key)
        if opened is None:
            table = context.lake.open(identifier)
            scan = context.lake.scan(table, options, zone=context.zone)
            opened = self._opened[key] = (table.at(scan.schema_id), scan)
        return opened

    def _as_of(self, reference: TableReference, session: SparkSession | None) -> dict[str, str]:
        if any(key.startswith("scan.") for key in reference.options):
            raise InvalidOption("A table is read AS OF a time or by a scan option, not by both.")
        assert reference.as_of is not None
        node = reference.as_of.unnest()
        if reference.as_of_kind == "VERSION":
            if not isinstance(node, exp.Literal):
                raise AnalysisError("VERSION AS OF takes a snapshot id or a tag's name.", fragment=node.sql("spark"))
            return {"scan.version": node.name}
        inner = node.this if isinstance(node, exp.Cast) else node
        if isinstance(inner, exp.Literal) and inner.is_string:
            return {"scan.timestamp": inner.name}
        if any(node.find_all(exp.Column, exp.Query)) or session is None:
            raise AnalysisError("FOR SYSTEM_TIME AS OF takes a time that does not depend on rows.", fragment=node.sql("spark"))
        instant = exp.Cast(this=node.copy(), to=exp.DataType(this=exp.DType.TIMESTAMPLTZ))
        millis = exp.select(exp.Anonymous(this="unix_millis", expressions=[instant]))
        return {"scan.timestamp-millis": str(frame_of(session, millis, source=self._context.source).toArrow().column(0)[0].as_py())}


@contextlib.contextmanager
def prepared(  # noqa: C901, PLR0913 - what a stream is told; views and what watches them end however the block does
    context: ExecutionContext,
    tree: exp.Expr,
    *,
    stream: bool = False,
    starts: StartPositions | None = None,
    micro_batch: int | None = None,
    drain: bool = False,
    target: Source | None = None,
) -> Iterator[Prepared]:
    """Prepare a query on the session's Spark; its views are gone when the block ends, after which only its results last.

    ``stream``: over tables that are followed, which gives a streaming frame; of each so many bytes at once (``micro_batch``),
    from ``starts`` where they know a position, and otherwise from where the options say, which ``starts`` know afterwards.
    ``drain``: event time ends with what is there, so that all windows come out.
    ``target``: gives the frame of the one mention that is marked as `TARGET`.
    """
    with context.spark.running(context.statement_id) as session, contextlib.ExitStack() as cleanup:
        if not stream:  # a stream writes by micro-batches, each of which is bounded and asks for space
            cleanup.enter_context(context.lake.growing.running(context.cancellation.cancel))
        with translating(context.source, {}, context.spark.lost):
            apply_zone(session, context.zone)
        tree = expand_views(context, tree.copy())
        if multiplies(tree):
            one_by_one(session)
        answer_session_values(tree, principal=context.lake.caller.principal, catalog=CATALOG, database=context.session.current_database)
        preparation = Preparation(context)
        starts = starts or StartPositions()
        views: dict[str, str] = {}
        tables: list[PlannedTable] = []
        reading = Reading()
        topics: list[Partitions] = []
        rows: dict[int, int] = {}
        metadata_names = named_columns(tree)
        try:
            with translating(context.source, views, context.spark.lost, reading):
                for place_in_query, reference in enumerate(table_references(tree)):
                    context.cancellation.check()
                    view = f"__sluice_{uuid4().hex}"
                    frame, planned = None, None
                    if stream:
                        frame = stream_of(
                            context,
                            session,
                            reference,
                            tree,
                            place=place_in_query,
                            starts=starts,
                            micro_batch=micro_batch,
                            drain=drain,
                            reading=reading,
                            topics=topics,
                        )
                    if target is not None and reference.node.meta.get(TARGET):
                        frame = target(session, reference, reading)
                    if frame is None:
                        frame, planned = _source(context, session, preparation, reference, tree, reading, metadata_names)
                    frame.createTempView(view)
                    views[view] = reference.name
                    if planned is not None:
                        tables.append(planned)
                        rows[id(reference.node)] = planned.plan.kept_rows
                bound = row_bound(tree, lambda node: rows.get(id(node)))
                references = table_references(tree)
                unqualify(tree, references)
                for reference, view in zip(references, list(views), strict=True):
                    replace_reference(reference, view)
                if stream:
                    cleanup.enter_context(windowed_views(session, tree, views))
                frame = frame_of(session, tree, views, source=context.source)

                def columns() -> list[ResultColumn]:
                    types = (f.type for planned in tables for f in planned.table.schema.fields)
                    tagged = any(metadata(type_) for type_ in types if not unreadable_in_sql(type_))
                    return result_columns(tree, frame.schema, lambda probe: frame_of(session, probe, views).schema, tagged=tagged)

                yield Prepared(frame=frame, columns=columns, tables=tables, views=views, bound=bound, reading=reading, topics=topics)
        except BaseException:
            for topic in topics:
                topic.close()
            raise
        finally:
            for view in views:
                with contextlib.suppress(Exception):  # a dead JVM has no views left
                    session.catalog.dropTempView(view)


def one_by_one(session: SparkSession) -> None:
    """Let what runs in a session, which is a statement's own, take each row before the next is made.

    In the loops that Spark generates for joins and generators one row's whole product is made, and held, before anybody takes a part of it.
    """
    session.conf.set("spark.sql.codegen.wholeStage", "false")


def apply_zone(session: SparkSession, zone: str) -> None:
    """Let Spark read and show times in the session's zone."""
    if session.conf.get("spark.sql.session.timeZone") != zone:
        session.conf.set("spark.sql.session.timeZone", zone)


def _source(  # noqa: PLR0913 - what is asked of a mention of a table
    context: ExecutionContext,
    session: SparkSession,
    preparation: Preparation,
    reference: TableReference,
    tree: exp.Expr,
    reading: Reading,
    metadata_names: frozenset[str],
) -> tuple[DataFrame, PlannedTable | None]:
    own = find_connector(context.lake, context.session, reference.parts)
    if own is not None:
        scope = context.connector_scope
        own = hinted(own, reference, scope)
        return spark_connector(own, scope).read(session, own, scope), None
    if is_system(reference.parts):
        return _system_frame(context, session, reference, reading)
    table, scan = preparation.table(reference, session)
    rules = context.lake.read_rules(table)
    if rules.restricted:
        context.progress.count_nothing()
    plan = plan_batch(table.files, table.schema, scan, pushed(reference, table.schema, rules))
    planned = _planned(reading, reference, table, plan, scan.snapshot)
    if wanted := wanted_columns(metadata_names, reference, table.schema, rules):
        hide_from_stars(reference, wanted)
        return with_metadata_columns(session, table, plan, rules, wanted), planned
    if rules.restricted:
        return visible(dataframe(session, table, plan), table, rules), planned
    return dataframe(session, table, plan, fields=_fields_read(reference, table.schema, tree)), planned


def _fields_read(reference: TableReference, schema: Schema, tree: exp.Expr) -> list[Field]:
    """The columns Spark is given: those of types that are not read in SQL are left out where the query does not name them.

    Raises `UnsupportedType` where it names one, and where the table has no others.
    """
    unreadable = {field.name: part for field in schema.fields if (part := unreadable_in_sql(field.type))}
    for name in mentioned_columns(tree, schema) if unreadable else ():
        if name in unreadable:
            raise UnsupportedType(
                f"Column {name} of {reference.name} holds {unreadable[name]}, which is not read in SQL. Name the other columns instead of "
                "*, or read it with a Paimon client."
            )
    readable = [field for field in schema.fields if field.name not in unreadable]
    if not readable:  # batches without a column would tell of no rows
        name, part = next(iter(unreadable.items()))
        raise UnsupportedType(
            f"All columns of {reference.name} hold what is not read in SQL, such as {name} with {part}. Read it with a Paimon client."
        )
    return readable


def _planned(reading: Reading, reference: TableReference, table: LakeTable, plan: ScanPlan, present: Snapshot | None) -> PlannedTable:
    """A read of a table, noted in the query's."""
    reading.add(table, plan)
    of_a_time = reference.as_of is not None or scan_mode({**table.schema.options, **reference.options})[0] not in _OF_NOW
    return PlannedTable(name=reference.name, table=table, plan=plan, present=present, of_a_time=of_a_time)


def _system_frame(
    context: ExecutionContext, session: SparkSession, reference: TableReference, reading: Reading
) -> tuple[DataFrame, PlannedTable | None]:
    """A system table's rows; those that are the table's own are read from its files, and count as any read of it."""
    if reference.as_of is not None:
        raise InvalidOption(f"{reference.name} is a system table; choose its snapshot with OPTIONS('scan.snapshot-id' = '…').")
    check_hint(reference.options)
    system_table = find_system_table(context.lake, context.session, reference.parts, options=reference.options, zone=context.zone)
    assert system_table is not None
    system, scan = system_table
    if system.holds_values:
        scan = replace(scan, predicate=pushed(reference, system.schema(), WHOLE))
    if not system.holds_data:
        schema = result_schema(system.columns)
        batches = list(system.read(scan, [c.name for c in system.columns]))
        # Spark takes no table without any batch where a column is nested or a time.
        rows = pa.Table.from_batches(batches or [pa.RecordBatch.from_pylist([], schema=schema)])
        return session.createDataFrame(rows), None
    table, plan = scan.opened, plan_of(scan)
    planned = _planned(reading, reference, table, plan, scan.of_rows.snapshot)
    if system.name == "row_tracking":
        return read_by_arrow(session, table, plan.files, schema=with_row_ids(table.schema), reader=read_with_row_ids), planned
    frame = dataframe(session, table, plan)
    if system.columns[0].name != ROW_KIND:
        return frame, planned
    values = [named(name) for name in frame.columns]
    if system.name == "binlog":
        values = [F.array(value).alias(name) for name, value in zip(frame.columns, values, strict=True)]
    return frame.select(F.lit("+I").alias(ROW_KIND), *values), planned
