"""The coordinator: one in every server, each table maintained by one of them, by a lease in Postgres.

It asks the catalog which tables may want work, so it sees commits of every writer; commits of its own process wake it.
Where nothing is left to do it says so there, gives the lease up, and no server looks at the table until something changes or falls due. It
holds no lock while it works: what it commits may lose a race like anybody's rewrite, and is then planned anew.

However many tables a round finds, it asks Postgres only a handful of times: with Postgres far away a question for each table took longer
than the lease lasts.
"""

from __future__ import annotations

import datetime as dt
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from uuid import UUID, uuid4

from catalog.records import PresentTable, SettledTable, WatchedTable
from catalog.work.maintenance import LEASE_SECONDS
from lake import Lake
from lake.leases import HeldLeases
from lake.process_name import process_space
from maintenance.closing import wait_for_end
from maintenance.retention import Retention
from maintenance.runner import MaintenanceRunner, RunnerContext
from model.catalog_errors import BackupRunning, ClockInDoubt, WarehouseMismatch
from model.errors import LakeError, StatementCanceled, TableDamaged, TableDiverged, TableNotExist
from model.identifier import MAIN_BRANCH, Identifier
from model.repeats import REPEATS
from model.work.work_limits import MaintenanceLimits
from table.compaction.backlog import CompactionBacklog

_log = logging.getLogger(__name__)
_WAKING_FILES = 16
"""Files added by this process's own commits after which a table is looked at without waiting for the next round."""
_FIRST_PAUSE, _LONGEST_PAUSE = 10.0, 600.0
_SWEEP_SECONDS = 60.0
_IN_HAND = 100
"""Tables handed out at once: the others wait in Postgres, where another server can take them."""
_LOOKED_AT_ONCE = 10 * _IN_HAND
"""Tables that are due of which a round hears: of those in greatest need, and of the others in turns."""
_FAILURES = 3
"""After so many in a row a server gives a table up for as long as it rests: the trouble may be its own."""
_FORGET_SECONDS = 60.0
_CLOSE_SECONDS, _LEAST_CLOSE_SECONDS = 30.0, 2.0
_IDLE_SECONDS, _UNHELD_SECONDS = 600.0, 3600.0
"""Seconds after its last look for which an idle table is kept in mind, and one with small files that is settled."""
_LONGEST_REST = 24 * 3600.0
"""Seconds after which a table is looked at though nothing was committed and nothing falls due."""


class Coordinator:
    """Maintains the tables nobody else does."""

    def __init__(
        self,
        lake: Lake,
        limits: MaintenanceLimits,
        *,
        background: Callable[[str], AbstractContextManager[Any]] | None = None,
        owner: UUID | None = None,
        server: str | None = None,
        lease_seconds: float = LEASE_SECONDS,
    ) -> None:
        self.owner = owner or uuid4()
        self._lake = lake
        self._limits = limits
        self._leases = HeldLeases(lease_seconds)
        self._leasing = threading.Lock()
        """Held while leases are renewed or taken: what was taken under a lease that got lost must not count under the next one."""
        self._server = server or f"{process_space()}:{os.getpid()}"
        self._context = RunnerContext(lake=lake, limits=limits, server=self._server, background=background, check=self._check)
        self._runners: dict[UUID, MaintenanceRunner] = {}
        self._running: dict[UUID, Future[None]] = {}
        self._retaining: dict[UUID, Future[bool]] = {}
        self._pauses: dict[UUID, float] = {}
        self._sweeping: Future[None] | None = None
        self._sweep_at = 0.0
        self._forget_at = 0.0
        self._answered: dict[UUID, dt.datetime] = {}
        """Of tables that fell due by time: which time was answered by a look."""
        self._added: dict[UUID, int] = {}
        """Files by table that own commits have added since a round last saw what is due."""
        self._after = UUID(int=0)
        """Up to which table, by id, a round has looked at those that are not in greatest need."""
        self._others: set[UUID] = set()
        """Of the tables that were written to before the last round those it had nothing to do with: other servers maintain them."""
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop = threading.Event()
        self._workers = ThreadPoolExecutor(limits.jobs, thread_name_prefix="sluice-maintenance")
        self._retainers = ThreadPoolExecutor(limits.jobs, thread_name_prefix="sluice-retention")
        self._thread = threading.Thread(target=self._run, name="sluice-coordinator", daemon=True)
        self._renewing = threading.Thread(target=self._keep, name="sluice-leases", daemon=True)

    def start(self) -> None:
        """Begin; does nothing where maintenance is switched off."""
        if self._limits.enabled:
            self._lake.listeners.append(self._heard)
            self._thread.start()
            self._renewing.start()

    def close(self, seconds: float = _CLOSE_SECONDS, cancel: Callable[[str], None] = lambda name: None) -> None:
        """Stop working and give the tables up, so that another server need not wait; what does not end in so many seconds is left alone.

        ``cancel`` stops what runs on Spark under a name.
        A merge that has not come to its commit comes to none any more, and what one that has comes to is decided without this process.
        """
        until = time.monotonic() + max(seconds, _LEAST_CLOSE_SECONDS)
        self._stop.set()
        self._wake.set()
        for pool in (self._workers, self._retainers):
            pool.shutdown(wait=False, cancel_futures=True)
        for thread in (self._thread, self._renewing):
            if thread.is_alive():
                thread.join(min(10.0, max(0.0, until - time.monotonic())))
        others: list[Future[Any]] = [*self._retaining.values(), *filter(None, [self._sweeping])]
        wait_for_end(self._running, others, cancel, until=until)
        if self._heard in self._lake.listeners:
            self._lake.listeners.remove(self._heard)
            try:
                with self._lake.catalog.transaction(brief=True) as tx:
                    tx.leases.release(self.owner)
            except LakeError:
                _log.warning("The leases could not be given up; they run out by themselves")

    def looks_after(self, table_id: UUID) -> bool:
        """Whether this process maintains a table now."""
        return self._leases.holds(table_id)

    def debts(self) -> dict[str, CompactionBacklog]:
        """Small files of the tables this process maintains, by table, as of its last look at each."""
        return {str(runner.identifier): debt for runner in list(self._runners.values()) if (debt := runner.debt).files}

    def failing(self) -> dict[str, int]:
        """Tables that could not be maintained, and how often in a row."""
        runners = list(self._runners.values())
        return {str(runner.identifier): failures for runner in runners if (failures := max(runner.failures, runner.retention.failures))}

    def _heard(self, table_id: UUID, added: int) -> None:
        with self._lock:
            before = self._added.get(table_id, 0)
            self._added[table_id] = before + added
            wakes = before < _WAKING_FILES <= before + added and table_id not in self._others
        # One that is worked on wakes it at the end, and one that rests after a failure is not to be looked at yet.
        if wakes and not self._rests(table_id, time.monotonic()) and not _busy(self._running.get(table_id)):
            self._wake.set()

    def _check(self, table_id: UUID) -> None:
        if self._stop.is_set() or not self.looks_after(table_id):
            raise StatementCanceled("The server does not maintain this table any more.")

    def _begins_nothing(self, problem: Exception) -> bool:
        """Whether all that is wrong is that the pools take nothing more, as the server ends."""
        return self._stop.is_set() and isinstance(problem, RuntimeError)

    def _run(self) -> None:
        while not self._stop.is_set():
            begun = time.monotonic()
            try:
                self.round()
            except LakeError as problem:  # Postgres or the warehouse is away; they come back
                _log.info("Tables are not maintained for now: %s", problem.message, extra=REPEATS)
            except Exception as problem:  # tables are maintained as long as the server lives
                if not self._begins_nothing(problem):
                    _log.exception("A round of maintenance failed")
            # A look at thousands of tables that are due takes its time: it is not repeated at each piece of news.
            self._stop.wait(min(self._limits.interval, 4 * (time.monotonic() - begun)))
            self._wake.wait(self._limits.interval)
            self._wake.clear()

    def _keep(self) -> None:
        """Renew by time: rounds may lie further apart than a lease lasts, or take longer."""
        while not self._stop.wait(self._leases.seconds / 10):
            try:
                self._renew()
            except LakeError as problem:  # what could not be renewed is not trusted after a while
                _log.info("The leases on tables are not renewed for now: %s", problem.message, extra=REPEATS)
            except Exception:  # leases are renewed as long as the server lives
                _log.exception("The leases on tables could not be renewed")

    def round(self) -> None:
        """Look at the catalog once and hand out what is to be done; one thread's, the coordinator's own once it is started."""
        self._renew()
        with self._lock:
            added, self._added = self._added, {}
        with self._lake.catalog.reading() as tx:
            due = tx.leases.due(MAIN_BRANCH, self.owner, most=_LOOKED_AT_ONCE, after=self._after, also=added)
        behind = sorted(table.table_id for table in due if table.table_id > self._after)
        self._after = behind[_LOOKED_AT_ONCE - 1] if len(behind) >= _LOOKED_AT_ONCE else UUID(int=0)
        with self._lock:
            self._others = added.keys() - {table.table_id for table in due}
        now = time.monotonic()
        self._sweep(now)
        self._forget(now)
        self._running = {table_id: work for table_id, work in self._running.items() if not work.done()}
        self._retaining = {table_id: work for table_id, work in self._retaining.items() if not work.done()}
        chosen = self._choose(due, now)
        self._take([table.table_id for table in chosen if not self.looks_after(table.table_id)])
        settled: list[SettledTable] = []
        idle = self._leases.all() - {table.table_id for table in due}
        for table in due:
            if self._stop.is_set():
                return
            try:
                if table in chosen and self.looks_after(table.table_id) and self._due(table, now):
                    self._submit(table)
                self._retain(table, now)
                if (quiet := self._settled_for(table, now)) is not None:
                    settled.append(_settled(table, quiet))
                    idle.add(table.table_id)
                elif self._due(table, now) or self._failed(table.table_id, now):
                    idle.add(table.table_id)  # no place is free for it here, or it is not this server that gets on with it
            except Exception as problem:  # one table's trouble must not keep the others waiting
                if not self._begins_nothing(problem):
                    _log.exception("%s.%s could not be looked at", table.database, table.name)
        self._settle(settled, {table_id for table_id in idle if self._holds_idly(table_id)})

    def _sweep(self, now: float) -> None:
        """Remove for good what was dropped longer ago than it is kept, once a minute and beside all else."""
        if now < self._sweep_at or _busy(self._sweeping):
            return
        self._sweep_at = now + _SWEEP_SECONDS
        self._sweeping = self._retainers.submit(self._swept)

    def _swept(self) -> None:
        try:
            self._lake.sweep_drops()
        except (BackupRunning, ClockInDoubt) as doubt:
            self._lake.standing.tell(doubt.message)
        except LakeError as problem:  # Postgres is away; it comes back
            _log.info("What was dropped is not removed for now: %s", problem.message, extra=REPEATS)
        except Exception:  # tables are maintained as long as the server lives
            _log.exception("What was dropped could not be removed")

    def _choose(self, due: Sequence[WatchedTable], now: float) -> set[WatchedTable]:
        """The tables there is a place for: by need and by how long ago each was looked at, in turns.

        By need alone, a hundred busy tables would keep all others waiting.
        """
        waiting = [table for table in due if self._due(table, now) or self._takes(table.table_id, now)]
        chosen: set[WatchedTable] = set()
        for pair in zip(waiting, sorted(waiting, key=self._looked), strict=True):
            for table in pair:
                if len(self._running) + len(chosen) < _IN_HAND:
                    chosen.add(table)
        return chosen

    def _takes(self, table_id: UUID, now: float) -> bool:
        """Whether to take a table for what is not merging: something of it may be to let go, or to be noted as settled."""
        return not (self.looks_after(table_id) or self._rests(table_id, now) or self._busy_with(table_id))

    def _looked(self, table: WatchedTable) -> float:
        runner = self._runners.get(table.table_id)
        return 0.0 if runner is None else runner.looked

    def _rests(self, table_id: UUID, now: float) -> bool:
        return self._pauses.get(table_id, 0.0) > now

    def _failed(self, table_id: UUID, now: float) -> bool:
        """Whether the table makes so much trouble here that another server may try."""
        runner = self._runners.get(table_id)
        return runner is not None and max(runner.failures, runner.retention.failures) >= _FAILURES and self._rests(table_id, now)

    def _holds_idly(self, table_id: UUID) -> bool:
        return table_id in self._leases.all() and not self._busy_with(table_id)

    def _settle(self, settled: list[SettledTable], idle: Collection[UUID]) -> None:
        """Note of which tables nothing is to be done, and give up those that nothing is done for here."""
        for table_id in idle:
            self._leases.drop(table_id)
        if settled or idle:
            with self._lake.catalog.transaction(brief=True) as tx:
                if settled:
                    tx.leases.settle(settled)
                if idle:
                    tx.leases.give_up(idle, self.owner)

    def _renew(self) -> None:
        """Hold on to the leases; what was lost meanwhile is forgotten."""
        with self._leasing:
            if not self._leases.due():
                return
            sent_at = time.monotonic()
            with self._lake.catalog.own() as tx:
                renewed = tx.leases.renew(self.owner, self._server, self._leases.seconds)
                leased = tx.leases.held(self.owner) if renewed else ()  # what this server knows may be from before an answer that got lost
            for table_id in self._leases.renewed(leased, asked=sent_at):
                self._runners.pop(table_id, None)

    def _forget(self, now: float) -> None:
        """Once a minute: what was dropped goes, what was renamed is called so, and what is not worked on is not kept in mind.

        Another server's tables are its own to tell of: what is known here of their small files is out of date.
        """
        if now < self._forget_at:
            return
        self._forget_at = now + _FORGET_SECONDS
        self._pauses = {table_id: until for table_id, until in list(self._pauses.items()) if until > now}
        with self._lake.catalog.reading() as tx:
            present = {table.table_id: table for table in tx.leases.present(list(self._runners), MAIN_BRANCH, self.owner)}
        for table_id, runner in list(self._runners.items()):
            table = present.get(table_id)
            if table is not None:
                runner.identifier = Identifier(table.database, table.name)
            if self._busy_with(table_id):
                continue
            unlooked = now - runner.looked
            idle = unlooked > _IDLE_SECONDS and (runner.idle or (not self.looks_after(table_id) and unlooked > _UNHELD_SECONDS))
            if table is None or idle or _elsewhere(table, runner):
                self._runners.pop(table_id, None)
        for table_id in self._answered.keys() - self._runners.keys():
            del self._answered[table_id]

    def _settled_for(self, table: WatchedTable, now: float) -> float | None:
        """For how many seconds the table may be left alone, as this round sees it; None where something is due or under way."""
        runner = self._runners.get(table.table_id)
        if runner is None or not self.looks_after(table.table_id) or self._busy_with(table.table_id) or self._due(table, now):
            return None
        quiet = runner.settled_for(now)
        # A look a day, however sure it is: spread, so that tables settled together do not fall due together.
        return None if quiet is None else min(quiet, random.uniform(0.5, 1.0) * _LONGEST_REST)

    def _busy_with(self, table_id: UUID) -> bool:
        return _busy(self._running.get(table_id)) or _busy(self._retaining.get(table_id))

    def _due(self, table: WatchedTable, now: float) -> bool:
        if self._rests(table.table_id, now) or _busy(self._running.get(table.table_id)):
            return False
        runner = self._runners.get(table.table_id)
        if runner is None or runner.seen != table.snapshot_uuid or runner.schema_id != table.schema_id or runner.wants_time(now):
            return True
        return table.overdue_since is not None and self._answered.get(table.table_id) != table.overdue_since

    def _take(self, tables: Sequence[UUID]) -> None:
        """Become the one who maintains the tables, as far as no other server is."""
        if not tables:
            return
        with self._leasing:
            with self._lake.catalog.transaction(brief=True) as tx:
                taken = tx.leases.take(tables, self.owner)
                tx.compactions.interrupt(taken)
            for table_id in taken:
                self._leases.add(table_id, asked=self._leases.renewed_at)

    def _submit(self, table: WatchedTable) -> None:
        identifier = Identifier(table.database, table.name)
        runner = self._runners.get(table.table_id)
        if runner is None:
            runner = self._runners[table.table_id] = MaintenanceRunner(self._context, table.table_id, identifier)
        runner.identifier = identifier
        if table.overdue_since is not None:
            self._answered[table.table_id] = table.overdue_since
        self._running[table.table_id] = self._workers.submit(self._work, table.table_id, runner)

    def _retain(self, table: WatchedTable, now: float) -> None:
        """Hand out what is to be let go of a table, beside its merging."""
        runner = self._runners.get(table.table_id)
        if runner is None or not self.looks_after(table.table_id) or self._rests(table.table_id, now):
            return
        if runner.retention.due(now, runner.seen) and not _busy(self._retaining.get(table.table_id)):
            self._retaining[table.table_id] = self._retainers.submit(
                self._guarded, table.table_id, runner.retention, partial(runner.retention.work, runner.identifier, runner.seen)
            )

    def _work(self, table_id: UUID, runner: MaintenanceRunner) -> None:
        before = runner.seen
        if self._guarded(table_id, runner, runner.work) and runner.seen != before:
            self._wake.set()  # more may have come meanwhile, and retention waits for what was seen

    def _guarded(self, table_id: UUID, worker: MaintenanceRunner | Retention, work: Callable[[], None]) -> bool:
        """Whether it was done; a table that makes trouble rests for a while."""
        try:
            work()
            worker.failures = 0
            return True
        except (StatementCanceled, TableNotExist):
            self._runners.pop(table_id, None)
        except Exception as problem:  # one table's trouble must not keep the others waiting
            if self._stop.is_set():
                _log.info("Maintenance of %s ended with the server: %s", worker.identifier, type(problem).__name__)
                return False
            worker.failures += 1
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** (worker.failures - 1))
            self._pauses[table_id] = time.monotonic() + pause
            if isinstance(problem, TableDamaged | TableDiverged | WarehouseMismatch):  # told once in an hour, and by whom it is mended
                self._lake.standing.met(problem)
                return False
            detail = problem.message if isinstance(problem, LakeError) else "unexpected"
            _log.warning("Maintenance of %s failed (%s); again in %d s", worker.identifier, detail, pause, exc_info=problem)
        return False


def _settled(table: WatchedTable, seconds: float) -> SettledTable:
    return SettledTable(table_id=table.table_id, snapshot_uuid=table.snapshot_uuid, schema_id=table.schema_id, seconds=seconds)


def _elsewhere(table: PresentTable, runner: MaintenanceRunner) -> bool:
    """Whether another server maintains the table now, or has found since that nothing is to be done."""
    failing = max(runner.failures, runner.retention.failures) > 0
    if table.settled is not None and (failing or table.settled != runner.seen):
        return True
    return table.taken and not failing  # where it fails at both, each rests longer and longer


def _busy(work: Future[Any] | None) -> bool:
    return work is not None and not work.done()
