"""Streams of tables, as a caller may read them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from datetime import timedelta

from catalog.records import TableRow
from lake.access.guard import asks_itself, needs
from lake.base import LakeBase
from lake.register.expired import forget_expired
from lake.streams.snapshot_steps import TICK_SECONDS, FollowRules, TableStream
from lake.tables.consumers import ConsumerProgress
from lake.tables.handle import LakeTable
from model.access import Access, ReadRules, table_resource
from model.errors import Forbidden, TableNotExist
from model.identifier import MAIN_BRANCH, Identifier
from model.options.table import TABLE_OPTIONS
from model.predicate import Predicate
from model.snapshot import Snapshot
from table.scan.stream import Cursor, StreamRules
from table.scan.stream_start import Past, resumed, start_of

LEAST_DISCOVERY = timedelta(milliseconds=100)
"""How often at most a stream looks for news by itself; Paimon's option may say that it never pauses."""


class LakeStreams(LakeBase):
    """Following tables."""

    @needs(Access.SELECT)
    def follow(self, table: LakeTable, options: Mapping[str, str], *, predicate: Predicate | None = None, zone: str = "UTC") -> TableStream:
        """The rows of a table from where the options say, and then every new one; whoever takes the stream closes it.

        ``predicate`` lets files be skipped. A 'consumer-id' needs the right to UPDATE: its progress holds back what may expire.
        Raises `InvalidOption`, `SnapshotNotExist` for a start that has expired, and `Forbidden` where a part of the table is kept
        from the caller.
        """
        cursor, consumer = self._begin(table, options, zone)
        return TableStream(
            self.catalog,
            table,
            cursor,
            _rules(options),
            reopen=lambda: self._reopen(table),
            among=self.open_streams,
            predicate=predicate,
            consumer=consumer,
            who=self.caller.principal,
            rights=self.caller,
        )

    @needs(Access.SELECT)
    def stream_start(self, table: LakeTable, options: Mapping[str, str], *, zone: str = "UTC") -> Cursor:
        """Where a stream with these options begins now, for one that is read elsewhere; raises what `follow` raises."""
        return self._begin(table, options, zone)[0]

    @needs(Access.SELECT)
    def require_stream(self, table: LakeTable, options: Mapping[str, str]) -> str | None:
        """The consumer the options name, None where they name none; raises `Forbidden` where the caller may not follow the table so."""
        self._whole_table(table)
        name: str | None = TABLE_OPTIONS.read(options, "consumer-id")
        if name is not None:
            self.caller.require(Access.UPDATE, table_resource(table.identifier))
        return name

    def _begin(self, table: LakeTable, options: Mapping[str, str], zone: str) -> tuple[Cursor, ConsumerProgress | None]:
        name = self.require_stream(table, options)
        past = self._past(table)
        cursor = start_of(past, options, zone=zone)
        if name is None:
            return cursor, None
        consumer, stored = ConsumerProgress.take(self.catalog, table, name, require_own=self.standing.require_own)
        if stored is not None and not TABLE_OPTIONS.read(options, "consumer.ignore-progress"):
            cursor = resumed(past, name, stored)
        return cursor, consumer

    @asks_itself
    def wait_beyond(self, table: LakeTable, known: int, seconds: float, *, most_waiters: int, stopping: Callable[[], bool]) -> None:
        """Come back when the table's newest snapshot is not the known one, or after so many seconds; at once where too many wait.

        Of these half may be one principal's. Whoever could open the table may know it.
        """
        with self.open_streams.waiting.place(self.caller.principal, most_waiters) as may:
            if may:
                self._wait_beyond(table, known, seconds, stopping=stopping)

    @asks_itself
    def wake_waiting(self) -> None:
        """Let all who wait for snapshots, of whatever table, look whether they are to stop; it tells nobody anything."""
        self.catalog.notices.wake_all()

    def _wait_beyond(self, table: LakeTable, known: int, seconds: float, *, stopping: Callable[[], bool]) -> None:
        branch = table.identifier.branch
        news = threading.Event()
        news.set()
        until = time.monotonic() + seconds
        unsubscribe = self.catalog.notices.subscribe(table.table_id, branch, news.set)
        try:
            while not stopping() and (left := until - time.monotonic()) > 0:
                if not news.wait(min(left, TICK_SECONDS)):
                    continue
                news.clear()
                with self.catalog.reading() as tx:
                    latest = tx.snapshots.latest(table.table_id, branch)
                if latest is not None and latest.snapshot_id != known:
                    return
        finally:
            unsubscribe()

    def _past(self, table: LakeTable) -> Past:
        table.latest()  # publishes what is decided: a start may be told to other clients
        forget_expired(self.catalog, table)
        with self.catalog.reading() as tx:
            rows = tx.snapshots.history(table.table_id, table.identifier.branch)
        return Past(table=str(table.identifier), snapshots=[Snapshot.from_json(row.body) for row in rows])

    @asks_itself
    def rules_now(self, table: LakeTable) -> ReadRules:
        """What the caller sees of the table wherever it is now; raises `Forbidden` where that is nothing, and `TableNotExist`."""
        return self.read_rules(self._moved(table))

    def _reopen(self, table: LakeTable) -> LakeTable:
        """The same table where and what it is now; raises `TableNotExist`, `Forbidden`, or `NotAuthorized` for a revoked token."""
        opened = self._moved(table)
        self.for_caller(self.access.renewed(self.caller))._whole_table(opened)
        return opened

    def _moved(self, table: LakeTable) -> LakeTable:
        def look() -> TableRow:
            with self.catalog.reading() as tx:
                row = tx.tables.by_id(table.table_id)
                if row is not None and table.identifier.branch != MAIN_BRANCH:
                    row = tx.tables.find(Identifier(row.database, row.name, table.identifier.branch))
            if row is None:
                raise TableNotExist(str(table.identifier))
            return row

        return self._found_ready(look)[1]

    def _whole_table(self, table: LakeTable) -> None:
        if self.read_rules(table).restricted:
            raise Forbidden(
                f"{self.caller.principal} sees only a part of table {table.identifier}, and streams of a part are not available; "
                "a query in batch mode shows it."
            )


def _rules(options: Mapping[str, str]) -> FollowRules:
    return FollowRules(
        stream=StreamRules(
            overwrites=TABLE_OPTIONS.read(options, "streaming-read-append-overwrite"),
            sort_partitions=TABLE_OPTIONS.read(options, "scan.plan-sort-partition"),
        ),
        discovery=max(LEAST_DISCOVERY, TABLE_OPTIONS.read(options, "continuous.discovery-interval")),
        bounded_watermark=TABLE_OPTIONS.read(options, "scan.bounded.watermark"),
        delay=TABLE_OPTIONS.read(options, "streaming.read.snapshot.delay"),
    )
