"""What was removed stays removed where the power goes right after the answer."""

from __future__ import annotations

import pytest

from tests.faults.below import CampaignBelow
from tests.faults.disk import Left
from tests.faults.operations import BY_NAME


@pytest.mark.parametrize("name", ["rollback", "drop", "tag removed"])
def test_a_power_cut_brings_nothing_back(below: CampaignBelow, name: str) -> None:
    below.run(BY_NAME[name], fail_at=10**9, left=Left.NOTHING)
