"""Flink's own clients, as their users start them: the SQL client in a pseudo terminal, and a Java program on the JDBC driver."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import java
from tests.interop.asked import Asked

VERSION = "2.3.0"
SQL_CLIENT = (f"org.apache.flink:flink-sql-client:{VERSION}", f"org.apache.flink:flink-sql-gateway:{VERSION}")
DRIVER = f"org.apache.flink:flink-sql-jdbc-driver-bundle:{VERSION}"
PROMPT = r"Flink SQL> $"
SECONDS = 120.0
"""Longest wait for anything a client does; a JVM starts slowly on a busy machine."""
_NOT_TEXT = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[=>]|\r")


class JdbcFailure(Exception):
    """What the driver threw: the texts of an exception and its causes, outermost first."""


class JdbcUser(Asked):
    """A Java program with a JDBC connection; closing it waits until the program has ended."""

    def __init__(self, command: list[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(command, log, {**os.environ, **(environment or {})})

    def __call__(self, do: str, given: str = "", **more: object) -> Any:
        """What the driver answered; raises `JdbcFailure`."""
        answer = self.ask(json.dumps({"do": do, "with": given, **more}))
        if "causes" in answer:
            raise JdbcFailure("\n".join(answer["causes"]))
        return answer["ok"]


class Terminal:
    """A program in a pseudo terminal, typed to and read like a person does, without colours."""

    def __init__(self, command: list[str], environment: Mapping[str, str]) -> None:
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.execvpe(command[0], command, dict(environment))
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        self._unread = ""

    def until(self, pattern: str) -> str:
        """What is shown up to the first match, which may also be the program's end."""
        end = time.monotonic() + SECONDS
        while (found := re.search(pattern, self._unread)) is None:
            assert time.monotonic() < end, f"{pattern!r} was not shown: {self._unread[-3000:]}"
            if select.select([self._fd], [], [], 0.1)[0]:
                try:
                    data = os.read(self._fd, 65536)
                except OSError:  # it has ended
                    assert re.search(pattern, self._unread), f"{pattern!r} was not shown before the end: {self._unread[-3000:]}"
                    continue
                self._unread += _NOT_TEXT.sub("", data.decode(errors="replace"))
        shown, self._unread = self._unread[: found.end()], self._unread[found.end() :]
        return shown

    def send(self, keys: str, pattern: str = PROMPT) -> str:
        """Type keys and return what is shown up to a pattern."""
        os.write(self._fd, keys.encode())
        return self.until(pattern)

    def close(self) -> None:
        """End the program, if it has not ended."""
        try:
            os.kill(self._pid, signal.SIGKILL)
        finally:
            os.waitpid(self._pid, 0)
            os.close(self._fd)


class SqlClient:
    """What ``sql-client.sh gateway`` starts: the same class with a Flink distribution's jars."""

    def __init__(self, jars: Path, directory: Path) -> None:
        (directory / "conf").mkdir()
        (directory / "conf" / "config.yaml").write_text("parallelism.default: 1\n")
        self._directory = directory
        self._command = ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", "org.apache.flink.table.client.SqlClient"]
        self.environment = {**os.environ, "FLINK_CONF_DIR": str(directory / "conf"), "TERM": "xterm", "LANG": "C.UTF-8"}

    def _gateway(self, url: str, *options: str) -> list[str]:
        return [*self._command, "gateway", "--endpoint", url, "--history", str(self._directory / "history"), *options]

    def script(self, name: str, text: str) -> str:
        """A file with statements."""
        (self._directory / name).write_text(text)
        return str(self._directory / name)

    def run(self, url: str, *options: str, **environment: str) -> str:
        """What it prints with these options, without colours; fails when it does not end."""
        env = self.environment | environment
        done = subprocess.run(self._gateway(url, *options), env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=SECONDS)
        return _NOT_TEXT.sub("", (done.stdout + done.stderr).decode())

    def open(self, url: str, *options: str) -> Terminal:
        """It as a person sees it."""
        return Terminal(self._gateway(url, *options), self.environment)


@pytest.fixture(scope="session")
def jdbc_class_path() -> str:
    """The JDBC driver, and the one thing its bundle lacks."""
    (api,) = java.jars(*SQL_CLIENT).glob("slf4j-api-*.jar")
    return f"{java.jar(DRIVER)}:{api}"


@pytest.fixture(scope="module")
def jdbc_command(jdbc_class_path: str) -> list[str]:
    """The command that starts the JDBC program."""
    class_path = java.compiled("FlinkJdbcUser", jdbc_class_path)
    return ["java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-cp", class_path, "FlinkJdbcUser"]


@pytest.fixture(scope="module")
def jdbc(jdbc_command: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[JdbcUser]:
    """The JDBC program, not connected yet."""
    user = JdbcUser(jdbc_command, tmp_path_factory.mktemp("flink-jdbc-log") / "log")
    yield user
    user.close()


@pytest.fixture
def sql_client(tmp_path: Path) -> SqlClient:
    """Flink's SQL client, not started yet."""
    return SqlClient(java.jars(*SQL_CLIENT), tmp_path)
