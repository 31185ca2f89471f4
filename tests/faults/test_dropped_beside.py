"""A table is dropped for good beside an operation, before each of its calls: the answer is plain, and nothing is left on the disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.faults.failing_io import FailingFileIO, Faults
from tests.faults.operation import Operation, made
from tests.faults.operations import OPERATIONS
from tests.faults.world import STRUCK_SECONDS, World, world
from tests.short import one_in
from tests.waiting import eventually

WRITERS = [one for one in OPERATIONS if one.name in ("insert", "inserts at once", "rows by body", "overwrite", "truncate", "compaction")]


@dataclass
class Beside(Faults):
    """Lets something happen before the n-th call, in its thread."""

    what: Callable[[], None] = field(default=lambda: None)

    def come(self, path: str, data: bytes | None = None) -> None:
        if not self.armed:
            return
        with self._lock:
            self.calls += 1
            mine = self.calls == self.fail_at
        if mine:
            self.what()


def dropped(failing: World, other: World, beside: Beside, operation: Operation, number: int) -> bool:
    """Drop a table before the n-th call of an operation on it, and look; False where there is no such call."""
    table = f"t{number}"
    made(failing, table)
    operation.prepare(failing, table)
    failing.settle()
    place = Path(failing.lake.warehouse) / "default.db" / table
    assert place.exists()
    beside.what = lambda: other.must(f"DROP TABLE {table} PURGE")
    beside.arm(number)
    answers = operation.run(failing, table)
    failing.settle(STRUCK_SECONDS)
    beside.disarm()
    if beside.calls < number:
        return False
    assert {answer.status for answer in answers} <= {200, 404, 503}, answers
    assert eventually(lambda: not place.exists(), 60, pause=0.05), sorted(place.rglob("*"))
    return True


def campaign(dsn: str, tmp_path: Path, operation: Operation, every: int) -> None:
    beside, number = Beside(), 1
    with world(dsn, tmp_path, file_io=FailingFileIO(beside)) as failing, world(dsn, tmp_path) as other:
        while dropped(failing, other, beside, operation, number):
            number += every
    assert number > every


@pytest.mark.parametrize("operation", one_in(2, WRITERS), ids=lambda operation: operation.name)
def test_some_calls_beside_a_drop_leave_nothing(dsn: str, tmp_path: Path, operation: Operation) -> None:
    campaign(dsn, tmp_path, operation, every=7)


@pytest.mark.torture
@pytest.mark.parametrize("operation", WRITERS, ids=lambda operation: operation.name)
def test_no_call_beside_a_drop_leaves_anything(dsn: str, tmp_path: Path, operation: Operation) -> None:
    campaign(dsn, tmp_path, operation, every=1)
