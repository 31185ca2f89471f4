"""A batch of a job lands once, and only under the lease it began with."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import psycopg
import pytest

from catalog import CatalogStore
from catalog.backup.archive import jobs_of
from catalog.work.jobs import JobRepository
from lake import Caller, Lake, LakeTable
from lake.jobs import BatchClaim
from model.errors import Forbidden, IllegalMove, JobLeaseLost, JobNotExist
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from model.work.job import NO_CHECKPOINT, Job, JobLease, JobRequest, JobState
from model.work.job_lag import JobLag
from tests.fix_postgres import ADVISORY_LOCKS
from tests.lake.test_commit import append, names
from tests.waiting import eventually

T = Identifier("default", "t")
ONE, OTHER = uuid4(), uuid4()


@pytest.fixture
def table(lake: Lake) -> LakeTable:
    lake.create_table(T, new_schema([column("id", "BIGINT")], options={"bucket": "1", "bucket-key": "id"}))
    return lake.open(T)


def made(lake: Lake, **more: Any) -> UUID:
    given: dict[str, Any] = {"name": "j", "statement": "INSERT …", "database": "default", "settings": {}, "tables": {}}
    return lake.jobs.create(**given | more)


def take(catalog: CatalogStore, owner: UUID = ONE, *, seconds: float = 60.0) -> Job:
    with catalog.transaction() as tx:
        (job,) = tx.jobs.take(owner, "here", most=5, seconds=seconds)
    return job


def claim(job: Job, batch: int, **more: Any) -> BatchClaim:
    lease = JobLease(job_id=job.job_id, epoch=job.epoch)
    given: dict[str, Any] = {"part": "0", "checkpoint": "c", "rows": 1, "watermark": None}
    return BatchClaim(lease=lease, batch=batch, **given | more)


def commit(lake: Lake, table: LakeTable, one: BatchClaim) -> None:
    request = replace(append(f"f-{uuid4()}"), commit_user=one.commit_user, commit_identifier=one.batch)
    lake.commit(table, request, claim=one)


def test_a_server_whose_job_was_taken_over_cannot_commit(lake: Lake, catalog: CatalogStore, table: LakeTable) -> None:
    made(lake)
    first = take(catalog, seconds=0.0)
    commit(lake, table, claim(first, 0))
    second = take(catalog, OTHER)
    assert (second.epoch, second.restarts) == (first.epoch + 1, 1)
    assert (second.applied["0"]["checkpoint"], second.applied["0"]["batch"]) == ("c", 0)
    with pytest.raises(JobLeaseLost):
        commit(lake, table, claim(first, 1))
    assert len(names(table)) == 1
    commit(lake, table, claim(second, 1))
    assert len(names(table)) == 2
    found = lake.jobs.get(first.job_id)
    assert (found.batches, found.rows) == (2, 2)


@pytest.mark.parametrize("request_", [JobRequest.STOP, JobRequest.RESTART])
def test_a_server_that_stood_still_changes_nothing_of_what_was_asked_meanwhile(
    lake: Lake, catalog: CatalogStore, table: LakeTable, request_: JobRequest
) -> None:
    made(lake)
    job = take(catalog, seconds=0.0)
    lake.jobs.request(job.job_id, request_)
    asked = lake.jobs.get(job.job_id)
    lease = JobLease(job_id=job.job_id, epoch=job.epoch)
    with catalog.transaction() as tx:
        assert not tx.jobs.retry(lease, error="the machine stood still", after=timedelta(0))
        assert not tx.jobs.end(lease, JobState.FINISHED)
        assert not tx.jobs.begin(lease, "0", {}, checkpoint="c")
        assert not tx.jobs.progress(lease, source={"0": []}, lag=JobLag(snapshots=1))
    assert lake.jobs.get(job.job_id) == asked
    with pytest.raises(JobLeaseLost):
        commit(lake, table, claim(job, 0))


def test_a_batch_lands_once_also_when_its_snapshot_is_gone(lake: Lake, catalog: CatalogStore, table: LakeTable) -> None:
    made(lake)
    job = take(catalog)
    commit(lake, table, claim(job, 7))
    with catalog.transaction() as tx:
        assert not tx.jobs.commit(JobLease(job_id=job.job_id, epoch=job.epoch), "0", checkpoint="c", batch=7, rows=1, watermark=None)
        assert tx.jobs.commit(JobLease(job_id=job.job_id, epoch=job.epoch), "0", checkpoint="fresh", batch=0, rows=1, watermark=None)
    before = len(names(table))
    with pytest.raises(JobLeaseLost):
        commit(lake, table, replace(claim(job, 0), checkpoint="fresh"))
    assert len(names(table)) == before


def test_inserts_of_one_job_without_a_checkpoint_may_write_to_one_table(lake: Lake, catalog: CatalogStore, table: LakeTable) -> None:
    """Each is one batch of the same number: the second was taken for a repeat of the first, and its rows were left out."""
    made(lake)
    job = take(catalog)
    for part in "01":
        commit(lake, table, claim(job, 0, part=part, checkpoint=NO_CHECKPOINT, alone=False))
    assert len(names(table)) == 2
    assert {part: noted["batch"] for part, noted in lake.jobs.get(job.job_id).applied.items()} == {"0": 0, "1": 0}


def test_a_batch_the_catalog_had_forgotten_is_noted_where_its_table_has_it(lake: Lake, catalog: CatalogStore, table: LakeTable) -> None:
    """As after an older dump was restored and the table repaired."""
    made(lake)
    job = take(catalog)
    commit(lake, table, claim(job, 0, checkpoint=NO_CHECKPOINT))
    with catalog.transaction() as tx:
        tx._conn.execute("UPDATE stream_job SET applied = '{}', batches = 0, rows = 0")
    commit(lake, table, claim(job, 0, checkpoint=NO_CHECKPOINT))
    found = lake.jobs.get(job.job_id)
    assert (found.applied["0"]["batch"], found.batches, found.rows) == (0, 1, 1)
    assert len(names(table)) == 1
    with catalog.transaction() as tx:
        tx._conn.execute("UPDATE stream_job SET applied = '{}', epoch = epoch + 1")
    with pytest.raises(JobLeaseLost):
        commit(lake, table, claim(job, 0, checkpoint=NO_CHECKPOINT))


def test_a_takeover_waits_for_the_commit_that_is_being_decided(lake: Lake, catalog: CatalogStore) -> None:
    made(lake)
    job = take(catalog, seconds=0.0)
    taken = threading.Event()

    def take_over() -> None:
        take(catalog, OTHER)
        taken.set()

    with catalog.transaction() as tx:
        assert tx.jobs.commit(JobLease(job_id=job.job_id, epoch=job.epoch), "0", checkpoint="c", batch=0, rows=1, watermark=None)
        with catalog.transaction() as other:
            assert other.jobs.take(OTHER, "there", most=5) == [], "held by the commit, it is passed over"
    thread = threading.Thread(target=take_over)
    thread.start()
    thread.join(120)
    assert taken.is_set()


def test_many_servers_take_each_job_once(lake: Lake, catalog: CatalogStore) -> None:
    ids = {made(lake) for _ in range(20)}
    found: list[UUID] = []

    def run() -> None:
        with catalog.transaction() as tx:
            found.extend(job.job_id for job in tx.jobs.take(uuid4(), "here", most=3))

    threads = [threading.Thread(target=run) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == len(set(found))
    assert set(found) <= ids
    with catalog.transaction() as tx:
        rest = tx.jobs.take(uuid4(), "here", most=100)
    assert {job.job_id for job in rest} | set(found) == ids


def test_what_is_asked_of_a_job_nobody_runs_happens_at_once(lake: Lake, catalog: CatalogStore) -> None:
    job_id = made(lake)
    lake.jobs.request(job_id, JobRequest.STOP)
    assert lake.jobs.get(job_id).state is JobState.STOPPED
    with pytest.raises(IllegalMove, match="ALTER JOB"):
        lake.jobs.request(job_id, JobRequest.STOP)
    with catalog.transaction() as tx:
        assert tx.jobs.take(ONE, "here", most=5) == []
    lake.jobs.request(job_id, JobRequest.RESTART)
    job = take(catalog)
    assert (job.state, job.requested) == (JobState.RUNNING, None)
    lake.jobs.request(job_id, JobRequest.DRAIN)
    with catalog.transaction() as tx:
        assert tx.jobs.requests(ONE) == {job_id: JobRequest.DRAIN}
        assert tx.jobs.renew(OTHER, [job_id]) == set()


def test_a_job_whose_windows_were_drained_does_not_go_on(lake: Lake, catalog: CatalogStore) -> None:
    for ends, goes_on in (({"snapshot": 4, "end": True, "drained": True}, False), ({"snapshot": 4, "told": True}, True)):
        job_id = made(lake)
        lease = JobLease(job_id=job_id, epoch=take(catalog).epoch)
        with catalog.transaction() as tx:
            tx.jobs.progress(lease, source={"0": [{"endOffset": ends}]}, lag=None)
            tx.jobs.end(lease, JobState.FINISHED)
        if goes_on:
            lake.jobs.request(job_id, JobRequest.RESTART)
        else:
            with pytest.raises(IllegalMove, match=r"was stopped WITH DRAIN.*start its INSERT again, with 'scan\.snapshot-id'"):
                lake.jobs.request(job_id, JobRequest.RESTART)
        assert lake.jobs.get(job_id).state is (JobState.RESTARTING if goes_on else JobState.FINISHED)


def test_a_late_owner_keeps_what_nobody_took_and_no_more(lake: Lake, catalog: CatalogStore) -> None:
    late, taken, stopped = (made(lake) for _ in range(3))
    with catalog.transaction() as tx:
        assert len(tx.jobs.take(ONE, "here", most=5, seconds=0.0)) == 3
    lake.jobs.request(stopped, JobRequest.STOP)
    with catalog.transaction() as tx:
        assert {job.job_id for job in tx.jobs.take(OTHER, "there", most=1)} <= {late, taken}
        theirs = tx.jobs.renew(OTHER, [late, taken, stopped])
        assert len(theirs) == 1
        assert tx.jobs.renew(ONE, [late, taken, stopped]) == {late, taken} - theirs


def test_everybody_sees_their_own_jobs(lake: Lake) -> None:
    ann, bob = (lake.for_caller(Caller(principal=name)) for name in ("ann", "bob"))
    job_id = made(ann)
    assert [job.job_id for job in ann.jobs.all()] == [job_id] == [job.job_id for job in lake.jobs.all()]
    assert bob.jobs.all() == []
    with pytest.raises(Forbidden):
        bob.jobs.get(job_id)
    with pytest.raises(Forbidden):
        bob.jobs.request(job_id, JobRequest.STOP)
    with pytest.raises(JobNotExist):
        lake.jobs.get(uuid4())


_NOW_WAITS = """
    CREATE SCHEMA slow;
    CREATE FUNCTION slow.now() RETURNS timestamptz LANGUAGE plpgsql AS $$ BEGIN
        PERFORM pg_advisory_lock_shared(7), pg_advisory_unlock_shared(7);
        RETURN pg_catalog.now();
    END $$
"""


@pytest.mark.parametrize("meanwhile", ["stopped", "put off", "taken and failed"])
def test_a_job_that_ends_while_it_is_about_to_be_taken_stays_so(lake: Lake, dsn: str, meanwhile: str) -> None:
    """The statement that takes jobs has seen them wait, and is held up before it locks them: its clock waits."""
    job_id = made(lake)

    def take_slowly() -> None:
        with psycopg.connect(dsn) as conn:
            conn.execute("SET search_path = slow, pg_catalog, public")
            taken.extend(JobRepository(conn).take(ONE, "here", most=5))

    taken: list[Job] = []
    slow = threading.Thread(target=take_slowly)
    with psycopg.connect(dsn, autocommit=True) as gate:
        gate.execute(_NOW_WAITS)
        try:
            gate.execute("SELECT pg_advisory_lock(7)")
            slow.start()
            waits = f"SELECT 1 {ADVISORY_LOCKS} AND objid = 7 AND NOT granted"
            assert eventually(lambda: gate.execute(waits).fetchone() is not None)
            if meanwhile == "stopped":
                lake.jobs.request(job_id, JobRequest.STOP)
            else:
                job = take(lake.catalog, OTHER)
                lease = JobLease(job_id=job.job_id, epoch=job.epoch)
                with lake.catalog.transaction() as tx:
                    if meanwhile == "put off":
                        tx.jobs.retry(lease, error="away", after=timedelta(hours=1))
                    else:
                        tx.jobs.end(lease, JobState.FAILED, error="it stays")
            before = lake.jobs.get(job_id)
        finally:
            gate.execute("SELECT pg_advisory_unlock_all()")
            slow.join(120)
            gate.execute("DROP SCHEMA slow CASCADE")
    assert taken == []
    assert lake.jobs.get(job_id) == before


def test_jobs_in_a_state_that_only_a_newer_version_knows_are_not_read(lake: Lake, dsn: str) -> None:
    """What restores a backup over that catalog asks for its jobs before it looks at its version."""
    made(lake)
    with psycopg.connect(dsn) as conn:
        conn.execute("ALTER TABLE stream_job DROP CONSTRAINT stream_job_state_check")
        conn.execute("UPDATE stream_job SET state = 'PAUSED'")
    assert jobs_of(dsn) is None
