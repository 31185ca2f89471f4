"""How far a commit has come; whoever owns its files asks here whether they may be removed."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from model.work.deciding import Decider, present_decider


class CommitPhase(Enum):
    """The phases of a commit, in order."""

    PREPARED = "prepared"
    """Its files are written; it is certain that nothing is decided."""
    DECIDING = "deciding"
    """Postgres has been asked, and what it did is not known yet."""
    DECIDED = "decided"
    """The snapshot is the table's; nothing takes it back, whatever fails from now on."""


@dataclass(slots=True, eq=False)
class CommitProgress:
    """The phase of one commit; the commit core alone moves it."""

    phase: CommitPhase = CommitPhase.PREPARED
    in_doubt: bool = False
    """Whether an attempt's answer was lost, or its waiter gone: it may be decided later than anybody looks."""

    decider: Decider = field(default_factory=present_decider)
    """Whose commit it is."""

    looked: bool = False
    """Whether it has failed, and its table was looked for since: what it made lies in a table's directory, or is on record as garbage."""

    @property
    def undecided(self) -> bool:
        """Whether it is certain that no snapshot names the commit's files."""
        return self.phase is CommitPhase.PREPARED and not self.in_doubt
