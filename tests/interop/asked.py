"""A client of the server in a process of its own, which answers one request a line."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any


class Asked:
    """The process; what it says beside its answers goes to a log."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=out, env=environment, encoding="utf-8"
            )

    def ask(self, line: str) -> dict[str, Any]:
        """What it answers; one that died fails the test."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        said = self._process.stdout.readline()
        assert said, f"the client died: {self._log.read_text()[-3000:]}"
        answer: dict[str, Any] = json.loads(said)
        return answer

    def log(self) -> str:
        """The end of what it said."""
        return self._log.read_text()[-3000:]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(60)
        self._process.stdout.close()
