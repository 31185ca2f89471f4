"""Each call of each operation to its files fails once: nothing acknowledged is lost, nothing doubled, all goes on."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.faults.below import each
from tests.faults.failing_io import SHORT_WRITE, FailingFileIO, Faults
from tests.faults.operation import Operation, made, verified
from tests.faults.operations import NO_FILES, OPERATIONS
from tests.faults.world import World, world
from tests.short import one_in

ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EROFS, SHORT_WRITE)


class Campaign:
    """One server whose files fail, and one that looks at what it left."""

    def __init__(self, failing: World, faults: Faults, dsn: str) -> None:
        self._failing, self._faults, self._dsn = failing, faults, dsn
        self._tables = 0

    def run(self, operation: Operation, *, fail_at: int, error: int = 0) -> tuple[bool, bool]:
        """Make a table, let one call of the operation fail, and look; returns whether the call came, and whether it failed."""
        self._tables += 1
        table = f"t{self._tables}"
        made(self._failing, table, operation.options)
        operation.prepare(self._failing, table)
        self._failing.settle()
        self._faults.arm(fail_at, error)
        try:
            answers = operation.run(self._failing, table)
            self._failing.settle()
        finally:
            self._faults.disarm()
        with world(self._dsn, self._failing.directory) as fresh:
            verified(fresh, operation, table, answers)
        return self._faults.calls >= fail_at, self._faults.faults > 0


@pytest.fixture
def campaign(dsn: str, tmp_path: Path) -> Iterator[Campaign]:
    """A campaign in a warehouse of its own."""
    faults = Faults()
    with world(dsn, tmp_path, file_io=FailingFileIO(faults)) as failing:
        yield Campaign(failing, faults, dsn)


def each_call(campaign: Campaign, operation: Operation, errors: Sequence[int], *, every: int = 1) -> tuple[int, int]:
    """Let call after call fail with one error after the other; returns how many came and how many failed."""
    return each(lambda number: campaign.run(operation, fail_at=number, error=errors[number % len(errors)]), every=every)


def reported(name: str, calls: int, faults: int) -> None:
    print(f"{name}: {calls} calls, {faults} faults")
    assert calls == faults
    assert calls or name in NO_FILES


@pytest.mark.parametrize("operation", one_in(2, OPERATIONS), ids=lambda operation: operation.name)
def test_some_calls_of_every_operation_fail(campaign: Campaign, operation: Operation) -> None:
    reported(operation.name, *each_call(campaign, operation, ERRORS, every=59))


@pytest.mark.torture
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_call_of_every_operation_fails_in_every_way(campaign: Campaign, operation: Operation) -> None:
    for error in ERRORS:
        reported(operation.name, *each_call(campaign, operation, [error]))
