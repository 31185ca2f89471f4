"""A server process of the benchmark's own, on a data directory that goes away."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

SCRATCH = Path(__file__).parents[1] / ".cache" / "benchmarks"
"""Beside ``./data``, where servers keep theirs: file systems differ, and /tmp is often another one."""


class BenchServer:
    """Starts ``sluice serve`` on a free port and talks to it."""

    def __init__(self, directory: Path, import_dir: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{probe.getsockname()[1]}"
        environment = os.environ | {
            "SLUICE_LISTEN": self.url.removeprefix("http://"),
            "SLUICE_DATA": str(directory),
            "SLUICE_IMPORT_DIRS": str(import_dir),
        }
        self._log = (directory.parent / "server.log").open("w")
        command = [str(Path(sys.executable).parent / "sluice"), "serve"]
        self._process = subprocess.Popen(command, env=environment, stdout=self._log, stderr=self._log)
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

    def resident_bytes(self) -> int:
        """Memory of the server's Python process, its JVM left out."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def stop(self) -> None:
        """Let it drain and end."""
        self.client.close()
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(60)
        self._log.close()
