"""What the streams of one table and branch share: each commit is asked for, planned and decoded once."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import UUID

from catalog import CatalogStore
from model.snapshot import Snapshot

T = TypeVar("T")
LOOK_AHEAD = 32
"""Snapshots asked for at once."""
_KEPT = 32
"""Results of work on single commits that are kept for streams that come to them a moment later."""


@dataclass(slots=True, kw_only=True)
class _Kept:
    """A piece of work, under way or done."""

    news: int
    at: float = field(default_factory=time.monotonic)
    future: Future[None] = field(default_factory=Future)
    value: Any = None
    done: bool = False


class Follower:
    """Hears of commits, and looks at them once for all that hang on it; a stream that stands elsewhere looks by itself."""

    def __init__(self, catalog: CatalogStore, table_id: UUID, branch: str) -> None:
        self._catalog = catalog
        self._table_id = table_id
        self._branch = branch
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._wakes: dict[int, Callable[[], None]] = {}
        self._number = 0
        self._news = 0
        """Counts what was heard: what was found out before the last of it is not asked again from it."""
        self._seen = (-1, 0.0, 0)
        """At which news, when, and from which snapshot on the known snapshots were asked for."""
        self._snapshots: list[Snapshot] = []
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()
        self._unsubscribe: Callable[[], None] = lambda: None

    def join(self, wake: Callable[[], None]) -> int:
        """Call ``wake`` at each commit; returns what `leave` takes."""
        with self._lock:
            self._number += 1
            self._wakes[self._number] = wake
            if len(self._wakes) == 1:
                self._unsubscribe = self._catalog.notices.subscribe(self._table_id, self._branch, self._heard)
                self._news += 1  # what was told while nobody listened
            return self._number

    def leave(self, number: int) -> bool:
        """Wake that one no more; False where it was the last."""
        with self._lock:
            if self._wakes.pop(number, None) is not None and not self._wakes:
                self._unsubscribe()
                self._kept.clear()
            return bool(self._wakes)

    def _heard(self) -> None:
        with self._lock:
            self._news += 1
            wakes = list(self._wakes.values())
        for wake in wakes:
            wake()

    def since(self, first: int, max_age: float) -> list[Snapshot]:
        """The snapshots from one on, `LOOK_AHEAD` + 1 at most, as of the last commit told of and not older than this."""
        with self._looking:
            with self._lock:
                news = self._news
            seen, at, begin = self._seen
            if seen != news or time.monotonic() - at >= max_age or first < begin:
                now = time.monotonic()
                with self._catalog.reading() as tx:
                    rows = tx.snapshots.since(self._table_id, self._branch, first, limit=LOOK_AHEAD + 1)
                snapshots = [Snapshot.from_json(row.body) for row in rows]
                if len(snapshots) <= LOOK_AHEAD:  # one far behind reads by itself
                    self._seen, self._snapshots = (news, now, first), snapshots
                return snapshots
            return [snapshot for snapshot in self._snapshots if snapshot.id >= first]

    def once(self, key: Hashable, work: Callable[[], T], *, max_age: float | None = None) -> T:
        """What some work gives, done once for all who ask for it; with an age: done again after a commit, or when it is so old."""
        entry = self._kept.get(key)
        if entry is None or not entry.done or self._stale(entry, max_age):
            return self._once(key, work, max_age)
        value: T = entry.value  # a thousand streams ask after each commit: without a lock
        return value

    def _once(self, key: Hashable, work: Callable[[], T], max_age: float | None) -> T:
        with self._lock:
            entry = self._kept.get(key)
            mine = entry is None or self._stale(entry, max_age)
            if entry is None or mine:
                entry = self._kept[key] = _Kept(news=self._news)
                self._kept.move_to_end(key)
                while len(self._kept) > _KEPT:
                    self._kept.popitem(last=False)
        if mine:
            try:
                entry.value = work()
            except BaseException as problem:
                with self._lock:
                    if self._kept.get(key) is entry:
                        del self._kept[key]
                entry.future.set_exception(problem)
            else:
                entry.done = True
                entry.future.set_result(None)
        entry.future.result()
        value: T = entry.value
        return value

    def _stale(self, entry: _Kept, max_age: float | None) -> bool:
        return max_age is not None and (entry.news != self._news or time.monotonic() - entry.at >= max_age)


class Followers:
    """The followers of a process, each there while a stream hangs on it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._all: dict[tuple[UUID, str], Follower] = {}

    def join(self, catalog: CatalogStore, table_id: UUID, branch: str, wake: Callable[[], None]) -> tuple[Follower, Callable[[], None]]:
        """The follower of a branch, which wakes the stream from now on, and what ends that."""
        key = (table_id, branch)
        with self._lock:
            joined = self._all.get(key)
            if joined is None:
                joined = self._all[key] = Follower(catalog, table_id, branch)
            follower = joined
            number = follower.join(wake)

        def leave() -> None:
            with self._lock:
                if not follower.leave(number) and self._all.get(key) is follower:
                    del self._all[key]

        return follower, leave
