"""What a job does around the commit of a batch; the rest of it is tested with Spark in `tests/jobs`."""

from __future__ import annotations

import contextlib
import datetime as dt
import errno
import json
import os
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from lake import Lake, LakeTable
from lake.job_records import InTarget, JobRecords
from model.catalog_errors import JobTableReplaced
from model.errors import JobLeaseLost, StreamEnded
from model.identifier import Identifier
from model.snapshot import CommitKind
from model.work.job import JobLease, JobState
from sql.spark.streaming import job_query
from sql.spark.streaming.agreement import LastBatch
from sql.spark.streaming.checkpoints import Checkpoint
from sql.spark.streaming.job_query import JobQuery
from sql.spark.streaming.streams import StartPositions
from table.format.manifests.entries import NewFile
from table.format.rows.cast import fit
from table.write.writer import write_batches
from tests.sql.spark.test_checkpoints import of_batches
from tests.sql.tables import make_table


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_batch_that_is_committed_is_not_failed_by_a_checkpoint_that_cannot_note_it(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    """The job would start again, later each time, though nothing of it has failed."""
    committed: list[Any] = []

    def full(_: int) -> None:
        raise OSError(number, os.strerror(number))

    written = SimpleNamespace(add=list, rows=1, request=lambda *_, **__: "request")
    table = SimpleNamespace(write=lambda: contextlib.nullcontext(written), latest=lambda: None)
    claim = SimpleNamespace(commit_user="job", plan={"plan": 1})
    query = object.__new__(JobQuery)
    query.__dict__.update(
        _job=SimpleNamespace(job_id="1"),
        _alignment=None,
        _rowtime=None,
        _checkpoint=SimpleNamespace(note_committed=full),
        _context=SimpleNamespace(lake=SimpleNamespace(commit=lambda *_, claim: committed.append(claim))),
        _watermark_of=lambda *_: None,
        _claim=lambda *_, **__: claim,
    )
    monkeypatch.setattr(job_query, "write", lambda *_: ["file"])
    monkeypatch.setattr(job_query, "before_commit", lambda _, files: files)
    frame: Any = SimpleNamespace(sparkSession=None)
    target: Any = SimpleNamespace(table=table)
    query._commit_rows(frame, target, 7, "checkpoint")
    assert committed == [claim]
    assert query._applied == {"checkpoint": "checkpoint", "batch": 7, "plan": 1}


@pytest.mark.parametrize("state", [True, False])
def test_a_batch_that_is_passed_over_leaves_its_state(monkeypatch: pytest.MonkeyPatch, state: bool) -> None:
    """A power cut keeps what is committed, and not what Spark has not flushed: without the batch's state the next one fails for ever."""
    ran: list[tuple[str, str]] = []

    class Writer:
        def format(self, name: str) -> Writer:
            self._name = name
            return self

        def mode(self, name: str) -> Writer:
            self._mode = name
            return self

        def save(self) -> None:
            ran.append((self._name, self._mode))

    ready = threading.Event()
    ready.set()
    monkeypatch.setattr(job_query, "require_same", lambda *_: None)
    query = object.__new__(JobQuery)
    query.__dict__.update(
        _stopping=False,
        _ready=ready,
        _query=SimpleNamespace(id="c"),
        _rights=SimpleNamespace(now=lambda: None),
        _alignment=None,
        _sink=SimpleNamespace(context=None),
        _topics=(),
        _state=None,
        _applied={"checkpoint": "c", "batch": 7, "state": state},
        _begun_before=-1,
        _checkpoint=SimpleNamespace(holds_state=False),
    )
    frame: Any = SimpleNamespace(write=Writer())
    query._take_one(frame, 7)
    assert ran == [("noop", "overwrite")] * state


def test_a_stop_ends_the_look_for_files_of_a_batch_that_is_done_again(tmp_path: Path) -> None:
    at = of_batches(tmp_path / "c", 1, log=True)
    file = tmp_path / "a.csv"
    file.touch()
    (at / "sources/0/0").write_text("v1\n" + json.dumps({"path": f"file://{file}", "timestamp": 1, "batchId": 0}))
    query = object.__new__(JobQuery)
    query.__dict__.update(_stopping=False, _begun_before=0, _checkpoint=Checkpoint(str(at)))
    query._require_files(0)
    query.ask_to_stop()
    with pytest.raises(StreamEnded):
        query._require_files(0)


def test_a_batch_that_the_catalog_has_forgotten_is_noted_before_the_next_and_passed_over(lake: Lake) -> None:
    lake.jobs.create(name="j", statement="INSERT …", database="default", settings={}, tables={})
    with lake.catalog.transaction() as tx:
        (job,) = tx.jobs.take(uuid4(), "here", most=1)
        lease = JobLease(job_id=job.job_id, epoch=job.epoch)
        tx.jobs.commit(lease, "0", checkpoint="c", batch=4, rows=1, watermark=None, plan={"plan": "p4", "state": False})
    job = lake.jobs.get(job.job_id)
    query = object.__new__(JobQuery)
    query.__dict__.update(_records=JobRecords(lake.catalog), _job=job, _part="0", _applied=dict(job.applied["0"]))
    query._fix(StartPositions(), LastBatch("c", 4, "p4"))
    assert lake.jobs.get(job.job_id) == job
    query._fix(StartPositions(), LastBatch("c", 7, "p7", state=True))
    assert lake.jobs.get(job.job_id).applied["0"] == query._applied == {"checkpoint": "c", "batch": 7, "plan": "p7", "state": True}
    with lake.catalog.transaction() as tx:
        tx.jobs.end(lease, JobState.STOPPED)
    with pytest.raises(JobLeaseLost):
        query._fix(StartPositions(), LastBatch("c", 8, "p8"))


def test_a_batch_of_bad_rows_alone_is_found_in_the_snapshots_of_their_table(lake: Lake) -> None:
    """The target has none of it: once the catalog is older, the batch was taken for one that nobody has, and was to be done again."""
    target, aside = (make_table(lake, name, id="INT") for name in ("dst", "aside"))
    records = JobRecords(lake.catalog)
    for table, batch in ((target, 3), (aside, 4)):
        with table.write() as written:
            rows = pa.record_batch({"id": pa.array([batch], pa.int32())})
            written.add(write_batches(table.files, table.schema, [fit(rows, table.schema)]))
            lake.commit(table, written.request(CommitKind.APPEND, commit_user="job-c", commit_identifier=batch))
    assert records.last_in([target], "job-c", by=lake.caller.principal).batch == 3
    assert records.last_in([target, aside], "job-c", by=lake.caller.principal) == InTarget(4, whole=True)
    assert records.last_in([target, aside], "job-d", by=lake.caller.principal) == InTarget(-1, whole=True)
    with lake.catalog.transaction() as tx:
        tx.jobs._conn.execute("UPDATE table_snapshot SET snapshot_id = 7 WHERE table_id = %s", (aside.table_id,))
    assert records.last_in([target, aside], "job-d", by=lake.caller.principal) == InTarget(-1, whole=False)


@pytest.mark.parametrize("keep", [StartPositions.into, StartPositions.aside])
def test_a_job_keeps_to_the_tables_it_began_with(lake: Lake, keep: Callable[[StartPositions, LakeTable], None]) -> None:
    name = Identifier("default", "t")
    table = make_table(lake, "t", id="INT")
    starts = StartPositions()
    keep(starts, table)
    again = StartPositions(json.loads(json.dumps(starts.known)))
    keep(again, lake.open(name))
    lake.rename_table(name, Identifier("default", "gone"))
    lake.create_table(name, table.schema)
    with pytest.raises(JobTableReplaced):
        keep(again, lake.open(name))
    assert again.known == starts.known


def test_what_tells_of_idle_partitions_goes_with_the_query_although_its_jvm_is_gone() -> None:
    """It stayed in the spool until the server ended, at each start of a job whose Spark went."""

    class Gone:
        @property
        def isActive(self) -> bool:  # noqa: N802 - Spark's name
            raise ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused")

    closed: list[str] = []
    query = object.__new__(JobQuery)
    query.__dict__.update(_query=Gone(), _topics=[SimpleNamespace(close=partial(closed.append, name)) for name in "ab"])
    with pytest.raises(ConnectionRefusedError):
        query.stop(patience=1.0)
    assert closed == ["a", "b"]


@pytest.mark.parametrize("merged", ["false", "true"])
def test_a_snapshot_has_the_watermark_of_rows_that_were_merged_before_it(lake: Lake, monkeypatch: pytest.MonkeyPatch, merged: str) -> None:
    """The files that are committed are others than those that were written, and are described anew."""
    options = {"bucket": "-1", "metadata.stats-mode": "none", "precommit-compact": merged}
    table = make_table(lake, "t", options=options, id="INT", at="TIMESTAMP(3)")

    def small_files(_spark: None, _frame: Any, into: LakeTable) -> list[NewFile]:
        times = [dt.datetime(2026, 1, 1, hour) for hour in (12, 13)]
        rows = [pa.record_batch({"id": pa.array([1], pa.int32()), "at": pa.array([time], pa.timestamp("ms"))}) for time in times]
        return [file for batch in rows for file in write_batches(into.files, into.schema, [fit(batch, into.schema)])]

    query = object.__new__(JobQuery)
    query.__dict__.update(
        _job=SimpleNamespace(job_id="1"),
        _alignment=None,
        _rowtime=(1, 60_000),
        _topics=(),
        _progress=lambda: None,
        _checkpoint=None,
        _context=SimpleNamespace(lake=SimpleNamespace(commit=lambda table, request, claim: lake.commit(table, request))),
        _claim=lambda *_, **__: SimpleNamespace(commit_user="job", plan=None),
    )
    monkeypatch.setattr(job_query, "write", small_files)
    frame: Any = SimpleNamespace(sparkSession=None)
    target: Any = SimpleNamespace(table=table, columns=(), fixed={})
    query._commit_rows(frame, target, 7, "checkpoint")
    latest = table.latest()
    assert latest is not None
    assert latest.watermark == dt.datetime(2026, 1, 1, 12, 59, tzinfo=dt.UTC).timestamp() * 1000
    assert len(list(table.files.live_entries(latest))) == (1 if merged == "true" else 2)
