"""Processes are started again where the system lacked something for a moment; who needs one is told where it goes on lacking."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from model.errors import Unavailable
from tests.waiting import eventually
from workers import launch as launching
from workers.launch import launch
from workers.pool import WorkerLimits, WorkerPool

COMMAND = [sys.executable, "-c", "raise SystemExit(7)"]
_Real = subprocess.Popen


class Lacking:
    """Starts processes, but for the first few times, which fail as the system would."""

    def __init__(self, number: int, times: int) -> None:
        self.number, self.left = number, times

    def __call__(self, command: list[str], **options: Any) -> subprocess.Popen[Any]:
        if self.left:
            self.left -= 1
            raise OSError(self.number, os.strerror(self.number), command[0])
        return _Real(command, **options)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "_PAUSES_SECONDS", (0.0, 0.0, 0.0))


def lack(monkeypatch: pytest.MonkeyPatch, number: int, times: int) -> None:
    monkeypatch.setattr(subprocess, "Popen", Lacking(number, times))


@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM, errno.EFAULT])
def test_what_is_lacking_for_a_moment_is_waited_for(monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    lack(monkeypatch, number, 3)
    assert launch(COMMAND).wait() == 7


def test_what_goes_on_lacking_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    lack(monkeypatch, errno.EAGAIN, 4)
    with pytest.raises(BlockingIOError):
        launch(COMMAND)


def test_a_program_that_is_not_there_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    lack(monkeypatch, errno.ENOENT, 1)
    with pytest.raises(FileNotFoundError):
        launch(COMMAND)


def test_a_pool_without_processes_says_so_and_finds_them_later(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = WorkerPool(WorkerLimits(count=1))
    before = len(os.listdir("/proc/self/fd"))
    lack(monkeypatch, errno.EAGAIN, 8)
    try:
        pool.start()  # the server starts all the same
        with pytest.raises(Unavailable, match="Resource temporarily unavailable"):
            pool.ask(b"{}", 0)
        # What others left may go meanwhile, and a thread of theirs may have something open for a moment.
        assert eventually(lambda: len(os.listdir("/proc/self/fd")) <= before, 60)
        with pytest.raises(Exception, match="KeyError"):  # a worker answers: the task itself is none
            pool.ask(b"{}", 0)
    finally:
        pool.close()


def test_a_worker_whose_server_is_gone_before_it_is_ready_says_nothing(tmp_path: Path) -> None:
    ours, its = socket.socketpair()
    ours.close()
    with its, (tmp_path / "journal").open("w+b") as journal:
        command = [sys.executable, "-m", "workers", str(its.fileno()), str(journal.fileno()), str(1 << 30)]
        ended = subprocess.run(command, pass_fds=(its.fileno(), journal.fileno()), capture_output=True)
    assert (ended.returncode, ended.stderr) == (0, b"")
