"""Rows that a worker writes for a statement."""

from __future__ import annotations

import tempfile
from contextvars import Context
from io import BytesIO
from typing import Any

import pyarrow as pa
import pytest

from gateway.gateway import Gateway
from model.identifier import Identifier
from sql.execution.writing import append_written, written_by_worker
from table.format.io.patience import patient_for, seconds_left
from table.format.manifests.entries import NewFile
from tests.running import ARROW
from tests.workers.damaged import stream
from workers.__main__ import answer
from workers.task import BodyTask, files_of


def test_a_worker_has_what_is_left_of_its_statements_time_for_the_store(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker's process does with a task is done in this one, which can be asked for the time."""
    left: list[float] = []

    def worked(task: BodyTask, file: int, *_: Any, **__: Any) -> list[NewFile]:
        process = Context()
        told = process.run(answer, BytesIO(), task.to_json(), file, 0)
        left.append(process.run(seconds_left))
        return files_of(told)

    monkeypatch.setattr(gateway.workers, "write", worked)
    gateway.run("CREATE TABLE t (id BIGINT)").close()
    table = gateway.lake.open(Identifier("default", "t"))
    with tempfile.TemporaryFile() as body, patient_for(2.5):
        body.write(stream(pa.record_batch({"id": pa.array([7], pa.int64())})))
        body.seek(0)
        append_written(gateway.lake, table, written_by_worker(gateway.workers, gateway.lake, table, ARROW, body))
    assert left == [2.5]
    assert gateway.run("SELECT * FROM t").collect() == [(7,)]
