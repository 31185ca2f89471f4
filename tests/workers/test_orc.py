"""ORC files are decoded by processes of their own: one that ends Arrow's reader costs the read, and nothing else."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pytest
from pyarrow import orc

from model.errors import Unavailable
from table.format.io.file_io import LocalFileIO
from table.format.orc import Here, Wanted, orc_head, orc_parts
from workers.orc import OrcProcesses
from workers.pool import WorkerLimits

KILLS = Path(__file__).with_name("kills_arrow.orc")
"""One flip of the campaign (`tests/table/test_flips.py`, its flip 4547): bit 1695 of a file of 3,000 rows."""
IO = LocalFileIO()


@pytest.fixture
def limits() -> WorkerLimits:
    return WorkerLimits(count=1)


@pytest.fixture
def processes(limits: WorkerLimits, tmp_path: Path) -> Iterator[OrcProcesses]:
    made = OrcProcesses(limits, str(tmp_path))
    made.begin()
    yield made
    made.close()


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = str(tmp_path / "good.orc")
    orc.write_table(pa.table({"id": range(100_000), "s": [f"text {n}" for n in range(100_000)]}), path, stripe_size=64 << 10)
    return path


def test_the_file_ends_a_process_that_reads_it() -> None:
    code = f"from pyarrow import orc; orc.ORCFile({str(KILLS)!r}).read()"
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True)
    assert done.returncode == -signal.SIGSEGV  # else another flip is to be found


def test_a_file_that_ends_its_reader_is_an_error_and_others_are_read(
    processes: OrcProcesses, good: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ValueError, match="bad read"):  # some rows at a time, its reader lives to tell
        list(orc_parts(IO, str(KILLS)))
    monkeypatch.setattr("workers.orc.FEWER", ())
    assert orc_head(IO, str(KILLS)).rows == 3_000
    for _ in range(2):
        with pytest.raises(ValueError, match=r"the process that decoded it ended \(SIGSEGV\)"):
            list(orc_parts(IO, str(KILLS)))
        assert sum(batch.num_rows for part in orc_parts(IO, good) for batch in part.batches) == 100_000


def test_what_processes_decode_is_what_this_one_decodes(processes: OrcProcesses, good: str) -> None:
    here = Here()
    assert processes.head(IO, good) == here.head(IO, good)
    assert here.head(IO, good).stripes > 3
    for wanted in (Wanted(), Wanted(columns=["s"], stripe=2), Wanted(columns=["gone"]), Wanted(columns=["id"], at_once=True)):
        assert processes.part(IO, good, wanted) == here.part(IO, good, wanted)


def test_a_large_file_comes_in_parts(good: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("table.format.orc.PART_BYTES", 1)
    parts = list(orc_parts(IO, good))
    assert [len(part.batches) for part in parts] == [1] * parts[0].head.stripes
    assert pa.Table.from_batches(batch for part in parts for batch in part.batches).equals(orc.read_table(good))


def test_a_file_that_is_gone_is_missing_and_one_that_is_none_is_told(processes: OrcProcesses, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        orc_head(IO, str(tmp_path / "none.orc"))
    (tmp_path / "text.orc").write_text("no ORC file, whatever its name says")
    with pytest.raises(ValueError, match="ORC"):
        orc_head(IO, str(tmp_path / "text.orc"))


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A stripe of 800 MB in a thousand bytes: a number, and one text of 200 kB in each of 4,000 rows."""
    path = str(tmp_path_factory.mktemp("bomb") / "bomb.orc")
    with orc.ORCWriter(path, compression="zstd", dictionary_key_size_threshold=1.0) as writer:
        for start in range(0, 4_000, 500):
            writer.write(pa.table({"id": range(start, start + 500), "text": ["x" * 200_000] * 500}))
    assert Path(path).stat().st_size < 4_000
    return path


@pytest.mark.parametrize("limits", [WorkerLimits(count=1, memory_bytes=768 << 20)])
def test_a_small_stripe_of_gigabytes_comes_some_rows_at_a_time(processes: OrcProcesses, bomb: str) -> None:
    rows = 0
    for part in orc_parts(IO, bomb):
        (pid,) = processes.pids()
        assert psutil.Process(pid).memory_info().rss < 768 << 20
        assert sum(batch.nbytes for batch in part.batches) < 200 << 20
        for batch in part.batches:
            assert batch.column("id").to_pylist() == list(range(rows, rows + batch.num_rows))
            assert {len(batch.column("text")[at].as_py()) for at in (0, batch.num_rows - 1)} == {200_000}
            rows += batch.num_rows
    assert rows == 4_000
    assert sum(batch.num_rows for part in orc_parts(IO, bomb, ["id"]) for batch in part.batches) == 4_000
    assert sum(batch.num_rows for part in orc_parts(IO, bomb, ["gone"]) for batch in part.batches) == 4_000


@pytest.mark.parametrize("limits", [WorkerLimits(count=1, memory_bytes=768 << 20)])
def test_two_readers_of_such_stripes_do_not_get_each_others_rows(processes: OrcProcesses, bomb: str) -> None:
    rows = 0
    for part, other in zip(orc_parts(IO, bomb), orc_parts(IO, bomb, ["text"]), strict=False):
        assert [batch.schema.names for batch in (part.batches[0], other.batches[0])] == [["id", "text"], ["text"]]
        assert part.batches[0].column("id")[0].as_py() == rows
        rows += sum(batch.num_rows for batch in part.batches)
        if rows > 200:
            break


@pytest.mark.parametrize("limits", [WorkerLimits(count=1, memory_bytes=96 << 20)])
def test_a_row_beyond_a_workers_memory_is_refused(processes: OrcProcesses, tmp_path: Path) -> None:
    path = str(tmp_path / "row.orc")
    orc.write_table(pa.table({"text": ["x" * (60 << 20)]}), path, compression="zstd")
    with pytest.raises(Exception, match=r"more than the 96 MB a worker may use \(SLUICE_ROWS_WORKER_MEMORY\)"):
        list(orc_parts(IO, path))


def test_a_stripe_that_takes_much_is_not_handed_over_whole(good: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("table.format.orc._STRIPE_BYTES", 10_000)
    monkeypatch.setattr("table.format.orc._ROWS_BYTES", 100_000)
    parts = list(orc_parts(IO, good))
    assert max(batch.num_rows for part in parts for batch in part.batches) == 512
    assert max(sum(batch.nbytes for batch in part.batches) for part in parts) < 120_000
    assert pa.Table.from_batches(batch for part in parts for batch in part.batches).equals(orc.read_table(good))


def test_a_worker_that_somebody_ended_is_replaced(processes: OrcProcesses, good: str) -> None:
    assert orc_head(IO, good).rows == 100_000
    (pid,) = processes.pids()
    psutil.Process(pid).kill()
    assert orc_head(IO, good).rows == 100_000


@pytest.mark.parametrize("limits", [WorkerLimits(count=1, seconds=0.5)])
def test_a_file_that_takes_too_long_is_given_up(processes: OrcProcesses, good: str) -> None:
    assert orc_head(IO, good).rows == 100_000  # a process that starts is given longer
    (pid,) = processes.pids()
    psutil.Process(pid).suspend()
    with pytest.raises(Unavailable, match=r"good.orc was not decoded within 0.5 seconds"):
        orc_head(IO, good)
    assert not psutil.pid_exists(pid)
