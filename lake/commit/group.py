"""Group commit: appends that arrive together on one table share a snapshot, and its cost."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from uuid import UUID

from catalog.commits.reservations import Turn
from lake.commit.claims import Claimed
from lake.tables.handle import LakeTable
from model.errors import OutcomeUnknown, Unavailable
from model.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from table.format.io.patience import StorePatience, most_patient, patient_as, present_patience
from table.write.snapshot_builder import COMMITTED_BY, CommitRequest

MAX_GROUP = 64

CommitTogether = Callable[[LakeTable, Sequence[CommitRequest], Sequence[Claimed], "Turn | None", Collection[str]], Snapshot]
"""Commits requests to one table as one snapshot, in a turn; some of their files are on disk already."""
TurnOf = Callable[[LakeTable], "AbstractContextManager[Turn | None]"]
"""The turn to decide about a table or branch, where it has to be waited for."""


@dataclass(slots=True, kw_only=True, eq=False)
class _Waiting:
    """One writer's commit on its way into a group."""

    table: LakeTable
    request: CommitRequest
    claimed: Claimed | None
    synced: Collection[str]
    patience: StorePatience | None = field(default_factory=present_patience)
    """What its statement may still lose to a store."""
    done: threading.Event = field(default_factory=threading.Event)
    snapshot: Snapshot | None = None
    failure: BaseException | None = None


class _Queue:
    """The commits waiting for one table; whoever holds the lock commits for all."""

    def __init__(self) -> None:
        self.leader = threading.Lock()
        self.guard = threading.Lock()
        self.waiting: list[_Waiting] = []
        self.users = 0
        """Commits that came and have not ended; without any it is dropped."""


class Groups:
    """Hands the commits of a process to leaders, one at a time for each table."""

    def __init__(self, commit: CommitTogether, turn_of: TurnOf) -> None:
        self._commit = commit
        self._turn_of = turn_of
        self._queues: dict[tuple[UUID, str], _Queue] = {}
        self._lock = threading.Lock()

    def commit(self, table: LakeTable, request: CommitRequest, claimed: Claimed | None, synced: Collection[str] = ()) -> Snapshot:
        """Commit, alone or with those that wait too; returns the snapshot that holds the change."""
        me = _Waiting(table=table, request=request, claimed=claimed, synced=synced)
        with self._queue(table) as queue:
            return self._committed(queue, me)

    @contextlib.contextmanager
    def _queue(self, table: LakeTable) -> Iterator[_Queue]:
        """The table's queue, which is there as long as anybody is in it: a process may write to any number of tables."""
        place = (table.table_id, table.identifier.branch)
        with self._lock:
            queue = self._queues.setdefault(place, _Queue())
            queue.users += 1
        try:
            yield queue
        finally:
            with self._lock:
                queue.users -= 1
                if not queue.users:
                    del self._queues[place]

    def _committed(self, queue: _Queue, me: _Waiting) -> Snapshot:
        with queue.guard:
            queue.waiting.append(me)
        try:
            while not me.done.is_set():
                with queue.leader:
                    if me.done.is_set():
                        break
                    self._lead(queue, me.table)
        except BaseException:
            with queue.guard:
                if me in queue.waiting:
                    queue.waiting.remove(me)
                elif not me.done.is_set():  # a leader has it, and may decide it when nobody waits for it any more
                    me.request.progress.in_doubt = True
            raise
        if me.failure is not None:
            raise me.failure
        assert me.snapshot is not None
        return me.snapshot

    def _lead(self, queue: _Queue, table: LakeTable) -> None:
        """Wait for the turn; then commit the next write in the queue, and with it the plain appends right behind it."""
        with self._turn_of(table) as turn:
            with queue.guard:
                group = _next(queue.waiting)
            decided = not group or self._try(group, turn, alone=len(group) == 1)
        if decided:
            return
        wanted = [member for member in group if not _stopped(member)]
        if not wanted or (len(wanted) < len(group) and self._try(wanted, None, alone=len(wanted) == 1)):
            return  # together once more: it was perhaps only because of those that are not wanted any more
        for member in wanted:
            self._try([member], None, alone=True)

    def _try(self, group: Sequence[_Waiting], turn: Turn | None, *, alone: bool) -> bool:
        """Commit a group; False where it is certain that nothing was decided, and each member is to be tried alone."""
        synced = {path for member in group for path in member.synced}
        try:
            claimed = [member.claimed for member in group if member.claimed]
            # Not the leader's: its own work before may have used it up, and the others waited for nothing yet.
            with patient_as(most_patient(member.patience for member in group)):
                snapshot = self._commit(group[0].table, [member.request for member in group], claimed, turn, synced)
        except BaseException as failure:
            certain = isinstance(failure, Exception) and all(member.request.progress.undecided for member in group)
            if not alone and certain and not isinstance(failure, OutcomeUnknown | Unavailable):
                return False
            for member in group:
                member.failure = failure if alone else _copy(failure)
                member.done.set()
            return True
        for member in group:
            member.snapshot = snapshot
            member.done.set()
        return True


def _next(waiting: list[_Waiting]) -> list[_Waiting]:
    """Take the next commit off the queue that is still wanted, and the plain appends right behind it."""
    group: list[_Waiting] = []
    while waiting and len(group) < MAX_GROUP and (not group or _share(group[0], waiting[0])):
        member = waiting.pop(0)
        if not _stopped(member):
            group.append(member)
    return group


def _copy(failure: BaseException) -> BaseException:
    """A failure of one's own: what each statement adds to it, as what took effect before it, is not for the others of its group."""
    own = type(failure).__new__(type(failure), *failure.args)
    vars(own).update(vars(failure))
    own.__cause__ = failure
    return own


def _stopped(member: _Waiting) -> bool:
    """Whether the statement of a commit that is not decided was told to stop; it is told why it ends."""
    try:
        member.request.progress.decider.check()
    except Exception as reason:
        member.failure = reason
        member.done.set()
        return True
    return False


def _share(first: _Waiting, other: _Waiting) -> bool:
    """Whether two waiting commits may become one snapshot: plain batch appends of one schema."""
    return (
        first.request.plain_append
        and other.request.plain_append
        and first.request.commit_identifier == other.request.commit_identifier == BATCH_COMMIT_IDENTIFIER
        and {*first.request.properties, *other.request.properties} <= {COMMITTED_BY}  # the snapshot names all of them
        and first.request.operation == other.request.operation
        and first.request.seen is None
        and first.table.schema.id == other.table.schema.id
        and first.table.remembered == other.table.remembered  # one that is not lets an ALTER pass that came after it was opened
        and first.table.location == other.table.location
    )
