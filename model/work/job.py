"""Jobs: streaming INSERTs that outlive the session, and the server, that started them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from uuid import UUID

from model.work.job_lag import JobLag

OUT_OF_MEMORY = "outOfMemory"
"""Beside the INSERTs in `Job.applied`: how often each ran Spark out of memory since its last batch that went well."""


class JobState(StrEnum):
    """Where a job is, in Flink's words; STOPPED is what STOP JOB makes of one that could go on."""

    CREATED = "CREATED"
    RUNNING = "RUNNING"
    RESTARTING = "RESTARTING"
    FAILED = "FAILED"
    STOPPED = "STOPPED"
    FINISHED = "FINISHED"

    @property
    def ended(self) -> bool:
        """Whether only ALTER JOB … RESTART brings it back."""
        return self in (JobState.FAILED, JobState.STOPPED, JobState.FINISHED)


class JobRequest(StrEnum):
    """What somebody wants of a job that runs."""

    STOP = "STOP"
    DRAIN = "DRAIN"
    """Stop when what is there now has been processed."""
    RESTART = "RESTART"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLease:
    """A server's right to run a job: gone as soon as the job's epoch is another."""

    job_id: UUID
    epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """All that is known of a job."""

    job_id: UUID
    name: str
    statement: str
    database: str
    """Where its bare names look."""
    settings: Mapping[str, str]
    tables: Mapping[str, Any]
    """The session's temporary tables it mentions, by name."""
    principal: str
    state: JobState
    starts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """For each INSERT: where its tables begin, by mention; fixed before its first batch."""
    requested: JobRequest | None = None
    server: str | None = None
    epoch: int = 0
    attempts: int = 0
    """Failures since the last batch that went well."""
    restarts: int = 0
    next_start: dt.datetime
    error: str | None = None
    error_at: dt.datetime | None = None
    batches: int = 0
    """Batches that committed or wrote rows."""
    rows: int = 0
    """Rows they wrote."""
    applied: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """For each INSERT: the checkpoint's id, its last batch that committed (-1: none yet), and which rows that was (``plan``)."""
    source: Mapping[str, Any] = field(default_factory=dict)
    """For each INSERT: what its last batch read, as Spark tells it."""
    watermark: int | None = None
    """Milliseconds since 1970."""
    lag: JobLag | None = None
    created_at: dt.datetime
    started_at: dt.datetime | None = None
    ended_at: dt.datetime | None = None
    updated_at: dt.datetime

    def out_of_memory(self, part: str) -> int:
        """How often an INSERT ran Spark out of memory since its last batch that went well, on whichever servers."""
        return int(self.applied.get(OUT_OF_MEMORY, {}).get(part, 0))

    @property
    def drained(self) -> bool:
        """Whether it has ended by a drain for good: its sources ended event time, and all windows came out."""
        ends = (source.get("endOffset") for part in self.source.values() for source in part)
        return self.state is JobState.FINISHED and any(map(is_drained, ends))


NO_BATCH = -1
"""The batch before the first: the last one of a query that has committed none."""

NO_CHECKPOINT = "once"
"""Stands for the checkpoint of an INSERT that is one batch, whose sources end with what is there: nothing is gone on with."""


def is_drained(offset: object) -> bool:
    """Whether a source ends at an offset because a drain was asked for."""
    return isinstance(offset, dict) and offset.get("drained") is True
