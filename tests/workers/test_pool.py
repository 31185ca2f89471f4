"""Workers decode bodies: what kills one costs that body, its files go, and the next body finds another."""

from __future__ import annotations

import io
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import orjson
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from model.errors import ColumnNotExist, InvalidData, StatementCanceled, TooManyStatements, Unavailable
from model.schema.schema import Schema, column, new_schema
from model.schema.types import BigIntType, Field, VarCharType
from model.work.deciding import deciding_as
from sql.execution.cancellation import Cancellation
from table.format.io.file_io import LocalFileIO
from table.format.manifests.entries import NewFile
from tests.running import ARROW, PARQUET
from tests.short import one_in
from tests.waiting import eventually
from tests.workers import bombs
from tests.workers.damaged import stream
from workers.pool import WorkerLimits, WorkerPool
from workers.spool import BodyFiles
from workers.task import BodyTask

ROWS = pa.record_batch({"id": pa.array(range(3), pa.int64()), "s": ["a", None, "c"]})
MANY = pa.record_batch({"id": pa.array(range(200_000), pa.int64())})


def schema() -> Schema:
    fields = [Field(id=0, name="id", type=BigIntType()), Field(id=1, name="s", type=VarCharType())]
    return new_schema(fields, options={"bucket": "1", "bucket-key": "id", "target-file-size": "64 kb"})


def task(tmp_path: Path, media_type: str = ARROW) -> BodyTask:
    return BodyTask(
        media_type=media_type, table="default.t", warehouse=str(tmp_path), location=f"{tmp_path}/t", branch="main", schema=schema()
    )


def files(tmp_path: Path) -> list[Path]:
    return sorted(tmp_path.glob("t/bucket-0/*"))


class Body:
    """A body that is fed bit by bit, as a descriptor."""

    def __init__(self) -> None:
        self.reading, writing = os.pipe()
        self.pipe = os.fdopen(writing, "wb")

    def close(self) -> None:
        self.pipe.close()
        os.close(self.reading)


@pytest.fixture
def body() -> Iterator[Body]:
    made = Body()
    yield made
    made.close()


@pytest.fixture
def one(request: pytest.FixtureRequest) -> Iterator[WorkerPool]:
    made = WorkerPool(WorkerLimits(count=1, **getattr(request, "param", {})))
    yield made
    made.close()


def write(pool: WorkerPool, tmp_path: Path, body: bytes, media_type: str = ARROW) -> list[NewFile]:
    with BodyFiles().spooled(io.BytesIO(body)) as held:
        return pool.write(task(tmp_path, media_type), held.fileno(), LocalFileIO().delete)


def test_a_body_becomes_files_described_as_if_written_here(workers: WorkerPool, tmp_path: Path) -> None:
    (new,) = write(workers, tmp_path, stream(ROWS))
    assert (new.bucket, new.file.row_count, new.file.schema_id) == (0, 3, 0)
    (found,) = files(tmp_path)
    assert (found.name, found.stat().st_size) == (new.file.file_name, new.file.file_size)
    assert pq.read_table(found).to_pylist() == ROWS.to_pylist()


def test_failures_come_back_as_what_they_are(workers: WorkerPool, tmp_path: Path) -> None:
    with pytest.raises(ColumnNotExist, match=r"Column idd does not exist in table default\.t\. Did you mean id\?") as told:
        write(workers, tmp_path, stream(pa.record_batch({"idd": [1]})))
    assert told.value.resource_name == "idd"
    with pytest.raises(InvalidData, match="not a Parquet file"):
        write(workers, tmp_path, b"PAR1", PARQUET)
    exact = replace(task(tmp_path, "application/x-ndjson"), schema=new_schema([column("s", "STRING"), column("d", "DECIMAL(4, 1)")]))
    for text, error, says in (
        ('{"s": "\\ud800"}', InvalidData, r"Column s, row 1: .*\\ud800"),
        ('{"\\ud800": 1}', ColumnNotExist, r"\\ud800"),
    ):
        with BodyFiles().spooled(io.BytesIO(text.encode())) as held, pytest.raises(error, match=says):
            workers.write(exact, held.fileno(), LocalFileIO().delete)
    assert files(tmp_path) == []
    assert len(write(workers, tmp_path, stream(ROWS))) == 1


class _EarlierTask(BodyTask):
    """As a server writes it that runs on after its code was replaced, and names no time for the store."""

    def to_json(self) -> bytes:
        document = orjson.loads(super().to_json())
        del document["storeSeconds"]
        return orjson.dumps(document)


def test_a_worker_reads_tasks_of_a_server_of_an_earlier_version(workers: WorkerPool, tmp_path: Path) -> None:
    now = task(tmp_path)
    earlier = _EarlierTask(**{field.name: getattr(now, field.name) for field in fields(now)})
    with BodyFiles().spooled(io.BytesIO(stream(ROWS))) as held:
        (new,) = workers.write(earlier, held.fileno(), LocalFileIO().delete)
    assert new.file.row_count == 3


@pytest.mark.parametrize("number", [signal.SIGSEGV, signal.SIGKILL])
def test_a_worker_that_dies_takes_its_files_along_and_the_next_body_finds_another(
    one: WorkerPool, tmp_path: Path, body: Body, number: signal.Signals
) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            one.write(task(tmp_path), body.reading, LocalFileIO().delete)
        except BaseException as failure:
            failures.append(failure)

    thread = threading.Thread(target=work)
    thread.start()
    writer = pa.ipc.new_stream(body.pipe, MANY.schema)
    writer.write_batch(MANY)
    body.pipe.flush()
    eventually(lambda: files(tmp_path) != [])
    (dead,) = one.pids()
    os.kill(dead, number)
    thread.join()
    (failure,) = failures
    assert isinstance(failure, InvalidData)
    assert f"({number.name})" in failure.message
    assert files(tmp_path) == []
    assert len(write(one, tmp_path, stream(ROWS))) == 1
    assert one.pids() != [dead]


def test_a_pool_that_closes_removes_what_its_workers_wrote_and_says_why(one: WorkerPool, tmp_path: Path, body: Body) -> None:
    """The files stayed, and the body was answered as a bug of the server's."""
    with ThreadPoolExecutor(1) as threads:
        written = threads.submit(one.write, task(tmp_path), body.reading, LocalFileIO().delete)
        with pa.ipc.new_stream(body.pipe, MANY.schema) as sent:
            sent.write_batch(MANY)
            body.pipe.flush()
            assert eventually(lambda: files(tmp_path) != [])
            one.close()
            assert files(tmp_path) == []
            assert one.pids() == []
        with pytest.raises(Unavailable, match="The server is stopping"):
            written.result()
    with pytest.raises(Unavailable, match="The server is stopping"):
        write(one, tmp_path, stream(ROWS))
    one.close()


@pytest.mark.parametrize("begun", [True, False], ids=["at work", "waiting for a worker"])
def test_work_that_is_told_to_stop_ends_its_worker_or_leaves_the_queue(tmp_path: Path, body: Body, begun: bool) -> None:
    pool, canceled, taken = WorkerPool(WorkerLimits(count=1, kept=0)), Cancellation(), Body()

    def write_on() -> list[NewFile]:
        with deciding_as(canceled):
            return pool.write(task(tmp_path), body.reading, LocalFileIO().delete)

    try:
        with ThreadPoolExecutor(2) as threads:
            other = None if begun else threads.submit(pool.write, task(tmp_path), taken.reading, LocalFileIO().delete)
            assert begun or eventually(lambda: len(pool.pids()) == 1)
            stopped = threads.submit(write_on)
            assert eventually(lambda: len(pool.pids()) == 1 if begun else len(pool._waiting) == 1)
            canceled.cancel()
            with pytest.raises(StatementCanceled):
                stopped.result()
            with pa.ipc.new_stream(taken.pipe, ROWS.schema) as sent:
                sent.write_batch(ROWS)
            taken.pipe.close()
            assert other is None or len(other.result()) == 1
        assert len(write(pool, tmp_path, stream(ROWS))) == 1
    finally:
        taken.close()
        pool.close()


def test_a_worker_that_died_between_bodies_is_not_noticed(one: WorkerPool, tmp_path: Path) -> None:
    write(one, tmp_path, stream(ROWS))
    (dead,) = one.pids()
    psutil.Process(dead).kill()
    eventually(lambda: psutil.Process(dead).status() == psutil.STATUS_ZOMBIE)
    assert len(write(one, tmp_path, stream(ROWS))) == 1


@pytest.mark.parametrize("one", [{"memory_bytes": 200 << 20}], indirect=True)
def test_a_small_body_that_unfolds_to_gigabytes_is_refused(one: WorkerPool, tmp_path: Path) -> None:
    write(one, tmp_path, stream(ROWS))
    (pid,) = one.pids()
    zeros = pa.record_batch({"id": pa.array(np.zeros(40_000_000, np.int64))})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, zeros.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(zeros)
    bomb = sink.getvalue().to_pybytes()
    assert len(bomb) < 1 << 20
    with pytest.raises(InvalidData, match="200 MB"):
        write(one, tmp_path, bomb)
    assert files(tmp_path)[1:] == []
    assert len(write(one, tmp_path, stream(ROWS))) == 1
    assert one.pids() == [pid]


@pytest.mark.parametrize("one", [{"seconds": 0.5}], indirect=True)
def test_a_body_that_takes_too_long_is_given_up(one: WorkerPool, tmp_path: Path, body: Body) -> None:
    write(one, tmp_path, stream(ROWS))
    (slow,) = one.pids()
    with pytest.raises(InvalidData, match=r"within 0\.5 seconds \(SLUICE_ROWS_WORKER_SECONDS\)"):
        one.write(task(tmp_path), body.reading, LocalFileIO().delete)
    assert not psutil.pid_exists(slow)


@pytest.mark.parametrize("one", [{"seconds": 2.0}], indirect=True)
@pytest.mark.parametrize("name", one_in(2, bombs.MANY_ROWS))
def test_rows_without_end_end_with_the_time_there_is(one: WorkerPool, tmp_path: Path, name: str) -> None:
    write(one, tmp_path, stream(ROWS))
    there, body = files(tmp_path), bombs.MANY_ROWS[name]()
    assert len(body) < 1 << 20
    with pytest.raises(InvalidData, match=r"within 2\.\d+ seconds"):
        write(one, tmp_path, body, PARQUET)
    assert files(tmp_path) == there
    assert len(write(one, tmp_path, stream(ROWS))) == 1


def test_workers_are_told_no_secret(monkeypatch: pytest.MonkeyPatch, one: WorkerPool, tmp_path: Path) -> None:
    monkeypatch.setenv("SLUICE_TOKEN", "hush")
    monkeypatch.setenv("SLUICE_CATALOG_DSN", "postgres://hush")
    monkeypatch.setenv("PGPASSWORD", "hush")
    write(one, tmp_path, stream(ROWS))
    (pid,) = one.pids()
    environment = Path(f"/proc/{pid}/environ").read_text()
    assert "PATH=" in environment
    assert "hush" not in environment


def test_a_large_body_lies_on_disk_and_a_small_one_in_memory() -> None:
    for size in (0, 5, 4 << 20, (4 << 20) + 1, 9 << 20):
        data, seen = os.urandom(size), bytearray()
        body = io.BytesIO(data)
        with BodyFiles().spooled(body, begin=body.read(3), seen=seen.extend) as held:
            assert ("memfd" in os.readlink(f"/proc/self/fd/{held.fileno()}")) == (size <= 4 << 20)
            assert held.read() == data == seen


def test_who_fills_the_workers_leaves_one_to_others_and_turns_are_fair(tmp_path: Path) -> None:
    """Two principals decode at once although one could take all; a third comes before what the first has waiting."""
    pool = WorkerPool(WorkerLimits(count=1, waiting=5))
    bodies = [Body() for _ in range(7)]
    order: list[str] = []

    def write_as(owner: str, body: Body) -> None:
        pool.write(task(tmp_path), body.reading, LocalFileIO().delete, owner=owner)
        order.append(owner)

    def comes(body: Body) -> None:
        with pa.ipc.new_stream(body.pipe, ROWS.schema):
            pass
        body.pipe.close()

    try:
        with ThreadPoolExecutor(7) as threads:
            asked = [threads.submit(write_as, owner, body) for owner, body in zip(("ada", "bob"), bodies, strict=False)]
            assert eventually(lambda: len(pool.pids()) == 2, pause=0.01), "ada has the one worker, and bob the kept one"
            asked += [threads.submit(write_as, "ada", body) for body in bodies[2:6]]
            assert eventually(lambda: len(pool._waiting) == 4, pause=0.01)
            with pytest.raises(TooManyStatements, match="4 more wait for them, 4 of them of ada"):
                write_as("ada", bodies[6])
            asked.append(threads.submit(write_as, "cid", bodies[6]))
            assert eventually(lambda: len(pool._waiting) == 5, pause=0.01)
            for body in bodies[1:]:
                comes(body)
            # Bob's turn is over before his thread notes it, and cid may be quicker.
            assert eventually(lambda: sorted(order) == ["bob", "cid"], pause=0.01), "ada's wait for the end of what she has"
            assert len(pool._waiting) == 4
            comes(bodies[0])
            assert [one.result() for one in asked] == [None] * 7
        assert eventually(lambda: len(pool.pids()) == 1, pause=0.01), "what was kept for others ends"
    finally:
        for body in bodies:
            body.close()
        pool.close()
