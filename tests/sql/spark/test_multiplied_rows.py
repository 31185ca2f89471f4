"""Joins that compare nothing, and what makes rows of values, are written row by row: not with all that one row becomes in memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.short import short
from tests.sql.spark.test_outliving import PRELUDE

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SOURCES = {
    "cross join": "SELECT d.id FROM range(1) a, range(200) b, range(200) c, range(200) d",
    "explode": "SELECT z FROM range(1) LATERAL VIEW explode(sequence(1, 200)) AS x LATERAL VIEW explode(sequence(1, 200)) AS y "
    "LATERAL VIEW explode(sequence(1, 200)) AS z",
    "computed keys": "SELECT d.id FROM range(1) a JOIN range(200) b ON b.id * 0 = a.id JOIN range(200) c ON c.id * 0 = a.id "
    "JOIN range(200) d ON d.id * 0 = a.id",
}

# A process of its own: Spark may die in it. Eight million rows of one, held at once, are more than its heap.
SCRIPT = (
    PRELUDE
    + """
first, java = pool.root(), pool._java
gateway._canceller._patience = Patience(told=60.0, starved=60.0)
gateway.run("CREATE TABLE m (a BIGINT)").close()
told = outcome(f"INSERT INTO m {sys.argv[3]}", timeout=200)
assert not isinstance(told, LakeError), told
assert outcome("SELECT count(*) FROM m") == [(8_000_000,)]
assert not java.out_of_memory.exists()
assert pool.root() is first
gateway.close()
pool.stop()
print("done")
"""
)


@pytest.mark.parametrize("kind", short(SOURCES, ["cross join"]))
def test_what_one_row_becomes_is_not_held(dsn: str, warehouse: Path, tmp_path: Path, kind: str) -> None:
    root = Path(__file__).parents[3]
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, str(script), dsn, str(warehouse), SOURCES[kind]],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
        timeout=550,
    )
    assert done.stdout.splitlines()[-1:] == ["done"], done.stdout + done.stderr[-4000:]
