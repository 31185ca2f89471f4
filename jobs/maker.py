"""A job's statement as queries to run: under the session it was made in, and the grants of this moment."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from jobs.run import Query
from model.work.job import Job
from model.work.work_limits import JobLimits
from sql.dialect import parse_one
from sql.execution.cancellation import Cancellation
from sql.execution.environment import ContextFactory
from sql.execution.session import Session
from sql.parsing.trees import inserts_of
from sql.statements.base import ExecutionContext
from sql.statements.jobs import check_job_drain


class JobMaker:
    """Makes what `JobRun` runs."""

    def __init__(self, context_factory: ContextFactory, limits: JobLimits) -> None:
        self._context_factory = context_factory
        self._limits = limits

    def __call__(self, job: Job) -> Sequence[Query]:
        """The queries, not started; raises what keeps them from starting."""
        lake = self._context_factory.lake
        context = self._context(job)
        context.spark.require()
        from sql.spark.streaming.job_query import JobQuery

        place = self._limits.checkpoint(lake.warehouse, str(job.job_id))
        inserts = inserts_of(parse_one(job.statement, stored=True))
        alone = len(inserts) == 1
        return [
            JobQuery(context, job, str(number), insert, checkpoint=f"{place}/{number}", alone=alone)
            for number, insert in enumerate(inserts)
        ]

    def check_drain(self, job: Job) -> None:
        """Raise `UnsupportedStatement` for a job that a drain would end with windows that have not come out."""
        check_job_drain(self._context(job), job)

    def _context(self, job: Job) -> ExecutionContext:
        handle = _handle(job.job_id)
        return self._context_factory.context(
            self._context_factory.lake.access.named(job.principal),
            Session.of_job(job, handle),
            settings=dict(job.settings),
            cancellation=Cancellation(),
            statement_id=handle,
            source=job.statement,
        )

    @property
    def ready(self) -> bool:
        """Whether Spark has started, or has failed to: that the job is told."""
        return not self._context_factory.spark.starting


def _handle(job_id: UUID) -> str:
    return f"job-{job_id}"
