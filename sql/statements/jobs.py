"""Jobs: streaming INSERTs are made into them; SHOW, DESCRIBE, STOP and ALTER JOB see and steer them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

from sqlglot import exp

from model.errors import AnalysisError, JobNotExist, StatementTimeout, UnsupportedStatement
from model.schema.types import BigIntType, DataType, IntType, LocalZonedTimestampType, VarCharType
from model.wall_clock import utc_of
from model.work.job import Job, JobRequest
from sql.analysis.references import table_references
from sql.analysis.views import expand_views, sources_of
from sql.dialect import parse_one
from sql.execution.results import ResultColumn, ResultSet
from sql.execution.session import Session
from sql.execution.session_settings import PIPELINE_NAME, RUNTIME_MODE
from sql.local import check_drain, check_ends
from sql.parsing import trees
from sql.statements.base import ExecutionContext, LocalStatement, LookingStatement, build, handles
from sql.statements.insert import source_of

_LOOK_SECONDS = 0.1
_PATIENCE_SECONDS = 120.0
TEXT = VarCharType()
MOMENT = LocalZonedTimestampType(precision=3)


def is_job(tree: exp.Expr | None, context: ExecutionContext) -> bool:
    """Whether the statement is to run as a job: an INSERT of a query over tables, in streaming mode."""
    if not isinstance(tree, exp.Insert | trees.StatementSet) or RUNTIME_MODE.read(context.settings) != "streaming":
        return False
    return any(table_references(insert) for insert in _inserts(tree))


def _inserts(tree: exp.Expr) -> list[exp.Insert]:
    return trees.inserts_of(tree)


@dataclass(frozen=True)
class StartJob:
    """A streaming ``INSERT INTO … SELECT``, or a statement set of them."""

    tree: exp.Expr
    needs_spark = True

    def run(self, context: ExecutionContext) -> ResultSet:
        """Check the statement as it will be run, and leave a job for whichever server takes it.

        Where all it reads is bounded (`scan.bounded`…) it runs now, as in batch mode.
        """
        from sql.spark.streaming.job_query import check

        inserts = _inserts(self.tree)
        for insert in inserts:
            _check(context, insert)
        starts = [check(context, insert) for insert in inserts]
        if all(of_insert is None for of_insert in starts):
            return build(self.tree).run(context)
        if context.has_parameters:
            raise UnsupportedStatement(
                "A job's statement is kept as text and started again from it: write the values into it instead of sending them."
            )
        mentioned = {name for insert in inserts for name in _bare_names(insert)}
        own = context.session.temporary_tables
        job_id = context.lake.jobs.create(
            name=PIPELINE_NAME.read(context.settings) or ", ".join(f"insert-into_{_target(insert)}" for insert in inserts),
            statement=context.source,
            database=context.session.current_database,
            settings=context.settings,
            tables={name: own[name].to_json() for name in sorted(mentioned) if name in own},
            starts={str(part): of_insert.known for part, of_insert in enumerate(starts) if of_insert is not None},
            claim=context.idempotency,
        )
        return ResultSet.of_job(job_id)


def _check(context: ExecutionContext, insert: exp.Insert) -> None:
    if insert.args.get("overwrite"):
        raise UnsupportedStatement(
            "INSERT OVERWRITE is not available in streaming mode: a stream adds rows; SET 'execution.runtime-mode' = 'batch' replaces them."
        )
    query = source_of(insert)
    target = context.session.meant(_target_parts(insert))
    if any(context.session.meant(reference.parts) == target for reference in sources_of(context, query)):
        by_itself = any(context.session.meant(reference.parts) == target for reference in table_references(query))
        raise AnalysisError(
            f"A job that reads what it writes would never end: {_target(insert)}"
            f"{'' if by_itself else ', which a view of its query reads'}. INSERT into another table.",
            fragment=_target(insert),
        )
    check_ends(context, query)


def _bare_names(insert: exp.Insert) -> list[str]:
    """Names that may mean temporary tables."""
    return [table.name for table in insert.find_all(exp.Table) if len(table.parts) == 1]


def _target(insert: exp.Insert) -> str:
    return ".".join(_target_parts(insert))


def _target_parts(insert: exp.Insert) -> tuple[str, ...]:
    into = insert.this.this if isinstance(insert.this, exp.Schema) else insert.this
    return tuple(part.name for part in into.parts) if isinstance(into, exp.Table) else (into.sql("spark"),)


_SHOWN: tuple[tuple[str, DataType], ...] = (("job id", TEXT), ("job name", TEXT), ("status", TEXT), ("start time", MOMENT))
_DESCRIBED: tuple[tuple[str, DataType], ...] = (
    *_SHOWN,
    ("statement", TEXT),
    ("principal", TEXT),
    ("server", TEXT),
    ("batches", BigIntType()),
    ("rows", BigIntType()),
    ("source", TEXT),
    ("lag", TEXT),
    ("watermark", MOMENT),
    ("restarts", BigIntType()),
    ("attempts", IntType()),
    ("next start", MOMENT),
    ("last error", TEXT),
    ("last error time", MOMENT),
    ("end time", MOMENT),
)


def _columns(columns: tuple[tuple[str, DataType], ...]) -> list[ResultColumn]:
    return [ResultColumn(name, type_) for name, type_ in columns]


def _shown(job: Job) -> tuple[object, ...]:
    return (str(job.job_id), job.name, job.state.value, job.created_at)


def _described(job: Job) -> tuple[object, ...]:
    watermark = None if job.watermark is None else utc_of(job.watermark)
    source = json.dumps(job.source) if job.source else None
    waits = job.next_start if job.state.value == "RESTARTING" else None
    lag = None if job.lag is None else str(job.lag)
    return (
        *_shown(job), job.statement, job.principal, job.server, job.batches, job.rows, source, lag, watermark,
        job.restarts, job.attempts, waits, job.error, job.error_at, job.ended_at,
    )  # fmt: skip


@handles(trees.ShowJobs)
@dataclass(frozen=True)
class ShowJobs(LookingStatement):
    """``SHOW JOBS``."""

    tree: trees.ShowJobs

    def columns(self, context: ExecutionContext) -> Sequence[ResultColumn]:
        """The least one wants to know of a job."""
        return _columns(_SHOWN)

    def rows(self, context: ExecutionContext) -> Iterable[tuple[object, ...]]:
        """The caller's jobs, an administrator's all, the newest first."""
        return map(_shown, context.lake.jobs.all())


@handles(trees.DescribeJob)
@dataclass(frozen=True)
class DescribeJob(LookingStatement):
    """``DESCRIBE JOB 'id'``."""

    tree: trees.DescribeJob

    def columns(self, context: ExecutionContext) -> Sequence[ResultColumn]:
        """All that is known of a job."""
        return _columns(_DESCRIBED)

    def rows(self, context: ExecutionContext) -> Iterable[tuple[object, ...]]:
        """The one job."""
        return [_described(context.lake.jobs.get(job_id(self.tree.args["job"])))]


@handles(trees.StopJob)
@dataclass(frozen=True)
class StopJob(LocalStatement):
    """``STOP JOB 'id' [WITH SAVEPOINT] [WITH DRAIN]``; the checkpoint is kept in any case."""

    tree: trees.StopJob

    def run(self, context: ExecutionContext) -> ResultSet:
        """Wait until the job has stopped, on whichever server."""
        request = JobRequest.DRAIN if self.tree.args.get("drain") else JobRequest.STOP
        if request is JobRequest.DRAIN:
            check_job_drain(context, context.lake.jobs.get(job_id(self.tree.args["job"])))
        job = context.lake.jobs.request(job_id(self.tree.args["job"]), request, claim=context.idempotency)
        until = time.monotonic() + _PATIENCE_SECONDS
        while not context.lake.jobs.get(job.job_id).state.ended:
            context.cancellation.check()
            if time.monotonic() > until and not self.tree.args.get("drain"):
                raise StatementTimeout(f"Job {job.job_id} has not stopped yet; it will when its batch in flight has ended.")
            time.sleep(_LOOK_SECONDS)
        return ResultSet.ok()


@handles(trees.AlterJob)
@dataclass(frozen=True)
class AlterJob(LocalStatement):
    """``ALTER JOB 'id' RESTART``."""

    tree: trees.AlterJob

    def run(self, context: ExecutionContext) -> ResultSet:
        """Start a job again from its checkpoint, whatever its state."""
        context.lake.jobs.request(job_id(self.tree.args["job"]), JobRequest.RESTART, claim=context.idempotency)
        return ResultSet.ok()


def check_job_drain(context: ExecutionContext, job: Job) -> None:
    """Raise `UnsupportedStatement` for a job that a drain would end with windows that have not come out."""
    if job.state.ended:
        return
    of_job = replace(context, session=Session.of_job(job, context.session.handle), settings=job.settings, source=job.statement)
    for insert in trees.inserts_of(parse_one(job.statement, stored=True)):
        check_drain(of_job, expand_views(of_job, source_of(insert).copy()))


def job_id(text: str) -> UUID:
    """A job's id as people write it; raises `JobNotExist` for what is none."""
    try:
        return UUID(text)
    except ValueError:
        raise JobNotExist(f"'{text}'") from None
