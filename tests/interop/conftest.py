"""Other people's Paimon: a pypaimon process and a Java process that read tables by location."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import java
from tests.fix_data import CACHE
from tests.interop.asked import Asked
from tests.interop.spark_paimon import SparkClient
from tests.running import RunningServer

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
PAIMON = "org.apache.paimon:paimon-bundle:1.4.2"
OLD_PYPAIMON = ("pypaimon==1.4.2", "backports.zstd")
RUST = ("pypaimon-rust==0.4.0", "pyarrow")
FLINK = "apache-flink==2.1.1"
PAIMON_FLINK = "org.apache.paimon:paimon-flink-2.1:1.3.0"
Condition = tuple[str, str, Any]


class Reader(Asked):
    """A process that reads tables."""

    def read(self, table: Path, *, rows: bool = True, where: Sequence[Condition] = ()) -> dict[str, Any]:
        """What this client finds in the table at a location; a reader that fails fails the test."""
        answer = self.ask(json.dumps({"table": str(table), "rows": rows, "where": [list(c) for c in where]}))
        assert "error" not in answer, f"{answer['error']}\n{self.log()}"
        return answer

    def refused(self, options: Sequence[tuple[str, str]]) -> list[list[str]]:
        """The options that Java's client cannot read, with its words; at least one must be its own."""
        answer = self.ask(json.dumps({"options": options}))
        assert answer.get("read"), answer
        refused: list[list[str]] = answer["refused"]
        return refused


@pytest.fixture(scope="session")
def pypaimon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """pypaimon 2.1 in its own environment."""
    python = ROOT / ".venv-pypaimon" / "bin" / "python"
    if not python.exists():
        pytest.skip("pypaimon cannot be had here: run `make pypaimon`.")
    reader = Reader([str(python), str(HERE / "pypaimon_reader.py")], tmp_path_factory.mktemp("pypaimon") / "log")
    yield reader
    reader.close()


@pytest.fixture(scope="session")
def java_paimon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """Java Paimon 1.4.2, on Spark's Hadoop."""
    directory = tmp_path_factory.mktemp("java")
    command = ["java", "-XX:TieredStopAtLevel=1", "-Xmx1g", "-cp", with_paimon("PaimonReader"), "PaimonReader"]
    reader = Reader(command, directory / "log")
    yield reader
    reader.close()


@pytest.fixture(scope="session")
def spark_client(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkClient]:
    """Spark with Paimon's module, whose catalog is the shared server."""
    made = SparkClient(server.url, tmp_path_factory.mktemp("spark-client") / "log")
    yield made
    made.close()


READERS = ("pypaimon", "java_paimon")


@pytest.fixture(params=READERS)
def reader(request: pytest.FixtureRequest) -> Reader:
    """Each of the other clients in turn."""
    found = request.getfixturevalue(request.param)
    assert isinstance(found, Reader)
    return found


def with_paimon(program: str) -> str:
    """The class path of a program of ours that uses Java Paimon."""
    return java.compiled(program, java.jar(PAIMON), f"{java.spark_jars()}/*")


def rust_environment() -> str:
    """The interpreter of pypaimon-rust's own environment, made once in the cache; skips the test where it cannot be had."""
    environment = CACHE / "paimon-rust"
    python = environment / "bin" / "python"
    stamp = environment / ".installed"
    if not stamp.exists():
        uv = str(Path(sys.executable).parent / "uv")
        CACHE.mkdir(parents=True, exist_ok=True)
        made = subprocess.run([uv, "--quiet", "venv", "--allow-existing", "--python", sys.executable, str(environment)])
        if made.returncode or subprocess.run([uv, "--quiet", "pip", "install", "--python", str(python), *RUST]).returncode:
            pytest.skip("pypaimon-rust cannot be had here: it is not run.")
        stamp.touch()
    return str(python)


@pytest.fixture(scope="session")
def old_pypaimon_python() -> Path:
    """The interpreter of the release of pypaimon before, in an environment that is made once in the cache."""
    environment = CACHE / "pypaimon-1.4"
    uv, python = str(Path(sys.executable).parent / "uv"), environment / "bin" / "python"
    if not (environment / ".installed").exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        steps = (
            [uv, "--quiet", "venv", "--allow-existing", "--python", sys.executable, str(environment)],
            [uv, "--quiet", "pip", "install", "--python", str(python), *OLD_PYPAIMON],
        )
        if any(subprocess.run(step, cwd=CACHE).returncode for step in steps):
            pytest.skip(f"{OLD_PYPAIMON[0]} cannot be had here: it is not run.")
        (environment / ".installed").touch()
    return python


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
        java.copy_jar(PAIMON_FLINK, library)
        for jar in java.spark_jars().glob("hadoop-client-*.jar"):
            shutil.copy(jar, library)
        stamp.touch()
    return str(python)


def flink_catalog(url: str) -> str:
    """The statement of docs/catalog.md with which Flink takes a server as its catalog."""
    (statement,) = re.findall(r"^```sql\n(CREATE CATALOG .*?);\n```$", (ROOT / "docs" / "catalog.md").read_text(), re.MULTILINE | re.DOTALL)
    return str(statement.replace("http://127.0.0.1:8083", url))
