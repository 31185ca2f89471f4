"""Whoever writes in this server stops at its next file when nobody wants it any more: statements, bodies here and at workers."""

from __future__ import annotations

import io
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any

import pyarrow as pa
import pytest

from gateway.gateway import Gateway, RunningStatement
from gateway.ingest import IfExists
from model.errors import InvalidData, StatementCanceled
from model.identifier import Identifier
from model.work.deciding import deciding_as
from sql.execution.cancellation import Cancellation
from table.format.formats import FileFormat
from table.format.store import TableFiles
from table.write import data_file, writer
from table.write.data_file import OpenFile
from tests.fix_gateway import Ask
from tests.waiting import eventually

PARTITIONS = 12
TABLE = Identifier("default", "t")
CSV = "a,k\n" + "\n".join(f"{number},{number}" for number in range(PARTITIONS))


class Opened:
    """Counts the files that are made here, and lets something happen at the third."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths = set[str]()
        self.at_third: Callable[[], object] = lambda: None

        def open_file(files: TableFiles, format_: FileFormat, path: str, *more: Any) -> OpenFile:
            if path not in self.paths:  # it is tried again in a directory that there was not
                self.paths.add(path)
                if self.count == 3:
                    self.at_third()
            return data_file.open_file(files, format_, path, *more)

        monkeypatch.setattr(writer, "open_file", open_file)

    @property
    def count(self) -> int:
        return len(self.paths)


@pytest.fixture
def opened(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> Opened:
    ask("CREATE TABLE t (a BIGINT, k BIGINT) PARTITIONED BY (k)")
    return Opened(monkeypatch)


def data_files(warehouse: Path) -> set[str]:
    return {path.name for path in warehouse.rglob("data-*") if path.is_file() and ".sluice" not in path.parts}


def rows(count: int = PARTITIONS) -> str:
    return ", ".join(f"({number}, {number})" for number in range(count))


@pytest.mark.parametrize(
    ("before", "text"),
    [
        ("", f"INSERT INTO t VALUES {rows()}"),
        (f"ALTER TABLE t SET ('rows.erasable'='true'); INSERT INTO t VALUES {rows()}", "UPDATE t SET k = 77 WHERE a >= 0"),
        ("ALTER TABLE t SET ('precommit-compact'='true')", f"INSERT INTO t VALUES {rows()}"),
        ("", f"CREATE TABLE u (a BIGINT, k BIGINT) WITH ('bucket'='50', 'bucket-key'='a'); INSERT INTO u VALUES {rows(60)}"),
    ],
    ids=["INSERT", "UPDATE", "merged first", "buckets"],
)
def test_a_statement(gateway: Gateway, opened: Opened, ask: Ask, warehouse: Path, before: str, text: str) -> None:
    if before:
        ask(before)
    kept = data_files(warehouse)
    opened.paths.clear()
    running = list[RunningStatement]()
    opened.at_third = lambda: running[0].cancel()
    with pytest.raises(StatementCanceled):
        gateway.run(text, on_start=running.append)
    assert eventually(lambda: not gateway._executor._unfinished)
    assert opened.count <= 3 + 3, "of a rewrite each of four threads may have one more under way"
    assert data_files(warehouse) == kept


def test_a_body_whose_client_has_gone(gateway: Gateway, opened: Opened, warehouse: Path, ask: Ask) -> None:
    canceled = Cancellation()
    opened.at_third = canceled.cancel
    with pytest.raises(StatementCanceled), deciding_as(canceled):
        gateway.append(TABLE, io.BytesIO(CSV.encode()), "text/csv")
    assert opened.count == 3
    assert data_files(warehouse) == set()
    with deciding_as(Cancellation()):
        assert gateway.append(TABLE, io.BytesIO(CSV.encode()), "text/csv").rows == PARTITIONS
    assert ask("SELECT COUNT(*) FROM t") == [(PARTITIONS,)]


def test_a_body_that_takes_longer_than_a_worker_may(
    gateway: Gateway, opened: Opened, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.append.time", SimpleNamespace(monotonic=lambda: 1_000.0 * opened.count))
    with pytest.raises(InvalidData, match="SLUICE_ROWS_WORKER_SECONDS"):
        gateway.append(TABLE, io.BytesIO(CSV.encode()), "text/csv")
    assert opened.count == 1
    assert data_files(warehouse) == set()


def appended(gateway: Gateway, body: bytes, canceled: Cancellation) -> None:
    with deciding_as(canceled):
        gateway.append(TABLE, io.BytesIO(body), "application/vnd.apache.arrow.stream")


def ingested(gateway: Gateway, body: bytes, canceled: Cancellation) -> None:
    def file() -> IO[bytes]:
        made = tempfile.TemporaryFile()  # noqa: SIM115 - who asked for it closes it
        made.write(body)
        made.seek(0)
        return made

    schema = pa.ipc.open_stream(body).schema
    with deciding_as(canceled):
        gateway.ingest(TABLE, schema, file, create=False, if_exists=IfExists.APPEND)


@pytest.mark.parametrize("send", [appended, ingested])
def test_a_body_at_a_worker(
    gateway: Gateway, opened: Opened, ask: Ask, warehouse: Path, send: Callable[[Gateway, bytes, Cancellation], None]
) -> None:
    """Its worker ends, and its files are removed; the next one takes its place."""
    sink = io.BytesIO()
    batch = pa.record_batch({"a": range(3_000), "k": range(3_000)})
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    canceled = Cancellation()

    def leave() -> None:
        assert eventually(lambda: bool(data_files(warehouse)), pause=0.01)
        canceled.cancel()

    leaving = threading.Thread(target=leave)
    leaving.start()
    with pytest.raises(StatementCanceled):
        send(gateway, sink.getvalue(), canceled)
    leaving.join()
    assert data_files(warehouse) == set()
    assert ask("SELECT COUNT(*) FROM t") == [(0,)]
    assert gateway.append(TABLE, io.BytesIO(CSV.encode()), "text/csv").rows == PARTITIONS
