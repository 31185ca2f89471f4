"""A few processes that decode what came from elsewhere: one whose input kills it costs that request, and another takes its place."""

from __future__ import annotations

import contextlib
import logging
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import orjson

from model.errors import InvalidData, TooManyStatements, Unavailable
from model.work.deciding import present_decider
from model.work.fair_queue import FairQueue
from model.work.fair_share import may_have_another
from model.work.waiting import wait_for
from table.format.manifests.entries import NewFile
from workers.launch import OF_STORES, launch
from workers.spool import in_memory
from workers.task import BodyTask, error_of, files_of
from workers.wire import Gone, receive, send

T = TypeVar("T")
_log = logging.getLogger(__name__)
_START_SECONDS = 60.0
_LEAST_BYTES_A_SECOND = 1 << 20
_CLOSE_SECONDS = 10.0
_STOPPING = "The server is stopping; nothing of it was kept. Send it again in a moment."
_LOOK_SECONDS = 0.5
"""Whoever waits for a worker looks so often whether somebody waits for its answer."""
_INHERITED = ("PATH", "HOME", "LANG", "TZ", "TMPDIR", "LD_LIBRARY_PATH", "PYTHONPATH", "SSL_CERT_FILE", "SSL_CERT_DIR", "no_proxy")
_INHERITED_PREFIXES = ("LC_", *OF_STORES, "HTTP_", "HTTPS_", "http_", "https_")
"""What a worker needs of the environment: its interpreter, and the credentials of the store it writes to; no token and no catalog."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerLimits:
    """What the workers may take."""

    count: int = 2
    memory_bytes: int = 2 << 30
    """Address space of each beyond what it starts with."""
    seconds: float = 600.0
    """A body that takes longer, and a second longer for each MB of it, is given up, and its worker with it."""
    wait_seconds: float = 60.0
    """How long a body waits for a worker that is free."""
    kept: int = 1
    """So many more, which start when they are needed, for principals of whom no worker decodes anything."""
    waiting: int = 64
    """So many bodies wait at once, each on a thread; of one principal four fifths."""


class WorkerPool:
    """Hands tasks to workers, in fair turns among principals; each does one at a time."""

    def __init__(self, limits: WorkerLimits | None = None, *, what: str = "bodies") -> None:
        self.limits = limits or WorkerLimits()
        self._what = what
        self._lock = threading.Condition()
        self._idle: list[_Worker] = []
        self._all: set[_Worker] = set()
        self._at_work: set[_Worker] = set()
        self._waiting = FairQueue[_Turn](threads=self.limits.count + self.limits.kept, places=self.limits.count)
        self._closed = False

    def start(self, count: int | None = None) -> None:
        """Start all workers now, or so many, without waiting for them; otherwise each starts when it is needed."""
        for _ in range(self.limits.count if count is None else count):
            try:
                made = _Worker(self.limits)
            except Unavailable as problem:
                _log.warning("%s Workers start when they are needed.", problem)
                return
            with self._lock:
                self._all.add(made)
                self._idle.append(made)

    def pids(self) -> list[int]:
        """The processes there are."""
        with self._lock:
            return [worker.pid for worker in self._all]

    def write(self, task: BodyTask, body: int, remove: Callable[[str], None], *, owner: str | None = None) -> list[NewFile]:
        """Let a worker write a body, given as a descriptor at its beginning, as data files, which are the caller's from then on.

        The ``owner`` is the principal whose turn it takes. What stops the present context's work ends the worker.

        Raises what decoding raises; `InvalidData` where it killed the worker or took too long, after ``remove`` has been called with
        the path of each file the worker may have left.
        """
        return self._with_worker(lambda worker: worker.write(task, body, remove), owner)

    def ask(self, task: bytes, file: int, *, owner: str | None = None) -> dict[str, object]:
        """Let a worker do a task that leaves nothing behind but its answer and what it writes to a file, given as a descriptor.

        The ``owner`` is the principal whose turn it takes.

        Raises what the task raises, and `WorkerLost` where it killed the worker or took too long.
        """
        return self._with_worker(lambda worker: worker.ask(task, file), owner)

    def _with_worker(self, use: Callable[[_Worker], T], owner: str | None = None) -> T:
        with self._turn(owner):
            while True:
                worker = self._take()
                try:
                    return use(worker)
                except _NotBegun:  # it had died before, of something else
                    continue
                finally:
                    self._give_back(worker)

    def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """End all workers; of those at work, wait so long until what they made is removed, by whoever waits for them."""
        with self._lock:
            self._closed = True
            idle, at_work = self._all - self._at_work, list(self._at_work)
            self._all, self._idle = set(), []
            self._lock.notify_all()
        for worker in idle:
            worker.kill()
        for worker in at_work:
            worker.stop()
        with self._lock:
            self._lock.wait_for(lambda: not self._at_work, seconds)

    @contextlib.contextmanager
    def _turn(self, owner: str | None) -> Iterator[None]:
        """Wait until a worker may be used, for as long as the block lasts; raises `TooManyStatements`."""
        turn = _Turn(owner)
        with self._lock:
            self._check_place(owner)
            self._waiting.push(turn)
            self._let_in()
        try:
            with self._lock:
                if not wait_for(self._lock, lambda: turn.come or self._closed, self.limits.wait_seconds, present_decider().check):
                    raise TooManyStatements(
                        f"All {self.limits.count} processes that decode {self._what} are at work (SLUICE_ROWS_WORKERS); send it again soon."
                    )
            yield
        finally:
            with self._lock:
                if turn.come:
                    self._waiting.done(turn)
                    self._let_in()
                else:
                    self._waiting.remove(turn)

    def _check_place(self, owner: str | None) -> None:
        own, waiting = self._waiting.waiting_of(owner), len(self._waiting)
        if owner is None or self._waiting.runs_at_once(owner) or may_have_another(own, waiting, self.limits.waiting):
            return
        raise TooManyStatements(
            f"All {self.limits.count} processes that decode {self._what} are at work (SLUICE_ROWS_WORKERS), {waiting} more wait for them, "
            f"{own} of them of {owner}; send it again soon."
        )

    def _let_in(self) -> None:
        while (turn := self._waiting.pop()) is not None:
            turn.come = True
            self._lock.notify_all()

    def _take(self) -> _Worker:
        """A worker, an idle one or a new one; whose turn it is finds one."""
        with self._lock:
            if self._closed:
                raise Unavailable(_STOPPING)
            while self._idle:
                worker = self._idle.pop()
                if worker.alive():
                    self._at_work.add(worker)
                    return worker
                worker.kill()  # nothing is left of it but its socket
                self._all.discard(worker)
        made = _Worker(self.limits)
        with self._lock:
            self._all.add(made)
            self._at_work.add(made)
        return made

    def _give_back(self, worker: _Worker) -> None:
        with self._lock:
            self._at_work.discard(worker)
            self._lock.notify_all()
            if worker.alive() and not self._closed and len(self._idle) < self.limits.count:
                self._idle.append(worker)
                return
            self._all.discard(worker)
        worker.kill()


class _Turn:
    """Somebody who waits for a worker, or uses one."""

    def __init__(self, owner: str | None) -> None:
        self.owner = owner
        self.come = False


class _NotBegun(Exception):
    """The worker was dead before it looked at the task."""


class WorkerLost(Exception):
    """A task ended its worker, or was given up."""

    def __init__(self, status: str, *, late: bool, killed: bool) -> None:
        super().__init__(status)
        self.status = status
        self.late = late
        """Whether it was given up because it took too long."""
        self.killed = killed
        """Whether somebody else may have ended the worker, as a system does that is out of memory."""


class _Worker:
    """One process and the socket to it."""

    def __init__(self, limits: WorkerLimits) -> None:
        self._limits = limits
        self._end, its = socket.socketpair()
        self._journal = in_memory()
        """The paths of the files made for the task at hand, one a line, written by the worker and read here when it has died."""
        try:
            self._process = launch(
                [sys.executable, "-P", "-m", "workers", str(its.fileno()), str(self._journal.fileno()), str(limits.memory_bytes)],
                pass_fds=[its.fileno(), self._journal.fileno()],
                env=_environment(),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as problem:
            self._end.close()
            self._journal.close()
            raise Unavailable(
                f"No process could be started that decodes what came: {problem.strerror}. Nothing was changed; send it again in a moment."
            ) from problem
        finally:
            its.close()
        self._ready = self._stopped = False

    @property
    def pid(self) -> int:
        return self._process.pid

    def alive(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> None:
        """End it while it is at work: whoever waits for its answer removes what it made, and lets go of it."""
        self._stopped = True
        self._process.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()
        self._end.close()
        self._journal.close()

    def write(self, task: BodyTask, body: int, remove: Callable[[str], None]) -> list[NewFile]:
        seconds = self._limits.seconds + os.fstat(body).st_size / _LEAST_BYTES_A_SECOND
        return self._done(task.to_json(), body, seconds, files_of, remove, lambda problem: self._lost(problem, seconds))

    def ask(self, task: bytes, file: int) -> dict[str, object]:
        return self._done(task, file, self._limits.seconds, lambda answer: answer, lambda path: None, self._ended)

    def _done(
        self,
        task: bytes,
        file: int,
        seconds: float,
        taken: Callable[[dict[str, object]], T],
        remove: Callable[[str], None],
        lost: Callable[[BaseException], Exception],
    ) -> T:
        """Send a task and wait for its answer; a worker that does not answer is dead when this returns, and what it made is removed."""
        until = time.monotonic() + seconds + (0 if self._ready else _START_SECONDS)
        try:
            if not self._ready:
                self._next(until)
                self._ready = True
            self._end.settimeout(self._limits.seconds)
            self._journal.seek(0)
            self._journal.truncate()
            send(self._end, task, file)
            answer = self._next(until)
            if "error" not in answer and "bug" not in answer:
                return taken(answer)
        except BaseException as problem:
            begun, paths = self._end_and_ask()
            for path in paths:
                with contextlib.suppress(Exception):  # nobody names it, and it is found later as an orphan
                    remove(path)
            if self._stopped:
                raise Unavailable(_STOPPING) from problem
            if not begun and self._ready and isinstance(problem, Gone | ConnectionError):
                raise _NotBegun from problem
            if isinstance(problem, Gone | OSError | ValueError):
                raise lost(problem) from problem
            raise
        if "error" in answer:
            raise error_of(answer)
        raise RuntimeError(f"A worker met a bug:\n{answer.get('bug')}")

    def _end_and_ask(self) -> tuple[bool, list[str]]:
        """Make sure that it is dead; returns whether it had begun the task, and which files it had made."""
        self._process.kill()
        self._process.wait()
        self._journal.seek(0)
        noted = self._journal.read().decode()
        self.kill()
        return bool(noted), [path for path in noted.split("\n") if path]

    def _next(self, until: float) -> dict[str, object]:
        """What it says next; raises where nobody wants to know any more."""
        said = select.poll()
        said.register(self._end, select.POLLIN)
        decider = present_decider()
        while not said.poll(1000 * max(0.0, min(until - time.monotonic(), _LOOK_SECONDS))) and time.monotonic() < until:
            decider.check()
        self._end.settimeout(max(0.001, until - time.monotonic()))
        message, file = receive(self._end)
        if file is not None:
            os.close(file)
        answer = orjson.loads(message)
        if not isinstance(answer, dict):
            raise Gone
        return answer

    def _status(self) -> str:
        """How it ended, as people call it."""
        status = self._process.returncode
        with contextlib.suppress(ValueError):
            return signal.Signals(-status).name if status < 0 else str(status)
        return str(status)

    def _ended(self, problem: BaseException) -> WorkerLost:
        late, status = isinstance(problem, TimeoutError), self._status()
        return WorkerLost(status, late=late, killed=status in ("SIGKILL", "SIGTERM"))

    def _lost(self, problem: BaseException, seconds: float) -> InvalidData:
        if isinstance(problem, TimeoutError):
            return too_late(seconds)
        status = self._status()
        _log.warning("Worker %d ended (%s) while it decoded a body", self.pid, status)
        return InvalidData(
            f"The process that decoded the body ended ({status}): the body is damaged, or needs more than the "
            f"{self._limits.memory_bytes >> 20} MB there are for it (SLUICE_ROWS_WORKER_MEMORY). Nothing was committed."
        )


def too_late(seconds: float) -> InvalidData:
    """The refusal of a body that takes longer than it may."""
    return InvalidData(
        f"The body was not decoded and written within {seconds:g} seconds (SLUICE_ROWS_WORKER_SECONDS), and given up. "
        "Nothing was committed; send it in smaller parts."
    )


def _environment() -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name in _INHERITED or name.startswith(_INHERITED_PREFIXES)}
    return inherited | {"ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"}
