"""Readers that stand still hold little, however many there are and however well their files are compressed."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from model.schema.schema import column, new_schema
from model.snapshot import CommitKind
from model.work.shared_bytes import SharedBytes
from table.format.io import look_ahead
from table.format.io.file_io import LocalFileIO
from table.format.io.look_ahead import Ahead, in_order
from table.format.rows.arrow import arrow_schema
from table.format.store import TableFiles
from table.scan.planning.entry_scan import plan_scan
from table.scan.read import read_batches
from table.write.snapshot_builder import CommitRequest, build_snapshot
from table.write.writer import write_batches
from tests.waiting import eventually

MB = 1 << 20
ROWS, FILES, READERS = 20_000, 4, 8
THREE = Ahead(streams=3, most_streams=8, small_bytes=10 * MB, held_bytes=64 * MB)


def batches(size: int, count: int) -> Iterator[pa.RecordBatch]:
    for at in range(count):
        yield pa.record_batch({"n": pa.array([at] * (size // 8))})


def test_rows_that_compress_well_are_read_in_batches_of_megabytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look_ahead, "READ_AHEAD", SharedBytes(32 * MB))
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    schema = new_schema([column("id", "BIGINT"), column("s", "STRING")], options={"bucket": "-1"})
    names = arrow_schema(schema.fields)
    written = []
    for at in range(FILES):
        rows = {"id": list(range(ROWS)), "s": ["x" * 1000 + f"{at} {row}" for row in range(ROWS)]}
        written += write_batches(files, schema, [pa.RecordBatch.from_pydict(rows, schema=names)])
    request = CommitRequest(kind=CommitKind.APPEND, adds=tuple(written), commit_user="u")
    snapshot = build_snapshot(files, schema, None, [request], uuid="u", time_millis=5)
    planned = plan_scan(files, schema, snapshot).files
    assert len(planned) == FILES
    before = pa.total_allocated_bytes()
    readers = [read_batches(files, schema, planned) for _ in range(READERS)]
    for reader in readers:
        assert next(reader).nbytes < 16 * MB

    def held() -> int:
        return int(pa.total_allocated_bytes() - before) // MB

    # All of the rows would be 8 readers × 80 MB.
    seen: list[int] = []
    eventually(lambda: seen.append(held()) or len(seen) > 20)  # type: ignore[func-returns-value]
    assert max(seen) < 300, seen
    for reader in readers:
        assert sum(batch.num_rows for batch in reader) > ROWS
    assert look_ahead.READ_AHEAD.usage() == {}


def test_what_a_consumer_waits_for_is_read_whatever_others_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SharedBytes(MB)
    monkeypatch.setattr(look_ahead, "READ_AHEAD", memory)
    others = threading.enumerate()  # they come and go as they like
    streams = [lambda: batches(MB, 5) for _ in range(3)]
    standing = [in_order(streams, THREE) for _ in range(4)]
    for reader in standing:
        next(reader)
    eventually(lambda: not memory.has_space(""))
    assert [batch.column(0)[0].as_py() for batch in in_order(streams, THREE)] == [0, 1, 2, 3, 4] * 3
    own = [thread for thread in threading.enumerate() if thread not in others and thread.name == "scan"]
    assert own
    for reader in standing:
        reader.close()  # type: ignore[attr-defined]
    assert eventually(lambda: memory.has_space(""))
    assert eventually(lambda: not any(thread.is_alive() for thread in own) and memory.usage() == {})


def test_readers_of_one_principal_leave_others_space_to_read_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = SharedBytes(10 * MB)
    monkeypatch.setattr(look_ahead, "READ_AHEAD", memory)
    begun: list[int] = []

    def noted(number: int) -> Iterator[pa.RecordBatch]:
        begun.append(number)
        yield from batches(8, 1)

    standing = [in_order([lambda: batches(MB, 20) for _ in range(3)], THREE, principal="anna") for _ in range(8)]
    for reader in standing:
        next(reader)
    assert eventually(lambda: not memory.has_space("anna"))
    others = in_order([lambda number=at: noted(number) for at in range(3)], THREE, principal="ben")  # type: ignore[misc]
    next(others)
    assert eventually(lambda: sorted(begun) == [0, 1, 2]), "ben's files wait until he comes to them"
    again = in_order([lambda number=at: noted(number) for at in range(3, 6)], THREE, principal="anna")  # type: ignore[misc]
    next(again)
    assert not set(begun) & {4, 5}, "anna has had her share"
    for reader in (*standing, others, again):
        reader.close()  # type: ignore[attr-defined]
    assert eventually(lambda: memory.usage() == {})


def test_rows_of_thousands_of_columns_count_with_their_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of 9,000 takes 7 MB, of which 36 kB are values."""
    memory = SharedBytes(64 * MB)
    monkeypatch.setattr(look_ahead, "READ_AHEAD", memory)
    wide = pa.record_batch({f"n{number}": pa.array([number], pa.int32()) for number in range(9_000)})
    read: list[int] = []

    def noted() -> Iterator[pa.RecordBatch]:
        for at in range(100):
            read.append(at)
            yield wide

    rows = in_order([noted], Ahead(streams=1, most_streams=1, small_bytes=0, held_bytes=20 * MB))
    assert next(rows).num_rows == 1
    assert eventually(lambda: memory.usage().get("", 0) > 20 * MB)
    assert len(read) < 10, "some hundreds would lie there"
    assert len(list(rows)) == 99
    assert memory.usage() == {}


@pytest.mark.parametrize(
    ("sizes", "at_once"),
    [
        ([], 3),
        ([MB] * 20, 8),
        ([4 * MB] * 20, 3),
        ([3 * MB] * 20, 3),
        ([2 * MB] * 20, 5),
        ([100 * MB, 1, 1, *[MB] * 17], 3),
    ],
)
def test_small_streams_are_begun_together_as_their_bytes_allow(sizes: list[int], at_once: int) -> None:
    begun: list[int] = []
    go_on = threading.Event()

    def stream(number: int) -> Iterator[pa.RecordBatch]:
        begun.append(number)
        assert go_on.wait(60)
        yield from batches(8, 1)

    read = in_order([lambda number=at: stream(number) for at in range(20)], THREE, sizes)  # type: ignore[misc]
    reader = threading.Thread(target=lambda: begun_all.extend(batch.num_rows for batch in read))
    begun_all: list[int] = []
    reader.start()
    assert eventually(lambda: len(begun) >= at_once)
    threading.Event().wait(0.1)
    assert sorted(begun) == list(range(at_once))
    go_on.set()
    reader.join(60)
    assert begun_all == [1] * 20
