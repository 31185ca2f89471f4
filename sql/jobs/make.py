"""A job's statement as queries to run: under the session it was made in, and the grants of this moment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import UUID

from sqlglot import exp

from lake import Caller, Lake
from model.job import Job
from sql import trees
from sql.cancellation import Cancellation
from sql.connectors import ConnectorTable
from sql.dialect import parse_one
from sql.jobs.limits import JobLimits
from sql.jobs.run import Query
from sql.script import SparkPool
from sql.session import Session
from sql.spool import Spool
from sql.statements.base import ExecutionContext, OwnDoor


class JobMaker:
    """Makes what `JobRun` runs."""

    def __init__(
        self,
        lake: Lake,
        spark: SparkPool,
        spool: Spool,
        *,
        import_dirs: Sequence[str],
        remote_catalogs: Sequence[str],
        kafka_brokers: tuple[str, ...] | None,
        limits: JobLimits,
        door: Callable[[Caller], OwnDoor],
    ) -> None:
        self._lake = lake
        self._spark = spark
        self._spool = spool
        self._import_dirs = tuple(import_dirs)
        self._remote_catalogs = tuple(remote_catalogs)
        self._kafka_brokers = kafka_brokers
        self._limits = limits
        self._door = door

    def __call__(self, job: Job) -> Sequence[Query]:
        """The queries, not started; raises what keeps them from starting."""
        caller = self._lake.access.named(job.principal)
        handle = _handle(job.job_id)
        self._spark.release(handle)
        lease = self._spark.lease(handle)
        lease.require()
        from sql.spark.jobs import JobQuery

        context = ExecutionContext(
            lake=self._lake.for_caller(caller),
            session=_session(job, handle),
            spark=lease,
            settings=dict(job.settings),
            cancellation=Cancellation(),
            statement_id=handle,
            import_dirs=self._import_dirs,
            remote_catalogs=self._remote_catalogs,
            kafka_brokers=self._kafka_brokers,
            spool=self._spool,
            source=job.statement,
            own_door=lambda: self._door(caller),
        )
        place = self._limits.checkpoint(self._lake.warehouse, str(job.job_id))
        inserts = inserts_of(parse_one(job.statement))
        return [JobQuery(context, job, str(number), insert, checkpoint=f"{place}/{number}") for number, insert in enumerate(inserts)]

    def release(self, job_id: UUID) -> None:
        """Let go of what a job that does not run here any more used."""
        self._spark.release(_handle(job_id))


def _handle(job_id: UUID) -> str:
    return f"job-{job_id}"


def _session(job: Job, handle: str) -> Session:
    session = Session(handle, job.name, settings=dict(job.settings))
    session.current_database = job.database
    for name, body in job.tables.items():
        session.add_temporary(ConnectorTable.from_json(name, body))
    return session


def inserts_of(tree: exp.Expr) -> list[exp.Insert]:
    """The INSERTs of a statement: itself, or the members of a statement set."""
    members = tree.expressions if isinstance(tree, trees.StatementSet) else [tree]
    return [member for member in members if isinstance(member, exp.Insert)]
