"""A server as its users run it: a process of its own, spoken to over HTTP."""

from __future__ import annotations

import contextlib
import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests import new_cluster

START_SECONDS = STOP_SECONDS = 180.0
"""What a start and an end may take on a machine that starts Spark elsewhere."""
ARROW = "application/vnd.apache.arrow.stream"
PARQUET = "application/vnd.apache.parquet"
_NOT_GIVEN = range(15_000, 32_000)
"""Linux gives ports from 32768 on: whoever is told one of those may find it taken by then."""
_URL = re.compile(r"answers at (https?://\S+)")
_FLIGHT_URL = re.compile(r"Arrow Flight SQL \(.*\): (\S+)\n")


def free_port() -> int:
    """A port of this machine that nobody listens at, and that the kernel gives nobody who asks for any."""
    for port in random.SystemRandom().sample(_NOT_GIVEN, 100):
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise RuntimeError(f"No port of {_NOT_GIVEN} is free.")


def postgres_pid(data: Path) -> int | None:
    """Process id of the embedded Postgres of a data directory, where one runs."""
    try:
        pid = int((data / "postgres" / "postmaster.pid").read_text().split()[0])
    except (FileNotFoundError, IndexError):
        return None
    return pid if runs(pid) else None


def children_of(process: psutil.Process, wanted: Callable[[psutil.Process], bool]) -> list[psutil.Process]:
    """What a process has started, and what that has; one that ends while it is looked at is none."""
    found = []
    for child in process.children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if wanted(child):
                found.append(child)
    return found


def runs(pid: int) -> bool:
    """Whether a process does anything; one that nobody has buried does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class Refused(Exception):
    """The server answered with a problem document."""

    def __init__(self, status: int, document: Mapping[str, Any]) -> None:
        super().__init__(f"{status}: {document}")
        self.status = status
        self.document = document


class RunningServer:
    """``sluice serve`` with a data directory of its own on a free port; can be killed and started again."""

    def __init__(self, directory: Path, **settings: str) -> None:
        self.directory = directory
        self.data = Path(settings.get("SLUICE_DATA", directory / "data"))
        self.warehouse = Path(settings.get("SLUICE_WAREHOUSE", self.data / "warehouse"))
        self.log = directory / "server.log"
        self._settings = {
            "SLUICE_LISTEN": "127.0.0.1:0",
            "SLUICE_FLIGHT_LISTEN": "127.0.0.1:0",
            "SLUICE_DATA": str(self.data),
            "SLUICE_SPARK_MASTER": "local[2]",
            "SLUICE_SPARK_DRIVER_MEMORY": "2g",
            "SLUICE_SPARK_START": "when-needed",  # a JVM costs more than most tests that have a server of their own
            "SLUICE_SPARK_KEEP_CLASSES": "false",  # all JVMs of a run share one file of classes (`tests/brief_jvm.py`)
            # A busy machine must not let the age of a few files decide what a test finds.
            "SLUICE_COMPACTION_PATIENCE_SECONDS": "3600",
        } | settings
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""
        self.flight_url = ""
        """Where it speaks Arrow Flight SQL; empty where that is off."""
        directory.mkdir(parents=True, exist_ok=True)

    def start(self, **changed: str) -> RunningServer:
        """Start it and wait until it answers; raises `RuntimeError` with the log's end when it does not.

        Settings that are ``changed`` hold from now on.
        The first time it finds a Postgres that was made and migrated, unless its data directory is there already.
        """
        self._settings |= changed
        if "SLUICE_CATALOG_DSN" not in self._settings and not self.data.exists():
            new_cluster.copy_to(self.data)
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
        begin = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [str(Path(sys.executable).parent / "sluice"), "serve"],
                env=inherited | self._settings,
                cwd=self.directory,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            if found := _URL.search(self.log.read_bytes()[begin:].decode(errors="replace")):
                self.url = found.group(1)
                self.flight_url = self._flight_address(begin)
                return self
            time.sleep(0.05)
        status = self._process.poll()
        self.stop()
        how = "in time" if status is None else f"and ended with status {status}"
        raise RuntimeError(f"The server did not start {how}:\n{self.words(begin)}")

    def _flight_address(self, begin: int) -> str:
        """The last line of the banner, which comes with the first."""
        if self._settings["SLUICE_FLIGHT_LISTEN"] == "off":
            return ""
        until = time.monotonic() + START_SECONDS
        while not (found := _FLIGHT_URL.search(self.log.read_bytes()[begin:].decode(errors="replace"))):
            if time.monotonic() > until:
                raise RuntimeError(f"The server says nothing of Flight SQL:\n{self.words(begin)}")
            time.sleep(0.01)
        return found.group(1)

    def words(self, begin: int = 0) -> str:
        """The log's end."""
        return self.log.read_bytes()[begin:].decode(errors="replace")[-4000:]

    @property
    def process(self) -> psutil.Process:
        """The running process."""
        assert self._process is not None
        return psutil.Process(self._process.pid)

    def jvms(self) -> list[psutil.Process]:
        """Those of its Spark; other children come and go meanwhile."""
        return children_of(self.process, lambda child: child.name() == "java")

    def kill(self) -> None:
        """Kill -9 of the server's process alone, as the kernel would do it; its Postgres and JVM find out by themselves."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def terminate(self, timeout: float = STOP_SECONDS) -> int:
        """SIGTERM, and the exit status."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(timeout)

    def wait(self, timeout: float = STOP_SECONDS) -> int:
        """Until it has ended by itself; its exit status."""
        assert self._process is not None
        return self._process.wait(timeout)

    def stop(self) -> None:
        """End it and what it started."""
        if self._process is not None:
            if self._process.poll() is None:
                self._process.terminate()
            try:
                self._process.wait(45)
            except subprocess.TimeoutExpired:
                self.kill()
            with contextlib.suppress(ProcessLookupError):  # a JVM that outlived its server
                os.killpg(self._process.pid, signal.SIGKILL)
        self._stop_postgres()

    def postgres_pid(self) -> int | None:
        """Process id of the embedded Postgres, where one runs."""
        return postgres_pid(self.data)

    def _stop_postgres(self) -> None:
        if (pid := self.postgres_pid()) is not None:
            with contextlib.suppress(psutil.Error):
                process = psutil.Process(pid)
                process.send_signal(signal.SIGINT)  # fast shutdown
                process.wait(20)

    # What users say to it

    def post(self, text: str, *, accept: str = "application/json", timeout: float = 300, **headers: str) -> httpx.Response:
        """``POST /sql``, whatever the answer."""
        sent = {"Accept": accept, "Content-Type": "application/sql"} | {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx.post(f"{self.url}/sql", content=text.encode(), headers=sent, timeout=timeout)

    def sql(self, text: str, *, timeout: float = 300, **headers: str) -> list[list[Any]]:
        """Rows of the last statement; raises `Refused`."""
        response = self.post(text, timeout=timeout, **headers)
        body = response.json()
        if response.status_code != 200 or "error" in body:
            raise Refused(response.status_code, body)
        return list(body["rows"])

    def at_work(self, name: str) -> bool:
        """Whether a statement's tasks of Spark have begun."""
        answer = httpx.get(f"{self.url}/statements/{name}", timeout=60)
        return answer.status_code == 200 and any(stage["active"] for stage in answer.json()["progress"]["stages"])

    def value(self, text: str) -> Any:
        """The only value of the only row."""
        ((value,),) = self.sql(text)
        return value

    def arrow(self, text: str) -> Any:
        """The last statement's rows as a `pyarrow.Table`."""
        import pyarrow as pa

        response = self.post(text, accept=ARROW)
        if response.status_code != 200:
            raise Refused(response.status_code, response.json())
        return pa.ipc.open_stream(response.content).read_all()

    def append(self, table: str, body: bytes, content_type: str = PARQUET, **headers: str) -> dict[str, Any]:
        """Append a body as one commit; raises `Refused`."""
        database, name = table.split(".")
        sent = {"Content-Type": content_type} | {key.replace("_", "-"): value for key, value in headers.items()}
        response = httpx.post(f"{self.url}/tables/{database}/{name}/rows", content=body, headers=sent, timeout=300)
        if response.status_code != 200:
            raise Refused(response.status_code, response.json())
        return dict(response.json())

    def wait_for_spark(self, timeout: float = 300) -> None:
        """Let Spark start where it has not, until ``/readyz`` says that everything can be used."""
        until = time.monotonic() + timeout
        if self._settings["SLUICE_SPARK_START"] == "when-needed":
            with contextlib.suppress(httpx.HTTPError):
                self.post("SELECT sum(id * 2) FROM range(10)", timeout=timeout)
        while (answer := httpx.get(f"{self.url}/readyz", timeout=60)).status_code != 200:
            if time.monotonic() > until:
                raise TimeoutError(f"Not ready: {answer.text}\n{self.words()}")
            time.sleep(0.2)

    def table_path(self, table: str) -> Path:
        """Where a table's files lie."""
        database, name = table.split(".")
        return self.warehouse / f"{database}.db" / name
