"""The maintenance of one table: what its commits left to compact, and the compaction."""

from __future__ import annotations

import datetime as dt
import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from lake import Lake, LakeTable
from lake.rewrite.compaction import Compacted, Rewriter, check_mergeable, compact, in_this_process, plan
from maintenance.records import RunNote
from maintenance.retention import Retention
from model.errors import UnsupportedType
from model.identifier import MAIN_BRANCH, Identifier
from model.options.table import TABLE_OPTIONS
from model.snapshot import CommitKind, Snapshot
from model.work.work_limits import MaintenanceLimits
from table.compaction.backlog import BacklogLedger, CompactionBacklog, due
from table.compaction.candidates import BucketKey, CompactionRules
from table.format.deletions import deletions_of

_log = logging.getLogger(__name__)
_SPARK_BYTES = 1 << 30
"""Input from which the merging is spread over Spark's executors."""
_HOT_FILES = 20.0
"""Small files a second from which merging begins at half of `compaction.max.file-num`: by the time it ends as many will have come."""
_LONGEST_DELTAS = 500
"""Snapshots followed one by one; after a longer absence the table is read anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerContext:
    """What runners work with."""

    lake: Lake
    limits: MaintenanceLimits
    server: str
    background: Callable[[str], AbstractContextManager[Any]] | None
    """Gives a Spark session below users' statements; None where Spark does not run."""
    check: Callable[[UUID], None]
    """Raises where the work on a table must stop: the server ends, or another one maintains the table."""


class MaintenanceRunner:
    """What this process knows of one table it maintains; used by one thread at a time."""

    def __init__(self, context: RunnerContext, table_id: UUID, identifier: Identifier) -> None:
        self._context = context
        self._table_id = table_id
        self.identifier = identifier
        self.seen: str | None = None
        """The key of the snapshot up to which commits were followed."""
        self._seen_id = 0
        self._ledger: BacklogLedger | None = None
        self.schema_id = -1
        """Of the schema by whose options it was looked at last."""
        self.looked = 0.0
        """When the last look ended (monotonic)."""
        self._next_look: float | None = None
        """When something of what was found falls due by time (monotonic); None where only a commit can make it."""
        self._followed = 0.0
        self._speed = 0.0
        self._written: set[BucketKey] = set()
        """Buckets that got small files since the last full compaction, of a table that has these."""
        self._commits = 0
        self._deletions: str | None = None
        """The index manifest whose deleted rows were looked at."""
        self.retention = Retention(context.lake, table_id, identifier)
        self.failures = 0
        self._told: str | None = None
        """Why its files are not merged, as the log was told."""

    def wants_time(self, now: float) -> bool:
        """Whether something is due though nothing was committed: files that lie long enough."""
        return self._next_look is not None and now >= self._next_look

    def settled_for(self, now: float) -> float | None:
        """For how many seconds nothing is to be done unless something is committed or its options change; None where something is."""
        if self.seen is None or self.failures or self.retention.failures:
            return None
        quiet = self.retention.settled_for(now, self.seen)
        if quiet is None or self._next_look is None:
            return quiet
        return min(quiet, max(0.0, self._next_look - now))

    @property
    def idle(self) -> bool:
        """Whether nothing is known of it that a look at its files would not tell again."""
        return not self._ledger and not self._written

    @property
    def debt(self) -> CompactionBacklog:
        """The table's small files as of the last look."""
        ledger = self._ledger
        return CompactionBacklog() if ledger is None else ledger.total()

    def work(self) -> None:
        """Follow the commits, and merge what is due; where that fails it is due again, though nothing is committed."""
        self._next_look = None
        try:
            self._work()
        except BaseException:
            self._next_look = time.monotonic()
            raise
        finally:
            self.looked = time.monotonic()

    def _work(self) -> None:
        table = self._context.lake.open(self.identifier)
        if table.table_id != self._table_id:
            return
        latest = table.latest()
        if latest is None:
            return
        if TABLE_OPTIONS.read(table.schema.options, "write-only"):
            self.seen, self.schema_id, self._ledger = latest.key, table.schema.id, None
            return
        if (reason := _unmergeable(table)) is not None:
            if reason != self._told:
                _log.info("What is too old goes, and files are not merged: %s", reason)
            self.seen, self.schema_id, self._ledger, self._told = latest.key, table.schema.id, None, reason
            return
        self._follow(table, latest)
        # A compaction writes before it frees: where space is short it waits, and readyz, metrics and pages say why. It also waits for
        # changes of rows that have lost a race: a table that is merged again and again would make them lose forever.
        lake, quiet = self._context.lake, self._context.limits.quiet_now(dt.datetime.now().time())
        if not quiet and lake.reserve.short() is None and not lake.changing_rows.somebody_anywhere((self._table_id, MAIN_BRANCH)):
            self._merge_due(table)
            self._merge_deleted(table)
            self._merge_full(table)
        self._next_look = self._falls_due(table)

    def _falls_due(self, table: LakeTable) -> float | None:
        """When files lie long enough to be merged; what is due already and was not merged (quiet hours, no space) is tried again."""
        ledger, patience, now = self._ledger, self._context.limits.patience, time.monotonic()
        assert ledger is not None
        moments: list[float] = []
        for _, debt in ledger.items():
            if due(table.schema, debt, ledger.rules, now=now, patience=patience) is not None:
                moments.append(now + patience)
            elif due(table.schema, debt, ledger.rules, now=debt.changed + patience, patience=patience) is not None:
                moments.append(debt.changed + patience)
        if self._full_is_due(table) or self._deleted_are_due(table.latest()):
            moments.append(now + patience)
        return min(moments, default=None)

    def _follow(self, table: LakeTable, latest: Snapshot) -> None:
        """Bring the ledger up to the latest snapshot: by its deltas, or anew where that cannot be."""
        now = time.monotonic()
        try:
            if self._ledger is None or self.schema_id != table.schema.id or latest.id < self._seen_id:
                self._begin(table, latest)
            elif latest.key != self.seen:
                snapshots = self._between(table, latest)
                if snapshots is None:
                    self._begin(table, latest)
                else:
                    self._apply(table, self._ledger, snapshots, now)
        except BaseException:  # what is counted in part would be counted twice
            self._ledger = None
            raise
        self.seen, self._seen_id, self._followed = latest.key, latest.id, now

    def _begin(self, table: LakeTable, latest: Snapshot) -> None:
        rules = CompactionRules.of(table.schema, task_bytes=self._context.limits.job_bytes)
        self._ledger = BacklogLedger(rules, time.monotonic)
        self.schema_id = table.schema.id
        self._context.check(self._table_id)
        self._ledger.begin(table.files.live(table.files.manifests_of(latest)).sums(below=rules.small_bytes))

    def _apply(self, table: LakeTable, ledger: BacklogLedger, snapshots: Sequence[Snapshot], now: float) -> None:
        added, full = 0, _full_every(table) is not None
        if not full:
            self._written, self._commits = set(), 0
        for snapshot in snapshots:
            entries = list(table.files.delta_entries(snapshot))
            grown = ledger.apply(entries)
            if snapshot.commit_kind is CommitKind.COMPACT:
                continue
            added += len(entries)
            if full:
                self._written |= grown
                self._commits += 1
        self._speed = added / max(now - self._followed, 0.05)

    def _between(self, table: LakeTable, latest: Snapshot) -> list[Snapshot] | None:
        """The snapshots after the one seen last; None where some are gone or another history took their place."""
        if latest.id - self._seen_id > _LONGEST_DELTAS:
            return None
        ids = range(self._seen_id, latest.id + 1)
        with self._context.lake.catalog.reading() as tx:
            rows = tx.snapshots.since(table.table_id, table.identifier.branch, self._seen_id, limit=len(ids))
        if [row.snapshot_id for row in rows] != list(ids) or rows[0].snapshot_uuid != self.seen:
            return None
        return [Snapshot.from_json(row.body) for row in rows[1:]]

    def _merge_due(self, table: LakeTable) -> None:
        ledger = self._ledger
        assert ledger is not None
        rules = ledger.rules
        if table.schema.bucket > 0 and self._speed >= _HOT_FILES:
            rules = replace(rules, max_files=max(rules.min_files, rules.max_files // 2))
        now = time.monotonic()
        reasons: dict[BucketKey, str] = {}
        for key, debt in ledger.items():
            reason = due(table.schema, debt, rules, now=now, patience=self._context.limits.patience)
            if reason is not None:
                reasons[key] = reason
        for reason in sorted(set(reasons.values())):
            keys = [key for key, why in reasons.items() if why == reason]
            self._merge(table, keys, reason, rules=rules, all_of_them=reason == "age")

    def _merge_deleted(self, table: LakeTable) -> None:
        """`compaction.delete-ratio-threshold`: files that other clients have deleted many rows of, whenever there are other deletions."""
        latest = table.latest()
        if latest is None or not self._deleted_are_due(latest):
            return
        keys = {(partition, bucket) for partition, bucket, _ in deletions_of(table.files, table.schema, latest)}
        if not self._merge(table, sorted(keys), "deleted-rows"):
            self._deletions = latest.index_manifest

    def _deleted_are_due(self, latest: Snapshot | None) -> bool:
        return latest is not None and latest.index_manifest not in (None, self._deletions)

    def _merge_full(self, table: LakeTable) -> None:
        """`full-compaction.delta-commits`: every so many commits the buckets written since are merged whole."""
        if not self._full_is_due(table):
            return
        self._written = self._merge(table, list(self._written), "delta-commits", full=True)
        if not self._written:
            self._commits = 0

    def _full_is_due(self, table: LakeTable) -> bool:
        every = _full_every(table)
        return every is not None and self._commits >= every and bool(self._written)

    def _merge(
        self,
        table: LakeTable,
        keys: list[BucketKey],
        reason: str,
        *,
        full: bool = False,
        all_of_them: bool = False,
        rules: CompactionRules | None = None,
    ) -> set[BucketKey]:
        """Merge what is worth it of some buckets; returns those of which something waits for space."""
        context = self._context

        def check() -> None:
            context.check(self._table_id)

        try:
            partitions, buckets = {key[0] for key in keys}, {key[1] for key in keys}
            tasks = plan(
                table,
                full=full,
                partitions=partitions,
                buckets=buckets,
                all_of_them=all_of_them,
                task_bytes=context.limits.job_bytes,
                rules=rules,
            )
        except UnsupportedType:
            return set()
        sized = [(task, context.lake.reserve.fits(task.input_bytes)) for task in tasks]
        waiting = {(task.partition, task.bucket) for task, fits in sized if not fits}
        # Of a full compaction a bucket waits whole: what is rewritten of it now would be rewritten again with the rest.
        tasks = [task for task, fits in sized if fits and not (full and (task.partition, task.bucket) in waiting)]
        if not tasks:
            return waiting
        note = RunNote(context.lake, self._table_id, reason=reason, server=context.server)
        note.running(tasks)
        try:
            for task in tasks:  # one at a time: each is a commit of its own, and a race lost costs that one alone
                check()
                with context.lake.reserve.promise(task.input_bytes):
                    note.done += self._one(table, task, check)
                note.running(tasks)
        except BaseException as problem:
            note.failed(problem)
            raise
        note.ended()
        return waiting

    def _one(self, table: LakeTable, task: Any, check: Callable[[], None]) -> Compacted:
        if task.level is not None:  # sorting is Spark's; without it the files wait
            if self._context.background is None:
                return Compacted()
            with self._context.background(spark_name(table.table_id)) as session:
                return compact(self._context.lake.commit, table, [task], rewriter=_clustering(session), check=check)
        if task.input_bytes < _SPARK_BYTES or self._context.background is None:
            return compact(self._context.lake.commit, table, [task], rewriter=in_this_process, check=check)
        with self._context.background(spark_name(table.table_id)) as session:
            return compact(self._context.lake.commit, table, [task], rewriter=_spark(session), check=check)


def spark_name(table_id: UUID) -> str:
    """Under which Spark knows the jobs of a table's compaction."""
    return f"compaction-{table_id}"


def _unmergeable(table: LakeTable) -> str | None:
    """Why files of a table cannot be written here; None where they can."""
    try:
        check_mergeable(table)
    except UnsupportedType as refusal:
        return refusal.message
    return None


def _full_every(table: LakeTable) -> int | None:
    """After how many commits the buckets that were written are merged whole; None for a table without that."""
    every: int | None = TABLE_OPTIONS.read(table.schema.options, "full-compaction.delta-commits")
    return every if table.schema.bucket > 0 else None


def _clustering(session: Any) -> Rewriter:
    from sql.spark.write.sorting import cluster_files

    return cluster_files(session)


def _spark(session: Any) -> Rewriter:
    from sql.spark.write.compaction import on_spark

    return on_spark(session)
