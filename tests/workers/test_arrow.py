"""Few rows of a client's Arrow are read by workers: what ends one costs that call, and the server gets what Arrow's own writer makes."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pyarrow as pa
import pytest

from model.errors import BadRequest, InvalidData, Unavailable, UnsupportedType
from tests.waiting import eventually
from tests.workers.damaged import reaching, stream
from workers.arrow import ArrowHere, ArrowProcesses
from workers.pool import WorkerLimits

ROWS = pa.record_batch(
    {
        "n": pa.array([1, None, 3], pa.int64()),
        "text": ["a", "é", None],
        "listed": pa.array([[1], [], None], pa.list_(pa.int32())),
        "mapped": pa.array([[("k", {"a": 1})], None, []], pa.map_(pa.string(), pa.struct([("a", pa.int8())]))),
        "viewed": pa.array(["short", "longer than fits into a view", None], pa.string_view()),
        "nothing": pa.nulls(3),
    }
)
LONG = 2_000


def slow() -> bytes:
    """Some batches of a million views of the same text; each takes a second to be judged, or less on a fast machine."""
    views = np.tile(np.array([LONG, int.from_bytes("éé".encode(), "little") - (1 << 32), 0, 0], np.int32), 1_000_000)
    shown = pa.Array.from_buffers(pa.string_view(), 1_000_000, [None, pa.py_buffer(views), pa.py_buffer("é".encode() * (LONG // 2))])
    batch = pa.RecordBatch.from_arrays([shown], ["0"])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        for _ in range(5):
            writer.write_batch(batch)
    return bytes(sink.getvalue())


@pytest.fixture
def processes() -> Iterator[ArrowProcesses]:
    made = ArrowProcesses(WorkerLimits(count=1))
    yield made
    made.close()


def test_what_comes_back_is_what_was_sent(processes: ArrowProcesses) -> None:
    part = ROWS.slice(1, 2)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, ROWS.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        for batch in (ROWS, part, ROWS.slice(0, 0)):
            writer.write_batch(batch)
    (found,) = processes.rows([bytes(sink.getvalue())], "ada")
    assert found.to_pylist() == [*ROWS.to_pylist(), *part.to_pylist()]
    assert found.schema == ROWS.schema
    (empty,) = processes.rows([stream(ROWS.slice(0, 0))], "ada")
    assert (empty.num_rows, empty.schema) == (0, ROWS.schema)
    assert processes.schema([bytes(ROWS.schema.serialize())], "ada") == ROWS.schema
    assert processes.rows([bytes(ROWS.schema.serialize())], "ada") == []


@pytest.mark.parametrize(
    ("sent", "kind", "said"),
    [
        (stream(reaching(100)), InvalidData, r"Column v \(binary\) is damaged"),
        (stream(pa.record_batch({"d": pa.array(["a"]).dictionary_encode()})), UnsupportedType, "dictionary"),
        (stream(ROWS)[:-300], BadRequest, "cannot be read"),
        (b"\xff\xff\xff\xff\x10\0\0\0" + b"\xff" * 16, BadRequest, "cannot be read"),
        (b"", BadRequest, "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_told_as_what_it_is(processes: ArrowProcesses, sent: bytes, kind: type[Exception], said: str) -> None:
    for reader in (processes, ArrowHere()):
        with pytest.raises(kind, match=said):
            reader.rows([sent], "ada")
    assert processes.rows([stream(ROWS)], "ada")[0].num_rows == 3


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGSEGV, InvalidData), (signal.SIGKILL, Unavailable)])
def test_a_worker_that_ends_costs_its_call_and_the_next_finds_another(
    processes: ArrowProcesses, number: signal.Signals, kind: type[Exception]
) -> None:
    processes.schema([bytes(ROWS.schema.serialize())], "ada")
    (dead,) = processes.pids()
    before = psutil.Process(dead).cpu_times().user
    with ThreadPoolExecutor(1) as thread:
        asked = thread.submit(processes.rows, [slow()], "ada")
        assert eventually(lambda: psutil.Process(dead).cpu_times().user > before + 0.02, pause=0.01)
        os.kill(dead, number)
        with pytest.raises(kind, match=rf"ended (by |\(){number.name}"):
            asked.result()
    assert processes.rows([stream(ROWS)], "ada")[0].num_rows == 3
    assert dead not in processes.pids()


def test_begin_starts_one_worker_once(processes: ArrowProcesses) -> None:
    threads = [threading.Thread(target=processes.begin) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (begun,) = processes.pids()
    processes.rows([stream(ROWS)], "ada")
    assert processes.pids() == [begun]


def test_no_file_of_a_call_stays_open(processes: ArrowProcesses) -> None:
    processes.rows([stream(ROWS)], "ada")
    (worker,) = processes.pids()

    def files() -> list[int]:
        return [len(list(Path(f"/proc/{pid}/fd").iterdir())) for pid in (os.getpid(), worker)]

    before = files()
    for _ in range(20):
        processes.rows([stream(ROWS)], "ada")
    assert eventually(lambda: all(now <= then for now, then in zip(files(), before, strict=True)))
