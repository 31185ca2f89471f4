"""A store that is away, refuses or hangs for a while beside all that goes on: every row once, and nobody waits for ever."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from table.format.io.file_io import file_io_for
from tests.faults.s3_campaign import settled, tells_which, threads_of_server
from tests.faults.world import Answer, World, world
from tests.fix_s3_proxy import Fate, Proxy
from tests.short import short
from tests.waiting import eventually

_WRITERS = 4
_GIVEN_UP_SECONDS = 240.0
"""What a statement may take where each of its requests is given up after seconds, on a busy machine."""
_ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}


class Clients:
    """Writers that repeat each row under its key until it is acknowledged, and somebody who merges what they write."""

    def __init__(self, asked: World) -> None:
        self._asked = asked
        self.acknowledged: list[int] = []
        self.told: list[Answer] = []
        self.longest = 0.0
        self._ends = threading.Event()

    def write(self, writer: int) -> None:
        for number in range(1000 * writer, 1000 * writer + 1000):
            while not self._ask(f"INSERT INTO t VALUES ({number})", f"row-{number}").ok:
                time.sleep(0.2)
            self.acknowledged.append(number)
            if self._ends.is_set():
                return
            time.sleep(0.1)

    def merge(self) -> None:
        while not self._ends.is_set():
            self._ask("CALL sys.compact('t')", None)
            time.sleep(0.5)

    def end(self) -> None:
        """Each ends with the next answer that it is waiting for."""
        self._ends.set()

    def _ask(self, text: str, key: str | None) -> Answer:
        began = time.monotonic()
        answer = self._asked.ask(text, key)
        self.longest = max(self.longest, time.monotonic() - began)
        if not answer.ok:
            self.told.append(answer)
        return answer


@pytest.mark.parametrize(
    ("fate", "seconds"),
    short([(Fate.FORBIDDEN, 4), (Fate.AWAY, 2), (Fate.FORBIDDEN, 60), (Fate.AWAY, 60), (Fate.HELD, 60)], [(Fate.AWAY, 2)]),
)
def test_a_store_that_is_away_for_a_while_loses_no_row(
    on_s3: World, s3_proxy: Proxy, dsn: str, lakeside: str, tmp_path: Path, fate: Fate, seconds: float
) -> None:
    clients = Clients(on_s3)
    with ThreadPoolExecutor(_WRITERS + 1) as pool:
        running = [pool.submit(clients.write, writer) for writer in range(1, _WRITERS + 1)]
        running.append(pool.submit(clients.merge))
        eventually(lambda: len(clients.acknowledged) >= 2 * _WRITERS, 120)
        before, threads = len(clients.acknowledged), len(threads_of_server())
        s3_proxy.reset(lambda number, method, path: fate)
        time.sleep(seconds)
        eventually(lambda: s3_proxy.faults > 0, 120)  # a busy machine may send none meanwhile
        faults = s3_proxy.faults
        s3_proxy.reset()
        clients.end()
        for one in running:
            one.result(timeout=_GIVEN_UP_SECONDS)
    print(f"{fate.name} for {seconds} s: {before} rows before, {len(clients.acknowledged)} in all, {faults} faults, "
          f"{len(clients.told)} refusals, longest answer {clients.longest:.1f} s")  # fmt: skip
    assert before
    assert faults
    assert [answer for answer in clients.told if answer.status not in (409, 503)] == []
    assert [answer for answer in clients.told if answer.status == 503 and not tells_which(answer)] == []
    assert seconds < 30 or clients.told
    with world(dsn, tmp_path, warehouse=lakeside) as fresh:
        assert fresh.ids("t") == [1, 2, *sorted(clients.acknowledged)]
        assert fresh.rows("CALL sys.check_table('t', deep => true)") == []
    assert settled(threads), threads_of_server()


@pytest.mark.usefixtures("brisk_store")
def test_a_request_of_any_kind_that_hangs_holds_no_thread_for_ever(lakeside: str, s3_proxy: Proxy) -> None:
    """The first of each kind is never answered; all at once, as each is given up after seconds."""
    io = file_io_for(lakeside)
    for name in ("read", "looked-for", "removed"):
        io.add(f"{lakeside}/{name}/a", b"1")
    held: set[str] = set()

    def fate(number: int, method: str, path: str) -> Fate:
        kind = "LIST" if "list-type=2" in path else method
        if kind in held:
            return Fate.SERVED
        held.add(kind)
        return Fate.HELD

    s3_proxy.reset(fate)
    asked: dict[str, Callable[[], object]] = {
        "GET": lambda: io.read(f"{lakeside}/read/a"),
        "PUT": lambda: io.add(f"{lakeside}/added/a", b"2"),
        "HEAD": lambda: io.file_exists(f"{lakeside}/looked-for/a"),
        "DELETE": lambda: io.delete(f"{lakeside}/removed/a"),
        "LIST": lambda: [status.size for status in io.list(f"{lakeside}/looked-for")],
    }
    with ThreadPoolExecutor(len(asked)) as pool:
        answers = {kind: pool.submit(ask) for kind, ask in asked.items()}
        told = {kind: answer.result(timeout=100) for kind, answer in answers.items()}
    assert held == set(asked), s3_proxy.requests
    assert told == {"GET": b"1", "PUT": None, "HEAD": True, "DELETE": None, "LIST": [1]}
    assert io.read(f"{lakeside}/added/a") == b"2"
    assert not io.exists(f"{lakeside}/removed/a")


def _large() -> bytes:
    """A body whose data file takes several parts: random bytes, which nothing packs."""
    table = pa.table({"id": pa.array(range(100, 128), pa.int32()), "s": [os.urandom(1 << 19).hex() for _ in range(28)]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def part(fate: Fate, times: int) -> Callable[[int, str, str], Fate]:
    """What becomes of the first requests with the second part of an upload, or with its end."""
    left = [times]

    def judge(number: int, method: str, path: str) -> Fate:
        ends = method == "POST" and "uploadId=" in path
        if left[0] and (ends if fate is Fate.LOST else "partNumber=2" in path):
            left[0] -= 1
            return fate
        return Fate.SERVED

    return judge


@pytest.mark.parametrize(
    ("fate", "times", "noticed"),
    short(
        [(Fate.CUT, 2, False), (Fate.SLOW_DOWN, 2, False), (Fate.HELD, 1, False), (Fate.FORBIDDEN, 99, True), (Fate.LOST, 1, None)],
        [(Fate.CUT, 2, False), (Fate.FORBIDDEN, 99, True)],
    ),
)
def test_a_data_file_of_many_parts_is_cut_in_the_middle(
    on_s3: World, s3_proxy: Proxy, dsn: str, lakeside: str, tmp_path: Path, fate: Fate, times: int, noticed: bool | None
) -> None:
    """``noticed``: whether the client is told; None where the end of the upload was done and its answer is lost, so that either is true."""
    on_s3.must("CREATE TABLE large (id INT, s STRING)")
    body = _large()
    s3_proxy.reset(part(fate, times))
    answer = on_s3.post("/tables/default/large/rows", body, _ARROW | {"Idempotency-Key": "large"})
    assert s3_proxy.faults, s3_proxy.requests
    s3_proxy.reset()
    assert noticed is None or answer.ok is not noticed, answer
    if not answer.ok:
        assert answer.status == 503, answer
        assert tells_which(answer), answer
        assert on_s3.ids("large") == []
        assert on_s3.post("/tables/default/large/rows", body, _ARROW | {"Idempotency-Key": "large"}).ok
    with world(dsn, tmp_path, warehouse=lakeside) as fresh:
        assert fresh.ids("large") == list(range(100, 128))
        assert fresh.rows("CALL sys.check_table('large', deep => true)") == []
