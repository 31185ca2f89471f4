"""Times before 1970 with a fraction of a second, as pypaimon writes them into ORC: SQL reads them with Spark as it does without."""

from __future__ import annotations

import subprocess

import pytest

from tests.interop.conftest import HERE, ROOT
from tests.running import RunningServer

pytestmark = [pytest.mark.interop, pytest.mark.spark]
_PROGRAM = """
import sys, pyarrow as pa
from pypaimon_rest import connect, write
times = pa.array([-1, -1_500_000, -2_000_000, 0, 1_500_000, None], pa.timestamp('us'))
write(connect(sys.argv[1]).get_table(sys.argv[2]), pa.table({'id': pa.array(range(6), pa.int64()), 'n': times}))
"""
_SECONDS = ["1969-12-31T23:59:59", "1969-12-31T23:59:58", "1969-12-31T23:59:58", "1970-01-01T00:00:00", "1970-01-01T00:00:01"]


def test_both_of_sql_s_readers_read_what_pypaimon_wrote(server: RunningServer, database: str) -> None:
    python = ROOT / ".venv-pypaimon" / "bin" / "python"
    if not python.exists():
        pytest.skip("pypaimon cannot be had here: run `make pypaimon`.")
    table = f"{database}.t"
    server.sql(f"CREATE TABLE {table} (id BIGINT, n TIMESTAMP(6)) WITH ('bucket' = '-1', 'file.format' = 'orc')")
    done = subprocess.run([str(python), "-c", _PROGRAM, server.url, table], cwd=HERE, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    here = sorted(server.sql(f"SELECT id, n FROM {table}"))
    assert [str(time)[:19] for _, time in here[:5]] == _SECONDS
    assert server.sql(f"SELECT id, n FROM (SELECT * FROM {table}) WHERE hash(id) IS NOT NULL ORDER BY id") == here
