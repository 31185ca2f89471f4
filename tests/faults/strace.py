"""A running process's system calls as `strace` sees them, from outside: what was flushed when, and what was sent to Postgres."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

_CALLS = "openat,creat,fsync,fdatasync,rename,renameat,renameat2,link,linkat,sendto,sendmsg,write"
_LINE = re.compile(r"^(\d+) +(?:<\.\.\. )?(\w+)(\(| resumed>)(.*)$")
_PATH = re.compile(r"<(/[^<>]*)>")
_NAMED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ATTACH_SECONDS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call: the numbers of the lines where it began and where it had ended."""

    name: str
    text: str
    began: int
    ended: int


@dataclass(slots=True)
class Trace:
    """The calls of some processes, in the order they ended."""

    path: Path
    calls: list[Call] = field(default_factory=list)

    def read(self) -> None:
        """Take in what was written down."""
        open_calls: dict[str, tuple[str, int]] = {}
        for number, line in enumerate(self.path.read_text(errors="replace").splitlines()):
            match = _LINE.match(line)
            if match is None:
                continue
            process, name, how, rest = match.groups()
            began, text = number, rest
            if how != "(":
                before, began = open_calls.pop(process, ("", number))
                text = before + rest
            if text.endswith("<unfinished ...>"):
                open_calls[process] = (text.removesuffix("<unfinished ...>"), began)
                continue
            if " = -1 " not in text:
                self.calls.append(Call(name=name, text=text, began=began, ended=number))

    def sent(self, text: str) -> list[Call]:
        """What was sent through a socket with a text in it."""
        return [call for call in self.calls if call.name in ("sendto", "sendmsg", "write") and "socket:" in call.text and text in call.text]

    def flushed(self, path: Path, *, before: int) -> bool:
        """Whether a file, under this name or the one it had before, was flushed, and then the directory that names it."""
        named = self._named(path, before)
        file = any(
            call.ended < before and call.name in ("fsync", "fdatasync") and _paths(call)[:1] in ([str(name)] for name in named)
            for call in self.calls
        )
        return file and self._directory_flushed(path, before)

    def _named(self, path: Path, before: int) -> set[Path]:
        names = {path}
        for call in reversed(self.calls):
            if call.name.startswith("rename") and call.ended < before:
                old, new = _paths(call)[-2:]
                if Path(new) in names:
                    names.add(Path(old))
        return names

    def _directory_flushed(self, path: Path, before: int) -> bool:
        made = [
            call.ended
            for call in self.calls
            if call.ended < before and (call.name.startswith(("rename", "link")) or "O_CREAT" in call.text) and str(path) in _paths(call)
        ]
        return bool(made) and any(
            max(made) < call.ended < before and call.name == "fsync" and _paths(call)[:1] == [str(path.parent)] for call in self.calls
        )


def _paths(call: Call) -> list[str]:
    """Absolute paths of a call, descriptors' and arguments'; relative arguments belong to the descriptor before them."""
    paths: list[str] = []
    for token in re.finditer(rf"{_PATH.pattern}|{_NAMED.pattern}", call.text):
        if token[1] is not None:
            paths.append(token[1])
        elif token[2].startswith("/"):
            paths.append(token[2])
        elif paths and call.name != "write":
            paths.append(f"{paths[-1] if not paths[-1].endswith(token[2]) else Path(paths[-1]).parent}/{token[2]}")
    return paths


@contextlib.contextmanager
def traced(processes: Sequence[int], to: Path) -> Iterator[Trace]:
    """Trace processes, with all their threads and children, in a block; the calls can be looked at afterwards."""
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("strace cannot be had here: the order of flushes is not looked at from outside.")
    command = [strace, "-f", "-qq", "-y", "-s", "100000", "-e", f"trace={_CALLS}", "-e", "signal=none", "-o", str(to)]
    for pid in processes:
        command += ["-p", str(pid)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as running:
        trace = Trace(to)
        try:
            _wait_until_attached(processes, running)
            yield trace
        finally:
            running.send_signal(signal.SIGINT)
            running.wait(_ATTACH_SECONDS)
        trace.read()


def _wait_until_attached(processes: Sequence[int], running: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + _ATTACH_SECONDS
    while not all(_traced(thread) for pid in processes for thread in Path(f"/proc/{pid}/task").iterdir()):
        if running.poll() is not None:
            assert running.stderr is not None
            pytest.skip(f"strace may not attach here: the order of flushes is not looked at from outside. {running.stderr.read()!r}")
        assert time.monotonic() < until, "strace did not attach"
        time.sleep(0.05)


def _traced(thread: Path) -> bool:
    try:
        return "TracerPid:\t0\n" not in (thread / "status").read_text()
    except (FileNotFoundError, ProcessLookupError):  # it has ended
        return True
