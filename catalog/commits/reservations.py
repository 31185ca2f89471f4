"""Turns: who decides next about a branch, in the order in which writers of all servers came for it.

A turn is an advisory lock of Postgres, held by an open transaction: its waiters come in the order of their arrival, are woken by
Postgres, and one whose server dies is out of the queue at once. Whoever decides without a turn (nobody else had written the branch
lately) looks in the deciding statement whether somebody has one or waits for it, and then has lost the race. Clients of the REST
catalog build between two requests, perhaps of two servers, so that no transaction can be held for them: their turn becomes a
reservation in ``snapshot_pointer``, which only the holder of the lock may write.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from uuid import UUID

import psycopg
from psycopg import ClientCursor

from catalog.connection import ENDED_BY_POSTGRES, CatalogConnection
from catalog.records import SnapshotRow
from model.catalog_errors import TurnLost

Place = tuple[UUID, str]
"""A table's id, and a branch."""


@dataclass(frozen=True, slots=True)
class Client:
    """A client of the REST catalog, whose attempts are told apart from others' by principal and ``commitUser``."""

    principal: str
    user: str

    @property
    def writer(self) -> str:
        """It as reservations name it."""
        return f"{self.principal}/{self.user}"


HELD_SECONDS = 5.0
"""Postgres ends a turn whose server is silent for so long: one that stands still keeps nobody for longer."""
HEARD_SECONDS = HELD_SECONDS / 4
"""So often Postgres hears of a server that keeps its turn (`Turn.kept`)."""
_LOCK = "hashtextextended('sluice turn ' || {table}::text || ' ' || {branch}::text, 0)"
NOBODYS_TURN = f"pg_try_advisory_xact_lock_shared({_LOCK.format(table='%(table)s', branch='%(branch)s')})"
"""True where nobody has the turn or waits for it; until the transaction ends nobody gets it then."""
_TAKE = f"SELECT pg_advisory_xact_lock({_LOCK.format(table='%s', branch='%s')})"
_LOOK = """
    SELECT p.table_id, p.branch, p.reserved_by, coalesce(extract(epoch FROM p.reserved_until - clock_timestamp()), 0)::float8,
           s.snapshot_id, s.snapshot_uuid, s.body, s.published, s.decided_at
    FROM snapshot_pointer p
    JOIN table_snapshot s ON s.table_id = p.table_id AND s.branch = p.branch AND s.snapshot_id = p.snapshot_id
    WHERE (p.table_id, p.branch) IN (SELECT * FROM unnest(%s::uuid[], %s::text[]))
"""
_REMEMBERED = "interval '60 seconds'"
"""For so long a loss, or a reservation that nobody used, counts."""
_MOST_REST_SECONDS = 30
_SINCE = """EXISTS (
    SELECT 1 FROM table_snapshot s
    WHERE s.table_id = {of}.table_id AND s.branch = {of}.branch AND s.snapshot_id > {of}.snapshot_id AND s.body ->> 'commitUser' = {user}
)"""
"""Whether the client has committed since: who does so pays nothing for it."""
_RESERVE = f"""
    WITH old AS (
        DELETE FROM client_reservation_of_branch WHERE ctid IN (
            SELECT ctid FROM client_reservation_of_branch
            WHERE reserved_until < clock_timestamp() - {_REMEMBERED} AND (table_id, branch) <> (%(table)s, %(branch)s)
            FOR UPDATE SKIP LOCKED
        )
    ), last AS (
        SELECT r.*, {_SINCE.format(of="r", user="r.commit_user")} AS used FROM client_reservation_of_branch r
        WHERE (r.principal, r.table_id, r.branch) = (%(principal)s, %(table)s, %(branch)s)
              AND r.reserved_until > clock_timestamp() - {_REMEMBERED}
    ), made AS (
        INSERT INTO client_reservation_of_branch AS c
            (principal, table_id, branch, commit_user, snapshot_id, reserved_until, seconds, unused)
        SELECT %(principal)s, p.table_id, p.branch, %(user)s, p.snapshot_id, clock_timestamp() + make_interval(secs => %(seconds)s),
               %(seconds)s, CASE WHEN last.used THEN 0 ELSE coalesce(last.unused + 1, 0) END
        FROM snapshot_pointer p LEFT JOIN last ON true
        WHERE p.table_id = %(table)s AND p.branch = %(branch)s AND (
            last.used IS NOT FALSE OR (last.unused = 0 AND last.commit_user <> %(user)s) OR clock_timestamp() >=
            last.reserved_until + make_interval(secs => least(last.seconds * 2 ^ least(last.unused, 10), {_MOST_REST_SECONDS}))
        )
        ON CONFLICT (principal, table_id, branch) DO UPDATE SET commit_user = excluded.commit_user, snapshot_id = excluded.snapshot_id,
            reserved_until = excluded.reserved_until, seconds = excluded.seconds, unused = excluded.unused
        RETURNING c.table_id, c.branch, c.reserved_until
    )
    UPDATE snapshot_pointer p SET reserved_by = %(writer)s, reserved_until = made.reserved_until
    FROM made WHERE p.table_id = made.table_id AND p.branch = made.branch; COMMIT
"""  # noqa: S608 - literals of this package
_MINE = "(table_id, branch, writer) = (%(table)s, %(branch)s, md5(%(writer)s)::uuid)"
_LOST = f"""
    WITH newest AS (
        SELECT coalesce(max(snapshot_id), 0) AS id, max(reserved_until) AS reserved_until FROM snapshot_pointer
        WHERE table_id = %(table)s AND branch = %(branch)s
    ), old AS (
        DELETE FROM client_loss WHERE ctid IN (
            SELECT ctid FROM client_loss WHERE told_at < clock_timestamp() - {_REMEMBERED} AND NOT {_MINE} FOR UPDATE SKIP LOCKED
        )
    ), before AS (
        SELECT l.losses, l.told_at FROM client_loss l
        WHERE {_MINE} AND l.told_at > clock_timestamp() - {_REMEMBERED} AND NOT {_SINCE.format(of="l", user="%(user)s")}
    ), counted AS (
        INSERT INTO client_loss AS c (table_id, branch, writer, losses, snapshot_id, told_at)
        SELECT %(table)s, %(branch)s, md5(%(writer)s)::uuid, 1 + coalesce((SELECT losses FROM before), 0), newest.id, clock_timestamp()
        FROM newest
        ON CONFLICT (table_id, branch, writer)
            DO UPDATE SET losses = excluded.losses, snapshot_id = excluded.snapshot_id, told_at = excluded.told_at
        RETURNING c.losses
    )
    SELECT {NOBODYS_TURN}, coalesce(extract(epoch FROM newest.reserved_until - clock_timestamp()), 0)::float8,
           (SELECT losses FROM counted), (SELECT extract(epoch FROM clock_timestamp() - told_at)::float8 FROM before)
    FROM newest
"""  # noqa: S608 - literals of this package


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """How it stands with the next decision about a branch."""

    free: bool
    """Nobody has the turn or waits for it."""
    reserved_seconds: float
    """How long the decision still is a client's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loss:
    """A commit that a client lost, as all servers know it."""

    line: Line
    count: int
    """Those it lost in a row, with this one."""
    again: float | None
    """Seconds from hearing of its last loss until this one; None where that was not lately."""


class Turn:
    """The right to decide next about branches, as long as the transaction lasts; in one thread at a time."""

    def __init__(self, conn: CatalogConnection, places: Sequence[Place]) -> None:
        """``places`` in the order of `in_order`."""
        self._conn = conn
        self._places = places
        self._ended = False
        self._lost = False
        """Whether it went to others before it was used."""
        self._let_go: Callable[[], None] = lambda: None
        """Ends the keeping."""
        self.latest: dict[Place, SnapshotRow] = {}
        """The snapshots the branches point at; none for a branch without any."""
        self.reserved_seconds = 0.0
        """How long the next decision about one of them is still a client's."""

    def take(self, seconds: float) -> bool:
        """Wait for the turn, in one round trip; False where it did not come within so many seconds."""
        begin = (
            f"BEGIN ISOLATION LEVEL READ COMMITTED; {self._conn.local_limits}SET LOCAL lock_timeout = {max(1, int(seconds * 1000))}; "
            f"SET LOCAL idle_in_transaction_session_timeout = {int(HELD_SECONDS * 1000)}"
        )
        query = "; ".join([begin, *(_TAKE for _ in self._places), _LOOK])
        values = [value for place in self._places for value in place]
        try:
            self._read(query, [*values, *self._columns()])
        except (psycopg.errors.LockNotAvailable, TurnLost):
            self.end()
            return False
        return True

    def look(self) -> None:
        """Read again what the branches point at, and how long the next decision is another's; `TurnLost` where the turn is over."""
        self._read(_LOOK, self._columns())

    @contextlib.contextmanager
    def kept(self, seconds: float = math.inf) -> Iterator[None]:
        """Keep the turn while the block does something else, until it is used: Postgres hears of its holder now and then.

        It goes to others after so many ``seconds``; whoever uses it then finds that it was lost.
        """
        over, until = threading.Event(), time.monotonic() + seconds

        def keep() -> None:
            try:
                while not over.wait(min(HEARD_SECONDS, max(0.0, until - time.monotonic()))):
                    if time.monotonic() >= until:
                        self._lost = True
                        self._conn.forsake()
                        return
                    self.look()
            except (psycopg.Error, TurnLost):
                self._lost = True

        waiting = threading.Thread(target=keep, name="keeps-turn", daemon=True)

        def let_go() -> None:
            over.set()
            waiting.join()

        self._let_go = let_go
        waiting.start()
        try:
            yield
        finally:
            let_go()

    def reserve(self, client: Client, seconds: float) -> None:
        """Make the turn to decide about a branch a client's for so long, where its principal may reserve; it ends for its holder.

        After one that was not used the client gets none on this branch for as long as that one kept everybody. After two in a row none of
        its principal's clients does, for twice as long, and for twice as long again after each further one.
        """
        ((table, branch),) = self._places
        values = {"principal": client.principal, "user": client.user, "writer": client.writer}
        with self._used():
            ClientCursor(self._conn).execute(_RESERVE.encode(), values | {"table": table, "branch": branch, "seconds": seconds})

    @contextlib.contextmanager
    def deciding(self) -> Iterator[CatalogConnection]:
        """The connection, for a statement that decides and ends the transaction itself; raises `TurnLost`."""
        with self._used():
            yield self._conn

    @contextlib.contextmanager
    def transaction(self) -> Iterator[CatalogConnection]:
        """The connection, for statements that are committed when the block ends, and rolled back when it raises; raises `TurnLost`."""
        with self._used():
            self._conn.went_on()
            yield self._conn
            self._conn.finish()

    def require_held(self) -> None:
        """Raise `TurnLost` where the turn went to others while it was kept."""
        if self._lost:
            raise self._over()

    @contextlib.contextmanager
    def _used(self) -> Iterator[None]:
        """The one use of the turn, which ends with it."""
        try:
            self._let_go()
            self.require_held()
            if self._conn.something_came():  # its end, as a rule: several statements sent at once would not tell it from a lost connection
                self.look()
            yield
        except ENDED_BY_POSTGRES as ended:
            raise self._over() from ended
        finally:
            self.end()

    def _over(self) -> TurnLost:
        return TurnLost(", ".join(f"{branch} of {table}" for table, branch in self._places))

    def end(self) -> None:
        """Let the next one have the turn; what was not committed is rolled back."""
        self._let_go()
        if not self._ended:
            self._ended = True
            with contextlib.suppress(psycopg.Error):
                self._conn.forsake()

    def _columns(self) -> tuple[list[UUID], list[str]]:
        return [table for table, _ in self._places], [branch for _, branch in self._places]

    def _read(self, query: str, values: Sequence[object]) -> None:
        cursor = ClientCursor(self._conn)
        try:
            cursor.execute(query.encode(), values)
        except ENDED_BY_POSTGRES as ended:
            raise self._over() from ended
        while cursor.nextset():
            pass
        rows = cursor.fetchall()
        self.latest = {(row[0], row[1]): SnapshotRow(**dict(zip(_SNAPSHOT, row[4:], strict=True))) for row in rows}
        self.reserved_seconds = max((row[3] for row in rows), default=0.0)


_SNAPSHOT = ("snapshot_id", "snapshot_uuid", "body", "published", "decided_at")


def in_order(places: Sequence[Place]) -> list[Place]:
    """In the one order in which turns are taken, so that two writers of the same branches cannot wait for each other."""
    return sorted(places, key=lambda place: (str(place[0]), place[1]))


class TurnRepository:
    """Looks at turns without taking one."""

    def __init__(self, conn: CatalogConnection) -> None:
        self._conn = conn

    def line(self, table_id: UUID, branch: str) -> Line:
        """How it stands with the next decision about a branch."""
        query = f"""
            SELECT {NOBODYS_TURN}, coalesce((
                SELECT extract(epoch FROM reserved_until - clock_timestamp()) FROM snapshot_pointer
                WHERE table_id = %(table)s AND branch = %(branch)s), 0)::float8
        """  # noqa: S608 - literals of this package
        row = self._conn.execute(query, {"table": table_id, "branch": branch}).fetchone()
        assert row is not None
        return Line(free=row[0], reserved_seconds=max(0.0, row[1]))

    def lost(self, place: Place, client: Client) -> Loss:
        """Count a commit that a client lost, in one round trip: by Postgres, as its next try may come to another server."""
        values = {"table": place[0], "branch": place[1], "writer": client.writer, "user": client.user}
        row = self._conn.execute(_LOST.encode(), values).fetchone()
        assert row is not None
        return Loss(line=Line(free=row[0], reserved_seconds=max(0.0, row[1])), count=row[2], again=row[3])

    def told(self, place: Place, client: Client) -> None:
        """A client hears only now of its loss, as it stood in line."""
        query = f"UPDATE client_loss SET told_at = clock_timestamp() WHERE {_MINE}"  # noqa: S608 - literals of this package
        self._conn.execute(query, {"table": place[0], "branch": place[1], "writer": client.writer})
