"""A JVM that dies takes its statement with it, and nothing else: Spark is started anew."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.spark

# A process of its own: the other tests share one context, which must not die under them.
SCRIPT = """
import os, signal, sys, time
from pathlib import Path
from model.errors import Unavailable
from sql.spark.session.errors import translating
from sql.spark.session.pool import SparkPool
from sql.spark.session.settings import SparkSettings

def java():
    for task in Path("/proc/self/task").iterdir():
        for child in (task / "children").read_text().split():
            if "java" in os.readlink(f"/proc/{child}/exe"):
                return int(child)

def answer(lease):
    with lease.running("statement") as session, translating("", {}, lease.lost):
        return session.sql("SELECT 40 + 2 AS a").toArrow().column(0).to_pylist()

pool = SparkPool(SparkSettings(master="local[1]", driver_memory="512m"))
pool.start_in_background()
lease = pool.lease()
assert answer(lease) == [42]
pool.lost()
assert pool.ready, "one that lives is not started anew"
first = java()
with pool.running("dying"):
    os.kill(first, signal.SIGKILL)
    try:  # py4j has no one class of errors for it
        pool.session()
    except Unavailable as told:
        print("told:", told)
assert answer(lease) == [42]
assert java() not in (None, first)
"""
STOPPED = """
pool.root().stop()  # what a lost master does to a context
try:
    answer(lease)
except Unavailable as told:
    print("told:", told)
assert answer(lease) == [42]
"""
AGAIN = """
second = java()
pool.root().stop()
os.kill(second, signal.SIGKILL)  # a context that ends, and a JVM that dies before the next one is made
pool._renew(pool.root(), "stopped")
for _ in range(20):  # what was begun with the dead one is told, and tried again a second later
    try:
        assert answer(lease) == [42]
        break
    except Unavailable:
        time.sleep(1)
assert java() not in (None, second)
"""
END = """
pool.stop()
print("done")
"""


def ran(text: str, tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[3]
    script = tmp_path / "script.py"
    script.write_text(text)
    command = [sys.executable, str(script), *arguments]
    return subprocess.run(command, cwd=root, env={**os.environ, "PYTHONPATH": str(root)}, capture_output=True, text=True, timeout=300)


def test_a_dead_jvm_fails_its_statement_and_is_replaced(tmp_path: Path) -> None:
    _replaced(SCRIPT + END, tmp_path, told=1)


@pytest.mark.torture
def test_so_is_a_context_that_ends_and_a_jvm_that_dies_before_the_next_one_is_made(tmp_path: Path) -> None:
    _replaced(SCRIPT + STOPPED + AGAIN + END, tmp_path, told=2)


def _replaced(script: str, tmp_path: Path, *, told: int) -> None:
    done = ran(script, tmp_path)
    assert done.stdout.splitlines()[-1:] == ["done"], done.stdout + done.stderr
    assert done.stdout.count("told: Spark") == told, done.stdout


UNPACKS = """
import sys, time
from pathlib import Path
from model.errors import Unavailable
from sql.spark.session.pool import SparkPool
from sql.spark.session.settings import SparkSettings

obstacle = Path(sys.argv[1])
obstacle.write_text("a file where codecs are to be unpacked")
conf = {"spark.driver.extraJavaOptions": f"-Dorg.xerial.snappy.tempdir={obstacle}/codecs"}
pool = SparkPool(SparkSettings(master="local[1]", driver_memory="512m", conf=conf))
pool.start_in_background()
try:
    pool.root()
except Unavailable as told:
    print("told:", told)
obstacle.unlink()
until = time.monotonic() + 120
while not pool.ready:
    assert time.monotonic() < until
    time.sleep(0.5)
pool.ping()
pool.stop()
print("done")
"""


def test_spark_that_cannot_unpack_its_codecs_does_not_start_until_it_can(tmp_path: Path) -> None:
    """Unpacked later, on a disk that is full by then, they would fail each statement for as long as the JVM lives."""
    done = ran(UNPACKS, tmp_path, str(tmp_path / "obstacle"))
    assert done.stdout.splitlines()[-1:] == ["done"], done.stdout + done.stderr
    assert "told: Spark did not start, which is tried again" in done.stdout


STANDS_STILL = """
import os, signal, threading, time
from dataclasses import replace
from pathlib import Path
from sql.spark.driver import launch, watch
from sql.spark.driver.launch import Launcher
from sql.spark.session import pool as session
from sql.spark.session.pool import SparkPool
from sql.spark.session.settings import SparkSettings

launched = []
do_launch = Launcher.launch
stands_still = True

def launch_one(launcher):
    java = do_launch(launcher)
    launched.append(java)
    if stands_still:
        os.kill(java._process.pid, signal.SIGSTOP)  # before its context is made
    else:
        pool._settings = replace(pool._settings, standstill=60.0)  # on a busy machine one that starts may take its time
    return java

Launcher.launch = launch_one

def begun(number):
    while len(launched) < number:
        time.sleep(0.1)

watch._SOON_SECONDS = 3.0  # nobody but this process reads it, and those that are to end within them have been stopped
pool = SparkPool(SparkSettings(master="local[1]", driver_memory="512m", standstill=3.0))
pool.start_in_background()
begun(1)
stands_still = False
while not pool.ready:  # the first start is told as failed, and tried again
    time.sleep(0.1)
assert len(launched) == 2 and not launched[0].lives()
print("started")
pool._watch._limit = session._STOP_SECONDS = 10_000.0  # only who watches one that is to end kills it in time
os.kill(launched[1]._process.pid, signal.SIGSTOP)
pool.stop()
assert not launched[1].lives()

stands_still = True
pool = SparkPool(SparkSettings(master="local[1]", driver_memory="512m"))
pool.start_in_background()
begun(3)
while pool._java is None:
    time.sleep(0.1)
begin = time.monotonic()
pool.stop()
assert time.monotonic() - begin < 60
assert not launched[2].lives()
print("stopped")

launch.LAUNCH_SECONDS = 3.0
standby = SparkPool(SparkSettings(master="local[1]", driver_memory="512m"))
try:
    standby._launcher.launch_with_context()
except Exception:
    assert not any(java.lives() for java in launched[3:]), "a busy machine has launched none in time"
    print("given up")
standby.stop()
"""


def test_a_jvm_that_stands_still_while_it_starts_holds_up_neither_a_start_nor_a_stop(tmp_path: Path) -> None:
    done = ran(STANDS_STILL, tmp_path)
    assert done.stdout.splitlines() == ["started", "stopped", "given up"], done.stdout + done.stderr
    assert done.stderr.count("it has not answered for 3 s; it is killed") == 2, done.stderr
