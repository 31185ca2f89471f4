"""The spool: caps per result and together, counted while a result grows; what the dead left is cleared, what lives is not."""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path

import pytest

from lake.process_name import process_space
from model.errors import ResultTooLarge, Unavailable
from sql.execution.cancellation import Cancellation
from sql.execution.spool import ABANDONED_SECONDS, BEAT_SECONDS, Spool, SpoolEntry, SpoolLimits
from table.format.io.file_io import LocalFileIO


def spool_of(warehouse: Path, *, per_result: int = 100, overall: int = 150) -> Spool:
    return Spool(LocalFileIO(), str(warehouse), SpoolLimits(per_result=per_result, overall=overall))


def put(entry: SpoolEntry, size: int, name: str = "part-0.parquet") -> None:
    path = Path(entry.path) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(bytes(size))


def test_entries_lie_apart_and_are_counted(tmp_path: Path) -> None:
    spool = spool_of(tmp_path)
    first, second = spool.new(), spool.new()
    put(first, 60)
    put(second, 10)
    put(second, 20, "_temporary/0/part-1")
    assert (first.finish(), second.finish(), spool.total()) == (60, 30, 90)
    first.remove()
    first.remove()
    assert not Path(first.path).exists()
    assert spool.total() == 30


def test_one_result_may_not_grow_past_its_cap(tmp_path: Path) -> None:
    entry = spool_of(tmp_path).new()
    put(entry, 101)
    with pytest.raises(ResultTooLarge, match="past 100 bytes"):
        entry.finish()


def test_all_results_together_have_a_cap(tmp_path: Path) -> None:
    spool = spool_of(tmp_path)
    first, second = spool.new(), spool.new()
    put(first, 90)
    first.finish()
    put(second, 90)
    with pytest.raises(ResultTooLarge, match="more than 150 bytes together"):
        second.finish()
    first.remove()
    assert second.finish() == 90


def test_a_result_that_outgrows_its_cap_is_canceled_while_it_is_written(tmp_path: Path) -> None:
    spool, cancellation = spool_of(tmp_path), Cancellation()
    entry = spool.new(cancellation)
    put(entry, 50, "_temporary/0/part-0")
    spool.tend()
    assert not cancellation.canceled
    put(entry, 60, "_temporary/0/part-1")
    spool.tend()
    assert isinstance(cancellation.reason, ResultTooLarge)


def test_a_finished_result_is_not_counted_again(tmp_path: Path) -> None:
    spool, cancellation = spool_of(tmp_path), Cancellation()
    entry = spool.new(cancellation)
    put(entry, 50)
    entry.finish()
    put(entry, 1000)
    spool.tend()
    assert not cancellation.canceled


def leave(warehouse: Path, owner: str, *, sign: str | None) -> Path:
    """What a gateway of that name left behind, and its last sign of life."""
    directory = warehouse / ".sluice" / "spool" / owner
    (directory / "x").mkdir(parents=True)
    (directory / "x" / "part-0.parquet").write_bytes(b"rows")
    if sign is not None:
        (directory / ".alive").write_text(sign)
    return directory


def test_the_dead_that_ran_here_are_cleared_at_once_and_the_living_are_not(tmp_path: Path) -> None:
    here, dead_pid = process_space(), 4_000_000
    cleared = [leave(tmp_path, f"{here}-{dead_pid}-00000000", sign="7"), leave(tmp_path, f"{here}-{os.getpid()}-00000000", sign="7")]
    kept = [leave(tmp_path, f"{here}-{os.getppid()}-00000000", sign="7"), leave(tmp_path, "elsewhere-3-00000000", sign="7")]
    host = socket.gethostname()  # a container may have the same
    kept += [leave(tmp_path, f"{name}-{pid}-00000000", sign="7") for name in (host, f"{host}.0a1b2c3d") for pid in (dead_pid, os.getpid())]
    neighbour = spool_of(tmp_path)
    entry = neighbour.new()
    put(entry, 1)
    spool_of(tmp_path).clean()
    assert [path.exists() for path in cleared] == [False] * 2
    assert [path.exists() for path in [*kept, Path(entry.path)]] == [True] * 7


def test_a_gateway_elsewhere_is_dead_once_its_sign_of_life_stands_still_whatever_its_clock_says(tmp_path: Path) -> None:
    days = 2 * 86_400
    names = {"behind": str(time.time() - days), "ahead": str(time.time() + days), "silent": None, "what is this": None}
    left = {name: leave(tmp_path, name, sign=sign) for name, sign in names.items()}
    alive = leave(tmp_path, "alive", sign=str(time.time() - days))
    now = 1000.0
    spool = Spool(LocalFileIO(), str(tmp_path), SpoolLimits(per_result=1, overall=1), elapsed=lambda: now)
    spool.clean()
    spool.tend()
    assert all(path.exists() for path in left.values())
    (alive / ".alive").write_text(str(time.time() - days + 60))
    for _ in range(int(ABANDONED_SECONDS / BEAT_SECONDS)):
        now += BEAT_SECONDS
        spool.tend()
    assert all(path.exists() for path in left.values())
    now += BEAT_SECONDS
    spool.tend()
    assert not any(path.exists() for path in left.values())
    assert alive.exists()


class Away(LocalFileIO):
    """A store that can be out of reach."""

    away = False

    def write(self, path: str, data: bytes) -> None:
        if self.away:
            raise Unavailable(f"{path} is out of reach")
        super().write(path, data)


def test_a_gateway_says_once_a_minute_that_it_lives(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    now, store, signs = 1000.0, Away(), []
    spool = Spool(store, str(tmp_path), SpoolLimits(per_result=1, overall=1), elapsed=lambda: now)
    sign = Path(spool.new().path).parent / ".alive"
    for second in range(4 * int(BEAT_SECONDS)):
        store.away = second >= 3 * BEAT_SECONDS
        signs.append(sign.read_text())
        now += 1
        spool.tend()
    assert len(set(signs)) == 4
    own = [record for record in caplog.records if record.name == Spool.__module__]
    assert len(own) == 1, "and a store that is away is told of as often"


def test_closing_clears_its_own(tmp_path: Path) -> None:
    spool = spool_of(tmp_path)
    put(spool.new(), 1)
    spool.close()
    assert list((tmp_path / ".sluice" / "spool").iterdir()) == []


def test_an_unused_spool_writes_nothing(tmp_path: Path) -> None:
    spool = spool_of(tmp_path)
    spool.clean()
    spool.tend()
    spool.close()
    assert list(tmp_path.iterdir()) == []
