"""A JVM that ran out of memory goes on where it can, and is killed where it answers nobody any more."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# A process of its own: Spark is killed in it.
SCRIPT = """
import os, signal, sys, time
from pathlib import Path
from py4j.protocol import Py4JJavaError
from sql.spark.session.pool import SparkPool
from sql.spark.session.settings import SparkSettings

def wait_for(condition, seconds=200.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)

pool = SparkPool(SparkSettings(master="local[1]", driver_memory="512m", directory=Path(sys.argv[1])))
pool.start_in_background()
first, java = pool.root(), pool._java
assert not java.out_of_memory.exists()
try:
    java.gateway.jvm.java.nio.ByteBuffer.allocate(2**31 - 1)
    raise AssertionError("2 GB in a heap of half of one")
except Py4JJavaError as problem:
    assert "OutOfMemoryError" in str(problem)
wait_for(java.out_of_memory.exists)
assert pool.session().sql("SELECT 40 + 2").collect()[0][0] == 42
assert pool.root() is first, "one that has its memory again goes on"
os.kill(java._process.pid, signal.SIGSTOP)
wait_for(lambda: pool._root is not first and pool.ready)
assert not java.lives()
assert not pool._java.out_of_memory.exists()
assert pool.session().sql("SELECT 40 + 2").collect()[0][0] == 42
pool.stop()
print("done")
"""


@pytest.mark.torture
def test_a_jvm_that_ran_out_of_memory_and_answers_nobody_is_killed(tmp_path: Path) -> None:
    root = Path(__file__).parents[3]
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "scratch")],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.stdout.splitlines()[-1:] == ["done"], done.stdout + done.stderr[-4000:]
