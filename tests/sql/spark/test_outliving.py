"""A task that outlives its canceled statement is noticed, and ends with a new start of Spark; what needs no Spark goes on meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow]

# A process of its own: Spark is killed in it.
PRELUDE = """
import sys, threading, time
from catalog import CatalogStore
from lake import Lake
from model.errors import LakeError, StatementTimeout
from gateway.execution.canceller import Patience
from gateway.gateway import Gateway, GatewayLimits
from sql.spark.session.pool import SparkPool
from sql.spark.session.settings import SparkSettings

LOOP = "id"
for name in "xyz":  # 8,000 times 8,000 times 8,000 additions in one row, which nothing interrupts
    LOOP = f"aggregate(sequence(1, 8000), id, ({name}, i) -> ({name} + {LOOP}) % 1000003)"
TWO = f"SELECT {LOOP} AS a FROM range(0, 2, 1, 2)"

def outcome(text, timeout=None):
    try:
        return gateway.run(text, timeout=timeout).collect()
    except LakeError as told:
        return told

def later(text, timeout=None):
    found = []
    thread = threading.Thread(target=lambda: found.append(outcome(text, timeout)), daemon=True)
    thread.start()
    def join():
        thread.join(120)
        return found[0]
    return join

def wait_for(condition, seconds=240.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)

pool = SparkPool(SparkSettings(master="local[2]", driver_memory="512m"))
pool.start_in_background()
gateway = Gateway(Lake(CatalogStore(sys.argv[1]), sys.argv[2]), pool, limits=GatewayLimits(local_threads=4, spark_statements=2))
gateway.start()
gateway._canceller._patience = Patience(told=1.0, starved=6.0)
assert gateway.run("SELECT 40 + id FROM range(2, 3)").collect() == [(42,)]
gateway.run("CREATE TABLE t (a INT)").close()
"""

STATEMENT = """
begun, go_on, ended_so = threading.Event(), threading.Event(), []

def in_two_jobs():  # the first ends before Spark is stuck, the second never begins
    try:
        with pool.running("in two jobs"):
            pool.root().range(10).toArrow()
            begun.set()
            go_on.wait(240)
            pool.root().range(10).toArrow()
    except Exception as problem:
        ended_so.append(problem)

running = threading.Thread(target=in_two_jobs, daemon=True)
running.start()
assert begun.wait(120)
zombie = later(TWO, timeout=2.0)
ended = zombie()
assert isinstance(ended, StatementTimeout), repr(ended)
wait_for(lambda: not gateway.health().spark.ok)
print("told:", gateway.health().spark.detail)
assert pool.live_tasks(), "two tasks go on"
go_on.set()
SUM = "SELECT sum(id) FROM range(0, 10, 1, 2)"
bystanders = [later(SUM), later(SUM)]
wait_for(lambda: len(gateway.running()) == 2 and all(pool.progress(one.handle) for one in gateway.running()))
queued = [later("SELECT 40 + id FROM range(2, 3)", timeout=100.0) for _ in range(3)]
first = pool.root()
inserts = 0
while pool._root is first or not pool.ready:  # metadata, literal inserts and plain scans, until Spark is back
    gateway.run(f"INSERT INTO t VALUES ({inserts})", timeout=30.0).close()
    inserts += 1
    assert len(gateway.run("SELECT a FROM t", timeout=30.0).collect()) == inserts
    assert len(gateway.run("SHOW TABLES", timeout=30.0).collect()) == 1
    time.sleep(0.1)
assert [join() for join in bystanders] == [[(45,)]] * 2, "they only waited for a core"
running.join(120)
assert ended_so and not pool.spared("in two jobs")
answers = [join() for join in queued]
assert answers == [[(42,)]] * 3, answers
assert not pool.live_tasks()
assert gateway.health().spark.ok, gateway.health().spark
print("inserts while Spark was stuck or away:", inserts)
gateway.close()
pool.stop()
print("done")
"""

TURNS = """
from gateway.execution.core_turns import TurnPatience
gateway._canceller._turns._patience = TurnPatience(first=0.2, prepare=0.5, end=1.0, restart=3.0)
gateway._canceller._patience = Patience()
# It looks whether it was told to end after each 1,000 rows.
SLOW = "SELECT sum(aggregate(sequence(1, 1000), CAST(0 AS BIGINT), (x, i) -> (x + i * id) % 7)) FROM range(0, 10000000, 1, 2)"
first = pool.root()
slow = later(SLOW, timeout=100.0)
wait_for(lambda: len(pool.live_tasks()) == 2)
assert outcome("SELECT sum(id) FROM range(0, 10, 1, 2)", 90.0) == [(45,)], "a task of the other is ended for it"
assert pool.root() is first and len(gateway.running()) == 1, "nothing else is"
names = [stage.running for stage in pool.stages_at_work()]
assert names, "the slow one goes on, with what it has done"
gateway.running()[0].cancel()
slow()
wait_for(lambda: not pool.live_tasks())

loop = later(TWO)
wait_for(lambda: len(pool.live_tasks()) == 2)
waiting = later("SELECT sum(id) FROM range(0, 10, 1, 2)", timeout=200.0)
told = loop()
assert type(told).__name__ == "ExecutionError" and "Spark's cores" in told.message, repr(told)
assert waiting() == [(45,)], "it waited for the next Spark"
assert pool.root() is not first
assert pool._warm, "the next one was made ready while tasks held the last one"
gateway.close()
pool.stop()
print("done")
"""

STREAM = """
loop = LOOP.replace("id", "value")
rows = pool.root().readStream.format("rate").option("rowsPerSecond", 10).load().selectExpr(loop)
for _ in range(10):  # a task that has not come to its first row yet does stop
    query = rows.writeStream.format("noop").start()
    wait_for(lambda: len(pool.live_tasks()) >= 2)
    time.sleep(1.0)
    query.stop()
    assert not query.isActive, "Spark takes it for ended"
    if pool.live_tasks():
        break
else:
    raise AssertionError("no task went on")
first = pool.root()
gateway.spark_streams.stopped(str(query.runId))
wait_for(lambda: not gateway.health().spark.ok)
wait_for(lambda: pool._root is not first and pool.ready)
assert gateway.run("SELECT 40 + id FROM range(2, 3)", timeout=100.0).collect() == [(42,)]
assert not pool.live_tasks()
gateway.close()
pool.stop()
print("done")
"""


MEMORY = """
from model.errors import OutOfMemory, Unavailable
FULL = "SELECT size(collect_list(repeat('x', 100000))) FROM range(100000)"
ROWS = "SELECT id, concat_ws(',', collect_list(repeat('y', 100))) AS s FROM range(200000) GROUP BY id"
BESIDE = f"SELECT count(*), max(length(s)) FROM ({ROWS})"
hog, bystander = later(FULL, 100.0), later(BESIDE, 100.0)
for told in (hog(), bystander()):
    assert not isinstance(told, OutOfMemory), repr(told)
    assert isinstance(told, list) or isinstance(told, Unavailable), repr(told)
alone = outcome(FULL, 100.0)
assert isinstance(alone, (OutOfMemory, Unavailable)), repr(alone)
wait_for(lambda: outcome("SELECT 40 + id FROM range(2, 3)", 60.0) == [(42,)])
gateway.close()
pool.stop()
print("done")
"""


@pytest.mark.torture
def test_a_bystander_of_a_full_heap_is_not_told_that_it_needs_less(tmp_path: Path, dsn: str) -> None:
    """By stand-ins for Spark in `tests/gateway/test_shared_memory.py`."""
    _run(PRELUDE + MEMORY, tmp_path, dsn)


@pytest.mark.torture
def test_a_task_that_cannot_be_stopped_ends_with_its_spark_and_holds_up_nobody_else(tmp_path: Path, dsn: str) -> None:
    assert "it was told to stop" in _run(PRELUDE + STATEMENT, tmp_path, dsn)


@pytest.mark.torture
def test_whoever_waits_long_gets_a_core_and_spark_ends_where_no_task_lets_go_of_one(tmp_path: Path, dsn: str) -> None:
    """Who gets a core of whom is in `tests/gateway/test_core_turns.py`, and in `tests/benchmarks/test_light.py` on a server."""
    _run(PRELUDE + TURNS, tmp_path, dsn)


@pytest.mark.torture
def test_so_does_a_task_of_a_stream_that_was_closed(tmp_path: Path, dsn: str) -> None:
    _run(PRELUDE + STREAM, tmp_path, dsn)


def _run(text: str, tmp_path: Path, dsn: str) -> str:
    """What a script that ends well says."""
    root = Path(__file__).parents[3]
    script = tmp_path / "script.py"
    script.write_text(text)
    done = subprocess.run(
        [sys.executable, str(script), dsn, str(tmp_path / "warehouse")],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.stdout.splitlines()[-1:] == ["done"], done.stdout + done.stderr[-4000:]
    return done.stdout
