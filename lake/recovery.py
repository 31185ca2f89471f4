"""What a crash left half done, finished when a server starts: directories to remove, schemas, snapshots and tags to publish."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from catalog import CatalogStore
from catalog.records import TableRow
from model.catalog_errors import NewerCatalog, WarehouseMismatch
from model.errors import LakeError, TableNotExist, Unavailable

_log = logging.getLogger(__name__)
_MOST_SECONDS = 300.0
"""A start works so long on what is left; what remains is finished by whoever needs it first."""
_PAUSE_SECONDS = 5.0
"""Before Postgres is asked again where it was away."""


@dataclass(slots=True, kw_only=True)
class Recovered:
    """What was finished."""

    directories: int = 0
    """Of dropped tables, removed."""
    tables: int = 0
    """Whose schema or move was finished."""
    branches: int = 0
    """Whose snapshots and tags were published."""
    failed: int = 0
    left: int = 0
    """Not tried, for want of time."""
    failure: Exception | None = None

    @property
    def any(self) -> bool:
        """Whether there was something to finish."""
        return bool(self.directories or self.tables or self.branches or self.failed or self.left)

    def __str__(self) -> str:
        done = (
            f"{self.directories} directories removed, {self.tables} tables and the snapshots and tags of {self.branches} branches published"
        )
        return done + (
            f"; {self.failed} failed and {self.left} were left, the last because: {self.failure}" if self.failed or self.left else ""
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Finishing:
    """What a lake does to finish each kind."""

    remove: Callable[[str], bool]
    """False where the directory stays: another table lies there by now, or somebody fills it for one that is to be."""
    finish: Callable[[TableRow], object]
    publish: Callable[[UUID, str], object]


def recover(catalog: CatalogStore, finishing: Finishing, go_on: Callable[[], bool]) -> Recovered:
    """Finish all of it, each by itself: what fails keeps nothing else from being finished."""
    done = Recovered()
    for kind, step in _steps(catalog, finishing):
        if not go_on():
            done.left += 1
            continue
        try:
            finished = step()
        except TableNotExist:  # dropped meanwhile
            continue
        except Exception as problem:
            done.failed += 1
            done.failure = problem
            if not isinstance(problem, LakeError | OSError):
                _log.exception("A table could not be recovered")
            continue
        if finished is False:  # a directory that stays
            continue
        setattr(done, kind, getattr(done, kind) + 1)
    return done


def _steps(catalog: CatalogStore, finishing: Finishing) -> Iterator[tuple[str, Callable[[], object]]]:
    with catalog.reading() as tx:
        garbage = tx.directories.dropped_directories()
        rows = tx.tables.half_done()
        behind = dict.fromkeys([*tx.publications.tables_with_unpublished(), *tx.tags.tables_with_unpublished()])
    for row in rows:
        yield "tables", partial(finishing.finish, row)
    for table_id, branch in behind:
        yield "branches", partial(finishing.publish, table_id, branch)
    for location in garbage:  # last: that of a renamed branch may hold all that other clients know of it
        yield "directories", partial(finishing.remove, location)


Finish = Callable[[Callable[[], bool]], Recovered]
"""Finishes what is half done (`Lake.finish_half_done`), as long as what it is given says that it is to go on."""


def in_background(finish: Finish) -> threading.Event:
    """Recover in a thread of its own; setting the event ends it after the step it is at."""
    stop = threading.Event()
    threading.Thread(target=_run, args=(finish, stop), name="sluice-recovery", daemon=True).start()
    return stop


def _run(finish: Finish, stop: threading.Event) -> None:
    logged = ""
    while not stop.is_set():
        until = time.monotonic() + _MOST_SECONDS
        try:
            done = finish(lambda: not stop.is_set() and time.monotonic() < until)  # noqa: B023 - asked before the next turn
        except LakeError as problem:
            # Postgres is away, or the warehouse is another catalog's as far as is known, which others tell: as long as that takes.
            if not isinstance(problem, Unavailable | WarehouseMismatch | NewerCatalog) and problem.message != logged:
                logged = problem.message
                _log.warning("What an earlier run left half done cannot be finished, which is tried again: %s", problem)
            stop.wait(_PAUSE_SECONDS)
            continue
        except Exception:
            _log.exception("What an earlier run left half done could not be finished")
            return
        level = logging.WARNING if done.failed or done.left else logging.INFO if done.any else logging.DEBUG
        _log.log(level, "Recovery after the start: %s", done)
        return
