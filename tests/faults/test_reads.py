"""The disk fails in the middle of a reading (EIO), below Python and Arrow: nothing is lost or wrong, and the error tells of the disk."""

from __future__ import annotations

import pytest

from tests.faults.below import EVERY, FIRST, CampaignBelow, unread
from tests.faults.operation import Operation
from tests.faults.operations import BY_NAME, OPERATIONS, READINGS
from tests.faults.test_system_calls import reported
from tests.short import one_in


@pytest.mark.parametrize("name", one_in(2, ["SELECT", "merge", "compaction", "expiry"]))
def test_the_disk_fails_at_some_readings(below: CampaignBelow, name: str) -> None:
    reported(name, *unread(below, BY_NAME[name], every=33, begin=3))


@pytest.mark.torture
@pytest.mark.parametrize("operation", [*READINGS, *OPERATIONS], ids=lambda operation: operation.name)
def test_the_disk_fails_at_every_reading(below: CampaignBelow, operation: Operation) -> None:
    reported(operation.name, *unread(below, operation, every=EVERY, begin=FIRST))
