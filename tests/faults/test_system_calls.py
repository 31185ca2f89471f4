"""Each system call below the warehouse fails once, under Python and Arrow alike; and the power goes at each of them."""

from __future__ import annotations

import errno

import pytest

from tests.faults.below import CampaignBelow, counted, cut, killed
from tests.faults.disk import Left
from tests.faults.operation import Operation
from tests.faults.operations import BY_NAME, NO_FILES, OPERATIONS
from tests.faults.shim import SHORT_WRITE

ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EROFS, SHORT_WRITE)
SHORT_FORM = ["insert with a key", "compaction"]


def reported(name: str, calls: int, faults: int) -> None:
    print(f"{name}: {calls} calls, {faults} faults")
    assert calls == faults
    assert calls or name in NO_FILES


@pytest.mark.parametrize("name", SHORT_FORM)
def test_some_calls_fail(below: CampaignBelow, name: str) -> None:
    reported(name, *counted(below, BY_NAME[name], ERRORS, every=51, begin=4))


@pytest.mark.parametrize("left", Left)
def test_the_power_goes_at_some_calls(below: CampaignBelow, left: Left) -> None:
    reported("insert", *cut(below, BY_NAME["insert"], left, every=60, begin=32))


@pytest.mark.parametrize("name", ["rollback", "drop", "tag removed"])
def test_a_power_cut_after_the_answer_brings_nothing_back(below: CampaignBelow, name: str) -> None:
    below.run(BY_NAME[name], fail_at=10**9, left=Left.NOTHING)


@pytest.mark.torture
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_call_fails_in_every_way(below: CampaignBelow, operation: Operation) -> None:
    for error in ERRORS:
        reported(operation.name, *counted(below, operation, [error]))


@pytest.mark.torture
@pytest.mark.parametrize("left", Left)
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_the_power_goes_at_every_call(below: CampaignBelow, operation: Operation, left: Left) -> None:
    reported(operation.name, *cut(below, operation, left))


def reported_kills(name: str, moments: int, kills: int) -> None:
    print(f"{name}: {moments} moments, {kills} kills")
    assert moments == kills > 0


@pytest.mark.parametrize("name", ["insert with a key", "rename"])
def test_the_server_is_killed_at_some_moments(below: CampaignBelow, name: str) -> None:
    reported_kills(name, *killed(below, BY_NAME[name], every=60, begin=8))


@pytest.mark.torture
@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_the_server_is_killed_at_every_moment(below: CampaignBelow, operation: Operation) -> None:
    reported_kills(operation.name, *killed(below, operation))
