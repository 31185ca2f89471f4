"""A table's snapshots as one query reads them: planned under the schema it began with, heard of as they are made."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence

from cachetools import LRUCache

from model.errors import LakeError, SnapshotNotExist, StreamChanged, Unavailable
from model.options.table import TABLE_OPTIONS, stream_options
from model.predicate import Predicate
from model.schema.schema import Schema
from model.snapshot import Snapshot
from pyspark_sluice.catalog import RemoteTable
from pyspark_sluice.options import SourceOptions
from pyspark_sluice.position import Position
from pyspark_sluice.pushed import predicate_of
from table.format.rows.arrow import arrow_type
from table.format.store import TableFiles
from table.retention.expiry import ExpiryRules
from table.scan.planning.entry_scan import PlannedFile
from table.scan.stream import Cursor, SettledOrder, StreamRules, beyond, plan_next
from table.scan.stream_start import Past, expired, resumed, rolled_back, start_of

_MOST_WAIT_SECONDS = 10.0
_MOST_PASSED, _MOST_PASSED_SECONDS = 100, 60.0
"""A position stays before so many snapshots that have nothing for the query (compactions, files that are left out), and for so long."""
_OF_RETENTION = 10
"""Or for this part of the time that snapshots are kept, and before half of as many as are kept."""


class History:
    """What a streaming query knows of its table; used by one thread, with another that listens."""

    def __init__(self, table: RemoteTable, schema: Schema | None, options: SourceOptions, columns: Sequence[str]) -> None:
        self._table = table
        self.schema = schema or table.schema
        self._columns = frozenset(columns)
        self._zone = options.zone
        self._start = options.start
        self._options: Mapping[str, str] = stream_options(self.schema.options, options.scan)
        self._rules = StreamRules(
            overwrites=TABLE_OPTIONS.read(self._options, "streaming-read-append-overwrite"),
            sort_partitions=TABLE_OPTIONS.read(self._options, "scan.plan-sort-partition"),
        )
        most: int = TABLE_OPTIONS.read(self._options, "scan.max-snapshot.count")
        self.most_snapshots = most if most > 0 else None
        """Snapshots with rows that a micro-batch takes at most."""
        self._bound: int | None = TABLE_OPTIONS.read(self._options, "scan.bounded.watermark")
        self._delay = TABLE_OPTIONS.read(self._options, "streaming.read.snapshot.delay")
        self.consumer: str | None = TABLE_OPTIONS.read(self._options, "consumer-id")
        """The name under which the query's progress is kept; None without one."""
        self._predicate = predicate_of(options.filter)
        self._order = SettledOrder()
        self._plans: LRUCache[tuple[str, str, Cursor, StreamRules, bool], tuple[PlannedFile, ...]] = LRUCache(64)
        self._checked: set[int] = {self.schema.id}
        self._told: int | None = None
        self._not_over: int | None = None
        self._listener: _Listener | None = None

    @property
    def files(self) -> TableFiles:
        """The table's files, where they are now."""
        return self._table.files

    def close(self) -> None:
        """Listen no more."""
        if self._listener is not None:
            self._listener.close()  # which waits for an answer and lets go of the server then
        else:
            self._table.close()

    def start(self) -> Position:
        """Where a query without a checkpoint begins; raises what `start_of` raises."""
        if self._start is not None:
            return Position.from_text(self._start)
        past = Past(table=str(self._table.identifier), snapshots=self._table.history())
        cursor = start_of(past, self._options, zone=self._zone)
        if self.consumer is not None and not TABLE_OPTIONS.read(self._options, "consumer.ignore-progress"):
            stored = self._table.consumers().get(self.consumer)
            cursor = cursor if stored is None else resumed(past, self.consumer, stored)
        return Position(cursor=cursor)

    def newest(self) -> int:
        """The newest snapshot's id; 0 for a table never written."""
        latest = self._table.latest()
        return latest.id if latest else 0

    def snapshots(self, start: Position, *, patience: float, before: int | None) -> Iterator[Snapshot]:
        """The snapshots from a position on, as far as they may be read; waits for so many seconds where there is none.

        `streaming.read.snapshot.delay` holds back neither the starting snapshot nor the first one beyond the end, as in Paimon.
        """
        if self._listener is None:
            self._listener = _Listener(self._table, self.newest())
        newest = self._listener.beyond(start.snapshot - 1, patience)
        # One that ends with what is there asks no second time; another one hears of a rollback with the next snapshot at the latest.
        known = start.cursor.known
        if known is not None and newest < known[0]:
            raise self._rolled_back(start.cursor)
        if before is not None or newest >= start.snapshot:
            self.require_past(start)
        for snapshot in self.between(start, min(newest + 1, before or newest + 1)):
            starts = start.cursor.whole and snapshot.id == start.snapshot
            if not starts and not self.beyond(snapshot) and self._is_young(snapshot):
                return
            yield snapshot

    def _is_young(self, snapshot: Snapshot) -> bool:
        return self._delay is not None and snapshot.time_millis / 1000 + self._delay.total_seconds() > time.time()

    def beyond(self, snapshot: Snapshot) -> bool:
        """Whether the stream ends before a snapshot."""
        return beyond(snapshot, self._bound)

    def is_to_be_left(self, first: Snapshot, passed: int) -> bool:
        """Whether a position goes on behind so many snapshots that have nothing, the first of which it names: that one may expire."""
        rules = ExpiryRules.of(self.schema)
        seconds = min(_MOST_PASSED_SECONDS, rules.retained.total_seconds() / _OF_RETENTION)
        most = _MOST_PASSED if rules.at_most is None else min(_MOST_PASSED, rules.at_most // 2)
        return passed >= max(1, most) or (passed > 0 and time.time() - first.time_millis / 1000 >= seconds)

    def over_before(self, start: Position) -> bool:
        """Whether a stream that reads nothing of the past begins beyond its bound already."""
        if self._bound is None or start.cursor.whole or start.inside or start.snapshot == self._not_over:
            return False
        before = self.files.read_snapshot(start.snapshot - 1)
        if before is not None and not self.beyond(before):
            self._not_over = start.snapshot  # which stays so
        return before is not None and self.beyond(before)

    def between(self, start: Position, before: int) -> Iterator[Snapshot]:
        """The snapshots from a position on and before an id; raises `SnapshotNotExist` where one of them has expired.

        One whose file alone is gone, while the catalog and its neighbours still have it, is damage: expiry takes the oldest first.
        """
        for snapshot_id in range(start.snapshot, before):
            snapshot = self._snapshot(snapshot_id)
            if snapshot is None:
                past = Past(table=str(self._table.identifier), snapshots=self._table.history())
                if not any(known.id == snapshot_id for known in past.snapshots):
                    raise expired(past, snapshot_id, f"The stream of table {self._table.identifier}")
                snapshot = self.files.read_snapshot(snapshot_id)  # as the server puts its file there before it answers
                if snapshot is None:
                    raise self.files.damaged(self.files.layout.snapshot_file(snapshot_id), "is missing between snapshots that are there")
            yield snapshot

    def _snapshot(self, snapshot_id: int) -> Snapshot | None:
        """One of the past, from its file: that is there before anybody is told of it."""
        snapshot = self.files.read_snapshot(snapshot_id)
        if snapshot is None:  # the table may have moved
            self._table.reopen()
            snapshot = self.files.read_snapshot(snapshot_id)
        return snapshot

    def _is_past(self, snapshot_id: int, key: str) -> bool:
        """Whether a snapshot is still the table's past; of what has expired the server knows the last."""
        snapshot = self._snapshot(snapshot_id)
        if snapshot is not None:
            return snapshot.stands_for(key)
        return snapshot_id <= self.newest() and self._table.is_past(snapshot_id, key)

    def require_past(self, position: Position) -> None:
        """Raise `SnapshotNotExist` where the snapshot on which a position builds is none of the table's past any more."""
        known = position.cursor.known
        if known is not None and not self._is_past(*known):
            raise self._rolled_back(position.cursor)

    def _rolled_back(self, cursor: Cursor) -> SnapshotNotExist:
        again = "Start the query, or a job's INSERT, again with a new checkpoint and the 'scan.snapshot-id' where its rows are to begin."
        return rolled_back(str(self._table.identifier), cursor, f". {again}")

    def planned(self, snapshot: Snapshot, position: Position) -> tuple[PlannedFile, ...]:
        """The files a snapshot brings a stream that reads it next, in order; in this process the same each time it is asked."""
        return self._planned(snapshot, position, self._predicate)

    def _planned(self, snapshot: Snapshot, position: Position, predicate: Predicate | None) -> tuple[PlannedFile, ...]:
        rules = self._rules_at(position)
        # Whatever the cursor knows of the table, the files are the same; those of a table that has moved lie elsewhere.
        key = (self.files.location, snapshot.key, position.cursor, rules, predicate is None)
        plan = self._plans.get(key)
        if plan is None:
            plan = plan_next(self.files, self.schema, snapshot, position.cursor, rules, self._order, predicate)
            self._plans[key] = plan
        return plan

    def _rules_at(self, position: Position) -> StreamRules:
        """A snapshot that was begun is read to its end as it was begun, whatever the options say by now."""
        return self._rules if position.file is None else StreamRules(overwrites=True, sort_partitions=position.sorted)

    def standing(self, snapshot: Snapshot, position: Position) -> tuple[int, int]:
        """How many of a snapshot's planned files lie before a position, and how many rows of the one behind them.

        The position names its file: one that was counted among others, as another start leaves out more or fewer, is looked for among
        all files, whose order is the same. Raises `TableDamaged` where it is none of them.
        """
        planned = self.planned(snapshot, position)
        count = position.files
        if position.file is None or (count < len(planned) and self._name(planned[count]) == position.file):
            return count, position.rows
        order = {self._name(one): number for number, one in enumerate(self._planned(snapshot, position, None))}
        if position.file not in order:
            problem = "is no file of the snapshot any more"
            raise self.files.damaged(position.file, problem, snapshot_id=snapshot.id)
        for number, one in enumerate(planned):
            if order[self._name(one)] >= order[position.file]:
                return number, position.rows if self._name(one) == position.file else 0
        return len(planned), 0

    def _name(self, planned: PlannedFile) -> str:
        """What a position calls a file: its path in the table, which may be renamed; of one outside of it the whole path."""
        return self.files.layout.below(planned.path)

    def inside(self, snapshot: Snapshot, position: Position, files: int, rows: int) -> Position:
        """The position once so many of a snapshot's planned files are read, and so many rows of the one behind them."""
        file = self._name(self.planned(snapshot, position)[files])
        return position.within(snapshot, files, rows, file=file, by_value=self._rules_at(position).sort_partitions)

    def check_types(self, planned: Sequence[PlannedFile]) -> None:
        """Raise `StreamChanged` where a column has got a type whose values the query's own cannot hold."""
        for schema_id in {planned_file.file.schema_id for planned_file in planned} - self._checked:
            now = {field.id: field for field in self.files.read_schema(schema_id).fields}
            for field in self.schema.fields if schema_id > self.schema.id else ():
                changed = now.get(field.id)
                if field.name in self._columns and changed is not None and arrow_type(changed.type) != arrow_type(field.type):
                    raise StreamChanged(str(self._table.identifier), column=field.name, was=str(field.type), now=str(changed.type))
            self._checked.add(schema_id)

    def done(self, position: Position) -> None:
        """Tell the consumer that everything before a position has been read."""
        if self.consumer is not None and not position.cursor.whole and position.snapshot != self._told:
            self._table.tell_consumer(self.consumer, position.snapshot, position.cursor.before_key)
            self._told = position.snapshot


class _Listener:
    """Asks the server again and again, each time until there is news; whoever needs to know waits here."""

    def __init__(self, table: RemoteTable, newest: int) -> None:
        self._table = table
        self._newest = newest
        self._news = threading.Condition()
        self._closed = False
        self._failure: LakeError | None = None
        threading.Thread(target=self._run, name="sluice-listen", daemon=True).start()

    def close(self) -> None:
        """Let the thread end with its next answer, also with that of a server that is away."""
        self._closed = True
        self._table.end_waiting()

    def beyond(self, known: int, seconds: float) -> int:
        """The newest snapshot's id, as soon as it is another than the one known or the time is over."""
        with self._news:
            self._news.wait_for(lambda: self._newest > known or self._failure is not None, seconds)
            if self._failure is not None:
                raise self._failure
            return self._newest

    def _run(self) -> None:
        try:
            self._listen()
        finally:
            self._table.close()

    def _listen(self) -> None:
        away_since: float | None = None
        while not self._closed:
            began = time.monotonic()
            try:
                newest = self._table.wait_beyond(self._newest, _MOST_WAIT_SECONDS)
                away_since = None
            except Unavailable as problem:
                away_since = away_since or began
                if began - away_since > self._table.patience:
                    self._fail(problem)
                    return
                self._table.pause()
                continue
            except LakeError as problem:
                self._fail(problem)
                return
            with self._news:
                changed, self._newest = newest != self._newest, newest
                self._news.notify_all()
            if not changed and time.monotonic() - began < 1:  # a server that cannot wait
                time.sleep(0.2)

    def _fail(self, problem: LakeError) -> None:
        if self._closed:
            return
        with self._news:
            self._failure = problem
            self._news.notify_all()
