"""Where the core of the suite runs: on Spark in the server's own JVM, and on a standalone master with two workers."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.brief_jvm import spark_options
from tests.fix_data import CACHE
from tests.running import RunningServer

MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"


class StandaloneSpark:
    """A master and two workers of one core each, on loopback, from the pyspark package."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: list[subprocess.Popen[bytes]] = []
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"spark://127.0.0.1:{probe.getsockname()[1]}"

    def start(self) -> None:
        port = self.url.rsplit(":", 1)[1]
        log = self._launch("master", MASTER, "--host", "127.0.0.1", "--port", port, "--webui-port", "0")
        _wait_for(log, "New state: ALIVE")
        for number in (1, 2):
            work = str(self._directory / f"work{number}")
            options = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", work)
            _wait_for(self._launch(f"worker{number}", WORKER, *options, self.url), "Successfully registered")

    def _launch(self, name: str, *command: str) -> Path:
        spec = find_spec("pyspark")
        assert spec is not None
        assert spec.submodule_search_locations is not None
        home = Path(spec.submodule_search_locations[0])
        log = self._directory / f"{name}.log"
        environment = os.environ | {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "512m",
            "JDK_JAVA_OPTIONS": spark_options(),  # which the executors have from their workers
        }
        with log.open("wb") as out:
            spark_class = str(home / "bin" / "spark-class")
            self._running.append(subprocess.Popen([spark_class, *command], env=environment, stdout=out, stderr=out, start_new_session=True))
        return log

    def stop(self) -> None:
        for process in reversed(self._running):  # spark-class has replaced itself by the JVM
            process.terminate()
            process.wait(30)


def _wait_for(log: Path, words: str, seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while words not in log.read_text():
        assert time.monotonic() < until, log.read_text()[-3000:]
        time.sleep(0.1)


@pytest.fixture(scope="session")
def standalone_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server whose statements run on the workers of a standalone master."""
    cluster = StandaloneSpark(tmp_path_factory.mktemp("standalone"))
    running = RunningServer(
        tmp_path_factory.mktemp("server"),
        SLUICE_SPARK_MASTER=cluster.url,
        SLUICE_SPARK_DRIVER_MEMORY="1g",
        SLUICE_IMPORT_DIRS=str(CACHE),
    )
    try:
        cluster.start()
        yield running.start()
    finally:
        running.stop()
        cluster.stop()


@pytest.fixture(params=["local", "standalone"])
def any_server(request: pytest.FixtureRequest) -> RunningServer:
    """The server under test, on each kind of master in turn."""
    found = request.getfixturevalue("server" if request.param == "local" else "standalone_server")
    assert isinstance(found, RunningServer)
    return found
