"""Each call of each operation to its files fails once: nothing acknowledged is lost, nothing doubled, all goes on."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.below import each, one_of
from tests.faults.failing_io import SHORT_WRITE, FailingFileIO, Faults
from tests.faults.operation import Operation, made, verified
from tests.faults.operations import NO_FILES, OPERATIONS
from tests.faults.world import STRUCK_SECONDS, World, world
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
            self._failing.settle(STRUCK_SECONDS)
        finally:
            self._faults.disarm()
        with world(self._dsn, self._failing.directory) as fresh:
            verified(fresh, operation, table, answers)
        return self._faults.calls >= fail_at, self._faults.faults > 0

    def calls_of(self, operation: Operation) -> int:
        """How many calls an operation takes; the number differs by a few from run to run."""
        self.run(operation, fail_at=10**9)
        return self._faults.calls


@pytest.fixture
def campaign(dsn: str, tmp_path: Path) -> Iterator[Campaign]:
    """A campaign in a warehouse of its own."""
    faults = Faults()
    with world(dsn, tmp_path, file_io=FailingFileIO(faults)) as failing:
        yield Campaign(failing, faults, dsn)


def failing(campaign: Campaign, operation: Operation, error: int) -> Callable[[int], tuple[bool, bool]]:
    """Lets the call of a number fail."""
    return lambda number: campaign.run(operation, fail_at=number, error=error)


def reported(name: str, calls: int, faults: int) -> None:
    print(f"{name}: {calls} calls, {faults} faults")
    assert calls == faults
    assert calls or name in NO_FILES


@pytest.mark.parametrize("operation", one_in(2, OPERATIONS), ids=lambda operation: operation.name)
def test_a_call_of_every_operation_fails(campaign: Campaign, operation: Operation) -> None:
    """Another part of the way, before the decision or behind it, and another error from operation to operation."""
    at = OPERATIONS.index(operation)
    error, share = ERRORS[at % len(ERRORS)], 7 * at % 11 / 11
    calls = campaign.calls_of(operation)
    reported(operation.name, *one_of(failing(campaign, operation, error), calls, share=share))


@pytest.mark.torture
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_call_of_every_operation_fails_in_every_way(campaign: Campaign, operation: Operation) -> None:
    for error in ERRORS:
        reported(operation.name, *each(failing(campaign, operation, error)))
