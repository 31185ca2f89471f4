"""An error after the first of several decisions is no refusal."""

from __future__ import annotations

from threading import Thread

import pytest

from lake.commit.steps import Steps
from model.commit_phase import CommitProgress
from model.errors import AnalysisError, LakeError, OutcomeUnknown, StatementCanceled, StorageFull
from model.work.deciding import decide_for, present_decider, to_the_end
from sql.execution.cancellation import Cancellation


def _fails(problem: LakeError, *, after: int) -> None:
    with Steps("sys.some") as steps:
        for _ in range(after):
            steps.made()
        raise problem


def test_a_failure_before_the_first_decision_is_told_as_it_is() -> None:
    with pytest.raises(StorageFull):
        _fails(StorageFull("No space."), after=0)


def test_a_failure_between_decisions_says_that_some_stand() -> None:
    with pytest.raises(OutcomeUnknown, match=r"No space\. sys\.some had changed something before\. Call it again") as told:
        _fails(StorageFull("No space."), after=2)
    assert told.value.ended


@pytest.mark.parametrize("problem", [AnalysisError("bad"), OutcomeUnknown("lost")])
def test_what_is_no_failure_of_the_store_or_says_it_already_stays(problem: LakeError) -> None:
    with pytest.raises(type(problem)) as told:
        _fails(problem, after=2)
    assert told.value is problem


def _decides(*, undone: bool) -> None:
    with Steps("sys.some"):
        progress = CommitProgress()  # of a commit that another's thread decides
        deciding = Thread(target=progress.decider.begin_decision)
        deciding.start()
        deciding.join()
        if undone:
            progress.decider.end_decision()
        raise StorageFull("No space.")


def test_a_decision_is_counted_where_it_is_made_though_nobody_tells_of_it() -> None:
    with pytest.raises(OutcomeUnknown):
        _decides(undone=False)


def test_a_decision_that_changed_nothing_is_none() -> None:
    with pytest.raises(StorageFull):
        _decides(undone=True)


def test_a_statement_hears_of_the_decisions_of_its_steps_and_can_be_stopped_between_them() -> None:
    cancellation = Cancellation()
    before = present_decider()
    decide_for(cancellation)
    try:
        with Steps("sys.some"):
            present_decider().begin_decision()
            assert cancellation.may_have_decided
            with to_the_end():
                present_decider().begin_decision()
            present_decider().end_decision()
            assert not cancellation.may_have_decided
            cancellation.cancel()
            with pytest.raises(StatementCanceled):
                present_decider().begin_decision()
            with pytest.raises(StatementCanceled):
                present_decider().check()
        assert present_decider() is cancellation
    finally:
        decide_for(before)
