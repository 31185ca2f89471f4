"""Jobs whose server, whose Spark, or both die at a chosen write of their first two batches."""

from __future__ import annotations

import contextlib
import enum
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import httpx
import psutil

from tests.faults.disk import lines_of
from tests.faults.shim import KILL, POWER_CUT, Shim
from tests.running import Refused, RunningServer, runs
from tests.torture.job_campaign import job, start_job, until
from tests.waiting import eventually

_BEFORE = range(1000)
"""Rows that a source holds when its job is made."""
_ADDED = range(1000, 1002)
"""Rows of the second batch."""
_LATER = range(1002, 1004)
"""Rows that come once the server is back, before its Spark is."""
_PAUSE = 0.02
SERVER = "the server"
_CHANGING = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{16,}|\d+(?=$|[-./_])")


class Victim(enum.Enum):
    """Who dies."""

    SERVER = SERVER
    """Its Spark and its Postgres find out by themselves."""
    CALLER = "who writes"
    """Spark's JVM, one of its Python processes, or the server."""
    ALL = "server and Spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Struck:
    """What came of a few jobs."""

    came: bool
    """Whether they got as far as the call."""
    died: str
    """Who died first; empty where nobody did."""
    where: str
    """The file that was about to be written, without its ids."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Flow:
    """A job of the campaign: its tables."""

    source: str
    target: str
    mode: str

    @property
    def statement(self) -> str:
        return f"INSERT INTO {self.target} SELECT n, batch FROM {self.source} /*+ OPTIONS('scan.mode' = '{self.mode}') */"

    @property
    def first(self) -> Sequence[int]:
        """What the job brings of that which was there before it."""
        return _BEFORE if self.mode == "default" else ()


class FirstBatches:
    """A server that is struck in the first two batches of new jobs, again and again, with everything compared afterwards."""

    def __init__(self, server: RunningServer, shim: Shim) -> None:
        self.server, self.shim = server, shim
        self._made = 0

    def strike(self, at: int, victim: Victim, *, mode: str = "default", sends: bool = False, jobs: int = 1) -> Struck:
        """Let jobs run, with a death at the n-th write of all (with ``sends`` also before and after each message to Postgres); 0: without.

        Asserts that each target holds each row that is its job's exactly once, in order.
        """
        flows = [self._flow(mode) for _ in range(jobs)]
        self.server.wait_for_spark()
        process, jvm = self.server.process, self._jvm()
        self.shim.load(
            fail_at=at,
            error=POWER_CUT if victim is Victim.ALL else KILL,
            changes=True,
            sends=sends,
            victim=process.pid if victim is Victim.SERVER or sends else 0,
        )
        self.shim.arm()
        with ThreadPoolExecutor(jobs) as pool:
            ids = list(pool.map(self._worked, flows))
        came = bool(at) and self.shim["calls"] >= at
        if victim is Victim.ALL and came:
            self.server.kill()
            with contextlib.suppress(psutil.NoSuchProcess):
                jvm.kill()
        where = self._where()
        self.shim.disarm()
        died = self._who_died(process, jvm) if came else ""
        if died == SERVER:
            self.server.kill()  # and bury it
            self.server.start()
        for flow, job_id in zip(flows, ids, strict=True):
            self._checked(flow, job_id)
        return Struck(came=came, died=died, where=where)

    def _flow(self, mode: str) -> _Flow:
        self._made += 1
        flow = _Flow(source=f"src{self._made}", target=f"dst{self._made}", mode=mode)
        for table in (flow.source, flow.target):
            self.server.sql(f"CREATE TABLE {table} (n BIGINT, batch BIGINT) WITH ('write-only' = 'true')")
        self._add(flow.source, _BEFORE)
        return flow

    def _jvm(self) -> psutil.Process:
        return self.server.jvms()[0]

    def _where(self) -> str:
        paths = [line.split("\t")[2] for line in lines_of(self.shim.journal) if line.startswith("X\t")]
        return _CHANGING.sub("*", paths[0].removeprefix(str(self.shim.root))) if paths else ""

    def _who_died(self, server: psutil.Process, jvm: psutil.Process) -> str:
        eventually(lambda: not runs(server.pid) or not runs(jvm.pid), seconds=1)
        return "another process" if runs(server.pid) and runs(jvm.pid) else "the JVM" if runs(server.pid) else SERVER

    def _worked(self, flow: _Flow) -> str | None:
        """Let a job do its first batch, then its second, or die; its id, None where the server did not live to tell it."""
        try:
            job_id = start_job(self.server, flow.statement)
        except (httpx.TransportError, AssertionError):
            return None
        if flow.first:
            until(lambda: self._fell() or self._count(flow) >= len(flow.first), what=self.server.words, pause=_PAUSE)
        with contextlib.suppress(httpx.TransportError, Refused):
            if not self._fell():
                self._add(flow.source, _ADDED)
        until(lambda: self._fell() or self._count(flow) >= len(flow.first) + len(_ADDED), what=self.server.words, pause=_PAUSE)
        return job_id

    def _fell(self) -> bool:
        return self.shim["faults"] > 0

    def _count(self, flow: _Flow) -> int:
        return int(self.server.value(f"SELECT COUNT(*) FROM {flow.target}"))

    def _add(self, source: str, rows: range) -> None:
        """Insert rows under a key of their own, so that a repeat adds nothing; gives up where the server has just died."""
        values = ", ".join(f"({n}, 0)" for n in rows)

        def done() -> bool:
            answer = self.server.post(f"INSERT INTO {source} VALUES {values}", Idempotency_Key=f"{source}-{rows[0]}")
            return answer.status_code == 200 or (bool(self.shim["armed"]) and self._fell())

        until(done, what=self.server.words)

    def _checked(self, flow: _Flow, job_id: str | None) -> None:
        job_id = job_id or self._job_into(flow.target) or start_job(self.server, flow.statement)
        for rows in (_ADDED, _LATER):
            self._add(flow.source, rows)
        wanted = [*flow.first, *_ADDED, *_LATER]
        until(lambda: self._count(flow) >= len(wanted), what=lambda: (job(self.server, job_id), self.server.words()))
        rows = self.server.arrow(f"SELECT n FROM {flow.target}").column("n").to_pylist()
        assert rows == wanted, f"{flow}: {len(rows)} rows of {len(wanted)}, {len(rows) - len(set(rows))} doubled: {rows[-8:]}"
        self.server.sql(f"STOP JOB '{job_id}'")
        for table in (flow.source, flow.target):
            self.server.sql(f"DROP TABLE {table}")

    def _job_into(self, target: str) -> str | None:
        """The job whose answer was lost; None where it was not made."""
        ids = [row[0] for row in self.server.sql("SHOW JOBS") if row[1] == f"insert-into_{target}"]
        assert len(ids) <= 1, f"one statement made {len(ids)} jobs"
        return str(ids[0]) if ids else None
