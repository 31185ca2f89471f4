"""What was freed between pieces that live is the system's again."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest

_FREED = """
import time
from pathlib import Path
from server.process.memory import given_back

def held():
    return int(next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon")).split()[1])

pieces = [b"x" * (8000 + number % 7) for number in range(10_000)]
kept = pieces[::50]
del pieces
before = held()
end = given_back(seconds=0.05)
until = time.monotonic() + 60
while held() > before - 50_000 and time.monotonic() < until:
    time.sleep(0.05)
end()
print(before, held(), len(kept))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library has other ways")
def test_freed_memory_goes_back_to_the_system() -> None:
    told = subprocess.run([sys.executable, "-c", _FREED], check=True, capture_output=True, text=True, timeout=300).stdout
    before, after, _ = map(int, told.split())
    assert after <= before - 50_000, "kB"
