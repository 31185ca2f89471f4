"""Spark 4.1 with Paimon's own module as a client of the server, where its jar and an environment for it are given."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import brief_jvm
from tests.interop.asked import Asked

_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]
JAR = "paimon-spark-4.1_2.13-2.1-SNAPSHOT.jar"


def given() -> tuple[Path, Path]:
    """The Python with pyspark 4.1.0 and pandas < 3 (`make paimon-spark`), and the jar; skips the test where one is not there.

    ``SLUICE_TEST_PAIMON_SPARK_JAR`` names the jar, which else is looked for beside the project.
    """
    jar = Path(os.environ.get("SLUICE_TEST_PAIMON_SPARK_JAR") or _ROOT.parent / "shared" / "jars" / JAR)
    python = _ROOT / ".venv-spark" / "bin" / "python"
    missing = [str(path) for path in (jar, python) if not path.exists()]
    if missing:  # in a clone elsewhere the jar is not beside the project, and `make paimon-spark` makes no environment without it
        pytest.skip(f"Spark with Paimon's module is not given here: it is not run. Missing: {', '.join(missing)}.")
    return python, jar


def page_settings(url: str) -> dict[str, str]:
    """The settings of docs/catalog.md with which Spark takes a server as its catalog."""
    page = (_ROOT / "docs" / "catalog.md").read_text()
    (command,) = re.findall(r"^```\n(spark-sql .*?)^```$", page, re.MULTILINE | re.DOTALL)
    return dict(re.findall(r"--conf (\S+?)=(\S+)", command.replace("http://127.0.0.1:8083", url)))


class SparkClient(Asked):
    """A Spark of its own whose catalog ``sluice`` is the server, and ``files`` a filesystem catalog beside its log."""

    def __init__(self, url: str, log: Path) -> None:
        python, jar = given()
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
        command = [str(python), str(_HERE / "spark_client.py"), json.dumps(page_settings(url)), str(jar), str(log.parent / "files")]
        super().__init__(command, log, {**environment, "PYSPARK_PYTHON": str(python), "SPARK_SUBMIT_OPTS": brief_jvm.OPTIONS})

    def answer(self, text: str) -> dict[str, Any]:
        """What came of a statement: its rows, or its error."""
        return self.ask(json.dumps(text))

    def sql(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of a statement; one that fails fails the test."""
        found = self.answer(text)
        assert "error" not in found, f"{text}: {found['error']}"
        return [tuple(row) for row in found["rows"]]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
        self._process.stdout.close()
