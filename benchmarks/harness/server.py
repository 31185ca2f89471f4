"""A server process of the benchmark's own, on a data directory that goes away."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import psutil

ROOT = Path(__file__).parents[2]


def free_port() -> int:
    """A port nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class BenchServer:
    """Starts the server of this repository on a free port and talks to it; its data lie in ``directory``."""

    def __init__(self, directory: Path, import_dir: Path, settings: Mapping[str, str]) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self.flight_url = f"grpc://127.0.0.1:{free_port()}"
        data = directory / "data"
        self.warehouse = data / "warehouse"
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "SLUICE_LISTEN": self.url.removeprefix("http://"),
            "SLUICE_FLIGHT_LISTEN": self.flight_url.removeprefix("grpc://"),
            "SLUICE_DATA": str(data),
            "SLUICE_IMPORT_DIRS": str(import_dir),
            **settings,
        }
        self._log = (directory / "server.log").open("w")
        command = [sys.executable, "-m", "server"]
        self._process = subprocess.Popen(command, env=environment, stdout=self._log, stderr=self._log)
        self._me = psutil.Process(self._process.pid)
        self.client = httpx.Client(base_url=self.url, timeout=600)
        self._wait()

    def _wait(self) -> None:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                if self.client.get("/livez").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.1)
        raise RuntimeError("The server did not start; see its log.")

    def wait_for_spark(self) -> None:
        """Until Spark has warmed up; what is measured earlier is measured beside it."""
        until = time.monotonic() + 180
        while self.client.get("/readyz").status_code != 200:
            if time.monotonic() > until:
                raise RuntimeError("Spark did not start; see the server's log.")
            time.sleep(0.2)

    def sql(self, text: str, client: httpx.Client | None = None) -> Any:
        """Run SQL and return the answer's rows."""
        answer = (client or self.client).post("/sql", content=text.encode())
        answer.raise_for_status()
        return answer.json()["rows"]

    def catalog_dsn(self) -> str:
        """DSN of the server's embedded Postgres."""
        lines = (self.warehouse.parent / "postgres" / "postmaster.pid").read_text().splitlines()
        return f"host={lines[4]} port={lines[3]} user=postgres dbname=postgres"

    def resident_bytes(self) -> int:
        """Memory of the server's Python process, its JVM left out."""
        return int(self._me.memory_info().rss)

    def threads(self) -> int:
        """Threads of the server's Python process."""
        return int(self._me.num_threads())

    def cpu_seconds(self) -> tuple[float, float]:
        """What the server's Python process and its Postgres have used of the processors so far."""
        times = self._me.cpu_times()
        return times.user + times.system, sum(
            _cpu_seconds(process) for process in self._me.children(recursive=True) if process.name() == "postgres"
        )

    def stop(self) -> None:
        """Let it drain and end."""
        self.client.close()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)
        self._log.close()


def _cpu_seconds(process: psutil.Process) -> float:
    try:
        times = process.cpu_times()
    except psutil.NoSuchProcess:
        return 0.0
    return float(times.user + times.system)
