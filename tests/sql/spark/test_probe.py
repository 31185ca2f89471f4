"""A small job tells whether Spark runs jobs, where none has succeeded lately."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from model.errors import Unavailable
from sql.spark.driver.probe import JobProbe, ProbePatience
from tests.gateway.test_executor import wait_for


class Jobs:
    """A Spark that runs small jobs, fails them, or keeps them waiting."""

    says = "no"

    def __init__(self) -> None:
        self.let_go = threading.Event()
        self.fails = False
        self.busy = False
        self.runs = 0

    def run(self) -> None:
        self.runs += 1
        assert self.let_go.wait(60)
        if self.fails:
            raise RuntimeError(self.says)


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    made = Jobs()
    yield made
    made.let_go.set()


def _probe(jobs: Jobs, **patience: float) -> JobProbe:
    return JobProbe(jobs.run, lambda: jobs.busy, ProbePatience(**patience))


def test_a_success_of_late_needs_no_job(jobs: Jobs) -> None:
    probe = _probe(jobs, lately=60)
    probe.check()
    assert jobs.runs == 0


def test_a_job_that_fails_is_told_until_one_succeeds(jobs: Jobs) -> None:
    jobs.fails = True
    jobs.let_go.set()
    probe = _probe(jobs, lately=0)

    def told() -> str:
        try:
            probe.check()
        except Unavailable as problem:
            return problem.message
        return ""

    wait_for(lambda: "RuntimeError" in told())
    jobs.fails = False
    wait_for(lambda: not told())
    probe.close()


def test_jobs_that_fail_for_long_are_hopeless_until_one_succeeds(jobs: Jobs) -> None:
    jobs.fails = True
    jobs.let_go.set()
    probe = _probe(jobs, lately=60, restart=0.2)
    assert not probe.hopeless()

    def hopeless() -> bool:
        probe.suspect()
        return probe.hopeless()

    wait_for(hopeless)
    jobs.fails = False
    wait_for(lambda: not hopeless())
    probe.close()


def test_a_damaged_collection_is_hopeless_at_once(jobs: Jobs) -> None:
    jobs.fails, jobs.says = True, "java.lang.IllegalStateException: Illegal size 5 of collection, expected 6"
    jobs.let_go.set()
    probe = _probe(jobs, lately=60, restart=3600)
    probe.suspect()
    wait_for(probe.hopeless)
    probe.renewed()
    assert not probe.hopeless()
    probe.close()


def test_a_job_that_waits_while_nothing_runs_is_told_and_in_the_end_hopeless(jobs: Jobs) -> None:
    probe = _probe(jobs, lately=0, told=0, restart=0.2)
    jobs.busy = True
    probe.check()
    probe.check()
    assert not probe.hopeless(), "it waits for the tasks of others"
    jobs.busy = False
    probe.stuck_for()
    wait_for(probe.hopeless)
    with pytest.raises(Unavailable, match="a small job has waited"):
        probe.check()
    assert jobs.runs == 1
    probe.renewed()
    jobs.fails = True
    jobs.let_go.set()
    assert not probe.hopeless()
    probe.close()


def test_a_job_that_waits_for_executors_is_told_and_no_reason_for_a_new_start(jobs: Jobs) -> None:
    probe = JobProbe(jobs.run, lambda: False, ProbePatience(lately=0, told=0, restart=0), lacking=lambda: "an executor of spark://h:1")
    probe.check()
    wait_for(lambda: probe.stuck_for() > 0)
    with pytest.raises(Unavailable, match="it has waited for an executor of spark://h:1"):
        probe.check()
    assert not probe.hopeless()
    probe.close()
