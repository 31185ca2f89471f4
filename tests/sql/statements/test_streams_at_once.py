"""Streams of a table that several callers write, compact, change and clean up: each row comes, in its writer's order, once."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import SnapshotNotExist, StatementCanceled
from sql.execution.results import ResultSet
from tests.interop.strict import check_warehouse
from tests.short import one_in
from tests.sql.statements.test_names_at_once import Crowd

SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261126"))
_LAYOUTS = {
    "one bucket": "WITH ('bucket' = '1', 'bucket-key' = 'writer')",
    "buckets": "WITH ('bucket' = '3', 'bucket-key' = 'writer')",
    "partitions": "PARTITIONED BY (p) WITH ('bucket' = '2', 'bucket-key' = 'writer')",
    "no buckets": "WITH ('bucket' = '-1')",
}
_SECONDS = 180
"""How long a stream may take for what is there."""
_NEXT = 1_000_000
"""A row's id is its writer's number times this, plus its number among those of the writer."""


class Reader(threading.Thread):
    """Reads a stream until it is told to end; with a consumer it goes away and comes back in between."""

    def __init__(self, gateway: Gateway, seed: str, *, mode: str = "latest-full", consumer: str | None = None) -> None:
        super().__init__(daemon=True)
        self.rng = random.Random(seed)
        self.gateway, self.consumer = gateway, consumer
        named = "" if consumer is None else f", 'consumer-id' = '{consumer}'"
        self.statement = f"SELECT id FROM t /*+ OPTIONS('scan.mode' = '{mode}'{named}) */"
        self.runs: list[list[int]] = []
        """The rows of each time it was there."""
        self.expired = False
        self.problem: BaseException | None = None
        self.told = threading.Event()
        self._result: ResultSet | None = None

    @property
    def seen(self) -> set[int]:
        return {row for run in self.runs for row in run}

    def run(self) -> None:
        try:
            while not self.told.is_set():
                self._once()
                if self.consumer is None:
                    return
        except BaseException as problem:
            if not self.told.is_set():
                self.problem = problem

    def _once(self) -> None:
        rows: list[int] = []
        self.runs.append(rows)
        try:
            with self.gateway.run(self.statement, settings={"execution.runtime-mode": "streaming"}) as self._result:
                if self.consumer is not None:  # a snapshot counts as read after a second
                    threading.Timer(self.rng.uniform(0.1, 4), self._result.close).start()
                for batch in self._result.batches():
                    rows += batch.column(0).to_pylist()
        except StatementCanceled:
            pass
        except SnapshotNotExist:
            if self.consumer is not None:
                raise
            self.expired = True  # nothing keeps what a stream without a name has not read

    def end(self) -> None:
        self.told.set()
        if self._result is not None:
            self._result.close()
        self.join(_SECONDS)


class Writers(Crowd):
    """Callers that write, and callers that keep the table in order."""

    @staticmethod
    def _statement(rng: random.Random, row: int) -> str:
        writer, at = divmod(row, 1_000_000)
        if writer % 2 == 0:
            values = ", ".join(f"({writer * _NEXT + at * 4 + more}, {writer}, '{rng.randrange(3)}')" for more in range(rng.randrange(1, 4)))
            return f"INSERT INTO t (id, writer, p) VALUES {values}"
        kinds = {
            "CALL sys.compact('t', compact_strategy => 'full')": 4,
            "CALL sys.compact('t')": 4,
            "CALL sys.compact_manifest('t', options => 'manifest.merge-min-count=2')": 2,
            "CALL sys.expire_snapshots('t', retain_max => 1, retain_min => 1)": 5,
            "CALL sys.rewrite_files('t')": 1,
            f"ALTER TABLE t ADD (c{row} INT)": 1,
            f"ALTER TABLE t SET ('snapshot.num-retained.max' = '{rng.randrange(20, 90)}')": 1,
            "CALL sys.remove_orphan_files('t')": 1,
            f"CALL sys.create_tag('t', 'g{rng.randrange(3)}')": 2,
            f"CALL sys.delete_tag('t', 'g{rng.randrange(3)}')": 2,
            "SELECT COUNT(*) FROM t": 1,
        }
        (text,) = rng.choices(list(kinds), list(kinds.values()))
        return text


def crowd(gateways: Sequence[Gateway], lake: Lake, warehouse: Path, layout: str, seed: int, *, callers: int, statements: int) -> None:
    gateways[0].run(f"CREATE TABLE t (id BIGINT, writer INT, p STRING) {_LAYOUTS[layout]}").close()
    many = Writers(gateways[0], lake, seed, *gateways[1:])
    gateways[0].run("CALL sys.reset_consumer('t', 'pin', 1)").close()  # else what the readers read first may expire before
    readers = [
        Reader(gateways[number % len(gateways)], f"{seed} {number}", consumer=consumer, mode=mode)
        for number, (mode, consumer) in enumerate([("latest-full", None), ("latest-full", "c"), ("latest-full", "d")])
    ]
    for reader in readers:
        reader.start()
    many.run(callers, statements)
    late = Reader(gateways[-1], f"{seed} late")
    late.start()
    readers.append(late)
    assert not many.bugs, "\n".join(many.bugs)
    rows = {int(str(row)) for (row,) in many.ask("SELECT id FROM t")}
    until = time.monotonic() + _SECONDS
    for reader in readers:
        while reader.problem is None and not reader.expired and reader.seen != rows and time.monotonic() < until:
            time.sleep(0.05)
    for reader in readers:
        reader.end()
    for reader in readers:
        assert reader.problem is None, repr(reader.problem)
        ranges = [(len(run), run[:1], run[-1:]) for run in reader.runs[-9:]]
        assert reader.expired or reader.seen == rows, (reader.statement, sorted(rows - reader.seen)[:20], ranges, many.statuses)
        for run in reader.runs:
            assert len(set(run)) == len(run), (reader.statement, "twice")
            if layout in ("one bucket", "buckets"):
                for writer in range(callers):
                    own = [row for row in run if row // _NEXT == writer]
                    assert own == sorted(own), (reader.statement, "out of order")
    check_warehouse(warehouse)


@pytest.mark.parametrize("layout", one_in(2, _LAYOUTS))
def test_every_row_comes_once(gateway: Gateway, other_server: Gateway, lake: Lake, warehouse: Path, layout: str) -> None:
    crowd([gateway, other_server], lake, warehouse, layout, SEED, callers=4, statements=12)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("layout", _LAYOUTS)
def test_every_row_comes_once_each_time(
    gateway: Gateway, other_server: Gateway, lake: Lake, warehouse: Path, layout: str, seed: int
) -> None:
    crowd([gateway, other_server][: 1 + seed % 2], lake, warehouse, layout, SEED + 1 + seed, callers=6, statements=80)
