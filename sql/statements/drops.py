"""UNDROP, PURGE TABLE and SHOW DROPPED: what was dropped and is kept for a while."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from sqlglot import exp

from model.errors import AnalysisError, LakeError
from model.identifier import MAIN_BRANCH, Identifier
from model.schema.types import BigIntType, DataType, LocalZonedTimestampType, VarCharType
from model.view import Views
from model.work.job import Job, JobState
from sql.analysis.references import TableReference, table_references
from sql.analysis.views import expand_views
from sql.dialect import parse_one
from sql.execution.results import ResultColumn, ResultSet
from sql.execution.session import Session
from sql.execution.session_settings import BAD_ROWS
from sql.parsing import trees
from sql.parsing.turns import TURNS
from sql.statements.base import ExecutionContext, LocalStatement, LookingStatement, handles
from sql.statements.databases import database_name
from sql.statements.insert import source_of

_TEXT, _MOMENT, _NUMBER = VarCharType(), LocalZonedTimestampType(precision=3), BigIntType()
_TABLES: tuple[tuple[str, DataType], ...] = (
    ("id", _NUMBER), ("database name", _TEXT), ("table name", _TEXT), ("dropped at", _MOMENT), ("dropped by", _TEXT),
    ("expires at", _MOMENT), ("rows", _NUMBER), ("size in bytes", _NUMBER),
)  # fmt: skip
_DATABASES: tuple[tuple[str, DataType], ...] = (
    ("id", _NUMBER), ("database name", _TEXT), ("dropped at", _MOMENT), ("dropped by", _TEXT), ("expires at", _MOMENT), ("tables", _NUMBER),
)  # fmt: skip


@handles(trees.ShowDropped)
@dataclass(frozen=True)
class ShowDropped(LookingStatement):
    """``SHOW DROPPED TABLES [IN database]`` and ``SHOW DROPPED DATABASES``."""

    tree: trees.ShowDropped

    def columns(self, context: ExecutionContext) -> Sequence[ResultColumn]:
        """What one needs to choose among several drops of a name."""
        columns = _TABLES if self.tree.args["what"] == "TABLES" else _DATABASES
        return [ResultColumn(name, type_) for name, type_ in columns]

    def rows(self, context: ExecutionContext) -> Iterable[tuple[object, ...]]:
        """What can be brought back, the newest drop first."""
        if self.tree.args["what"] == "DATABASES":
            for database in context.lake.dropped_databases():
                yield (
                    database.drop_id, database.name, database.dropped_at, database.dropped_by, database.expires_at, database.tables,
                )  # fmt: skip
            return
        name = self.tree.args.get("name")
        for table in context.lake.dropped_tables(database_name(name) if name else None):
            yield (
                table.drop_id, table.database, table.name, table.dropped_at, table.dropped_by, table.expires_at, table.record_count,
                table.file_size,
            )  # fmt: skip


@handles(trees.Undrop)
@dataclass(frozen=True)
class Undrop(LocalStatement):
    """``UNDROP TABLE | DATABASE name [WITH ID n] [AS name] [RESTART JOBS]``."""

    tree: trees.Undrop

    def run(self, context: ExecutionContext) -> ResultSet:
        """Bring it back; one row for each table that is there again, and for each job that was started again."""
        args, lake = self.tree.args, context.lake
        name: tuple[str, ...] = args["name"]
        to: tuple[str, ...] | None = args.get("to")
        restarted: list[UUID] = []
        renamed: tuple[object, object] | None = None

        def restarts(jobs: Sequence[Job], tables: Sequence[Identifier], views: Views) -> Sequence[UUID]:
            if args["restart_jobs"]:
                with TURNS.at_once():  # others wait for the transaction
                    restarted.extend(_to_restart(context, jobs, frozenset(tables), views))
                if not restarted and renamed is not None:
                    raise _nothing_restarts(*renamed)
            return restarted

        if args["what"] == "DATABASE":
            dropped, database = database_name(name), database_name(to) if to else None
            renamed = None if database in (None, dropped) else (dropped, database)
            back = lake.undrop_database(dropped, drop_id=args["drop_id"], to=database, restarts=restarts, claim=context.idempotency)
        else:
            target = None if to is None else _within(context, to, context.session.identifier(name).database)
            table = context.session.identifier(name)
            renamed = None if target in (None, table) else (table, target)
            back = [lake.undrop_table(table, drop_id=args["drop_id"], to=target, restarts=restarts, claim=context.idempotency)]
        rows = [("table", str(table)) for table in back] + [("job", str(job_id)) for job_id in restarted]
        return ResultSet.of_strings(("restored", "name"), rows)


@handles(trees.PurgeTable)
@dataclass(frozen=True)
class PurgeTable(LocalStatement):
    """``PURGE TABLE name [WITH ID n]``."""

    tree: trees.PurgeTable

    def run(self, context: ExecutionContext) -> ResultSet:
        """Remove a dropped table for good before its time."""
        args = self.tree.args
        context.lake.purge_dropped_table(context.session.identifier(args["name"]), drop_id=args["drop_id"], claim=context.idempotency)
        return ResultSet.ok()


def _within(context: ExecutionContext, parts: tuple[str, ...], database: str) -> Identifier:
    """A bare new name stays in the table's database."""
    return Identifier(database, parts[0]) if len(parts) == 1 else context.session.identifier(parts)


def _nothing_restarts(name: object, to: object) -> AnalysisError:
    """Jobs name what they read and write: those of the old name would not find it under another."""
    return AnalysisError(
        f"RESTART JOBS starts jobs that have failed and name {to}, as which it would come back, and there is none: those that name {name} "
        "would not find it. Leave RESTART JOBS out and start new jobs, or bring it back under its own name.",
        fragment="RESTART JOBS",
    )


def _to_restart(context: ExecutionContext, jobs: Sequence[Job], tables: frozenset[Identifier], views: Views) -> Iterator[UUID]:
    """Those that have failed, or are about to start again, and read or write one of the tables."""
    for job in jobs:
        if job.state in (JobState.FAILED, JobState.RESTARTING) and not tables.isdisjoint(_mentioned(context, job, views)):
            yield job.job_id


def _mentioned(context: ExecutionContext, job: Job, views: Views) -> set[Identifier]:
    """The stored tables a job reads, also by its views, and writes, also rows that do not fit."""
    tables: set[Identifier] = set()
    bad_rows = BAD_ROWS.read(job.settings)
    aside = [] if bad_rows is None else [tuple(part.name for part in exp.to_table(bad_rows).parts)]
    of_job = replace(context, session=Session.of_job(job, context.session.handle))
    try:
        inserts = trees.inserts_of(parse_one(job.statement, stored=True))
    except LakeError:  # of an older version: it would not start again either
        return tables
    for insert in inserts:
        into = insert.this.this if isinstance(insert.this, exp.Schema) else insert.this
        written = [tuple(part.name for part in into.parts)] if isinstance(into, exp.Table) else []
        for parts in (*written, *aside, *(reference.parts for reference in _read(of_job, insert, views))):
            with contextlib.suppress(AnalysisError):  # of a catalog that is not this one
                tables.add(replace(of_job.session.identifier(parts), branch=MAIN_BRANCH))
    return tables


def _read(of_job: ExecutionContext, insert: exp.Insert, views: Views) -> list[TableReference]:
    query = source_of(insert)
    try:
        return table_references(expand_views(of_job, query.copy(), views))
    except LakeError:  # a view that cannot be read any more
        return table_references(query)
