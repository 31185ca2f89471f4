"""A job over files that are watched, whose server died in a batch: it goes on exactly once, or says which file it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running import RunningServer
from tests.torture.job_campaign import job, start_job, until

pytestmark = [pytest.mark.spark, pytest.mark.slow]


STEPWISE = "1 d"
"""A pause between batches that no test waits for: the first one of each start of a job begins at once, and no other does."""


class Windows:
    """A job that counts the rows of files by minutes; ``first`` are those of a file that is there when it begins."""

    def __init__(self, server: RunningServer, database: str, directory: Path, *first: int, every: str = "100 ms") -> None:
        self.server, self.directory = server, directory
        directory.mkdir()
        if first:
            self.add("a.csv", *first)
        self.target = f"{database}.w"
        options = f"'connector' = 'filesystem', 'format' = 'csv', 'path' = '{directory}', 'source.monitor-interval' = '1 s'"
        server.sql(f"CREATE TABLE {database}.f (id BIGINT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts) WITH ({options})")
        server.sql(f"CREATE TABLE {self.target} (window_start TIMESTAMP(3), n BIGINT)")
        window = f"TABLE(TUMBLE(TABLE {database}.f, DESCRIPTOR(ts), INTERVAL '1' MINUTES))"
        self.id = start_job(
            server,
            f"INSERT INTO {self.target} SELECT window_start, COUNT(id) FROM {window} GROUP BY window_start, window_end",
            execution__checkpointing__interval=every,
        )
        self.checkpoint = server.warehouse / ".sluice" / "jobs" / self.id / "0"

    def add(self, name: str, *minutes: int) -> Path:
        """A file with a row in each of these minutes; it is there at once, as files that are moved in."""
        file, hidden = self.directory / name, self.directory / f".{name}"
        hidden.write_text("".join(f"{n},2024-01-01 00:{minute:02}:{n % 60:02}\n" for n, minute in enumerate(minutes)))
        hidden.rename(file)
        return file

    def found(self) -> list[tuple[int, int]]:
        rows = self.server.sql(f"SELECT minute(window_start), n FROM {self.target} ORDER BY window_start")
        return [(minute, n) for minute, n in rows]

    def wait_for(self, *windows: tuple[int, int]) -> None:
        until(lambda: self.found() == [*windows], seconds=300, what=lambda: (self.found(), job(self.server, self.id)))

    def wait_for_batch(self, number: int) -> None:
        """Until Spark has noted that a batch is done, and begins no other."""
        until(lambda: self.batches("commits")[-1:] == [number], seconds=300, what=lambda: job(self.server, self.id))

    def batches(self, log: str) -> list[int]:
        return sorted(int(path.name) for path in (self.checkpoint / log).glob("*") if path.name.isdecimal())

    def stop(self) -> None:
        self.server.sql(f"STOP JOB '{self.id}'")
        until(lambda: job(self.server, self.id)["state"] == "STOPPED")

    def forget_note(self, number: int) -> None:
        """As where the server died between the end of a batch and Spark's note of it."""
        for name in (str(number), f".{number}.crc"):
            (self.checkpoint / "commits" / name).unlink(missing_ok=True)

    def step(self, number: int) -> None:
        """One more batch, and no other, of a job with `STEPWISE` that is stopped."""
        self.restart()
        self.wait_for_batch(number)
        self.stop()

    def restart(self) -> None:
        self.server.sql(f"ALTER JOB '{self.id}' RESTART")

    def error(self) -> str:
        until(lambda: job(self.server, self.id)["state"] == "FAILED", seconds=300, what=lambda: (self.found(), job(self.server, self.id)))
        return str(job(self.server, self.id)["error"])


@pytest.fixture
def windows(server: RunningServer, database: str, import_dir: Path) -> Windows:
    return Windows(server, database, import_dir / f"watched_{database}")


@pytest.mark.torture
def test_a_batch_that_is_done_again_names_a_file_that_is_gone(windows: Windows) -> None:
    """Spark passes over it without a word: its rows were in no window."""
    windows.add("a.csv", 0, 0, 1)
    windows.wait_for((0, 2))
    windows.wait_for_batch(1)
    file = windows.add("b c%41.csv", 1, 1)
    windows.wait_for_batch(2)
    windows.stop()
    assert windows.batches("offsets")[-1] == 2, "its watermark did not move on: no batch without rows follows"
    windows.forget_note(2)
    kept = file.read_bytes()
    file.unlink()
    windows.restart()
    error = windows.error()
    assert "Batch 2" in error
    assert "needs b c%41.csv, which is gone" in error
    assert str(windows.directory) not in error
    file.write_bytes(kept)
    windows.restart()
    windows.add("d.csv", 7)
    windows.wait_for((0, 2), (1, 3))
    windows.stop()


def test_so_does_one_whose_windows_are_committed(server: RunningServer, database: str, import_dir: Path) -> None:
    """Its rows are written, and what it leaves in the state is made anew of its files."""
    windows = Windows(server, database, import_dir / f"watched_{database}", 0, 0, 1, every=STEPWISE)
    windows.wait_for_batch(0)
    windows.stop()
    file = windows.add("b.csv", 1, 1)
    windows.step(1)
    assert windows.found() == [(0, 2)]
    windows.forget_note(1)
    kept = file.read_bytes()
    file.unlink()
    windows.restart()
    assert "needs b.csv, which is gone" in windows.error()
    assert windows.found() == [(0, 2)]
    file.write_bytes(kept)
    windows.step(1)
    for batch, minute in ((2, 7), (3, 8)):  # the window comes out with the rows behind those that end it
        windows.add(f"{batch}.csv", minute)
        windows.step(batch)
    assert windows.found() == [(0, 2), (1, 3)]


def test_a_window_job_that_is_stopped_before_its_batch_without_rows_goes_on(server: RunningServer, database: str, import_dir: Path) -> None:
    """By that the watermark alone moves on and windows come out: here with the next rows, each once."""
    windows = Windows(server, database, import_dir / f"watched_{database}", 0, 0, 1, every=STEPWISE)
    windows.wait_for_batch(0)
    windows.stop()
    assert (windows.found(), windows.batches("offsets")) == ([], [0])
    windows.add("b.csv", 1, 5)
    windows.step(1)
    assert windows.found() == [(0, 2)]
    windows.add("c.csv", 6)
    windows.step(2)
    assert windows.found() == [(0, 2), (1, 2)]


def test_a_batch_without_rows_that_is_done_again_gives_its_windows_once(windows: Windows) -> None:
    """Its windows are committed, and Spark has not noted it."""
    windows.add("a.csv", 0, 0, 1)
    windows.wait_for((0, 2))
    windows.wait_for_batch(1)
    windows.stop()
    windows.forget_note(1)
    for file in windows.directory.iterdir():
        file.unlink()  # which that batch does not read
    windows.restart()
    windows.add("b.csv", 1, 5)
    windows.wait_for((0, 2), (1, 2))
    windows.stop()
