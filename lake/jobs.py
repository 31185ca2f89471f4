"""Jobs as a caller may see and steer them, and what makes a batch of one land once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from catalog import CatalogStore, CatalogTransaction
from lake.access.callers import Caller
from lake.access.guard import require_rights_of_jobs
from lake.access.quotas import Quotas, exceeded
from lake.commit.claims import Claim, claimed_in
from model.errors import Forbidden, IllegalMove, JobLeaseLost, JobNotExist
from model.work.job import NO_CHECKPOINT, Job, JobLease, JobRequest
from model.work.quota import JOBS


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchClaim:
    """The right to commit one batch of a job, once: noted in the transaction that decides the commit."""

    lease: JobLease
    part: str
    """Which INSERT of the job's statement."""
    checkpoint: str
    batch: int
    rows: int
    watermark: int | None
    plan: Mapping[str, Any] | None = None
    """Which rows the batch is; noted with it."""
    alone: bool = True
    """Whether the job has no other INSERT."""

    @property
    def commit_user(self) -> str:
        """Who the batch's snapshot says it is by: a fresh checkpoint counts its batches from 0 again.

        INSERTs without a checkpoint have all the same number, so that those of one job, which may write to one table, are told apart.
        """
        user = f"{self.lease.job_id}-{self.checkpoint}"
        return user if self.alone or self.checkpoint != NO_CHECKPOINT else f"{user}-{self.part}"

    @property
    def order(self) -> tuple[str, str]:
        """A batch has but one claim."""
        return "", ""

    def begin(self, tx: CatalogTransaction) -> None:
        """The lease is asked for with the batch."""

    def finish(self, tx: CatalogTransaction, answer: Mapping[str, Any] | None = None) -> None:
        """Note the batch; raises `JobLeaseLost` where another server runs the job by now, and then nothing is committed."""
        noted = tx.jobs.commit(
            self.lease,
            self.part,
            checkpoint=self.checkpoint,
            batch=self.batch,
            rows=self.rows,
            watermark=self.watermark,
            plan=self.plan,
        )
        if not noted:
            raise JobLeaseLost(str(self.lease.job_id))


class Jobs:
    """The jobs of all servers; everybody sees and steers their own, administrators all."""

    def __init__(self, catalog: CatalogStore, caller: Caller, quotas: Quotas, *, changed: Callable[[], None]) -> None:
        self._catalog = catalog
        self._caller = caller
        self._quotas = quotas
        self._changed = changed

    def create(  # noqa: PLR0913 - the arguments of a statement
        self,
        *,
        name: str,
        statement: str,
        database: str,
        settings: Mapping[str, str],
        tables: Mapping[str, Any],
        starts: Mapping[str, Any] | None = None,
        claim: Claim | None = None,
    ) -> UUID:
        """Add a job of the caller's, for whichever server takes it first; ``starts``: for each INSERT, where its tables begin.

        Raises `QuotaExceeded`; `Forbidden` where the job would run with other rights than the caller has now.
        """
        job_id = uuid4()
        with self._catalog.transaction() as tx, claimed_in(tx, claim, {"jobId": str(job_id)}):
            require_rights_of_jobs(tx, self._caller)
            if (most := self._quotas.limit(self._caller, JOBS)) is not None and (count := tx.jobs.unended(self._caller.principal)) >= most:
                raise exceeded(self._caller.principal, JOBS, most, f"{count} jobs that have not ended")
            tx.jobs.create(
                job_id,
                name=name,
                statement=statement,
                database=database,
                settings=settings,
                tables=tables,
                starts=starts or {},
                principal=self._caller.principal,
            )
        self._changed()
        return job_id

    def all(self) -> list[Job]:
        """The jobs the caller may see, the newest first."""
        with self._catalog.reading() as tx:
            return tx.jobs.all(principal=None if self._caller.administrator else self._caller.principal)

    def get(self, job_id: UUID) -> Job:
        """One job; raises `JobNotExist`, and `Forbidden` for somebody else's."""
        with self._catalog.reading() as tx:
            job = tx.jobs.get(job_id)
        if job is None:
            raise JobNotExist(str(job_id))
        if not self._caller.administrator and job.principal != self._caller.principal:
            raise Forbidden(f"Job {job_id} is {job.principal}'s; only they and administrators may see and steer it.")
        return job

    def request(self, job_id: UUID, request: JobRequest, *, claim: Claim | None = None) -> Job:
        """Ask for something to happen to a job, wherever it runs; returns it as it was.

        Raises `IllegalMove` where it has ended, and for the restart of one whose windows were drained; a restart raises as `create` does
        where it would run with other rights.
        """
        job = self.get(job_id)
        if job.state.ended and request is not JobRequest.RESTART:
            raise IllegalMove(f"Job {job_id} is {job.state} already; ALTER JOB '{job_id}' RESTART lets it go on.")
        if request is JobRequest.RESTART and job.drained:
            raise IllegalMove(
                f"Job {job_id} was stopped WITH DRAIN: what it held back came out as if nothing came any more, so that it does not go on. "
                "For what has come since start its INSERT again, with 'scan.snapshot-id' in a hint; 'source' of DESCRIBE JOB tells the "
                "first snapshot that it has not read."
            )
        with self._catalog.transaction() as tx, claimed_in(tx, claim):
            if request is JobRequest.RESTART:
                require_rights_of_jobs(tx, self._caller)
            tx.jobs.request(job_id, request)
        self._changed()
        return job
