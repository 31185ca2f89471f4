"""A campaign below the process: the system calls of one operation after the other fail, or the power goes."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.faults.disk import Disk, Left
from tests.faults.operation import Operation, made, verified
from tests.faults.shim import KILL, POWER_CUT, Shim
from tests.faults.world import Answer, World, world

ROOT = Path(__file__).parents[2]
FIRST, EVERY = (int(os.environ.get(f"SLUICE_TEST_{name}", "1")) for name in ("FIRST", "EVERY"))
"""Which calls a long campaign strikes: a part of them takes less time."""


class CampaignBelow:
    """Tables made by one server, changed by another under the shim, and looked at by a fresh one."""

    def __init__(self, dsn: str, directory: Path, shim: Shim) -> None:
        self._dsn, self._directory, self._shim = dsn, directory, shim
        self._tables = 0
        self._maker = World(dsn, directory)
        self._maker.must("CREATE TABLE t0 (id INT)", "INSERT INTO t0 VALUES (0)")
        self._worker = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.worker"],
            cwd=ROOT,
            env=os.environ | shim.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def close(self) -> None:
        """End the worker."""
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        self._worker.stdin.close()
        self._worker.wait(60)
        self._worker.stdout.close()
        self._maker.close()

    def run(
        self, operation: Operation, *, fail_at: int, error: int = 0, left: Left | None = None, reads: bool = False
    ) -> tuple[bool, bool]:
        """Let one call of an operation fail, and look; returns whether the call came, and whether it failed.

        With ``left`` the power goes at the call, or right after the answer where there is no such call. With ``reads`` only what reads
        counts, and who is refused is told what the disk said.
        """
        self._tables += 1
        table = f"t{self._tables}"
        made(self._maker, table, operation.options)
        operation.prepare(self._maker, table)
        self._maker.settle()
        disk = Disk(self._shim.root) if left else None
        self._shim.load(fail_at=fail_at, error=POWER_CUT if left else error, reads=reads)
        answers = self._asked(operation, table, goes_on=left is None)
        calls, faults = self._shim["calls"], self._shim["faults"]
        self._shim.disarm()
        if disk is not None and left is not None:
            disk.replay(self._shim.journal)
            disk.write(self._shim.root, left)
        if reads:
            told_by_the_disk(answers, error)
        self._verified(operation, table, answers)
        return calls >= fail_at, faults > 0

    def kill(self, operation: Operation, *, at: int) -> tuple[bool, bool]:
        """Kill the server at a call, or before or after a message to Postgres; returns whether the moment came, and whether it died."""
        self._tables += 1
        table = f"t{self._tables}"
        made(self._maker, table, operation.options)
        operation.prepare(self._maker, table)
        self._maker.settle()
        self._shim.load(fail_at=at, error=KILL, sends=True)
        report = self._reported(operation, table, goes_on=False)
        came = self._shim["calls"] >= at
        self._shim.disarm()
        self._verified(operation, table, _heard(operation, report))
        return came, "killed" in report

    def _verified(self, operation: Operation, table: str, answers: Sequence[Answer]) -> None:
        with world(self._dsn, self._directory) as fresh:
            verified(fresh, operation, table, answers)
            fresh.must(*(f"DROP TABLE {row[0]}" for row in fresh.rows("SHOW TABLES") if row[0] != "t0"))

    def traced(self, operation: Operation, look: Callable[[Disk, Path, set[Path], Path], None]) -> None:
        """Do an operation that commits snapshot 4, and look at its journal, at the files it put there, and at the snapshot's own."""
        self._tables += 1
        name = f"t{self._tables}"
        made(self._maker, name)
        self._maker.settle()
        table = self._directory / "warehouse" / "default.db" / name
        before, disk = set(table.rglob("*")), Disk(self._shim.root)
        self._shim.load()
        answers = self._asked(operation, name, goes_on=True)
        self._shim.disarm()
        assert all(answer.ok for answer in answers), answers
        new = {path for path in set(table.rglob("*")) - before if path.is_file()}
        look(disk, self._shim.journal, new, table / "snapshot" / "snapshot-4")
        with world(self._dsn, self._directory) as fresh:
            fresh.must(f"DROP TABLE {name}")

    def _asked(self, operation: Operation, table: str, *, goes_on: bool) -> Sequence[Answer]:
        return _heard(operation, self._reported(operation, table, goes_on=goes_on))

    def _reported(self, operation: Operation, table: str, *, goes_on: bool) -> dict[str, Any]:
        request = {"operation": operation.name, "table": table, "dsn": self._dsn, "directory": str(self._directory), "goes_on": goes_on}
        assert self._worker.stdin is not None
        assert self._worker.stdout is not None
        print(json.dumps(request), file=self._worker.stdin, flush=True)
        report: dict[str, Any] = json.loads(self._worker.stdout.readline())
        assert "failure" not in report, report
        return report


def told_by_the_disk(answers: Sequence[Answer], error: int) -> None:
    """Who is refused hears what the disk said, so that he takes it for no mistake of his and the table for none that is damaged."""
    for answer in answers:
        assert answer.ok or os.strerror(error) in str(answer.body), answer
        assert "TableDamaged" not in str(answer.body), answer


def _heard(operation: Operation, report: dict[str, Any]) -> list[Answer]:
    """What the clients heard; of a server that died, nothing."""
    if report.get("killed"):
        return [Answer(status=503, body="the power went")] * max(1, len(operation.each))
    return [Answer(**answer) for answer in report["answers"]]


@pytest.fixture(scope="module")
def below(module_dsn: str, tmp_path_factory: pytest.TempPathFactory, shim_library: Path) -> Iterator[CampaignBelow]:
    """A campaign on a disk of its own, which holds the warehouse and what lies elsewhere."""
    beside = tmp_path_factory.mktemp("below")
    shim = Shim(shim_library, beside, beside / "disk")
    campaign = CampaignBelow(module_dsn, shim.root, shim)
    yield campaign
    campaign.close()
    shim.close()


def each(strike: Callable[[int], tuple[bool, bool]], *, every: int = 1, begin: int = 1, tries: int | None = None) -> tuple[int, int]:
    """Strike at call after call of an operation, up to its last; returns how many calls came, and how many were struck.

    How many calls an operation takes differs by a few from run to run: it ends at the first call that three runs do not reach,
    or one run where not every call is struck anyway.
    """
    tries = tries or (3 if every == 1 else 1)
    calls = struck = 0
    for number in count(begin, every):
        runs = (strike(number) for _ in range(tries))
        hit = next((hit for came, hit in runs if came), None)
        if hit is None:
            return calls, struck
        calls, struck = calls + 1, struck + hit
    raise AssertionError("a count has no end")


def one_of(strike: Callable[[int], tuple[bool, bool]], calls: int, *, share: float) -> tuple[int, int]:
    """Strike at one call of an operation of so many, at this share of the way; returns what `each` does."""
    if not calls:
        return 0, 0
    runs = (strike(1 + int(calls * share)) for _ in range(3))
    hit = next((hit for came, hit in runs if came), None)
    return (0, 0) if hit is None else (1, int(hit))


def counted(campaign: CampaignBelow, operation: Operation, errors: Sequence[int], *, every: int = 1, begin: int = 1) -> tuple[int, int]:
    """Let call after call fail with one error after the other; returns how many came and how many failed."""
    return each(lambda number: campaign.run(operation, fail_at=number, error=errors[number % len(errors)]), every=every, begin=begin)


def unread(campaign: CampaignBelow, operation: Operation, *, every: int = 1, begin: int = 1) -> tuple[int, int]:
    """Let the disk fail at reading after reading; returns how many came and how many failed."""
    return each(lambda number: campaign.run(operation, fail_at=number, error=errno.EIO, reads=True), every=every, begin=begin)


def killed(campaign: CampaignBelow, operation: Operation, *, every: int = 1, begin: int = 1) -> tuple[int, int]:
    """Kill the server at moment after moment of an operation; returns how many came and at how many it died."""
    return each(lambda number: campaign.kill(operation, at=number), every=every, begin=begin)


def cut(campaign: CampaignBelow, operation: Operation, left: Left, *, every: int = 1, begin: int = 1) -> tuple[int, int]:
    """Let the power go at call after call, and after the answer; returns how many calls came and at how many it went."""
    cuts = each(lambda number: campaign.run(operation, fail_at=number, left=left), every=every, begin=begin)
    campaign.run(operation, fail_at=10**9, left=left)
    return cuts
