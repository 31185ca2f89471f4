"""Power cuts while Spark works: server, JVM and Python workers are gone, and so is what was not flushed."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

import httpx
import psutil
import psycopg

from tests.faults.catalog_copy import copied, copied_now
from tests.faults.disk import Disk, Left
from tests.faults.operation import Operation, made, verified
from tests.faults.shim import HOLD, POWER_CUT, Shim
from tests.faults.spark_statements import Statement
from tests.faults.world import Answer, World, world
from tests.running import RunningServer
from tests.torture.job_campaign import job, start_job, until
from tests.waiting import eventually

_QUIET_SECONDS = 1.0
_IN_FLIGHT_SECONDS = 0.1
_DECIDED_ROWS = """
    SELECT s.body->>'totalRecordCount' FROM sluice_table t JOIN snapshot_pointer p USING (table_id)
    JOIN table_snapshot s ON s.table_id = p.table_id AND s.branch = p.branch AND s.snapshot_id = p.snapshot_id
    WHERE t.name = 'dst' AND p.branch = 'main'
"""
_OPTIONS = "'bucket' = '-1', 'write-only' = 'true'"
"""The server's own compactions would write between the look at the disk and the first line of the journal."""
_POWER_WENT = Answer(status=503, body="the power went")


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What clients had heard when the power went."""

    answers: Sequence[tuple[Statement, str, Answer]]
    """Each statement with its table."""
    rows: int
    """How many rows the source of the job has with the newest; 0 without a job."""
    fed: bool
    """Whether the newest was acknowledged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Clients:
    """Those who wait for answers."""

    asked: Sequence[tuple[Statement, str, Future[Answer]]]
    fed: Future[bool] | None
    rows: int

    def done(self) -> bool:
        return all(one.done() for _, _, one in self.asked) and (self.fed is None or self.fed.done())

    def told(self) -> Told:
        """What they heard so far."""
        answers = [(statement, table, one.result() if one.done() else _POWER_WENT) for statement, table, one in self.asked]
        return Told(answers=answers, rows=self.rows, fed=self.fed is not None and self.fed.done() and self.fed.result())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Cut:
    """What a power cut would leave: the catalog's DSN, the disk, what was told."""

    dsn: str
    disk: Disk
    told: Told


class PowerCuts:
    """A server whose warehouse loses its power, again and again; its Postgres keeps all that it was told."""

    def __init__(self, server: RunningServer, shim: Shim, dsn: str, template: str) -> None:
        self.server, self.shim, self._dsn, self._template = server, shim, dsn, template
        self._tables = self._rows = 0
        self._job: str | None = None
        self._copies = ExitStack()
        self._cuts: list[_Cut] = []

    def with_job(self) -> None:
        """Start a job that brings rows from ``src`` to ``dst``."""
        for name in ("src", "dst"):
            self.server.sql(f"CREATE TABLE {name} (id INT, s STRING) WITH ('write-only' = 'true')")
        self.server.wait_for_spark(600)
        self._job = start_job(self.server, "INSERT INTO dst SELECT id, s FROM src")
        until(lambda: job(self.server, str(self._job))["startedAt"] is not None, what=self.server.words)
        self._rows = 1

    def strike(self, statements: Sequence[Statement], *, at: int, left: Left) -> tuple[bool, bool]:
        """Let the power go at the n-th call of statements that run at once, or once all are answered where there is no such call.

        A job, where one was started, brings a row meanwhile. The server begins again on what is left of the disk; the disk with the
        other kind of loss is looked at with a copy of the catalog. Returns whether the call came, and whether the power went there.
        """
        with self._clients(statements, fail_at=at, error=POWER_CUT) as (disk, clients):
            until(lambda: bool(self.shim["dead"]) or self._settled(clients), what=self.server.words, pause=0.02)
            self._off()
            until(clients.done)
        told, calls, faults = clients.told(), self.shim["calls"], self.shim["faults"]
        self.shim.disarm()
        disk.replay(self.shim.journal)
        with copied(self._dsn) as copy:
            self._looked_at(copy, disk, next(kind for kind in Left if kind is not left), told)
        disk.write(self.shim.root, left)
        self.server.start()
        for _, table, _ in told.answers:
            there = self.server.value(f"SELECT count(*) FROM {table}")
            with self._world(self._dsn) as fresh:
                assert there == len(fresh.ids(table)), "the server that begins again sees the same"
        self._verified(self._dsn, told)
        if self._job is not None:
            until(self._arrived, what=self.server.words)
        return calls >= at, faults > 0

    def hold(self, statements: Sequence[Statement], *, at: int) -> bool:
        """Hold all processes at the n-th call, and take down what a power cut there would leave; then all goes on.

        `looked_back` looks at it: no JVM is lost for it. Returns whether the call came; where it did not, the cut is after the answers.
        """
        with self._clients(statements, fail_at=at, error=HOLD) as (disk, clients):
            until(lambda: bool(self.shim["held"]) or self._settled(clients), what=self.server.words, pause=0.02)
            came = bool(self.shim["held"])
            time.sleep(_IN_FLIGHT_SECONDS)  # what other threads had begun
            told = clients.told()
            copy = self._copies.enter_context(copied_now(self._dsn, self._template))
            disk.replay(self.shim.journal)
            self.shim.disarm()
            until(clients.done, what=self.server.words)
        assert all(answer.ok for _, _, answer in clients.told().answers), clients.told()
        self._cuts.append(_Cut(dsn=copy, disk=disk, told=told))
        for _, table, _ in told.answers:
            self.server.sql(f"DROP TABLE {table}")
        return came

    def looked_back(self) -> int:
        """Stop the server, and look at each disk that a power cut would have left, in both kinds; returns how many."""
        self._off()
        with self._copies:
            for cut in self._cuts:
                for left in Left:
                    with copied(cut.dsn) as copy:
                        self._looked_at(copy, cut.disk, left, cut.told)
        return len(Left) * len(self._cuts)

    @contextmanager
    def _clients(self, statements: Sequence[Statement], *, fail_at: int, error: int) -> Iterator[tuple[Disk, _Clients]]:
        """Clients that ask for statements at once, each of a table of its own, beside the job."""
        tables = [self._made(statement) for statement in statements]
        self.server.wait_for_spark(600)
        if self._job is not None:
            until(self._arrived, what=self.server.words)
            self._rows += 1
        disk = Disk(self.shim.root)
        self.shim.load(fail_at=fail_at, error=error)
        self.shim.arm()
        with ThreadPoolExecutor(len(statements) + 1) as pool:
            asked = [
                (statement, table, pool.submit(self._ask, statement.text.replace("{t}", table)))
                for statement, table in zip(statements, tables, strict=True)
            ]
            fed = pool.submit(self._feed) if self._job is not None else None
            try:
                yield disk, _Clients(asked=asked, fed=fed, rows=self._rows)
            except BaseException:
                self.shim.disarm()  # so that nobody waits for ever
                raise

    def _made(self, statement: Statement) -> str:
        self._tables += 1
        table = f"t{self._tables}"
        with self._world(self._dsn) as maker:
            made(maker, table, _OPTIONS)
            maker.must(*(text.replace("{t}", table) for text in statement.before))
            maker.settle()
        return table

    def _world(self, dsn: str) -> AbstractContextManager[World]:
        return world(dsn, self.server.directory, warehouse=str(self.server.warehouse))

    def _ask(self, text: str) -> Answer:
        try:
            answer = self.server.post(text)
        except httpx.TransportError:
            return _POWER_WENT
        return Answer(status=answer.status_code, body=answer.json())

    def _feed(self) -> bool:
        """Insert the job's newest row under its key; whether that was answered."""
        text = f"INSERT INTO src VALUES ({self._rows - 1}, 'x')"
        try:
            return self.server.post(text, Idempotency_Key=f"row-{self._rows - 1}").status_code == 200
        except httpx.TransportError:
            return False

    def _settled(self, clients: _Clients) -> bool:
        """Whether all was answered and brought, and no file was touched for a while: what follows an answer belongs to the statement."""
        if not clients.done() or (self._job is not None and not self._brought()):
            return False
        before = self.shim["calls"]
        return not eventually(lambda: self.shim["calls"] != before, _QUIET_SECONDS)

    def _brought(self) -> bool:
        """Whether the job's newest row was decided; asks Postgres alone, since the server may be held."""
        with psycopg.connect(self._dsn) as conn:
            found = conn.execute(_DECIDED_ROWS).fetchone()
        return found is not None and int(found[0]) == self._rows

    def _off(self) -> None:
        """End all that works below the warehouse, by its id."""
        control = str(self.shim.control)
        self.server.kill()

        def nobody() -> bool:
            found = [process.pid for process in psutil.process_iter() if _environment(process).get("TEST_FAULT_CONTROL") == control]
            for pid in found:
                with contextlib.suppress(ProcessLookupError):  # it ends by itself just now
                    os.kill(pid, signal.SIGKILL)
            return not found

        assert eventually(nobody, 60)

    def _looked_at(self, dsn: str, disk: Disk, left: Left, told: Told) -> None:
        disk.write(self.shim.root, left)
        self._verified(dsn, told)

    def _verified(self, dsn: str, told: Told) -> None:
        with self._world(dsn) as fresh:
            for statement, table, answer in told.answers:
                verified(fresh, Operation(name=statement.name, run=lambda world, table: [], after=statement.after), table, [answer])
                fresh.must(f"DROP TABLE {table}")
            if told.rows:
                source, target = fresh.ids("src"), fresh.ids("dst")
                assert source in ([[*range(told.rows)]] if told.fed else [[*range(told.rows)], [*range(told.rows - 1)]])
                assert target in (source, source[:-1]), "each row of before was brought, and none came from nowhere"

    def _arrived(self) -> bool:
        """Whether the job has brought all rows; the newest is asked for again under its key."""
        self._feed()
        found = job(self.server, str(self._job))
        assert found["state"] != "FAILED", found
        rows = [row[0] for row in self.server.sql("SELECT id FROM dst")]
        assert rows == list(range(len(rows))), f"lost or doubled: {rows[-20:]}"
        return len(rows) == self._rows


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:
        return {}
