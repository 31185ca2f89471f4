"""An error after the first of several decisions is no refusal."""

from __future__ import annotations

import pytest

from lake.commit.steps import Steps
from model.errors import AnalysisError, LakeError, OutcomeUnknown, StorageFull


def _fails(problem: LakeError, *, after: int) -> None:
    with Steps("sys.some") as steps:
        for _ in range(after):
            steps.made()
        raise problem


def test_a_failure_before_the_first_decision_is_told_as_it_is() -> None:
    with pytest.raises(StorageFull):
        _fails(StorageFull("No space."), after=0)


def test_a_failure_between_decisions_says_that_some_stand() -> None:
    with pytest.raises(OutcomeUnknown, match=r"No space\. sys\.some had done 2 of its steps before\. Call it again"):
        _fails(StorageFull("No space."), after=2)


@pytest.mark.parametrize("problem", [AnalysisError("bad"), OutcomeUnknown("lost")])
def test_what_is_no_failure_of_the_store_or_says_it_already_stays(problem: LakeError) -> None:
    with pytest.raises(type(problem)) as told:
        _fails(problem, after=2)
    assert told.value is problem
