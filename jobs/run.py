"""One job as this server runs it: started, watched, stopped as asked, and handed back with what came of it."""

from __future__ import annotations

import itertools
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Protocol

from lake import Lake
from model.catalog_errors import JobTableReplaced
from model.errors import (
    AnalysisError,
    ExecutionError,
    JobCheckpointDamaged,
    JobLeaseLost,
    LakeError,
    OutOfMemory,
    SnapshotNotExist,
    TableDamaged,
    TooManyStatements,
)
from model.text.file_name import without_places
from model.work.job import Job, JobLease, JobRequest, JobState
from model.work.job_lag import JobLag
from sql.execution.session_settings import CHECKPOINT_INTERVAL, INITIAL_BACKOFF, MAX_BACKOFF

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.2
_TELL_SECONDS = 1.0
_STOP_SECONDS = 60.0
"""How long a batch in flight may take to end when a job is to stop; what it did not commit is done again by the next start."""
_MOST_OUT_OF_MEMORY = 3
"""A job that takes more memory than Spark has takes it from everybody else's statements: so often, without a batch, and no more.

They are counted in the catalog, by INSERT: others of the job may get on, and each start may be another server's.
"""
_LEAST_PAUSE = timedelta(milliseconds=100)
_ERROR_CHARS = 10_000


class Query(Protocol):
    """One INSERT that runs; `sql.spark.streaming.job_query.JobQuery`."""

    @property
    def ended(self) -> bool: ...
    def start(self, *, every: timedelta, drain: bool = False) -> None: ...
    def outcome(self) -> BaseException | None: ...
    def at_end(self) -> bool: ...
    def progress(self) -> list[dict[str, Any]]: ...
    @property
    def passed(self) -> bool:
        """Whether a batch went well since it began, also one without rows."""
        ...

    def ask_to_stop(self) -> None: ...
    def stop(self, *, patience: float) -> None: ...


class MakeQueries(Protocol):
    """Where queries come from; `jobs.maker.JobMaker`."""

    def __call__(self, job: Job) -> Sequence[Query]:
        """Those of a job's statement, not started; raises what is wrong with it, also that its principal may not do it any more."""
        ...

    def check_drain(self, job: Job) -> None:
        """Raise `UnsupportedStatement` for a job that a drain would end with windows that have not come out."""
        ...

    @property
    def ready(self) -> bool:
        """Whether a job that is taken now can start, or will tell why not; False while that is not known yet."""
        ...


class JobRun:
    """A job on this server, on a thread of its own."""

    def __init__(self, job: Job, lake: Lake, make: MakeQueries, *, over: Callable[[JobRun], None]) -> None:
        self.job = job
        self._lake = lake
        self._make = make
        self._over = over
        self._lease = JobLease(job_id=job.job_id, epoch=job.epoch)
        self._queries: Sequence[Query] = ()
        self._requested: JobRequest | None = job.requested
        self._suspended = False
        self._lost = False
        self._wake = threading.Event()
        self._told: str | None = None
        self._told_passed: set[str] = set()
        """The INSERTs of which the catalog knows that a batch went well since the last start."""
        self._told_at = 0.0
        self._thread = threading.Thread(target=self._run, name=f"sluice-job-{job.job_id}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def request(self, request: JobRequest | None) -> None:
        """What somebody wants of the job."""
        if request is not None and request is not self._requested:
            self._requested = request
            self._wake.set()

    def suspend(self) -> None:
        """Stop after the batch in flight and let another server go on: this one is to end."""
        self._suspended = True
        self._wake.set()

    def lose(self) -> None:
        """Stop at once, and say nothing: the job is another server's."""
        self._lost = True
        self._wake.set()

    def join(self, seconds: float) -> bool:
        """Wait until it has ended; False where it has not in time."""
        self._thread.join(max(0.0, seconds))
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            self._tell_end(self._live())
        except Exception:  # Postgres is away, or a bug: the lease runs out, and whoever takes the job next goes on
            _log.exception("Job %s could not be handed back", self.job.job_id)
        finally:
            self._stop(patience=0.0)
            self._over(self)

    def _live(self) -> Callable[[], object]:  # noqa: C901 - what ends a job, in the order it is looked at
        """Run until something ends it; returns what is to be told to the catalog."""
        jobs = self._jobs
        if self.job.requested is JobRequest.STOP:  # it was asked for while the job could not start
            return self._ended(JobState.STOPPED)
        try:
            draining = self._requested is JobRequest.DRAIN
            self._begin(drain=draining)
        except Exception as problem:
            return self._failed(problem, beginning=True)
        while True:
            self._wake.wait(_LOOK_SECONDS)
            self._wake.clear()
            if self._lost:
                return _nothing
            if self._suspended:
                self._stop_and_tell()
                return lambda: jobs(lambda repository: repository.release(self._lease))
            if self._requested is JobRequest.STOP or self._requested is JobRequest.RESTART:
                self._stop_and_tell()
                if self._requested is JobRequest.STOP:
                    return self._ended(JobState.STOPPED)
                return lambda: jobs(lambda repository: repository.retry(self._lease, error=None, after=timedelta(0)))
            if self._requested is JobRequest.DRAIN and not draining:
                draining = True
                self._stop_and_tell()
                try:
                    self._begin(drain=True)
                except Exception as problem:
                    return self._failed(problem)
            failure = self._failure()
            if failure is not None:
                return self._failed(*failure)
            self._tell_progress()
            if all(query.ended or query.at_end() for query in self._queries):
                self._stop(patience=_STOP_SECONDS)
                failure = self._failure()
                if failure is not None:
                    return self._failed(*failure)
                self._tell_progress(now=True)
                return self._ended(JobState.FINISHED)

    def _failure(self) -> tuple[BaseException, str] | None:
        """Why one of the queries ended that should not have, and which."""
        queries = enumerate(self._queries)
        return next(((problem, str(number)) for number, query in queries if query.ended and (problem := query.outcome())), None)

    def _passed(self) -> list[str]:
        """The queries of which a batch went well, and the catalog has not been told."""
        return [part for number, query in enumerate(self._queries) if query.passed and (part := str(number)) not in self._told_passed]

    def _begin(self, *, drain: bool) -> None:
        self.job = self._lake.jobs.get(self.job.job_id)  # with the batches applied by now
        if self.job.epoch != self._lease.epoch or self.job.state is not JobState.RUNNING:
            raise JobLeaseLost(str(self.job.job_id))
        self._told_passed.clear()
        self._queries = self._make(self.job)
        every = CHECKPOINT_INTERVAL.read(self.job.settings)
        for query in self._queries:
            query.start(every=every, drain=drain)

    def _stop(self, *, patience: float) -> None:
        """End all queries, each after its batch in flight."""
        for query in self._queries:
            query.ask_to_stop()
        until = time.monotonic() + patience
        for query in self._queries:
            try:
                query.stop(patience=max(0.0, until - time.monotonic()))
            except Exception:  # a JVM that is gone has nothing left to stop
                _log.info("A query of job %s could not be stopped", self.job.job_id, exc_info=True)

    def _stop_and_tell(self) -> None:
        """End all queries, each after its batch in flight, and note how far they came: the next start counts on from there."""
        self._stop(patience=_STOP_SECONDS)
        self._tell_progress(now=True)

    def _failed(self, problem: BaseException, part: str = "0", *, beginning: bool = False) -> Callable[[], object]:
        """What a failure makes of the job: another start after a while, or the end where starting again would not help.

        Told under the lease's epoch: where that is lost, nothing changes.
        """
        self._stop(patience=_STOP_SECONDS)
        text = said(problem)
        self._lake.standing.met(problem)
        if _stays(problem) or (beginning and isinstance(problem, LakeError) and not _passes(problem)):
            if isinstance(problem, TableDamaged):  # of which the log tells once in an hour, however many jobs meet it
                _log.info("Job %s has failed: a table of it needs a hand", self.job.job_id)
            else:
                _log.warning("Job %s has failed: %s", self.job.job_id, text)
            return self._ended(JobState.FAILED, error=text)
        now, passed, is_memory = self._now(), self._passed(), isinstance(problem, OutOfMemory)
        if is_memory and part not in passed and now.out_of_memory(part) + 1 >= _MOST_OUT_OF_MEMORY:
            _log.warning("Job %s has failed: %s", self.job.job_id, text)
            return self._ended(JobState.FAILED, error=text)
        attempts = 0 if passed else now.attempts
        pause = min(MAX_BACKOFF.read(self.job.settings), INITIAL_BACKOFF.read(self.job.settings) * 2 ** min(attempts, 20))
        pause = max(_LEAST_PAUSE, pause)
        _log.warning("Job %s failed (%s); it starts again in %g s", self.job.job_id, text, pause.total_seconds(), exc_info=problem)
        memory_of = part if is_memory else None
        return lambda: self._jobs(
            lambda repository: repository.retry(self._lease, error=text, after=pause, passed=passed, out_of_memory=memory_of)
        )

    def _now(self) -> Job:
        """The job with what has become of it, where the catalog tells."""
        try:
            return self._lake.jobs.get(self.job.job_id)
        except LakeError:
            return self.job

    def _ended(self, state: JobState, *, error: str | None = None) -> Callable[[], object]:
        return lambda: self._jobs(lambda repository: repository.end(self._lease, state, error=error))

    def _tell_end(self, tell: Callable[[], object]) -> None:
        """Tell the catalog, as long as it takes; who lost the job meanwhile has nothing to tell."""
        while not self._lost:
            try:
                tell()
                return
            except LakeError:
                if self._suspended:
                    return
                self._wake.wait(_TELL_SECONDS)
                self._wake.clear()

    def _tell_progress(self, *, now: bool = False) -> None:
        if not now and time.monotonic() - self._told_at < _TELL_SECONDS:
            return
        self._told_at = time.monotonic()
        source = {str(number): query.progress() for number, query in enumerate(self._queries)}
        text = json.dumps(source, sort_keys=True, default=str)
        passed = self._passed()
        if text == self._told and not passed:
            return
        try:
            self._jobs(lambda repository: repository.progress(self._lease, source=json.loads(text), lag=lag_of(source), passed=passed))
            self._told = text
            self._told_passed.update(passed)
        except LakeError:
            _log.info("Progress of job %s could not be noted", self.job.job_id)

    def _jobs(self, change: Callable[[Any], object]) -> None:
        with self._lake.catalog.transaction(brief=True) as tx:
            change(tx.jobs)


def _nothing() -> None:
    return None


def _passes(problem: LakeError) -> bool:
    """Whether the same may go well another time."""
    return isinstance(problem, JobLeaseLost) or type(problem) is TooManyStatements or problem.status >= 500


def _stays(problem: BaseException) -> bool:
    """Whether it happens again until somebody mends the table, the checkpoint, the statement, or what the source holds.

    A snapshot that was read and rolled back, or not read and expired, does not come again: the job would wait for it forever. What Spark's
    planner refuses in the first micro-batch, as a join of streams without an equality, it refuses in each.
    """
    if isinstance(problem, TableDamaged):
        return problem.stays
    if isinstance(problem, AnalysisError):  # ours, as where tables were altered, is told again when the job begins, or not at all
        return problem.__cause__ is not None and not isinstance(problem.__cause__, LakeError)
    return isinstance(problem, JobCheckpointDamaged | JobTableReplaced | SnapshotNotExist) or (
        isinstance(problem, ExecutionError) and problem.sqlstate is not None
    )


def said(problem: BaseException) -> str:
    """A failure and its causes, for whoever sees the job: without places of the server, and hosts that Postgres and stores tell of."""
    parts: list[str] = []
    at: BaseException | None = problem
    while at is not None and len(parts) < 5:
        text = _words(at).replace("\0", "")  # Postgres keeps none
        if text not in parts:
            parts.append(text)
        if isinstance(at, LakeError) and _package_of(at.__cause__) in _TOLD_ALREADY:
            break
        at = at.__cause__
    return "\nCaused by: ".join(parts)[:_ERROR_CHARS]


def _words(problem: BaseException) -> str:
    """One failure as it is told."""
    if isinstance(problem, LakeError):
        return problem.message
    kind = type(problem).__name__
    if isinstance(problem, OSError):  # whose text has the file's path, or the store's host
        return f"{kind}: {problem.strerror}" if problem.strerror else kind
    return kind if _package_of(problem) in _POSTGRES else f"{kind}: {without_places(str(problem))}"


_POSTGRES = frozenset({"psycopg", "psycopg_pool"})
_TOLD_ALREADY = _POSTGRES | {"pyspark", "py4j"}
"""Packages whose errors stand in the error's words that they caused, there without the JVM's stack and the database's host."""


def _package_of(problem: BaseException | None) -> str:
    return type(problem).__module__.partition(".")[0]


def lag_of(source: Mapping[str, Sequence[Mapping[str, Any]]]) -> JobLag | None:
    """How far the job's sources are ahead of it, where they tell: snapshots of tables, records of topics."""
    lag: JobLag | None = None
    for source_progress in itertools.chain.from_iterable(source.values()):
        end, latest = source_progress.get("endOffset"), source_progress.get("latestOffset")
        records = (source_progress.get("metrics") or {}).get("maxOffsetsBehindLatest")
        if records is not None:
            behind = JobLag(records=int(records))
        elif source_progress.get("snapshotsBehind") is not None:
            behind = JobLag(snapshots=source_progress["snapshotsBehind"])
        elif isinstance(end, dict) and isinstance(latest, dict) and "snapshot" in end and "snapshot" in latest:
            behind = JobLag(snapshots=max(0, latest["snapshot"] - end["snapshot"]))
        else:
            continue
        lag = behind if lag is None else lag + behind
    return lag
