"""Whether the time can be believed before what is too old goes: a clock that was a year ahead for a minute must cost no row.

The time is Postgres's. It is doubted where this machine's clock differs from it, where it lies before the last run of expiry that the
catalog has on record or long after it, where it moved otherwise than the machine's own count of seconds since this process last looked,
and, for one table, where its newest snapshot lies ahead. While it is doubted nothing expires by age. Clocks that agree again end it, and
so does ``CALL sys.confirm_clock()`` for all but the difference between two machines: with a time that is right, a snapshot ahead of it
only carries a wrong one, and goes later than it should, never earlier.
"""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from catalog import CatalogStore
from catalog.records import ClockRow
from model.catalog_errors import ClockInDoubt
from model.snapshot import Snapshot
from model.wall_clock import utc_of

APART = dt.timedelta(minutes=10)
"""So far clocks may differ, and a clock may be put right, without a word."""
_LONGEST_PAUSE = dt.timedelta(days=7)
"""After so long without a run nothing tells a server that was off from a clock that is ahead."""
_AHEAD = dt.timedelta(hours=1)
"""So far clients' clocks may be ahead (`lake.commit.clients.judgement`)."""
_NOTED_SECONDS = 60.0
_CONFIRM = "CALL sys.confirm_clock() says that it is right."


def _seconds_since_boot() -> float:
    """Seconds that go on while the machine sleeps, and that nobody sets."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Look:
    """An earlier look at Postgres's clock that was believed."""

    now: dt.datetime
    elapsed: float


class Clock:
    """The time as expiry may use it; one in each server."""

    def __init__(
        self, catalog: CatalogStore, *, wall: Callable[[], float] = time.time, elapsed: Callable[[], float] = _seconds_since_boot
    ) -> None:
        self._catalog = catalog
        self._wall = wall
        self._elapsed = elapsed
        self._lock = threading.Lock()
        self._believed: _Look | None = None
        self._doubt: str | None = None
        self._confirmed = False
        self._noted: float | None = None

    @property
    def doubt(self) -> str | None:
        """Why expiry pauses, as of the last look; None where it does not."""
        return self._doubt

    def now(self) -> dt.datetime:
        """The time, by Postgres, whether or not it is in doubt."""
        with self._catalog.reading() as tx:
            return tx.state.clock().now

    def look(self, *, note: bool = True) -> str | None:
        """Ask Postgres; returns why the time is in doubt. A time that is believed is put on ``note``. Raises `Unavailable`."""
        with self._catalog.reading() as tx:
            row = tx.state.clock()
        wall, elapsed = dt.datetime.fromtimestamp(self._wall(), dt.UTC), self._elapsed()
        with self._lock:
            doubt = self._doubt_of(row, wall, elapsed)
            self._doubt = doubt
            self._confirmed = row.confirmed_at is not None
            if doubt is not None:
                return doubt
            self._believed = _Look(now=row.now, elapsed=elapsed)
            due = note and (self._noted is None or elapsed - self._noted >= _NOTED_SECONDS)
            if due:
                self._noted = elapsed
        if due:
            with self._catalog.transaction(brief=True) as tx:
                tx.state.note_run()
        return None

    def require(self, newest: Snapshot | None = None) -> None:
        """Raise `ClockInDoubt` where nothing may expire by age now; ``newest`` is the snapshot of the table in question."""
        doubt = self.look()
        if doubt is None and newest is not None and not self._confirmed:
            ahead = utc_of(newest.time_millis) - dt.datetime.fromtimestamp(self._wall(), dt.UTC)
            if ahead > _AHEAD:
                doubt = (
                    f"The newest snapshot {newest.id} lies {_span(ahead)} ahead of the time, and later ones are never "
                    f"before it; a rollback to an earlier snapshot ends this, and so does the time. {_CONFIRM}"
                )
        if doubt is not None:
            raise ClockInDoubt(f"{doubt} Nothing expires by age until then.")

    def confirm(self) -> None:
        """Believe Postgres's time from now on, on all servers."""
        with self._catalog.transaction(brief=True) as tx:
            tx.state.confirm_clock()

    def _doubt_of(self, row: ClockRow, wall: dt.datetime, elapsed: float) -> str | None:
        now = row.now
        if abs(wall - now) > APART:
            return f"This machine's clock says {_shown(wall)} and Postgres's {_shown(now)}: let both keep their time by NTP."
        before = self._believed
        if before is not None and (row.confirmed_at is None or row.confirmed_at <= before.now):
            jump = (now - before.now) - dt.timedelta(seconds=elapsed - before.elapsed)
            if abs(jump) > APART:
                way = "ahead" if jump > dt.timedelta() else "back"
                return f"The clock jumped {_span(abs(jump))} {way}, to {_shown(now)}. {_CONFIRM}"
        if row.seen_at is not None and now < row.seen_at - APART:
            return f"The clock says {_shown(now)}, and expiry ran at {_shown(row.seen_at)} already. {_CONFIRM}"
        if row.seen_at is not None and now > row.seen_at + _LONGEST_PAUSE:
            return f"The clock says {_shown(now)}, and expiry last ran {_span(now - row.seen_at)} ago, at {_shown(row.seen_at)}. {_CONFIRM}"
        return None


def _shown(moment: dt.datetime) -> str:
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _span(length: dt.timedelta) -> str:
    return str(dt.timedelta(seconds=round(length.total_seconds())))
