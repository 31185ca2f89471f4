"""Work of several decisions: an error after the first is no refusal."""

from __future__ import annotations

from model.errors import LakeError, OutcomeUnknown

_FAILURE = 500


class Steps:
    """A context around decisions one after the other, of which a repeat makes those that are missing.

    An error says "nothing was changed" only where that is so: after a decision it becomes `OutcomeUnknown`, which says what to do.
    """

    def __init__(self, what: str) -> None:
        """``what`` is asked for again, as the caller writes it."""
        self._what = what
        self._made = 0

    def made(self) -> None:
        """One more decision stands."""
        self._made += 1

    def __enter__(self) -> Steps:
        return self

    def __exit__(self, kind: object, problem: BaseException | None, trace: object) -> None:
        if not self._made or not isinstance(problem, LakeError) or isinstance(problem, OutcomeUnknown) or problem.status < _FAILURE:
            return
        raise OutcomeUnknown(
            f"{problem.whole} {self._what} had done {self._made} of its steps before. Call it again: it goes on where it ended."
        ) from problem
