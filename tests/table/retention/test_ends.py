"""A look at the ends of files, as at those that a client's commit adds: little of them is read, and little decoded at a time."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event, Lock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from table.format.io.file_io import LocalFileIO
from table.format.parquet.metadata import summary_of
from table.retention import check
from table.retention.check import ExpectedFile, ends_fault
from tests.waiting import eventually


class Counted(LocalFileIO):
    """Local files, and how many bytes of them were read."""

    def __init__(self) -> None:
        super().__init__()
        self.read_bytes = 0

    def open_input(self, path: str) -> pa.NativeFile:
        counted = self

        class File(io.BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                data = super().read(size)
                counted.read_bytes += len(data)
                return data

        return pa.PythonFile(File(Path(path).read_bytes()), mode="r")


def expected(path: Path, rows: int) -> ExpectedFile:
    return ExpectedFile(path=str(path), size=path.stat().st_size, rows=rows)


def test_a_footer_that_is_not_judged_is_not_read(tmp_path: Path) -> None:
    """Sixty-four files of a commit, each with a length of 32 MB at its end, made it fetch two gigabytes."""
    files, length = Counted(), 3 << 20
    path = tmp_path / "data-1-0.parquet"
    path.write_bytes(b"PAR1\x15" + bytes(length - 1) + length.to_bytes(4, "little") + b"PAR1")
    assert ends_fault(files, expected(path, rows=1)) is None
    assert files.read_bytes < 100_000
    path.write_bytes(b"PAR1\x00" + bytes(length - 1) + length.to_bytes(4, "little") + b"PAR1")
    assert "no footer of 3,145,728 bytes lies" in (ends_fault(files, expected(path, rows=1)) or "sound")


def test_few_long_footers_are_decoded_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes up to eighty times its bytes, and sixteen were decoded at once."""
    path, count = tmp_path / "data-1-0.parquet", 6
    pq.write_table(pa.table({f"a column with a long name, number {number:04d}": [1] for number in range(1000)}), path)
    inside: list[int] = []
    lock, go_on = Lock(), Event()
    running = 0

    def slow(footer: bytes) -> pq.FileMetaData:
        nonlocal running
        with lock:
            running += 1
            inside.append(running)
        go_on.wait(60)
        with lock:
            running -= 1
        return summary_of(footer)

    monkeypatch.setattr(check, "summary_of", slow)
    with ThreadPoolExecutor(count) as pool:
        looks = [pool.submit(ends_fault, LocalFileIO(), expected(path, rows=1)) for _ in range(count)]
        try:
            assert eventually(lambda: len(inside) >= 4)
            assert not check._long_footers.acquire(blocking=False)
        finally:
            go_on.set()
        assert [look.result() for look in looks] == [None] * count
    assert (len(inside), max(inside)) == (count, 4)
