"""Following a table: one step for each snapshot that adds rows, in order, as soon as it is committed."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID
from weakref import WeakSet

from catalog import CatalogStore
from lake.register.expired import forget_expired, is_past
from lake.streams.followers import LOOK_AHEAD, Followers
from lake.tables.consumers import ConsumerProgress
from lake.tables.handle import LakeTable
from lake.waiting_places import WaitingPlaces
from model.errors import OutcomeUnknown, SnapshotNotExist, TableDamaged, Unavailable
from model.predicate import Predicate
from model.snapshot import Snapshot
from table.scan.planning.entry_scan import PlannedFile
from table.scan.stream import Cursor, PartitionOrder, StreamRules, beyond, plan_next
from table.scan.stream_start import Past, expired, rolled_back

_log = logging.getLogger(__name__)
TICK_SECONDS = 1.0
"""A stream that waits looks up so often: whether its client is there, and whether progress is to be told."""
TURN_SECONDS = 0.05
"""A stream that found nothing in what it looked through for so long lets others have their turn."""
SETTLED_SECONDS = 1.0
"""Rows handed to a connection so long ago, with the client still there, count as read."""
_REFRESH_SECONDS = 60.0
"""An idle consumer says so often that it is alive, before `consumer.expiration-time` takes it for dead."""
_PATIENCE_SECONDS = 300.0
"""For so long a stream waits for a catalog database that is away, or for a place to note its progress."""


class OpenStreams:
    """The streams that are followed now; one nobody holds any more is not among them, also where it was never closed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: WeakSet[TableStream] = WeakSet()
        self.followers = Followers()
        self.waiting = WaitingPlaces()
        """Of requests that wait for a table's next snapshot."""

    def of(self, table_id: UUID) -> list[TableStream]:
        """Those of a table, the oldest first."""
        with self._lock:
            streams = [stream for stream in self._open if stream.table_id == table_id]
        return sorted(streams, key=lambda one: one.began)

    def add(self, stream: TableStream) -> None:
        """It has begun; those that read under the name of its consumer are to see so at once."""
        with self._lock:
            named = [one for one in self._open if one.table_id == stream.table_id and one.consumer == stream.consumer is not None]
            self._open.add(stream)
        for one in named:
            one.doubt()

    def discard(self, stream: TableStream) -> None:
        """It has ended; twice is fine."""
        with self._lock:
            self._open.discard(stream)


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowRules:
    """What a stream reads, and when it looks and ends."""

    stream: StreamRules = field(default_factory=StreamRules)
    discovery: timedelta = timedelta(seconds=10)
    """How long a commit may stay unseen when its notice is lost."""
    bounded_watermark: int | None = None
    delay: timedelta | None = None
    """Snapshots behind the starting one are read when they are so old."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamStep:
    """The files of one snapshot, to be read in this order."""

    table: LakeTable
    """The table as it is now: it may have another name, place or schema than when the stream began."""
    snapshot: Snapshot
    planned: tuple[PlannedFile, ...]


class TableStream:
    """A table followed from a cursor on; read by one thread at a time, woken and closed from any."""

    def __init__(  # noqa: PLR0913 - parts of a stream
        self,
        catalog: CatalogStore,
        table: LakeTable,
        cursor: Cursor,
        rules: FollowRules,
        *,
        reopen: Callable[[], LakeTable],
        among: OpenStreams,
        predicate: Predicate | None = None,
        consumer: ConsumerProgress | None = None,
        who: str = "",
        rights: Hashable = None,
    ) -> None:
        self.cursor = cursor
        self._catalog = catalog
        self._schema = table.schema
        self._table = table
        self._rules = rules
        self._reopen = reopen
        self._predicate = predicate
        self._kind = repr((predicate, rules.stream))
        """Of two streams of a kind one finds what both read of a commit."""
        self._progress = _Progress(consumer, cursor)
        self._doubted = False
        """Whether another stream may have taken its consumer, with no commit since."""
        self._order = PartitionOrder()
        self._wake = threading.Event()
        self._wake.set()
        self._closed = False
        self._away_since: float | None = None
        self._waits = True
        self._due = self._paused_until = 0.0
        """When to ask anyway; and until when news alone are no reason to ask."""
        self._call: Callable[[], None] | None = None
        self._calling = threading.Lock()
        self._rights = rights
        self.follower, self._unsubscribe = among.followers.join(catalog, table.table_id, table.identifier.branch, self._woken)
        self.table_id = table.table_id
        self.who = who
        self.began = time.time()
        self._among = among
        among.add(self)

    @property
    def consumer(self) -> str | None:
        """The name under which its progress is kept."""
        return self._progress.consumer_name

    def close(self) -> None:
        """End the stream; whoever waits in it is free at once. Any number of times."""
        self._closed = True
        self._among.discard(self)
        self._unsubscribe()
        self._woken()

    def doubt(self) -> None:
        """See whether its consumer is still its own, before the next commit."""
        self._doubted = True
        self._woken()

    def never_wait(self) -> None:
        """Let `steps` give None whenever nothing is there; `call_when_due` tells when to ask again."""
        self._waits = False

    def call_when_due(self, call: Callable[[], None]) -> float:
        """Call once, from any thread, when there may be more to read or the stream has ended; returns in how many seconds to ask anyway."""
        with self._calling:
            is_paused = time.monotonic() < self._paused_until
            if (is_paused or not self._wake.is_set()) and not self._closed:
                self._call = call
                return max(0.01, self._due - time.monotonic())
        call()
        return math.inf

    def come_again(self) -> None:
        """There may be more at once, but it is others' turn: whoever never waits is called as soon as nobody stands before it."""
        self._woken()

    def pause(self, seconds: float) -> None:
        """There is something to read that cannot be read now: whoever waits does so a moment, and others ask again after so long."""
        if self._waits:
            time.sleep(min(seconds, TICK_SECONDS / 4))
        self._due = self._paused_until = time.monotonic() + seconds

    def _woken(self) -> None:
        with self._calling:
            self._wake.set()
            call, self._call = self._call, None
        if call is not None:
            call()

    def steps(self) -> Iterator[StreamStep | None]:  # noqa: C901 - what ends or holds up a stream, in the order it is looked at
        """Each snapshot with rows to read; None where none came for a moment. Ends at the watermark's bound or by `close`.

        That the next is asked for means that the one before has been handed on. Raises `SnapshotNotExist` where the next snapshot
        has expired or a read one was rolled back, `TableNotExist`, `Forbidden`, `ConsumerTaken`, and `Unavailable` where the catalog
        stays away.
        """
        try:
            look_at = 0.0
            if self._over_before():
                self._progress.tell_all(self._table)
                return
            while not self._closed:
                self._progress.tell(self._table)
                self._set_due(look_at)
                left = look_at - time.monotonic()
                woken = self._wake.wait(min(TICK_SECONDS, max(0.0, left))) if self._waits else self._wake.is_set()
                if self._closed:
                    return
                if not woken and time.monotonic() < look_at:
                    yield None
                    continue
                self._wake.clear()
                steps = self._look()
                look_at = time.monotonic() + (self._rules.discovery.total_seconds() if self._away_since is None else TICK_SECONDS)
                self._set_due(look_at)
                began = time.monotonic()
                for snapshot in steps:
                    if not self._waits and time.monotonic() - began >= TURN_SECONDS:
                        self.come_again()
                        yield None
                        began = time.monotonic()
                    whole = self.cursor.whole
                    if not whole and self._beyond(snapshot):
                        self._progress.tell_all(self._table)
                        return
                    if not whole:  # as in Paimon's `nextPlan`, behind the bound; its `tryFirstPlan` knows no delay
                        yield from self._wait_until_old_enough(snapshot)
                    if self._closed:
                        return
                    yield from self._step(snapshot)
                    if whole and self._beyond(snapshot):  # where it starts it reads all there is, as Paimon does
                        self._progress.tell_all(self._table)
                        return
                if len(steps) == LOOK_AHEAD:
                    self._woken()
                elif not steps:
                    yield None
        finally:
            self.close()

    def _set_due(self, look_at: float) -> None:
        self._due = look_at if self._progress.consumer_name is None else min(look_at, time.monotonic() + TICK_SECONDS)

    def _step(self, snapshot: Snapshot) -> Iterator[StreamStep]:
        table = self._table
        try:
            planned = self._planned(table, snapshot)
        except (Unavailable, TableDamaged):
            if forget_expired(self._catalog, table) and snapshot.id < (past := self._past()).earliest_id:
                raise expired(past, snapshot.id, f"The stream of table {table.identifier}") from None
            raise
        if planned:
            yield StreamStep(table=table, snapshot=snapshot, planned=planned)
        self.cursor = self.cursor.after(snapshot)
        self._progress.read(self.cursor)
        self._progress.tell(table)

    def _planned(self, table: LakeTable, snapshot: Snapshot) -> tuple[PlannedFile, ...]:
        """What to read of a snapshot: the same for all streams of a kind, unless the order of partitions depends on what each has seen."""
        rules, cursor = self._rules.stream, self.cursor

        def plan() -> tuple[PlannedFile, ...]:
            return plan_next(table.files, self._schema, snapshot, cursor, rules, self._order, self._predicate)

        if cursor.whole or (self._schema.partition_keys and not rules.sort_partitions):
            return plan()
        return self.follower.once(("plan", snapshot.key, table.location, self._schema.id, self._kind), plan)

    def _beyond(self, snapshot: Snapshot) -> bool:
        return beyond(snapshot, self._rules.bounded_watermark)

    def _over_before(self) -> bool:
        """Whether a stream that reads nothing of the past begins beyond its bound already."""
        if self._rules.bounded_watermark is None or self.cursor.whole:
            return False
        with self._catalog.reading() as tx:
            row = tx.snapshots.get(self._table.table_id, self._table.identifier.branch, self.cursor.next_snapshot_id - 1)
        return row is not None and self._beyond(Snapshot.from_json(row.body))

    def _wait_until_old_enough(self, snapshot: Snapshot) -> Iterator[None]:
        if self._rules.delay is None:
            return
        due = snapshot.time_millis / 1000 + self._rules.delay.total_seconds()
        while not self._closed and (left := due - time.time()) > 0:
            self.pause(left)
            yield None
            with contextlib.suppress(Unavailable):
                self._progress.check(self._table)

    def _look(self) -> list[Snapshot]:
        """The next snapshots, and the table as it is now; nothing while the catalog is away."""
        try:
            following = self._next()
            self._table = self.follower.once(("table", self._rights), self._reopen, max_age=self._rules.discovery.total_seconds())
            if following or self._doubted:  # whoever took the consumer reads them
                self._progress.check(self._table)
                self._doubted = False
        except Unavailable:
            now = time.monotonic()
            self._away_since = self._away_since or now
            if now - self._away_since > _PATIENCE_SECONDS:
                raise
            _log.info("A stream of %s waits for the catalog", self._table.identifier)
            return []
        self._away_since = None
        return following

    def _next(self) -> list[Snapshot]:
        """Snapshots from the cursor on. Decided is decided: their files need not be published for their rows to be true."""
        table, cursor = self._table, self.cursor
        known = cursor.known
        first, max_age = known[0] if known else cursor.next_snapshot_id, self._rules.discovery.total_seconds()
        snapshots = self.follower.since(first, max_age)
        if known and not self._go_on_from(*known, snapshots):
            snapshots = self.follower.since(first, 0)  # what is kept may be older than what the stream began with
            if not self._go_on_from(*known, snapshots) and (snapshots or self._is_there()):
                raise self._rolled_back()
        if snapshots and snapshots[0].id < cursor.next_snapshot_id:
            snapshots = snapshots[1:]
        if snapshots and snapshots[0].id > cursor.next_snapshot_id:
            raise expired(self._past(), cursor.next_snapshot_id, f"The stream of table {table.identifier}")
        return snapshots[:LOOK_AHEAD]

    def _is_there(self) -> bool:
        """Whether the table is; of a dropped one `reopen` tells."""
        table = self._table
        with self._catalog.reading() as tx:
            return tx.snapshots.latest(table.table_id, table.identifier.branch) is not None or tx.tables.by_id(table.table_id) is not None

    def _go_on_from(self, snapshot_id: int, key: str, snapshots: list[Snapshot]) -> bool:
        """Whether snapshots build on the one of a key, which may have expired since."""
        if not snapshots:
            return False
        if snapshots[0].id == snapshot_id:
            return snapshots[0].stands_for(key)
        table = self._table
        with self._catalog.reading() as tx:
            return is_past(tx, table.table_id, table.identifier.branch, snapshot_id, key)

    def _past(self) -> Past:
        table = self._table
        with self._catalog.reading() as tx:
            rows = tx.snapshots.history(table.table_id, table.identifier.branch)
        return Past(table=str(table.identifier), snapshots=[Snapshot.from_json(row.body) for row in rows])

    def _rolled_back(self) -> SnapshotNotExist:
        way_out = f"; {self._past().shown()}. Start the stream again where its rows are to begin."
        return rolled_back(str(self._table.identifier), self.cursor, way_out)


class _Progress:
    """What of a stream is read, and what of that its consumer was told."""

    def __init__(self, consumer: ConsumerProgress | None, cursor: Cursor) -> None:
        self._consumer = consumer
        self._read = cursor
        self._told: Cursor | None = None
        self._settling: tuple[Cursor, float] | None = None if cursor.whole else (cursor, 0.0)
        self._told_at = time.monotonic()
        self._away_since: float | None = None
        self._tried_at = -math.inf

    @property
    def consumer_name(self) -> str | None:
        """The consumer's name; None without one."""
        return None if self._consumer is None else self._consumer.name

    def check(self, table: LakeTable) -> None:
        """Raise `ConsumerTaken` where a newer stream goes on in its place."""
        if self._consumer is not None:
            self._consumer.check(table)

    def read(self, cursor: Cursor) -> None:
        """Everything before a cursor's snapshot has been handed on."""
        self._read = cursor
        if self._settling is None:
            self._settling = (cursor, time.monotonic())

    def tell(self, table: LakeTable) -> None:
        """Tell the consumer what has been read for a while; later, where it cannot be noted now: to repeat it is safe."""
        now = time.monotonic()
        if self._away_since is not None and now - self._tried_at < TICK_SECONDS:
            return
        self._tried_at = now
        try:
            self._tell_settled(table, now)
        except (Unavailable, OutcomeUnknown):
            self._away_since = self._away_since or now
            if now - self._away_since > _PATIENCE_SECONDS:
                raise
            _log.info("Consumer %s of %s waits for its progress to be noted", self.consumer_name, table.identifier)
        else:
            self._away_since = None

    def tell_all(self, table: LakeTable) -> None:
        """Tell the consumer all that has been read, at the stream's end."""
        if self._consumer is not None and self._read != self._told:
            self._tell(self._consumer, table, self._read)

    def _tell_settled(self, table: LakeTable, now: float) -> None:
        if self._consumer is None:
            return
        if self._settling is not None and now - self._settling[1] >= SETTLED_SECONDS:
            if self._settling[0] != self._told:
                self._tell(self._consumer, table, self._settling[0])
            self._settling = (self._read, now) if self._read != self._told else None
        elif self._told is not None and now - self._told_at >= _REFRESH_SECONDS:
            self._tell(self._consumer, table, self._told)

    def _tell(self, consumer: ConsumerProgress, table: LakeTable, cursor: Cursor) -> None:
        consumer.tell(table, cursor.next_snapshot_id, after=cursor.before_key)
        self._told, self._told_at = cursor, time.monotonic()
