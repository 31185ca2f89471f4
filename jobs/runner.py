"""The runner of jobs: one in every server; each job is run by one of them, by a lease in Postgres."""

from __future__ import annotations

import logging
import os
import threading
import time
from datetime import timedelta
from uuid import UUID, uuid4

from catalog.work.jobs import JOB_LEASE_SECONDS
from jobs.points import JobPoints
from jobs.run import JobRun, MakeQueries
from lake import Lake
from lake.leases import HeldLeases
from lake.process_name import is_dead, process_space
from model.errors import LakeError
from model.work.job import Job
from model.work.work_limits import JobLimits

_log = logging.getLogger(__name__)
_ROUND_SECONDS = 0.5
_IDLE_ROUND_SECONDS = 2.0
"""Where it runs no job: one that is made here wakes it, and one of a server that is gone waits so much longer."""
_FORGET_SECONDS = 600.0
_FORGOTTEN_AT_ONCE = 100


class JobRunner:
    """Takes jobs nobody runs, as many as the server may, and runs them."""

    def __init__(
        self, lake: Lake, limits: JobLimits, make: MakeQueries, *, server: str | None = None, lease_seconds: float = JOB_LEASE_SECONDS
    ) -> None:
        self.owner = uuid4()
        self.points = JobPoints(lake.catalog)
        """How far the jobs of all servers were, lately."""
        self._lake = lake
        self._limits = limits
        self._make = make
        self._server = server or f"{process_space()}/{os.getpid()}"
        self._buried = False
        self._leases = HeldLeases(lease_seconds)
        self._runs: dict[UUID, JobRun] = {}
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._forgot = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="sluice-jobs", daemon=True)
        lake.when_jobs_change.append(self.hurry)

    def start(self) -> None:
        """Begin; runs nothing where the server is to run no jobs."""
        self.points.start()
        if self._limits.most:
            self._thread.start()

    def hurry(self) -> None:
        """Look at once: a job was made or is to be changed."""
        self._wake.set()

    def check_drain(self, job: Job) -> None:
        """Raise `UnsupportedStatement` for a job that a drain would end with windows that have not come out."""
        self._make.check_drain(job)

    def running(self) -> list[UUID]:
        """The jobs this server runs."""
        with self._lock:
            return list(self._runs)

    def drain(self, seconds: float) -> None:
        """Take no more jobs, let the batches in flight end for so long, and leave the jobs to the next server."""
        self._stop.set()
        self._wake.set()
        until = time.monotonic() + seconds
        with self._lock:
            runs = list(self._runs.values())
        for run in runs:
            run.suspend()
        while any(not run.join(0.0) for run in runs) and time.monotonic() < until:
            self._renew()  # a batch in flight commits under its lease
            time.sleep(0.05)
        for run in runs:
            if not run.join(0.0):
                run.lose()

    def close(self) -> None:
        """Stop all."""
        self.points.close()
        self.drain(0.0)
        if self._thread.is_alive():
            self._thread.join(10)

    def _run(self) -> None:
        said = ""
        while not self._stop.is_set():
            try:
                self.round()
                said = ""
            except LakeError as problem:
                if problem.message != said:  # it is tried again each moment
                    _log.info("Jobs are not run on for now: %s", problem.message)
                said = problem.message
            except Exception:  # jobs are run as long as the server lives
                _log.exception("A round of the job runner failed")
            try:
                self._lose_what_is_lost()
            except Exception:
                _log.exception("Jobs that another server may run by now could not be stopped")
            self._wake.wait(_ROUND_SECONDS if self.running() else _IDLE_ROUND_SECONDS)
            self._wake.clear()

    def round(self) -> None:
        """Hold on to the jobs, hear what is asked of them, and take more."""
        if not self._buried:
            self._bury()
        self._renew()
        with self._lock:
            runs = dict(self._runs)
        if runs:
            with self._lake.catalog.reading() as tx:
                requests = tx.jobs.requests(self.owner)
            for job_id, request in requests.items():
                if job_id in runs:
                    runs[job_id].request(request)
        if len(runs) < self._limits.most and not self._stop.is_set() and self._make.ready:
            self._take(self._limits.most - len(runs))
        self._forget()

    def _bury(self) -> None:
        """Take over at once what processes that were killed here left; their leases say nothing any more."""
        with self._lake.catalog.transaction(brief=True) as tx:
            for server in tx.jobs.servers():
                space, _, pid = server.rpartition("/")
                if pid.isdecimal() and is_dead(space, int(pid)):
                    tx.jobs.abandon(server)
        self._buried = True

    def _take(self, most: int) -> None:
        sent_at = time.monotonic()
        with self._lake.catalog.transaction(brief=True) as tx:
            # Not those whose last run here has told its end and stops: two runs of a job would share its lease and its session.
            taken = tx.jobs.take(self.owner, self._server, most=most, seconds=self._leases.seconds, leaving=self.running())
        for job in taken:
            _log.info("Job %s (%s) runs here now, epoch %d", job.job_id, job.name, job.epoch)
            run = JobRun(job, self._lake, self._make, over=self._ended)
            self._leases.add(job.job_id, asked=sent_at)
            with self._lock:
                self._runs[job.job_id] = run
            run.start()

    def _ended(self, run: JobRun) -> None:
        """A run is over: it lets go of what is its own, and of nothing of a later run of the same job."""
        job_id = run.job.job_id
        with self._lock:
            if self._runs.get(job_id) is not run:
                return
        self._leases.drop(job_id)
        with self._lock:
            del self._runs[job_id]
        self._wake.set()

    def _renew(self) -> None:
        if not self._leases.due():
            return
        sent_at = time.monotonic()
        try:
            with self._lake.catalog.own() as tx:
                renewed = tx.jobs.renew(self.owner, self.running(), self._leases.seconds)
        except LakeError:
            return  # Postgres is away; the lease is trusted for a while
        for job_id in self._leases.renewed(renewed, asked=sent_at):
            with self._lock:
                run = self._runs.get(job_id)
            if run is not None:
                _log.warning("Job %s is another server's by now", job_id)
                run.lose()

    def _lose_what_is_lost(self) -> None:
        """Stop the jobs that may be another server's by now, since this one could not renew.

        On a busy machine it may only have been late: then it asks once more, and goes on with what nobody took.
        """
        with self._lock:
            runs = dict(self._runs)
        if all(map(self._leases.holds, runs)):
            return
        self._renew()
        for job_id, run in runs.items():
            if not self._leases.holds(job_id):
                run.lose()

    def _forget(self) -> None:
        """Remove jobs that ended long ago, with their checkpoints."""
        if time.monotonic() - self._forgot < _FORGET_SECONDS:
            return
        self._forgot = time.monotonic()
        if (doubt := self._lake.clock.look()) is not None:
            self._lake.standing.tell(doubt)
            return
        retention = timedelta(days=self._limits.kept_days)
        with self._lake.catalog.transaction(brief=True) as tx:
            ended = tx.jobs.ended(ago=retention, most=_FORGOTTEN_AT_ONCE)
        for job_id in ended:
            with self._lake.catalog.transaction() as tx:  # its row stays where its checkpoint does: nothing else tells of that
                if tx.jobs.forget(job_id, ended=retention):
                    self._lake.file_io.delete_tree(self._limits.checkpoint(self._lake.warehouse, str(job_id)))
