"""Who appends rows (id, s) to a table, one request after another: our SQL, and every client of the REST catalog."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.interop.asked import Asked
from tests.interop.conftest import HERE, ROOT, flink_catalog, rust_environment, with_paimon
from tests.interop.spark_paimon import SparkClient
from tests.running import RunningServer

Append = Callable[[str, int, int], str | None]
"""Appends rows from an id on to a table; None, or what went wrong."""


class Java(Asked):
    """A Java program that appends and compacts."""

    def __init__(self, url: str, directory: Path) -> None:
        command = ["java", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-cp", with_paimon("RestCompactor"), "RestCompactor", url]
        super().__init__(command, directory / "log")

    def do(self, **request: object) -> int:
        """How many buckets or bins it committed something for."""
        answer = self.ask(json.dumps(request))
        assert "error" not in answer, f"{answer}\n{self.log()}"
        return int(answer["messages"])


def values(first: int, count: int) -> str:
    return ", ".join(f"({n}, 's{n}')" for n in range(first, first + count))


def of_sql(server: RunningServer) -> Append:
    def append(table: str, first: int, count: int) -> str | None:
        answer = server.post(f"INSERT INTO {table} VALUES {values(first, count)}")
        return None if answer.status_code == 200 else answer.text

    return append


def of_a_process(process: Asked) -> Append:
    """Of pypaimon's program, of pypaimon-rust's, or of Java's."""

    def append(table: str, first: int, count: int) -> str | None:
        error = process.ask(json.dumps({"table": table, "append": [first, count]})).get("error")
        return None if error is None else f"{error}\n{process.log()}"

    return append


def of_spark(spark: SparkClient) -> Append:
    def append(table: str, first: int, count: int) -> str | None:
        return spark.answer(f"INSERT INTO sluice.{table} VALUES {values(first, count)}").get("error")

    return append


def of_flink(flink: Asked) -> Append:
    def append(table: str, first: int, count: int) -> str | None:
        return flink.ask(json.dumps(f"INSERT INTO {table} VALUES {values(first, count)}")).get("error")

    return append


@contextlib.contextmanager
def pypaimon_process(url: str, log: Path) -> Iterator[Asked]:
    python = ROOT / ".venv-pypaimon" / "bin" / "python"
    if not python.exists():
        pytest.skip("pypaimon cannot be had here: run `make pypaimon`.")
    with contextlib.closing(Asked([str(python), str(HERE / "pypaimon_appender.py"), url], log)) as process:
        yield process


@contextlib.contextmanager
def rust_process(url: str, log: Path) -> Iterator[Asked]:
    with contextlib.closing(Asked([rust_environment(), str(HERE / "rust_appender.py"), url], log)) as process:
        yield process


@contextlib.contextmanager
def flink_process(url: str, python: str, log: Path) -> Iterator[Asked]:
    with contextlib.closing(Asked([python, str(HERE / "flink_matrix.py"), flink_catalog(url)], log)) as process:
        yield process
