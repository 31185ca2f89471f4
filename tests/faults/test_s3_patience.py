"""A store that takes connections and answers nothing: what a statement asks of it has one budget of time."""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from model.errors import Unavailable
from model.schema.schema import new_schema
from model.schema.types import BigIntType, Field
from table.format.io.file_io import file_io_for
from table.format.io.patience import StorePatience, patient_for, seconds_left
from tests.faults.conftest import BRISK_SECONDS
from tests.faults.s3_campaign import settled, tells_which, threads_of_server
from tests.faults.world import Answer, world
from tests.fix_s3_proxy import Fate, Proxy
from tests.running import PARQUET
from tests.short import short
from workers.pool import WorkerLimits, WorkerPool
from workers.task import BodyTask

_SECONDS = 6.0
_A_REQUEST_MORE = 30.0
"""The last one is given up by AWS's library, a PUT after twelve seconds; without a budget each is tried several times."""


def held(number: int, method: str, path: str) -> Fate:
    return Fate.HELD


def timed(ask: Callable[[], Answer]) -> tuple[Answer, float]:
    began = time.monotonic()
    answer = ask()
    return answer, time.monotonic() - began


@pytest.mark.usefixtures("brisk_store")
def test_each_statement_is_told_within_its_time_and_names_the_object(dsn: str, lakeside: str, s3_proxy: Proxy, tmp_path: Path) -> None:
    with world(dsn, tmp_path, warehouse=lakeside, store_seconds=_SECONDS) as asked:
        asked.must("CREATE TABLE t (id INT)", "INSERT INTO t VALUES (1)", "INSERT INTO t VALUES (2)", "CREATE TABLE d (id INT)")
        threads = len(threads_of_server())
        s3_proxy.reset(held)
        texts = (
            "SELECT * FROM t",
            "INSERT INTO t VALUES (3)",
            "CREATE TABLE e (id INT)",
            "TRUNCATE TABLE t",
        )
        with ThreadPoolExecutor(len(texts)) as clients:
            told = dict(zip(texts, clients.map(lambda text: timed(lambda: asked.ask(text)), texts), strict=True))
        assert asked.rows("SELECT COUNT(*) FROM t") == [(2,)]
        s3_proxy.reset()
        s3_proxy.released.set()
        print({text: (round(seconds, 1), answer.body) for text, (answer, seconds) in told.items()})
        for text, (answer, seconds) in told.items():
            assert answer.status == 503, (text, answer)
            assert tells_which(answer), (text, answer)
            assert f"{_SECONDS:g} s in all" in answer.body["detail"], "the budget is the one that the server was given"
            assert seconds < _SECONDS + _A_REQUEST_MORE, (text, seconds)
        asked.must("INSERT INTO t VALUES (4)")
        assert asked.ids("t") == [1, 2, 4]
        assert settled(threads), threads_of_server()


@pytest.mark.torture
def test_a_worker_has_the_time_of_the_statement_it_writes_for(lakeside: str, s3_proxy: Proxy) -> None:
    """AWS's library takes twelve seconds for it, in a process where no test can have it take less."""
    schema = new_schema([Field(id=0, name="id", type=BigIntType())], options={"bucket": "-1"})
    rows = pa.table({"id": pa.array(range(3), pa.int64())})
    workers = WorkerPool(WorkerLimits(count=1))
    try:
        with tempfile.TemporaryFile() as body, patient_for(2.5):
            pq.write_table(rows, body)
            task = BodyTask(
                media_type=PARQUET,
                table="default.t",
                warehouse=lakeside,
                location=f"{lakeside}/default.db/t",
                branch="main",
                schema=schema,
                store_seconds=seconds_left(),
            )
            assert BodyTask.of(orjson.loads(task.to_json())).store_seconds == 2.5
            s3_proxy.reset(held)
            body.seek(0)
            with pytest.raises(Unavailable, match=r"2\.5 s in all"):
                workers.write(task, body.fileno(), lambda _: None)
    finally:
        s3_proxy.reset()
        s3_proxy.released.set()
        workers.close()


@pytest.mark.usefixtures("brisk_store")
def test_one_budget_for_all_requests_of_a_statement(lakeside: str, s3_proxy: Proxy) -> None:
    """Each object is answered at the second try: three seconds are lost to each, and four on a busy machine.

    After two of them there is no place for a third.
    """
    io = file_io_for(lakeside)
    for number in range(3):
        io.add(f"{lakeside}/o-{number}", b"1")
    seen: set[str] = set()

    def first_time(number: int, method: str, path: str) -> Fate:
        is_new = path not in seen
        seen.add(path)
        return Fate.HELD if is_new else Fate.SERVED

    s3_proxy.reset(first_time)
    with patient_for(2.9 * BRISK_SECONDS):
        assert io.read(f"{lakeside}/o-0") == b"1"
        with pytest.raises(Unavailable, match=re.escape("cannot be used at o-1: this statement has waited for requests")):
            io.read(f"{lakeside}/o-1")
        came = len(s3_proxy.requests)
    assert io.read(f"{lakeside}/o-2") == b"1"  # a statement of its own
    assert came < len(s3_proxy.requests)


def test_a_refusal_costs_no_more_than_its_pauses(lakeside: str, s3_proxy: Proxy) -> None:
    io = file_io_for(lakeside)
    io.add(f"{lakeside}/a", b"1")
    s3_proxy.reset(lambda number, method, path: Fate.SLOW_DOWN if number < 6 else Fate.SERVED)
    with patient_for(_SECONDS):  # which has no place for an attempt without an answer after the fourth
        assert io.read(f"{lakeside}/a") == b"1"
    s3_proxy.reset(lambda number, method, path: Fate.SLOW_DOWN)
    began = time.monotonic()
    with patient_for(1.0), pytest.raises(Unavailable, match=r"a: .* as long as it may, 1 s in all"):
        io.read(f"{lakeside}/a")
    assert time.monotonic() - began < 20
    assert s3_proxy.faults > 1


@pytest.mark.parametrize("seconds", [60.0, 8.0])
def test_a_refusal_of_what_is_read_of_an_open_file_is_repeated_however_little_time_is_left(
    lakeside: str, s3_proxy: Proxy, seconds: float
) -> None:
    """AWS's library repeats it; a budget below what five tries take leaves fewer of them."""
    io = file_io_for(lakeside)
    data = bytes(range(256)) * 8
    io.add(f"{lakeside}/a", data)
    s3_proxy.reset(lambda number, method, path: Fate.SLOW_DOWN if method == "GET" and number < 4 else Fate.SERVED)
    with patient_for(seconds), io.open_input(f"{lakeside}/a") as opened:
        assert opened.read_at(1024, 3) == data[3:1027]
    assert s3_proxy.faults == 2


@pytest.mark.parametrize("fate", [Fate.SLOW_DOWN, Fate.LOST])
@pytest.mark.parametrize("method", ["PUT", "DELETE"])
def test_a_move_is_repeated_where_its_copy_or_its_removal_fails(lakeside: str, s3_proxy: Proxy, method: str, fate: Fate) -> None:
    io = file_io_for(lakeside)
    io.add(f"{lakeside}/here", b"1")
    s3_proxy.reset(lambda number, sent, path: fate if sent == method and not s3_proxy.faults else Fate.SERVED)
    with patient_for(_SECONDS):
        io.rename(f"{lakeside}/here", f"{lakeside}/there")
    assert s3_proxy.faults == 1
    assert io.read(f"{lakeside}/there") == b"1"
    assert not io.file_exists(f"{lakeside}/here")


def test_a_client_is_made_once_as_none_is_made_while_a_request_waits(lakeside: str, s3_proxy: Proxy) -> None:
    file_io_for(lakeside)
    s3_proxy.reset(lambda number, method, path: Fate.HELD if "held" in path else Fate.SERVED)
    with ThreadPoolExecutor(1) as beside:
        waits = beside.submit(file_io_for(lakeside).file_exists, f"{lakeside}/held")
        while not s3_proxy.faults:
            time.sleep(0.01)
        file_io_for(f"{lakeside}/another").add(f"{lakeside}/b", b"1")
        assert not waits.done(), "nobody waits for it"
        s3_proxy.reset()
        s3_proxy.released.set()
        assert waits.result(60) is False


@pytest.mark.parametrize("size", short([1, (8 << 20) - 1, 8 << 20, (8 << 20) + 1, 25 << 20], [1, (8 << 20) + 1]))
def test_an_output_of_any_size_is_written_as_it_was_given(lakeside: str, s3_proxy: Proxy, size: int) -> None:
    io = file_io_for(lakeside)
    data = bytes(range(256)) * (size // 256 + 1)
    s3_proxy.reset()
    with io.open_output(f"{lakeside}/out") as stream:
        for at in range(0, size, 1 << 20):
            stream.write(data[at : min(at + (1 << 20), size)])
        assert stream.tell() == size
    assert len(s3_proxy.requests) == 1 or size > 8 << 20
    assert io.read(f"{lakeside}/out") == data[:size]


def test_time_lost_beside_each_other_counts_once_and_comes_back() -> None:
    patience = StorePatience(10.0)
    now = time.monotonic()
    patience.lose(now - 3, now - 1)
    patience.lose(now - 2, now)
    patience.lose(now - 2.5, now - 0.5)
    assert patience.left() == pytest.approx(7.0, abs=0.01)
    spent, rested = StorePatience(60.0), StorePatience(60.0)
    spent.lose(now - 60, now)
    assert spent.left() <= 0
    rested.lose(now - 121, now - 61)
    assert rested.left() == pytest.approx(60.0)
