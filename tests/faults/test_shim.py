"""What the layer under a process counts, fails and holds."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.shim import HOLD, Shim
from tests.waiting import eventually

_READ = """
import os, sys
file = os.open(sys.argv[1], os.O_RDONLY)
print(os.pread(file, 2, 0) + os.read(file, 2), os.readv(file, [bytearray(1)]))
"""
_WRITE = "import os, sys; f = os.open(sys.argv[1], os.O_WRONLY); os.write(f, b'abcd'); os.fsync(f); print('done')"


@pytest.fixture
def shim(tmp_path: Path, shim_library: Path) -> Iterator[Shim]:
    root = tmp_path / "root"
    root.mkdir()
    (root / "file").write_bytes(b"abcd")
    made = Shim(shim_library, tmp_path, root)
    yield made
    made.close()


def started(shim: Shim, program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program, str(shim.root / "file")],
        env=os.environ | shim.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_readings_are_counted_and_fail_where_they_are_asked_for(shim: Shim) -> None:
    shim.load(reads=True)
    shim.arm()
    assert started(shim, _READ).communicate()[0] == "b'abab' 1\n"
    assert shim["calls"] == 4, "one opening and three readings"
    for fail_at in range(1, 5):
        shim.load(fail_at=fail_at, error=errno.EIO, reads=True)
        shim.arm()
        assert os.strerror(errno.EIO) in started(shim, _READ).communicate()[1]
        assert shim["faults"] == 1


def test_readings_are_not_counted_among_changes_nor_changes_among_readings(shim: Shim) -> None:
    for program, reads, calls in ((_READ, False, 1), (_WRITE, True, 1), (_WRITE, False, 3)):
        shim.load(reads=reads)
        shim.arm()
        started(shim, program).communicate()
        assert shim["calls"] == calls, program


def test_who_is_held_goes_on_when_it_is_let_go(shim: Shim) -> None:
    shim.load(fail_at=2, error=HOLD)
    shim.arm()
    writer = started(shim, _WRITE)
    assert eventually(lambda: bool(shim["held"]))
    other = started(shim, _WRITE)
    with pytest.raises(subprocess.TimeoutExpired):
        other.wait(0.5)
    assert shim["calls"] == 2, "nobody's call is done meanwhile"
    shim.disarm()
    assert (writer.communicate()[0], other.communicate()[0]) == ("done\n", "done\n")
