"""The layer under a process (`shim.c`): built here, steered by a file that all its processes map."""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.running import RunningServer

SOURCE = Path(__file__).parent / "shim.c"
SHORT_WRITE, POWER_CUT, KILL, HOLD = -1, -2, -3, -4
"""What may happen at a call instead of an errno."""
_FIELDS = ("armed", "calls", "fail_at", "error", "lasting", "faults", "dead", "shadows", "sends", "changes", "held", "reads", "victim")
_SIZE = 8 * len(_FIELDS)


class Shim:
    """One preloaded library with its control file and its journal, for processes that work below ``root``."""

    def __init__(self, library: Path, directory: Path, root: Path) -> None:
        self.library, self.root = library, root
        self.control, self.journal = directory / "control", directory / "journal"
        self.control.write_bytes(bytes(_SIZE))
        with self.control.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _SIZE)

    @property
    def environment(self) -> dict[str, str]:
        """What a process is started with."""
        return {
            "LD_PRELOAD": str(self.library),
            "TEST_FAULT_CONTROL": str(self.control),
            "TEST_FAULT_ROOT": str(self.root),
            "TEST_FAULT_JOURNAL": str(self.journal),
        }

    def __getitem__(self, name: str) -> int:
        (value,) = struct.unpack_from("q", self._map, 8 * _FIELDS.index(name))
        return int(value)

    def _set(self, name: str, value: int) -> None:
        struct.pack_into("q", self._map, 8 * _FIELDS.index(name), value)

    def load(
        self,
        *,
        fail_at: int = 0,
        error: int = 0,
        lasting: bool = False,
        sends: bool = False,
        changes: bool = False,
        reads: bool = False,
        victim: int = 0,
    ) -> None:
        """Let the n-th call fail of those that come once a process, or `arm`, says that it begins.

        With ``sends`` every message to another process counts as two: one before it is on its way, and one after. With ``changes`` only
        calls that change what is there count, with ``reads`` only openings of what is there and readings. A ``victim`` is who `KILL` ends
        instead of the caller, and whose messages to Postgres count.
        """
        self.forget_journal()
        for name, value in {
            "armed": 0,
            "calls": 0,
            "faults": 0,
            "dead": 0,
            "held": 0,
            "fail_at": fail_at,
            "error": error,
            "lasting": int(lasting),
            "sends": int(sends),
            "changes": int(changes),
            "reads": int(reads),
            "victim": victim,
        }.items():
            self._set(name, value)

    def arm(self) -> None:
        """Count from now on."""
        self._set("armed", 1)

    def disarm(self) -> None:
        """Count and fail nothing; the power is on again, and who was held goes on."""
        for name in ("armed", "fail_at", "dead", "held"):
            self._set(name, 0)

    def forget_journal(self) -> None:
        """Begin the journal anew."""
        for path in self.journal.parent.glob(f"{self.journal.name}*"):
            path.unlink()

    def close(self) -> None:
        """Let go of the control file."""
        self._map.close()


@pytest.fixture(scope="session")
def shim_library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library to preload."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("There is no C compiler here: faults below the process are not tried.")
    library = tmp_path_factory.mktemp("shim") / "shim.so"
    subprocess.run([compiler, "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", library, SOURCE, "-ldl"], check=True)
    return library


@contextmanager
def server_below(library: Path, directory: Path, **settings: str) -> Iterator[tuple[RunningServer, Shim]]:
    """A server of which all processes are under the shim, as they work below its warehouse."""
    shim = Shim(library, directory, directory / "server" / "data" / "warehouse")
    server = RunningServer(directory / "server", **shim.environment, **settings)
    try:
        server.start()
        yield server, shim
    finally:
        server.stop()
        shim.close()
