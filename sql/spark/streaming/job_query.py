"""One INSERT of a job as a Structured Streaming query: every micro-batch becomes at most one commit, and never two."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery
from sqlglot import exp

from lake import LakeTable
from lake.commit.decided import follow
from lake.commit.write_context import Write
from lake.job_records import InTarget, JobRecords
from lake.jobs import BatchClaim
from model.errors import StreamEnded
from model.event_time import is_far_ahead
from model.snapshot import CommitKind
from model.work.job import NO_BATCH, Job, JobLease
from sql.execution.writing import before_commit
from sql.local import check_drain
from sql.spark.read.prepared import prepared
from sql.spark.session.damage import Reading
from sql.spark.session.errors import failure_of
from sql.spark.streaming.agreement import LastBatch, agreed, require_files, require_same
from sql.spark.streaming.alignment import Alignment
from sql.spark.streaming.bad_rows import Sifted, given
from sql.spark.streaming.batch import Batch, batch_watermark
from sql.spark.streaming.checkpoints import Checkpoint
from sql.spark.streaming.event_time import rowtime_of
from sql.spark.streaming.job_sink import JobSink
from sql.spark.streaming.job_sources import JobSources
from sql.spark.streaming.once import Once
from sql.spark.streaming.partitions import Partitions
from sql.spark.streaming.rights import Rights
from sql.spark.streaming.source_tables import SourceTables
from sql.spark.streaming.streaming_query import at_end, millis_of
from sql.spark.streaming.streams import StartPositions
from sql.spark.write.assign import assigned, literals
from sql.spark.write.writes import write
from sql.statements.base import ExecutionContext
from sql.statements.insert import Target
from table.format.manifests.entries import NewFile
from table.write.event_time import telling_time

_LOOK_SECONDS = 0.05
_LATE_ROWS = "lateRows"
_BATCH_BYTES = 1 << 30
"""Of a table's files in one batch, which is one commit."""


def check(context: ExecutionContext, insert: exp.Insert) -> StartPositions | None:
    """Raise what keeps an INSERT from running as a stream, before there is a job; None where all it reads is read as it is now.

    Otherwise where its tables begin, which is the job's for good: a batch that is repeated after a crash reads from the same place.
    """
    starts = StartPositions()
    sink = JobSink(context, insert, starts)
    sink.check_apart()
    sources = JobSources(context, insert)
    sources.alignment()
    with prepared(context, sink.query(), stream=not sources.are_one_batch, starts=starts) as query:
        sink.check(query.frame)
        return starts if query.frame.isStreaming or (sources.are_one_batch and sources.are_streamed) else None


class JobQuery:
    """One INSERT of a job that runs."""

    def __init__(self, context: ExecutionContext, job: Job, part: str, insert: exp.Insert, *, checkpoint: str, alone: bool) -> None:
        self._context = context
        self._records = JobRecords(context.lake.catalog)
        self._job = job
        self._part = part
        self._alone = alone
        self._insert = insert
        self._checkpoint = Checkpoint(checkpoint)
        self._starts = StartPositions(job.starts.get(part))
        self._sink = JobSink(context, insert, self._starts)
        self._query: StreamingQuery | Once | None = None
        self._rowtime: tuple[int, int] | None = None
        self._late: dict[int, int] = {}
        progress = job.source.get(part) or ()
        self._late_before: int = progress[0].get(_LATE_ROWS, 0) if progress else 0
        """Late rows of the job's earlier starts."""
        self._alignment: Alignment | None = None
        self._tables: SourceTables | None = None
        self._ready = threading.Event()
        self._reading: Reading | None = None
        self._rights: Rights | None = None
        self._topics: Sequence[Partitions] = ()
        self._stopping = self._passed = False
        self._problem: BaseException | None = None
        self._state: bool | None = None
        self._begun_before = NO_BATCH
        """The batch that an earlier start had planned, and that Spark does again."""
        self._applied = dict(job.applied.get(part, {}))

    def start(self, *, every: timedelta, drain: bool = False) -> None:
        """Begin, or go on from the checkpoint; ``drain``: only with what is there now, and what is held back comes out."""
        sources = JobSources(self._context, self._insert)
        drain = drain or self._checkpoint.is_drained  # once begun it is gone on with, whoever starts the job again
        if drain:
            check_drain(self._context, sources.query)
        now = drain or sources.end_now
        once = sources.are_one_batch
        ends = drain and sources.are_held_back
        starts = self._starts
        if self._sink.connector is None:
            self._sink.target()  # before the checkpoint is held to what it has
        last = None if once else self._agreed(keeps_state=sources.are_held_back)
        self._begun_before = NO_BATCH if once else max(self._checkpoint.planned(), default=NO_BATCH)
        with prepared(self._context, self._sink.query(), stream=not once, starts=starts, micro_batch=_BATCH_BYTES, drain=ends) as query:
            self._fix(starts, last)
            self._reading = query.reading
            self._rights = Rights(self._context, query.reading.tables, query.reading.sources)
            self._topics = query.topics
            self._sink.check(query.frame)
            self._rowtime = rowtime_of((given(query.frame) if self._sink.sifts else query.frame).schema)
            rule = sources.alignment()
            self._alignment = None if rule is None else Alignment(self._context.lake, rule, self._job.job_id, self._part)
            self._tables = SourceTables(self._context, sources.query)
            if once:
                self._query = Once(self._context, self._query_name, query.frame, self._take).start()
                self._ready.set()
                return
            writer = query.frame.writeStream.foreachBatch(self._take).option("checkpointLocation", self._checkpoint.location)
            writer = writer.trigger(availableNow=True) if now else writer.trigger(processingTime=f"{max(0, _ms(every))} milliseconds")
            try:
                self._query = writer.queryName(self._query_name).start()
            finally:
                self._ready.set()

    @property
    def _query_name(self) -> str:
        return f"{self._job.name}-{self._job.job_id}-{self._part}-{self._job.epoch}"

    def _agreed(self, *, keeps_state: bool) -> LastBatch:
        """The checkpoint's last batch, once it is the one the catalog knows; raises `JobCheckpointDamaged`."""
        in_target = None if self._sink.connector is not None else self._in_target
        return agreed(self._checkpoint, self._applied, keeps_state=keeps_state, in_target=in_target)

    def _in_target(self, checkpoint: str) -> InTarget:
        user, principal = f"{self._job.job_id}-{checkpoint}", self._context.lake.caller.principal
        return self._records.last_in(self._sink.tables(), user, by=principal)

    def _fix(self, starts: StartPositions, last: LastBatch | None) -> None:
        """Keep with the job where its tables begin, and whose its checkpoint is, before its first batch. Raises `JobLeaseLost`.

        A batch that the catalog has forgotten is noted again, without its rows, which nobody has counted.
        """
        lease = JobLease(job_id=self._job.job_id, epoch=self._job.epoch)
        if starts.known != self._job.starts.get(self._part, {}) or not (self._applied or last is None):
            self._records.begin(lease, self._part, starts.known, checkpoint=None if last is None else last.checkpoint)
        if last is None or last.batch <= self._applied.get("batch", NO_BATCH):
            return
        plan = {"plan": last.plan, "state": last.state}
        claim = BatchClaim(lease=lease, part=self._part, checkpoint=last.checkpoint, batch=last.batch, rows=0, watermark=None, plan=plan)
        self._records.note(claim)
        self._applied = {"checkpoint": last.checkpoint, "batch": last.batch, **plan}

    def _keep_aligned(self) -> None:
        """Wait while this query is too far ahead of its group."""
        if self._alignment is None:
            return
        watermark = ((self._progress() or {}).get("eventTime") or {}).get("watermark")
        self._alignment.advance((millis_of(watermark) or None) if watermark else None)
        self._alignment.wait(lambda: self._stopping)
        self._go_on()

    @property
    def ended(self) -> bool:
        """Whether it has ended, well or not."""
        query = self._query
        return query is not None and not query.isActive

    @property
    def passed(self) -> bool:
        """Whether a batch went well since it began, also one without rows."""
        return self._passed

    def outcome(self) -> BaseException | None:
        """Why it failed; None where it ended well, or was stopped. Asked when it has ended."""
        problem = self._problem
        if isinstance(problem, StreamEnded):
            return None
        try:
            if problem is None and self._query is not None:
                problem = self._query.exception()
        except Exception as gone:  # py4j has several for a JVM that is gone
            return gone
        if not isinstance(problem, PySparkException | Py4JError | ConnectionError):
            return problem
        failure = failure_of(problem, "", {}, self._context.spark.lost, self._reading)
        failure.__cause__ = problem
        return failure

    def at_end(self) -> bool:
        """Whether all that can ever come has come: every source's offset says so."""
        with contextlib.suppress(Exception):  # a JVM that is gone tells nothing
            return at_end(self._progress(), self._query)
        return False

    def progress(self) -> list[dict[str, Any]]:
        """What each source has given: its offsets as Spark tells them."""
        progress = self._progress()
        for topic in self._topics:
            topic.look(progress)
        wanted = ("description", "startOffset", "endOffset", "latestOffset", "numInputRows", "metrics")
        if progress is None:  # no batch has ended since this start: what is known of the earlier ones is not forgotten
            return [{_LATE_ROWS: self._late_before}] if self._late_before else []
        sources = [
            {key: _parsed(source[key]) if key.endswith("Offset") else source[key] for key in wanted if source.get(key) is not None}
            for source in progress["sources"]
        ]
        if self._tables is not None:
            self._tables.complete(sources)
        if sources and (late := self._late_rows()):
            sources[0][_LATE_ROWS] = late
        if sources and self._alignment is not None:
            sources[0]["alignment"] = self._alignment.told(over=self.ended or self.at_end())
        return sources

    def _late_rows(self) -> int:
        """Rows dropped so far because all their windows had ended, as Spark counts them: once a window and group."""
        query = self._query
        recent: list[Any] = []
        with contextlib.suppress(Exception):  # a JVM that is gone tells nothing
            recent = list(query.recentProgress) if query is not None else []
        for progress in recent:
            fields = progress if isinstance(progress, Mapping) else progress.jsonValue
            dropped = sum(operator.get("numRowsDroppedByWatermark", 0) for operator in fields.get("stateOperators", ()))
            self._late[fields["batchId"]] = max(dropped, self._late.get(fields["batchId"], 0))
        return self._late_before + sum(self._late.values())

    def _progress(self) -> Mapping[str, Any] | None:
        query = self._query
        try:
            progress: Any = query.lastProgress if query is not None else None
        except Exception:  # a JVM that is gone tells nothing
            return None
        return progress if progress is None or isinstance(progress, Mapping) else progress.jsonValue

    def ask_to_stop(self) -> None:
        """Let no further batch begin."""
        self._stopping = True

    def stop(self, *, patience: float) -> None:
        """End when the batch in flight has ended, or after so many seconds."""
        self._stopping = True
        until = time.monotonic() + patience
        try:
            if (query := self._query) is not None:
                while time.monotonic() < until and query.isActive and query.status["isTriggerActive"]:
                    time.sleep(_LOOK_SECONDS)
                query.stop()
        finally:  # also where the JVM is gone
            for topic in self._topics:
                topic.close()

    def _take(self, frame: DataFrame, number: int) -> None:
        """One micro-batch, on a thread of Spark's."""
        with self._alignment.batch() if self._alignment is not None else contextlib.nullcontext():
            self._take_one(frame, number)

    def _take_one(self, frame: DataFrame, number: int) -> None:
        try:
            self._go_on()
            self._ready.wait()
            assert self._query is not None
            assert self._rights is not None
            self._keep_aligned()
            self._context = self._sink.context = self._rights.now()
            for topic in self._topics:
                topic.check()
            checkpoint = str(self._query.id)
            if self._applied.get("checkpoint") == checkpoint and self._applied["batch"] >= number:
                require_same(self._checkpoint, self._applied, number)
                # Its rows are written; what it leaves in the state Spark may not have had on disk. Also where that is whole it runs: Spark
                # fails a batch of which a store has committed nothing.
                if self._keeps_state():
                    self._require_files(number)
                    frame.write.format("noop").mode("overwrite").save()
                return
            self._require_files(number)
            self._checkpoint.keep_plan(number)
            if self._sink.connector is not None:
                self._passed_on(frame, number, checkpoint)
            else:
                self._commit(frame, number, checkpoint)
            self._passed = True
        except BaseException as problem:
            self._problem = problem
            raise

    def _require_files(self, number: int) -> None:
        """Of a batch that is done again its files must be there: Spark passes over those that are gone."""
        if number == self._begun_before:
            require_files(self._checkpoint, number, self._go_on)

    def _go_on(self) -> None:
        if self._stopping:
            raise StreamEnded("The job is stopping.")

    def _claim(self, number: int, checkpoint: str, *, rows: int, watermark: int | None) -> BatchClaim:
        lease = JobLease(job_id=self._job.job_id, epoch=self._job.epoch)
        plan = None if isinstance(self._query, Once) else self._planned(number)
        return BatchClaim(
            lease=lease,
            part=self._part,
            checkpoint=checkpoint,
            batch=number,
            rows=rows,
            watermark=watermark,
            plan=plan,
            alone=self._alone,
        )

    def _planned(self, number: int) -> Mapping[str, Any]:
        """Which rows a batch is, for the catalog, which says where to go on; the same every time it is asked."""
        return {"plan": self._checkpoint.plan(number), "state": self._keeps_state()}

    def _keeps_state(self) -> bool:
        """Whether the query keeps more than positions, once its first batch has run."""
        if self._state is None:
            self._state = bool(self._applied.get("state")) or self._checkpoint.holds_state
        return self._state

    def _passed_on(self, frame: DataFrame, number: int, checkpoint: str) -> None:
        """A batch for a sink that has no commits: it is noted when it has been written, and written again where that is not noted."""
        rows = self._sink.pass_on(frame)
        self._records.note(self._claim(number, checkpoint, rows=rows, watermark=None))

    def _commit(self, frame: DataFrame, number: int, checkpoint: str) -> None:
        target = self._sink.target()
        aside = self._sink.aside()
        if aside is None:
            fitted = assigned(frame, target.table.schema, target.columns, literals(target.fixed), str(target.table.identifier))
            self._commit_rows(fitted, target, number, checkpoint)
            return
        sifted = Sifted(frame, target)
        try:
            with aside.table.write() as written:
                if not sifted.all_fit():
                    source = None if isinstance(self._query, Once) else self._checkpoint.sources(number)
                    bad = sifted.bad(aside, job=str(self._job.job_id), batch=number, source=source)
                    written.add(before_commit(aside.table, write(frame.sparkSession, bad, aside.table)))
                self._commit_rows(sifted.good(), target, number, checkpoint, (aside.table, written) if written.files else None)
        finally:
            sifted.close()

    def _commit_rows(
        self, fitted: DataFrame, target: Target, number: int, checkpoint: str, aside: tuple[LakeTable, Write] | None = None
    ) -> None:
        """Write a batch's rows and commit them, in one transaction with those that were put aside."""
        with target.table.write() as written:
            rowtime = self._rowtime_in(target)
            table = target.table
            if rowtime is not None:
                table = replace(table, schema=telling_time(table.schema, rowtime[0]))
            files = written.add(before_commit(table, write(fitted.sparkSession, fitted, table)))  # both tell the time
            watermark = self._watermark_of(number, files, target, rowtime)
            moves = bool(files) or self._moves(target.table.latest(), watermark)
            if not moves and aside is None:
                return
            if self._alignment is not None:
                self._alignment.advance(watermark)
            claim = self._claim(number, checkpoint, rows=written.rows, watermark=watermark)
            request = written.request(CommitKind.APPEND, commit_user=claim.commit_user, commit_identifier=number, watermark=watermark)
            if aside is None:
                self._context.lake.commit(target.table, request, claim=claim)
            else:
                bad = aside[1].request(CommitKind.APPEND, commit_user=claim.commit_user, commit_identifier=number)
                self._context.lake.commit_all([*[(target.table, request)] * moves, (aside[0], bad)], claim=claim)
        self._applied = {"checkpoint": checkpoint, "batch": number, **(claim.plan or {})}
        if claim.plan is not None:
            note = partial(self._checkpoint.note_committed, number)  # which the next batch does, too: this one is decided
            follow(note, f"Job {self._job.job_id} could not note in its checkpoint which batch it has committed")

    def _rowtime_in(self, target: Target) -> tuple[str, int] | None:
        """The target's column that holds the source's event time as it was read, and its watermark's delay in milliseconds."""
        if self._rowtime is None:
            return None
        at, delay = self._rowtime
        names = target.columns or [f.name for f in target.table.schema.fields if f.name not in target.fixed]
        return names[at], delay

    def _watermark_of(self, number: int, files: Sequence[NewFile], target: Target, rowtime: tuple[str, int] | None) -> int | None:
        if self._topics:  # what the batch itself holds of each partition is not known yet
            reached = self._checkpoint.watermark(number)
            return None if reached is None or is_far_ahead(reached) else reached
        progress = self._progress()
        return batch_watermark(Batch(number=number, files=files, progress=progress, schema=target.table.schema, rowtime=rowtime))

    @staticmethod
    def _moves(latest: Any, watermark: int | None) -> bool:
        """Whether a batch without rows is worth a snapshot: it carries a watermark further."""
        return watermark is not None and (latest is None or latest.watermark is None or latest.watermark < watermark)


def _ms(span: timedelta) -> int:
    return int(span.total_seconds() * 1000)


def _parsed(offset: Any) -> Any:
    """An offset as Spark's progress has it: JSON in a text."""
    try:
        return json.loads(offset) if isinstance(offset, str) else offset
    except ValueError:
        return offset
