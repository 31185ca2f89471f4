"""A Flink SQL batch job (apache-flink, paimon-flink), in an environment of its own, with this server as its catalog."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import java
from tests.fix_data import CACHE
from tests.interop.conftest import HERE, ROOT
from tests.running import RunningServer

pytestmark = [pytest.mark.interop, pytest.mark.torture]
FLINK = "apache-flink==2.1.1"
PAIMON = "org.apache.paimon:paimon-flink-2.1:1.3.0"


@pytest.fixture(scope="session")
def flink_python() -> str:
    """The interpreter of Flink's own environment, made once in the cache: hundreds of megabytes, hence only in the torture campaign."""
    environment = CACHE / "flink-venv"
    python = environment / "bin" / "python"
    stamp = environment / ".installed"
    if not stamp.exists():
        uv = str(Path(sys.executable).parent / "uv")
        CACHE.mkdir(parents=True, exist_ok=True)
        library = environment / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages" / "pyflink" / "lib"
        steps = (
            [uv, "--quiet", "venv", "--allow-existing", "--python", sys.executable, str(environment)],
            [uv, "--quiet", "pip", "install", "--python", str(python), FLINK],
        )
        if any(subprocess.run(step, cwd=CACHE).returncode for step in steps):
            pytest.skip("Flink cannot be had here: it is not run.")
        java.copy_jar(PAIMON, library)
        for jar in java.spark_jars().glob("hadoop-client-*.jar"):
            shutil.copy(jar, library)
        stamp.touch()
    return str(python)


def test_a_flink_batch_job(server: RunningServer, flink_python: str) -> None:
    (statement,) = re.findall(r"^```sql\n(CREATE CATALOG .*?);\n```$", (ROOT / "docs" / "catalog.md").read_text(), re.MULTILINE | re.DOTALL)
    create_catalog = statement.replace("http://127.0.0.1:8083", server.url)
    done = subprocess.run([flink_python, str(HERE / "flink_rest.py"), create_catalog], capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stdout.strip()[-4:]) == (0, "done"), done.stderr[-4000:]
    assert server.sql("SELECT id, extra FROM flinky.fixed ORDER BY id") == [[0, None], [1, None], [2, None], [3, None]]
    assert server.sql("SELECT * FROM flinky.big ORDER BY id") == [[2], [3]]
    server.sql("DROP DATABASE flinky CASCADE")
