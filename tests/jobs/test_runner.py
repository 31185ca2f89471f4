"""The runner of jobs: who runs what, what failures and requests make of a job. Queries here do what the test says; Spark's are in e2e."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from jobs import run as run_module
from jobs import runner as runner_module
from jobs.run import said
from jobs.runner import JobRunner
from lake import Lake
from lake.access.callers import Caller
from lake.process_name import process_space
from model.errors import AnalysisError, ExecutionError, Forbidden, OutOfMemory, SnapshotNotExist, Unavailable
from model.text.file_name import hide_places
from model.work.job import Job, JobLease, JobRequest, JobState
from model.work.job_lag import JobLag
from model.work.work_limits import JobLimits
from table.format.io.storage_errors import storage_error

SETTINGS = {"restart-strategy.exponential-delay.initial-backoff": "100 ms", "restart-strategy.exponential-delay.max-backoff": "150 ms"}
_ROUND_SECONDS = 0.1


class Scripted:
    """A query that runs until it is told otherwise."""

    def __init__(self) -> None:
        self.started: list[bool] = []
        self.stopped = 0
        self.stops, self.lets_go = threading.Event(), threading.Event()
        self.lets_go.set()
        self.problem: BaseException | None = None
        self.done = self.passed = False
        self.read = 3

    @property
    def ended(self) -> bool:
        return self.done or self.problem is not None

    def start(self, *, every: timedelta, drain: bool = False) -> None:
        self.started.append(drain)
        if drain:
            self.done = True

    def outcome(self) -> BaseException | None:
        return self.problem

    def at_end(self) -> bool:
        return False

    def progress(self) -> list[dict[str, Any]]:
        return [{"endOffset": {"snapshot": self.read}, "latestOffset": {"snapshot": 5}}]

    def ask_to_stop(self) -> None:
        self.stopped += 1

    def stop(self, *, patience: float) -> None:
        self.stopped += 1
        self.read = 4  # the batch in flight has ended
        self.stops.set()
        if patience == 0.0:  # what the run does last
            assert self.lets_go.wait(120)


class Maker:
    """Makes one such query at each start."""

    def __init__(self) -> None:
        self.queries: list[Scripted] = []
        self.problem: Exception | None = None
        self.ready = True

    def __call__(self, job: Job) -> Sequence[Scripted]:
        if self.problem is not None:
            raise self.problem
        self.queries.append(Scripted())
        return self.queries[-1:]

    def check_drain(self, job: Job) -> None:
        pass


Start = Callable[..., JobRunner]


@pytest.fixture
def maker() -> Maker:
    return Maker()


@pytest.fixture
def start(lake: Lake, maker: Maker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Begins runners that look oftener than a server's: most of a test here would be waiting for the next round."""
    for name in ("_ROUND_SECONDS", "_IDLE_ROUND_SECONDS"):
        monkeypatch.setattr(runner_module, name, _ROUND_SECONDS)
    monkeypatch.setattr(run_module, "_TELL_SECONDS", _ROUND_SECONDS)
    runners = []

    def begin(server: str = "a", *, most: int = 8, lease_seconds: float = 1.0, make: Maker | None = None) -> JobRunner:
        made = JobRunner(lake, JobLimits(most=most), make or maker, server=server, lease_seconds=lease_seconds)
        runners.append(made)
        made.start()
        return made

    yield begin
    for runner in runners:
        runner.close()


def made(lake: Lake, *, name: str = "j") -> UUID:
    return lake.jobs.create(name=name, statement="INSERT …", database="default", settings=SETTINGS, tables={})


def until(holds: Callable[[], object], seconds: float = 120.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_jobs_of_a_process_killed_here_are_taken_over_at_once_and_no_others(lake: Lake, start: Start) -> None:
    """A container of the same host name may have the same process ids: its leases are waited for."""
    host = socket.gethostname()
    servers = [f"{process_space()}/4000000", f"{process_space()}/{os.getppid()}", f"{host}/4000000", f"{host}.0a1b2c3d/{os.getpid()}"]
    jobs = {}
    for server in servers:
        jobs[made(lake, name=server)] = server
        with lake.catalog.transaction() as tx:
            assert tx.jobs.take(uuid4(), server, most=1, seconds=600.0)
    runner = start("me", lease_seconds=60.0)
    until(runner.running)
    assert [jobs[job_id] for job_id in runner.running()] == servers[:1]
    with lake.catalog.reading() as tx:
        assert sorted(tx.jobs.servers()) == sorted(["me", *servers[1:]])


def test_a_job_that_fails_starts_again_after_longer_and_longer_pauses(lake: Lake, maker: Maker, start: Start) -> None:
    job_id = made(lake)
    start()
    until(lambda: maker.queries)
    maker.queries[-1].problem = ExecutionError("a row that does not fit")
    until(lambda: len(maker.queries) == 2)
    found = lake.jobs.get(job_id)
    assert (found.attempts, found.restarts, found.error) == (1, 1, "a row that does not fit")
    maker.queries[-1].problem = ValueError("a bug")
    until(lambda: len(maker.queries) == 3)
    found = lake.jobs.get(job_id)
    assert (found.attempts, found.error) == (2, "ValueError: a bug")
    until(lambda: lake.jobs.get(job_id).lag == JobLag(snapshots=2))


def _begun(maker: Maker, times: int) -> bool:
    return len(maker.queries) == times


def test_a_job_that_runs_out_of_memory_again_and_again_fails_for_good(lake: Lake, maker: Maker, start: Start) -> None:
    job_id = made(lake)
    start()
    for times in (1, 2, 3):
        until(partial(_begun, maker, times))
        maker.queries[-1].problem = OutOfMemory("The statement needs more memory than Spark has here.")
    until(lambda: lake.jobs.get(job_id).state is JobState.FAILED)
    assert (lake.jobs.get(job_id).error, len(maker.queries)) == ("The statement needs more memory than Spark has here.", 3)


def _ran_out(maker: Maker, *, times: int) -> None:
    """Let the job that runs for the ``times``-th time run out of memory."""
    until(partial(_begun, maker, times))
    maker.queries[-1].problem = OutOfMemory("The statement needs more memory than Spark has here.")


def test_a_job_that_ran_out_of_memory_goes_on_counting_anew_behind_a_batch_without_rows(lake: Lake, maker: Maker, start: Start) -> None:
    """Such a batch is no commit; it may be followed at once by the next failure, or by another server."""
    job_id = made(lake)
    first = start()
    for times in (1, 2):
        _ran_out(maker, times=times)
    until(partial(_begun, maker, 3))
    maker.queries[-1].passed = True
    _ran_out(maker, times=3)
    until(partial(_begun, maker, 4))
    assert (lake.jobs.get(job_id).out_of_memory("0"), lake.jobs.get(job_id).attempts) == (1, 1)
    _ran_out(maker, times=4)
    until(partial(_begun, maker, 5))
    maker.queries[-1].passed = True
    until(lambda: lake.jobs.get(job_id).attempts == 0)
    first.close()
    start("b")
    for times in (6, 7):
        _ran_out(maker, times=times)
    until(partial(_begun, maker, 8))
    assert lake.jobs.get(job_id).out_of_memory("0") == 2


def test_other_failures_do_not_count_as_running_out_of_memory(lake: Lake, maker: Maker, start: Start) -> None:
    job_id = made(lake)
    start()
    for times in (1, 2, 3):
        until(partial(_begun, maker, times))
        maker.queries[-1].problem = Unavailable("Spark is away")
    for times in (4, 5):
        _ran_out(maker, times=times)
    until(partial(_begun, maker, 6))
    maker.queries[-1].problem = Unavailable("Spark is away")
    _ran_out(maker, times=7)
    until(lambda: lake.jobs.get(job_id).state is JobState.FAILED)


def test_memory_is_counted_for_each_insert_of_a_job(lake: Lake) -> None:
    """One of them that gets on does not keep another going that never will; who starts it again counts anew."""
    job_id = made(lake)
    for times in (1, 2):
        with lake.catalog.transaction() as tx:
            (job,) = tx.jobs.take(uuid4(), "a", most=1)
            lease = JobLease(job_id=job_id, epoch=job.epoch)
            assert tx.jobs.begin(lease, "0", {}, checkpoint="c")
            assert tx.jobs.commit(lease, "0", checkpoint="c", batch=times, rows=1, watermark=None)
            assert tx.jobs.progress(lease, source={}, lag=None, passed=["0"])
            assert tx.jobs.retry(lease, error="no memory", after=timedelta(0), passed=["0"], out_of_memory="1")
        found = lake.jobs.get(job_id)
        assert (found.out_of_memory("0"), found.out_of_memory("1")) == (0, times)
    assert found.applied["0"] == {"checkpoint": "c", "batch": 2}
    lake.jobs.request(job_id, JobRequest.RESTART)
    assert lake.jobs.get(job_id).out_of_memory("1") == 0


def test_a_job_never_starts_again_without_a_pause(lake: Lake, maker: Maker, start: Start) -> None:
    settings = {"restart-strategy.exponential-delay.initial-backoff": "0 ms"}
    job_id = lake.jobs.create(name="j", statement="INSERT …", database="default", settings=settings, tables={})
    start()
    until(lambda: maker.queries)
    maker.queries[-1].problem = Unavailable("Spark is away")
    until(lambda: lake.jobs.get(job_id).error_at is not None)
    found = lake.jobs.get(job_id)
    assert found.error_at is not None
    assert found.next_start - found.error_at == timedelta(milliseconds=100)


def test_places_go_to_principals_in_turns(lake: Lake) -> None:
    for principal, count in (("ada", 4), ("bob", 2)):
        of = lake.for_caller(Caller(principal=principal, administrator=True))
        for number in range(count):
            made(of, name=f"{principal}{number}")
    owner = uuid4()
    with lake.catalog.transaction() as tx:
        taken = [{job.name for job in tx.jobs.take(owner, "a", most=most)} for most in (2, 1, 2)]
    assert taken[0] == {"ada0", "bob0"}
    assert taken[1] < {"ada1", "bob1"}
    assert taken[1] | taken[2] == {"ada1", "bob1", "ada2"}


def test_a_job_that_has_ended_takes_no_place_of_its_principal(lake: Lake) -> None:
    def jobs(*principals: str) -> list[UUID]:
        return [made(lake.for_caller(Caller(principal=name, administrator=True)), name=f"{name}{uuid4()}") for name in principals]

    owner, (first,) = uuid4(), jobs("ada")
    with lake.catalog.transaction() as tx:
        assert [job.job_id for job in tx.jobs.take(owner, "a", most=1)] == [first]
        tx.jobs.abandon("a")
        tx.jobs.request(first, JobRequest.STOP)
    second, _ = jobs("ada", "bob")
    with lake.catalog.transaction() as tx:
        assert [job.job_id for job in tx.jobs.take(owner, "a", most=1)] == [second]


def test_a_job_whose_source_was_rolled_back_fails_for_good(lake: Lake, maker: Maker, start: Start) -> None:
    job_id = made(lake)
    start()
    until(lambda: maker.queries)
    maker.queries[-1].problem = SnapshotNotExist("Table d.t was rolled back to before snapshot 3.", resource_name="d.t")
    until(lambda: lake.jobs.get(job_id).state is JobState.FAILED)
    assert lake.jobs.get(job_id).error == "Table d.t was rolled back to before snapshot 3."
    assert len(maker.queries) == 1


def test_a_server_that_could_not_run_a_job_yet_leaves_it_to_another(lake: Lake, maker: Maker, start: Start) -> None:
    starting = Maker()
    starting.ready = False
    start("starting", make=starting, lease_seconds=60.0).hurry()  # none may lose its job because it waits for a processor
    job_id = made(lake)
    start("warm", most=1, lease_seconds=60.0)
    until(lambda: lake.jobs.get(job_id).state is JobState.RUNNING)
    other = made(lake)
    assert (lake.jobs.get(job_id).server, starting.queries) == ("warm", [])
    starting.ready = True
    until(lambda: lake.jobs.get(other).state is JobState.RUNNING)
    assert lake.jobs.get(other).server == "starting"


def test_a_new_job_and_a_request_are_heard_of_at_once(lake: Lake, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_ROUND_SECONDS", "_IDLE_ROUND_SECONDS"):
        monkeypatch.setattr(f"jobs.runner.{name}", 60.0)
    first = made(lake)
    start(lease_seconds=600.0)
    until(lambda: lake.jobs.get(first).state is JobState.RUNNING)
    second = made(lake, name="k")
    until(lambda: lake.jobs.get(second).state is JobState.RUNNING, 40)
    lake.jobs.request(first, JobRequest.STOP)
    until(lambda: lake.jobs.get(first).state is JobState.STOPPED, 40)


def test_a_job_that_can_never_start_has_failed(lake: Lake, maker: Maker, start: Start) -> None:
    maker.problem = Forbidden("the grant is gone")
    job_id = made(lake)
    start()
    until(lambda: lake.jobs.get(job_id).state is JobState.FAILED)
    assert lake.jobs.get(job_id).error == "the grant is gone"
    maker.problem = None
    lake.jobs.request(job_id, JobRequest.RESTART)
    until(lambda: lake.jobs.get(job_id).state is JobState.RUNNING and maker.queries)


def test_requests_reach_the_server_that_runs_the_job(lake: Lake, maker: Maker, start: Start) -> None:
    job_id = made(lake)
    start()
    until(lambda: maker.queries)
    lake.jobs.request(job_id, JobRequest.RESTART)
    until(lambda: len(maker.queries) == 2)
    assert maker.queries[0].stopped
    lake.jobs.request(job_id, JobRequest.STOP)
    until(lambda: lake.jobs.get(job_id).state is JobState.STOPPED)
    assert maker.queries[1].stopped
    lake.jobs.request(job_id, JobRequest.RESTART)
    until(lambda: len(maker.queries) == 3)
    lake.jobs.request(job_id, JobRequest.DRAIN)
    until(lambda: lake.jobs.get(job_id).state is JobState.FINISHED)
    assert [query.started for query in maker.queries] == [[False], [False], [False], [True]]


def test_what_the_batch_in_flight_has_read_is_told_before_a_stop(lake: Lake, maker: Maker, start: Start) -> None:
    """The next start counts late rows on from there."""
    job_id = made(lake)
    start()
    until(lambda: lake.jobs.get(job_id).source)
    lake.jobs.request(job_id, JobRequest.STOP)
    until(lambda: lake.jobs.get(job_id).state is JobState.STOPPED)
    assert lake.jobs.get(job_id).source["0"][0]["endOffset"] == {"snapshot": 4}


def test_what_sparks_planner_refuses_fails_a_job(lake: Lake, maker: Maker, start: Start) -> None:
    """It would refuse it again in each first micro-batch, for ever."""
    job_id = made(lake)
    start()
    until(lambda: maker.queries)
    refused = AnalysisError("Stream-stream join without equality predicate is not supported.")
    refused.__cause__ = RuntimeError("as Spark says it")
    maker.queries[0].problem = refused
    until(lambda: lake.jobs.get(job_id).state is JobState.FAILED)
    assert len(maker.queries) == 1


def test_what_does_not_fit_an_altered_table_is_begun_again(lake: Lake, maker: Maker, start: Start) -> None:
    """With the columns that source and target have by now."""
    made(lake)
    start()
    until(lambda: maker.queries)
    maker.queries[0].problem = AnalysisError("2 values for 3 columns.")
    until(lambda: len(maker.queries) == 2)


def test_a_run_that_takes_long_to_end_ends_nothing_of_the_next_one(lake: Lake, maker: Maker, start: Start) -> None:
    """It has told its end, so that the job may be taken, and stops its queries still."""
    job_id = made(lake)
    runner = start()
    until(lambda: maker.queries)
    maker.queries[0].lets_go.clear()
    maker.queries[0].problem = ExecutionError("a row that does not fit")
    until(lambda: lake.jobs.get(job_id).state is JobState.RESTARTING)
    time.sleep(0.7)  # rounds in which it could be taken: it is due
    assert len(maker.queries) == 1
    maker.queries[0].lets_go.set()
    until(lambda: len(maker.queries) == 2)
    lake.jobs.request(job_id, JobRequest.STOP)
    until(lambda: lake.jobs.get(job_id).state is JobState.STOPPED and not runner.running())
    assert (len(maker.queries), lake.jobs.get(job_id).epoch) == (2, 2)


def test_a_job_that_another_server_runs_while_it_ends_here_is_left_to_it(lake: Lake, maker: Maker, start: Start) -> None:
    job_id = made(lake)
    first = start("a")
    until(lambda: maker.queries)
    maker.queries[0].lets_go.clear()
    maker.queries[0].problem = ExecutionError("a row that does not fit")
    until(lambda: lake.jobs.get(job_id).state is JobState.RESTARTING)
    other = Maker()
    start("b", make=other, lease_seconds=60.0)  # the first would take the job back were it late once
    until(lambda: other.queries and lake.jobs.get(job_id).lag)
    maker.queries[0].lets_go.set()
    until(lambda: not first.running())
    assert (lake.jobs.get(job_id).server, lake.jobs.get(job_id).state) == ("b", JobState.RUNNING)


def test_a_job_stops_as_asked_though_its_start_keeps_failing(lake: Lake, maker: Maker, start: Start) -> None:
    """As where Spark is away: the request comes while the start is tried."""
    job_id = made(lake)
    tries: list[Job] = []

    class Failing(Maker):
        def __call__(self, job: Job) -> Sequence[Scripted]:
            tries.append(job)
            if len(tries) == 2:
                lake.jobs.request(job_id, JobRequest.STOP)
            raise Unavailable("Spark is away")

    start(make=Failing())
    until(lambda: lake.jobs.get(job_id).state is JobState.STOPPED)
    found = lake.jobs.get(job_id)
    assert (found.requested, found.error, found.ended_at is not None) == (None, "Spark is away", True)
    time.sleep(0.7)
    assert len(tries) == 2


def test_a_job_that_was_asked_to_stop_before_it_began_does_not_begin(lake: Lake, maker: Maker, start: Start) -> None:
    """As one is that an earlier version left to restart."""
    job_id = made(lake)
    with lake.catalog.transaction() as tx:
        tx.jobs._conn.execute("UPDATE stream_job SET state = 'RESTARTING', wish = 'STOP'")
    start()
    until(lambda: lake.jobs.get(job_id).state is JobState.STOPPED)
    assert maker.queries == []


def test_a_stopping_server_hands_its_jobs_on(lake: Lake, maker: Maker, start: Start) -> None:
    job_id = made(lake)
    first = start("a", lease_seconds=3600.0)
    until(lambda: maker.queries)
    other = Maker()
    start("b", make=other)
    first.drain(60)
    until(lambda: other.queries)
    found = lake.jobs.get(job_id)
    assert (found.state, found.server, found.epoch) == (JobState.RUNNING, "b", 2)


def test_a_server_that_cannot_renew_stops_and_another_goes_on(
    lake: Lake, maker: Maker, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(lake)
    first = start("a", lease_seconds=0.5)
    until(lambda: maker.queries)
    other = Maker()
    monkeypatch.setattr(first, "_renew", lambda: None)  # it does not reach Postgres: it can neither renew nor take
    monkeypatch.setattr(first, "_take", lambda most: None)
    start("b", make=other)
    until(lambda: other.queries)
    until(lambda: not first.running())
    assert maker.queries[0].stopped


def test_a_server_that_renews_late_goes_on_with_what_nobody_took(
    lake: Lake, maker: Maker, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine under load lets its threads wait for longer than a lease; that alone must not begin every batch anew."""
    job_id = made(lake)
    runner = start("a", lease_seconds=0.5)
    until(lambda: maker.queries)
    renew = runner._renew
    late: list[Job] = []

    def renewed() -> None:
        if not late:
            time.sleep(1.0)
        renew()
        late.append(lake.jobs.get(job_id))

    monkeypatch.setattr(runner, "_renew", renewed)
    until(lambda: len(late) > 2)
    found = lake.jobs.get(job_id)
    assert (found.state, found.epoch, runner.running()) == (JobState.RUNNING, 1, [job_id])
    assert not maker.queries[0].stopped


def test_a_server_runs_no_more_jobs_than_it_may(lake: Lake, maker: Maker, start: Start) -> None:
    ids = [made(lake) for _ in range(3)]
    runner = start(most=2)
    until(lambda: len(runner.running()) == 2)
    time.sleep(0.7)
    assert len(maker.queries) == 2
    lake.jobs.request(runner.running()[0], JobRequest.STOP)
    until(lambda: len(maker.queries) == 3)
    assert {lake.jobs.get(job_id).state for job_id in ids} == {JobState.RUNNING, JobState.STOPPED}


def test_an_error_is_told_with_its_causes_and_without_what_postgres_cannot_keep() -> None:
    problem = RuntimeError("the plan was \0gone")
    problem.__cause__ = ValueError("no such file")
    assert said(problem) == "RuntimeError: the plan was gone\nCaused by: ValueError: no such file"


def _caused(problem: BaseException, *causes: BaseException) -> BaseException:
    at = problem
    for cause in causes:
        at.__cause__ = cause
        at = cause
    return problem


def test_an_error_shows_no_place_of_the_server_and_no_host(tmp_path: Path) -> None:
    """The owner of a job reads its last error, and everybody who may see the job."""
    hide_places(str(tmp_path))
    denied = PermissionError(errno.EACCES, "Permission denied", f"{tmp_path}/default.db/t/day=secret/x.parquet")
    gone = psycopg.OperationalError('connection to server at "db.internal" (10.1.2.3), port 5432 failed')
    for problem, told in (
        (
            _caused(storage_error(denied, str(denied.filename)), denied),
            "The warehouse cannot be used at x.parquet: Permission denied. Give the server's user its rights there back.\n"
            "Caused by: PermissionError: Permission denied",
        ),
        (_caused(Unavailable("The catalog database is away."), gone), "The catalog database is away."),
        (gone, "OperationalError"),
        (_caused(RuntimeError("broken"), OSError(f"Cannot open {tmp_path}/y")), "RuntimeError: broken\nCaused by: OSError"),
        (ValueError(f"Could not open '{tmp_path}/default.db/t/x.parquet'."), "ValueError: Could not open 'x.parquet'."),
    ):
        assert said(problem) == told


def test_what_a_jobs_statement_failed_of_is_kept_without_places(lake: Lake, maker: Maker, start: Start, tmp_path: Path) -> None:
    hide_places(str(tmp_path))
    job_id = made(lake)
    start()
    until(lambda: maker.queries)
    denied = PermissionError(errno.EACCES, "Permission denied", f"{tmp_path}/default.db/t/x.parquet")
    maker.queries[0].problem = _caused(storage_error(denied, str(denied.filename)), denied)
    until(lambda: lake.jobs.get(job_id).error)
    error = lake.jobs.get(job_id).error
    assert error is not None
    assert "Permission denied" in error
    assert str(tmp_path) not in error


def test_jobs_that_ended_are_forgotten_only_by_a_clock_that_is_believed(
    lake: Lake, dsn: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = made(lake)
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE stream_job SET state = 'STOPPED', ended_at = now() - interval '1 year'")
        conn.execute("UPDATE catalog_state SET clock_seen_at = now() - interval '1 year'")
    monkeypatch.setattr("jobs.runner._FORGET_SECONDS", 0.0)
    runner = start(most=0)
    runner.round()
    assert [row.job_id for row in lake.jobs.all()] == [job], "its checkpoint is what it would go on from"
    lake.clock.confirm()
    runner.round()
    assert not lake.jobs.all()


def test_a_job_stays_known_as_long_as_its_checkpoint_cannot_be_removed(
    lake: Lake, dsn: str, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hundred jobs were forgotten first: a store that failed at the first of their checkpoints kept the rest for good."""
    jobs = {made(lake) for _ in range(3)}
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE stream_job SET state = 'STOPPED', ended_at = now() - interval '1 year'")
    monkeypatch.setattr("jobs.runner._FORGET_SECONDS", 0.0)
    removed: list[str] = []

    def fails_at_the_second(path: str) -> None:
        if len(removed) == 1:
            raise Unavailable("The store is away.")
        removed.append(path)

    with monkeypatch.context() as patched:
        patched.setattr(lake.file_io, "delete_tree", fails_at_the_second)
        runner = start(most=0)
        with pytest.raises(Unavailable):
            runner.round()
        left = {row.job_id for row in lake.jobs.all()}
        assert (len(left), jobs > left) == (2, True)
        assert not [path for path in removed if any(str(job) in path for job in left)]
    runner.round()
    assert not lake.jobs.all()
