"""Members of an alignment group as they tell one another through Postgres; with Spark they are in `tests/jobs/test_alignment.py`."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

from lake import Lake
from model.errors import InvalidOption
from model.work.job import JobLease
from sql.spark.streaming.alignment import Alignment, AlignmentRule, rule_of
from sql.spark.streaming.job_query import JobQuery

MINUTE = 60_000
RULE = AlignmentRule(group="g", drift=timedelta(minutes=1), interval=timedelta(milliseconds=1), idle=None)
IDLE = AlignmentRule(group="g", drift=timedelta(minutes=1), interval=timedelta(milliseconds=1), idle=timedelta(minutes=30))


@pytest.fixture
def lease(lake: Lake) -> JobLease:
    """Of a job that runs."""
    lake.jobs.create(name="j", statement="INSERT …", database="default", settings={}, tables={})
    with lake.catalog.transaction() as tx:
        (job,) = tx.jobs.take(uuid4(), "here", most=1)
    return JobLease(job_id=job.job_id, epoch=job.epoch)


def member(lake: Lake, lease: JobLease, part: str, rule: AlignmentRule, watermark: int) -> Alignment:
    found = Alignment(lake, rule, lease.job_id, part)
    found.advance(watermark)
    return found


def tell(lake: Lake, lease: JobLease, **parts: Any) -> None:
    """Note the progress of a job's parts, of which each has one source."""
    source = {part: [{"alignment": told}] for part, told in parts.items()}
    with lake.catalog.transaction() as tx:
        assert tx.jobs.progress(lease, source=source, lag=None)


def is_held(one: Alignment) -> bool:
    """Whether it waits for others, at a few looks."""
    looks = 0

    def stopping() -> bool:
        nonlocal looks
        looks += 1
        return looks > 3

    one.wait(stopping)
    return looks > 3


def running(alignment: Alignment, *, active: bool, ends: bool) -> JobQuery:
    """A query of a job that has read a batch; Spark tells this of it."""
    progress = {"sources": [{"endOffset": {"snapshot": 3} | ({"end": True} if ends else {})}]}
    query = object.__new__(JobQuery)
    spark = SimpleNamespace(isActive=active, lastProgress=progress, recentProgress=[])
    query.__dict__.update(_query=spark, _topics=(), _tables=None, _late={}, _late_before=0, _alignment=alignment)
    return query


@pytest.mark.parametrize(("active", "ends"), [(False, False), (False, True), (True, True)])
def test_an_insert_that_has_ended_holds_its_sibling_back_no_more(lake: Lake, lease: JobLease, active: bool, ends: bool) -> None:
    slow, fast = (member(lake, lease, part, RULE, at) for part, at in (("0", MINUTE), ("1", 10 * MINUTE)))
    tell(lake, lease, **{"0": running(slow, active=True, ends=False).progress()[0]["alignment"]})
    assert is_held(fast)
    tell(lake, lease, **{"0": running(slow, active=active, ends=ends).progress()[0]["alignment"]})
    assert not is_held(fast)


def test_a_member_whose_server_died_holds_nobody_back_until_another_one_runs_it(lake: Lake) -> None:
    """Its lease runs out by the clock of Postgres; what it told last counts again with the server that takes it over."""
    for name in ("slow", "fast"):
        lake.jobs.create(name=name, statement="INSERT …", database="default", settings={}, tables={})
    with lake.catalog.transaction() as tx:
        (slow,) = tx.jobs.take(uuid4(), "dies", most=1, seconds=0.5)
        (fast,) = tx.jobs.take(uuid4(), "lives", most=1)
    lease = JobLease(job_id=slow.job_id, epoch=slow.epoch)
    tell(lake, lease, **{"0": member(lake, lease, "0", RULE, MINUTE).told(over=False)})
    one = member(lake, JobLease(job_id=fast.job_id, epoch=fast.epoch), "0", RULE, 10 * MINUTE)
    began = time.monotonic()
    one.wait(lambda: time.monotonic() - began > 30)
    assert 0 < time.monotonic() - began < 30
    assert not is_held(one)
    with lake.catalog.transaction() as tx:
        (again,) = tx.jobs.take(uuid4(), "takes over", most=1)
    assert again.job_id == slow.job_id
    assert is_held(one)


def test_who_is_idle_is_told_by_one_clock(lake: Lake, lease: JobLease, monkeypatch: pytest.MonkeyPatch) -> None:
    slow, fast = (member(lake, lease, part, IDLE, at) for part, at in (("0", MINUTE), ("1", 10 * MINUTE)))
    with slow.batch():
        pass
    tell(lake, lease, **{"0": slow.told(over=False)})
    here, looks = time.time, threading.current_thread()
    # The clock of the server that looks, and of nothing else that this process does.
    monkeypatch.setattr(time, "time", lambda: here() + (3600 if threading.current_thread() is looks else 0))
    assert is_held(fast)


def test_a_source_is_idle_when_nothing_came_for_so_long_and_not_while_a_batch_is_in_flight(lake: Lake, lease: JobLease) -> None:
    idle = AlignmentRule(group="g", drift=RULE.drift, interval=RULE.interval, idle=timedelta(microseconds=1))
    slow, fast = (member(lake, lease, part, idle, at) for part, at in (("0", MINUTE), ("1", 10 * MINUTE)))
    with slow.batch():
        tell(lake, lease, **{"0": slow.told(over=False)})
        assert is_held(fast)
    first = slow.told(over=False)
    assert slow.told(over=False) == first, "one that does nothing has nothing new to tell"
    tell(lake, lease, **{"0": first})
    assert not is_held(fast)
    with slow.batch():
        tell(lake, lease, **{"0": slow.told(over=False)})
        assert is_held(fast)


def test_a_source_keeps_to_what_its_options_say() -> None:
    group = {"scan.watermark.alignment.group": "g", "scan.watermark.alignment.max-drift": "1 min"}
    assert rule_of({"scan.watermark.idle-timeout": "30 s"}) is None
    assert rule_of(group) == AlignmentRule(group="g", drift=timedelta(minutes=1), interval=timedelta(seconds=1), idle=None)
    more = {"scan.watermark.alignment.update-interval": "5 s", "scan.watermark.idle-timeout": "30 s"}
    interval, idle = timedelta(seconds=5), timedelta(seconds=30)
    assert rule_of(group | more) == AlignmentRule(group="g", drift=timedelta(minutes=1), interval=interval, idle=idle)
    with pytest.raises(InvalidOption, match="max-drift"):
        rule_of({"scan.watermark.alignment.group": "g"})
