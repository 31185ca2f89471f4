"""Spark standalone masters and workers from the pyspark package, on loopback."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from sql.spark.driver.class_archive import spark_home
from tests.brief_jvm import spark_options
from tests.running import free_port

ROOT = Path(__file__).parents[1]
MASTER = "org.apache.spark.deploy.master.Master"
WORKER = "org.apache.spark.deploy.worker.Worker"


class StandaloneSpark:
    """A master and two workers of one core each.

    With ``hidden`` directories the workers' machine lacks them: they run in a mount namespace of their own, on a copy of Spark elsewhere,
    and find a Python without any package by its name.
    """

    def __init__(self, directory: Path, *, hidden: Sequence[Path] = ()) -> None:
        self._directory = directory
        self._hidden = hidden
        self._running: list[subprocess.Popen[bytes]] = []
        self.url = f"spark://127.0.0.1:{free_port()}"

    def start(self) -> None:
        """Start the master and its workers, and wait until they know each other."""
        self.start_master()
        self.start_workers()

    def start_master(self) -> None:
        port = self.url.rsplit(":", 1)[1]
        log = self._launch("master", MASTER, "--host", "127.0.0.1", "--port", port, "--webui-port", "0")
        _wait_for(log, "New state: ALIVE")

    def start_workers(self) -> None:
        logs = []
        for number in (1, 2):
            work = str(self._directory / f"work{number}")
            options = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0", "--work-dir", work)
            logs.append(self._launch(f"worker{number}", WORKER, *options, self.url))
        for log in logs:
            _wait_for(log, "Successfully registered")

    def _launch(self, name: str, *command: str) -> Path:
        home = self._home()
        log = self._directory / f"{name}.log"
        environment = os.environ | {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "512m",
            "JDK_JAVA_OPTIONS": spark_options(),  # which the executors have from their workers
        }
        start = [str(home / "bin" / "spark-class"), *command]
        if self._hidden:
            python = Path(sys.executable).resolve().parent  # what the environment was made from
            environment["PATH"] = os.pathsep.join([str(python), "/usr/local/bin", "/usr/bin", "/bin"])
            environment = {name: value for name, value in environment.items() if not name.startswith(("PYTHON", "PYSPARK", "VIRTUAL"))}
            covers = "; ".join(f"mount -t tmpfs none {shlex.quote(str(path))}" for path in self._hidden)
            start = ["unshare", "--mount", "sh", "-c", f'set -e; {covers}; exec "$@"', "sh", *start]
        with log.open("wb") as out:
            self._running.append(
                subprocess.Popen(start, env=environment, cwd=self._directory, stdout=out, stderr=out, start_new_session=True)
            )
        return log

    def _home(self) -> Path:
        """Where Spark lies: in the package, or in a copy beside the workers where that is hidden."""
        home = spark_home()
        if not self._hidden:
            return home
        copy = self._directory / "spark"
        if not copy.exists():
            shutil.copytree(home, copy, copy_function=_linked)
        return copy

    def stop(self) -> None:
        """End them."""
        for process in reversed(self._running):  # spark-class has replaced itself by the JVM
            process.terminate()
            process.wait(120)
        self._running.clear()


def hidden() -> Sequence[Path]:
    """The checkout and the environment, where this user may cover them in a mount namespace; else nothing."""
    able = (
        shutil.which("unshare") is not None
        and subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode == 0
    )
    return sorted({ROOT, Path(sys.prefix)} if not Path(sys.prefix).is_relative_to(ROOT) else {ROOT}) if able else ()


def archive(directory: Path) -> Path:
    """What executors need, as the command writes it."""
    file = directory / "environment.zip"
    subprocess.run([Path(sys.executable).parent / "sluice", "spark-archive", str(file)], check=True, timeout=300, capture_output=True)
    return file


def _linked(source: str, target: str) -> str:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
    return target


def _wait_for(log: Path, words: str, seconds: float = 180) -> None:
    until = time.monotonic() + seconds
    while words not in log.read_text():
        assert time.monotonic() < until, log.read_text()[-3000:]
        time.sleep(0.1)
