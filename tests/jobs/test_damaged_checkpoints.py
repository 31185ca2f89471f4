"""A job whose checkpoint is damaged from outside: it goes on behind its last batch, each row once; `test_checkpoints.py` has all damage."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.running import RunningServer
from tests.torture.job_campaign import job, start_job, until

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.torture]


class Copied:
    """A job from a table into another, which is stopped whenever its checkpoint is touched."""

    def __init__(self, server: RunningServer, database: str, kept: Path, query: str, *, name: str = "") -> None:
        self.server = server
        self.source, self.target = f"{database}.src{name}", f"{database}.dst{name}"
        self._kept = kept / f"kept{name}"
        self.sent = 0
        for table in (self.source, self.target):
            server.sql(f"CREATE TABLE {table} (n INT) WITH ('bucket' = '1')")
        self.insert()
        self.id = start_job(server, f"INSERT INTO {self.target} {query.format(self.source)}")
        self.checkpoint = server.warehouse / ".sluice" / "jobs" / self.id / "0"

    def insert(self) -> None:
        self.server.sql(f"INSERT INTO {self.source} VALUES ({self.sent})")
        self.sent += 1

    def arrived(self) -> list[int]:
        return [row[0] for row in self.server.sql(f"SELECT n FROM {self.target}")]

    def wait(self) -> None:
        until(lambda: self.arrived() == list(range(self.sent)), seconds=300, what=lambda: (self.arrived(), job(self.server, self.id)))

    def more(self, commits: int = 1) -> None:
        """As many batches."""
        for _ in range(commits):
            self.insert()
            self.wait()

    def stop(self) -> None:
        self.server.sql(f"STOP JOB '{self.id}'")
        until(lambda: job(self.server, self.id)["state"] == "STOPPED")

    def restart(self) -> None:
        self.server.sql(f"ALTER JOB '{self.id}' RESTART")

    def keep(self) -> None:
        """Copy the checkpoint as it is now."""
        self.stop()
        shutil.copytree(self.checkpoint, self._kept)
        self.restart()

    def put_back(self, other: Copied | None = None) -> None:
        shutil.rmtree(self.checkpoint)
        shutil.copytree((other or self)._kept, self.checkpoint)

    def error(self) -> str:
        until(lambda: job(self.server, self.id)["state"] == "FAILED", seconds=300, what=lambda: (self.arrived(), job(self.server, self.id)))
        return str(job(self.server, self.id)["error"])


FROM_ALL = "SELECT n FROM {} /*+ OPTIONS('scan.mode' = 'latest-full') */"


@pytest.fixture
def make(server: RunningServer, database: str, tmp_path: Path) -> Iterator[Callable[[str], Copied]]:
    made: list[Copied] = []

    def copied(query: str) -> Copied:
        made.append(Copied(server, database, tmp_path, query, name=f"_{len(made)}"))
        made[-1].wait()
        return made[-1]

    yield copied
    for one in made:
        if job(server, one.id)["state"] in ("RUNNING", "RESTARTING"):
            one.stop()


def newest(checkpoint: Path, log: str) -> Path:
    return max((path for path in (checkpoint / log).iterdir() if path.name.isdecimal()), key=lambda path: int(path.name))


def test_a_job_goes_on_behind_its_last_batch(make: Callable[[str], Copied]) -> None:
    """An older copy of its checkpoint, and then none."""
    copied = make(FROM_ALL)
    copied.keep()
    copied.more(2)
    copied.stop()
    copied.put_back()
    copied.insert()
    copied.restart()
    copied.wait()
    copied.stop()
    shutil.rmtree(copied.checkpoint)
    copied.insert()
    copied.restart()
    copied.wait()


def test_a_checkpoint_of_another_job_is_not_gone_on_from(make: Callable[[str], Copied]) -> None:
    copied, other = make(FROM_ALL), make(FROM_ALL)
    copied.more(2)
    other.keep()
    copied.stop()
    copied.put_back(other)
    copied.insert()
    copied.restart()
    copied.wait()
    copied.more()


def test_a_catalog_that_is_older_than_a_checkpoint_is_told(make: Callable[[str], Copied]) -> None:
    """A batch the catalog has forgotten, as after an old dump, is neither left out nor doubled."""
    copied = make(FROM_ALL)
    copied.more()
    copied.stop()
    number = int((copied.checkpoint / "committed").read_text())
    assert number == int(newest(copied.checkpoint, "offsets").name)
    (copied.checkpoint / "committed").write_text(str(number + 1))
    copied.restart()
    assert "the catalog does not know" in copied.error()
    shutil.rmtree(copied.checkpoint)  # the way out where the rows are nowhere
    copied.insert()
    copied.restart()
    copied.wait()
