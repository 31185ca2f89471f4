"""Every writer's turn comes: who writes a branch that others write too waits for the next decision (`catalog.commits.reservations`).

Nobody stands in line before a race was lost: a table with one writer pays nothing.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager

from cachetools import TTLCache

from catalog import TURN_CONNECTIONS, CatalogStore
from catalog.commits.reservations import Client, Place, Turn
from lake.waiting_lines import WaitingLines
from model.catalog_errors import TurnLost
from model.errors import CommitConflict, LakeError, Unavailable
from model.identifier import Identifier

CONTESTED_SECONDS = 5.0
"""For so long after another's commit to a branch a server stands in line for its own."""
_LONGEST_WAIT = 15.0
"""For a turn; it is raced for afterwards."""
BUILT_SECONDS = 30.0
"""So long a commit of a server may take from its turn to its decision; then others go on, and it stands in line anew."""
MOST_TURNS_LOST = 3
"""So often a commit stands in line anew; then it is refused."""
_CLIENT_SECONDS, _LEAST_CLIENT_SECONDS, _MOST_CLIENT_SECONDS = 0.5, 0.1, 3.0
"""Of a client's reservation, which has to hear that it lost, wait as it does between its tries, build anew and send: twice what it took for
that the last time, since clients double their pauses, between the latter two; the first where it lost nothing lately. One that takes
longer gets none: it would keep everybody, and come too late all the same."""
_CLIENT_LOSSES = 2
"""After so many a client stands in line where nobody else does."""
_LOOK_SECONDS = 0.01
"""While the next decision is a client's it is looked for so often whether it was made, by the one whose turn is next."""
_CHANGES_IN_LINE = TURN_CONNECTIONS // 2
"""Branches of which changes of rows stand in Postgres's line at once: each holds a connection for turns, and commits need those, too."""
_CHECKED_EACH = 3.0
"""How long a change of rows waits in line before it looks whether it is still wanted."""


class TurnsLost:
    """The turns of one commit that were over before it was built."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, conflict: CommitConflict, table: Identifier, location: str) -> None:
        """An attempt ended so; raises `Unavailable` where its turns are always over, as the commit would keep everybody forever."""
        self._count += isinstance(conflict, TurnLost)
        if self._count == MOST_TURNS_LOST:
            raise Unavailable(
                f"{table} is written by several servers, and building this commit from what lies below {location} took longer than the "
                f"{BUILT_SECONDS:.0f} seconds that one may take, {MOST_TURNS_LOST} times: the store or this server is too slow now. "
                "Nothing was committed; repeat it."
            ) from conflict


class ServerTurns:
    """The turns of this server's own commits."""

    def __init__(self, catalog: CatalogStore) -> None:
        self._catalog = catalog
        self._lock = threading.Lock()
        self._contested: TTLCache[Place, None] = TTLCache(10_000, CONTESTED_SECONDS)

    def contested(self, place: Place) -> bool:
        """Whether others have committed to the branch lately."""
        with self._lock:
            return place in self._contested

    def met(self, place: Place) -> None:
        """Another has committed to the branch."""
        with self._lock:
            self._contested[place] = None

    @contextlib.contextmanager
    def taken(self, places: Sequence[Place]) -> Iterator[Turn | None]:
        """The turn to decide about these branches, where one of them is contested; None where it is raced for.

        It is kept until the block decides, for `BUILT_SECONDS`: the block builds, perhaps on a slow store.
        Raises `Unavailable` while Postgres is away.
        """
        if not any(self.contested(place) for place in places):
            yield None
            return
        with self._catalog.turn(places, seconds=_LONGEST_WAIT) as turn:
            if turn is None or not _still_ours(turn):
                yield None
                return
            with turn.kept(BUILT_SECONDS):
                yield turn


class ClientTurns:
    """The turns of commits that clients built: each attempt is a request of its own, and behind a balancer to another server."""

    def __init__(self, catalog: CatalogStore) -> None:
        self._catalog = catalog
        self._lines: WaitingLines[Place] = WaitingLines()
        """One client of this server stands in Postgres's line for a branch, and the others behind it."""

    def lost(self, place: Place, client: Client, waiting: Callable[[], AbstractContextManager[bool]]) -> None:
        """A client's commit lost its race: it hears of it when its turn has come, and finds the next decision reserved for it.

        It hears at once where ``waiting`` has no place for it: the threads that answer requests are few.
        """
        with contextlib.suppress(LakeError):  # it lost, and that is all it must know
            with self._catalog.deciding() as tx:
                loss = tx.turns.lost(place, client)
            if loss.count < _CLIENT_LOSSES and loss.line.free and not loss.line.reserved_seconds:
                return
            with waiting() as may:
                if not may:
                    return
                try:
                    self._stand_in_line(place, client, _reserved_seconds(loss.again))
                finally:
                    with self._catalog.deciding() as tx:
                        tx.turns.told(place, client)

    def _stand_in_line(self, place: Place, client: Client, seconds: float) -> None:
        """Until the turn is the client's, and is reserved for it, where its principal may reserve."""
        until = time.monotonic() + _LONGEST_WAIT
        with self._lines.first(place, _LONGEST_WAIT) as first:
            left = until - time.monotonic()
            if not first or left <= 0:
                return
            with self._catalog.turn([place], seconds=left) as turn:
                if turn is not None and _still_ours(turn) and seconds:
                    turn.reserve(client, seconds)


class ChangeTurns:
    """Who changes rows of a branch next, once a change has lost a race: one after another on all servers.

    Each looks at rows, perhaps for minutes, before it commits: a quick one that always comes first would let a slow one never end.
    Without a loss nobody stands in line, and who comes then only looks whether somebody does.
    """

    def __init__(self, catalog: CatalogStore) -> None:
        self._catalog = catalog
        self._here: WaitingLines[Place] = WaitingLines()
        """One change of this server stands in Postgres's line for a branch, and the others behind it."""
        self._connections = threading.BoundedSemaphore(_CHANGES_IN_LINE)

    def somebody(self, place: Place) -> bool:
        """Whether a change of this server stands in line for a branch, or is first and works."""
        return self._here.somebody(place)

    def somebody_anywhere(self, place: Place) -> bool:
        """Whether a change of any server does."""
        if self.somebody(place):
            return True
        with self._catalog.reading() as tx:
            return not tx.turns.line(*_of_changes(place)).free

    @contextlib.contextmanager
    def turn(self, place: Place, check: Callable[[], None]) -> Iterator[None]:
        """Stand in line until one is first; ``check`` is called now and then and raises where that is not wanted any more.

        Where too many branches are waited for at once the line is this server's alone.
        """
        with self._here.turn(place, check):
            if not self._connections.acquire(blocking=False):
                yield
                return
            try:
                with self._first(place, check):
                    yield
            finally:
                self._connections.release()

    def let_first(self, place: Place, check: Callable[[], None]) -> None:
        """Wait until all have ended that stand in line now; who comes later begins beside the caller."""
        if self.somebody_anywhere(place):
            with self.turn(place, check):
                pass

    @contextlib.contextmanager
    def _first(self, place: Place, check: Callable[[], None]) -> Iterator[None]:
        while True:
            with self._catalog.turn([_of_changes(place)], seconds=_CHECKED_EACH) as turn:
                if turn is not None:
                    with turn.kept():
                        yield
                    return
            check()


def _reserved_seconds(again: float | None) -> float:
    """How long the next decision is kept for a client that took so long to come again the last time; zero where it is not."""
    if again is None:
        return _CLIENT_SECONDS
    return 0.0 if again > _MOST_CLIENT_SECONDS else min(max(_LEAST_CLIENT_SECONDS, 2 * again), _MOST_CLIENT_SECONDS)


def _of_changes(place: Place) -> Place:
    """The line of changes of rows stands beside that of decisions; no branch has such a name."""
    return place[0], f"rows/{place[1]}"


def _still_ours(turn: Turn) -> bool:
    """Wait until the reservation made in the turn before this one was used or is over; by Postgres's clock it ends by itself.

    False where the turn was lost meanwhile.
    """
    try:
        while turn.reserved_seconds > 0:
            time.sleep(min(_LOOK_SECONDS, turn.reserved_seconds))
            turn.look()
    except TurnLost:
        return False
    return True
