"""The runner of jobs: who runs what, what failures and requests make of a job. Queries here do what the test says; Spark's are in e2e."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest

from jobs.run import said
from jobs.runner import JobRunner
from lake import Lake
from lake.process_name import process_space
from model.errors import ExecutionError, Forbidden, SnapshotNotExist
from model.work.job import Job, JobRequest, JobState
from model.work.work_limits import JobLimits

SETTINGS = {"restart-strategy.exponential-delay.initial-backoff": "100 ms", "restart-strategy.exponential-delay.max-backoff": "150 ms"}


class Scripted:
    """A query that runs until it is told otherwise."""

    def __init__(self) -> None:
        self.started: list[bool] = []
        self.stopped = 0
        self.problem: BaseException | None = None
        self.done = False

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
        return [{"endOffset": {"snapshot": 3}, "latestOffset": {"snapshot": 5}}]

    def ask_to_stop(self) -> None:
        self.stopped += 1

    def stop(self, *, patience: float) -> None:
        self.stopped += 1


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

    def release(self, job_id: UUID) -> None:
        pass


Start = Callable[..., JobRunner]


@pytest.fixture
def maker() -> Maker:
    return Maker()


@pytest.fixture
def start(lake: Lake, maker: Maker) -> Iterator[Start]:
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
    until(lambda: lake.jobs.get(job_id).lag == "2 snapshots")


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
    start("starting", make=starting).hurry()
    job_id = made(lake)
    start("warm", most=1)
    until(lambda: lake.jobs.get(job_id).state is JobState.RUNNING)
    other = made(lake)
    assert (lake.jobs.get(job_id).server, starting.queries) == ("warm", [])
    starting.ready = True
    until(lambda: lake.jobs.get(other).state is JobState.RUNNING)
    assert lake.jobs.get(other).server == "starting"


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


def test_a_stopping_server_hands_its_jobs_on(lake: Lake, maker: Maker, start: Start) -> None:
    job_id = made(lake)
    first = start("a", lease_seconds=3600.0)
    until(lambda: maker.queries)
    other = Maker()
    start("b", make=other)
    first.drain(5)
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
