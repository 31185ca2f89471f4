"""What became of each commit, told to whoever counts."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from model.errors import CommitConflict, OutcomeUnknown, RewriteConflict
from model.spans import span


@dataclass(slots=True, kw_only=True)
class CommitNote:
    """One commit of this process."""

    writer: str
    """Who built it: ``server``, or a ``client`` of the Paimon REST catalog."""
    outcome: str = "committed"
    """``committed``, ``conflict`` (lost to another), ``unknown`` (Postgres went away), ``error``."""
    writes: int = 1
    """Writers that shared it."""
    conflicts: int = 0
    """Races it lost and was rebuilt after."""
    seconds: float = 0.0


@contextlib.contextmanager
def noting(on_commit: Callable[[CommitNote], None], table: str, *, writer: str, writes: int = 1) -> Iterator[CommitNote]:
    """Time a commit, and tell how it ended; an outcome that is no error is the block's to set."""
    note = CommitNote(writer=writer, writes=writes)
    began = time.perf_counter()
    with span("commit", {"sluice.table": table, "sluice.commit.writer": writer}) as trace:
        try:
            yield note
        except (CommitConflict, RewriteConflict):
            note.outcome = "conflict"
            raise
        except OutcomeUnknown:
            note.outcome = "unknown"
            raise
        except BaseException:
            note.outcome = "error"
            raise
        finally:
            note.seconds = time.perf_counter() - began
            trace.set("sluice.commit.outcome", note.outcome)
            trace.set("sluice.commit.conflicts", note.conflicts)
            trace.set("sluice.commit.writes", note.writes)
            on_commit(note)
