"""What a job does around the commit of a batch; the rest of it is tested with Spark in `tests/jobs`."""

from __future__ import annotations

import contextlib
import errno
import os
from types import SimpleNamespace
from typing import Any

import pytest

from sql.spark.streaming import job_query
from sql.spark.streaming.job_query import JobQuery


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
