"""What must hold in the transaction that decides a commit, besides the commit itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from catalog import CatalogTransaction
from model.snapshot import Snapshot
from model.work.deciding import present_decider

AnswerOf = Callable[[Snapshot], Mapping[str, Any]]
DONE: Mapping[str, Any] = {"ok": True}
"""What is answered to a repeat of what made no rows."""


class Claim(Protocol):
    """Something that must hold in the transaction that decides a commit: `IdempotencyClaim`, `lake.jobs.BatchClaim`."""

    @property
    def order(self) -> tuple[str, str]:
        """In which claims of one commit are held, so that two servers' do not wait for each other."""
        ...

    def begin(self, tx: CatalogTransaction) -> None:
        """Hold what must be held before the commit's own rows are; raises like `finish`."""
        ...

    def finish(self, tx: CatalogTransaction, answer: Mapping[str, Any]) -> None:
        """Note that it is done; raises where it does not hold any more, and then nothing is committed."""
        ...


@contextmanager
def claimed_in(tx: CatalogTransaction, claim: Claim | None, answer: Mapping[str, Any] = DONE) -> Iterator[None]:
    """Hold a claim in the transaction that decides what the block does, and note there that it is done: a repeat is not done again.

    Raises where the statement that decides it was told to stop. The transaction ends with the block, or after it: where an error ends the
    block, or the transaction is not kept, it is certain that nothing was decided.
    """
    decider = present_decider()
    decider.begin_decision()
    try:
        if claim is not None:
            claim.begin(tx)
        yield
        if claim is not None:
            claim.finish(tx, answer)
    except Exception:
        decider.end_decision()
        raise
    if not tx.kept:
        decider.end_decision()


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimed:
    """A claim, and what to answer its repeats once the commit is in."""

    claim: Claim
    answer: AnswerOf
