"""What compactions do and did, noted in the catalog for `t$compaction`."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Sequence
from uuid import UUID

from catalog.records import CompactionRunRow
from catalog.work.maintenance import RUNNING
from lake import Lake
from lake.rewrite.compaction import Compacted
from model.errors import LakeError
from table.compaction.candidates import CompactionTask

_log = logging.getLogger(__name__)


class RunNote:
    """The note of one run: made when it begins, brought up to date as it goes, closed when it ends.

    What was done is done where the note cannot be written; only its line is missing then.
    """

    def __init__(self, lake: Lake, table_id: UUID, *, reason: str, server: str) -> None:
        self._lake = lake
        self._table_id = table_id
        self._reason = reason
        self._server = server
        self._started = dt.datetime.now(dt.UTC)
        self._run_id: int | None = None
        self.done = Compacted()

    def running(self, tasks: Sequence[CompactionTask]) -> None:
        """Say what the run will read, and what it has written so far."""
        planned = Compacted(files_before=sum(len(task.inputs) for task in tasks), bytes_before=sum(task.input_bytes for task in tasks))
        self._write(RUNNING, None, planned)

    def ended(self) -> None:
        """Close the note of a run that went through; ``lost`` where every task of it lost its race."""
        self._write("done" if self.done.tasks else "lost" if self.done.conflicts else None, None, self.done)

    def failed(self, problem: BaseException) -> None:
        """Close the note of a run that broke off."""
        self._write("failed", problem.message if isinstance(problem, LakeError) else type(problem).__name__, self.done)

    def _write(self, outcome: str | None, message: str | None, read: Compacted) -> None:
        try:
            with self._lake.catalog.transaction(brief=True) as tx:
                if outcome is None:
                    if self._run_id is not None:
                        tx.compactions.remove(self._run_id)
                elif self._run_id is None:
                    self._run_id = tx.compactions.add(self._table_id, self._row(outcome, message, read))
                else:
                    tx.compactions.change(self._run_id, self._row(outcome, message, read))
        except LakeError:
            _log.warning("A compaction could not be noted", exc_info=True)

    def _row(self, outcome: str, message: str | None, read: Compacted) -> CompactionRunRow:
        done = self.done
        return CompactionRunRow(
            started_at=self._started,
            ended_at=dt.datetime.now(dt.UTC),
            reason=self._reason,
            outcome=outcome,
            message=message,
            snapshot_id=done.snapshots[-1] if done.snapshots else None,
            tasks=done.tasks,
            files_before=read.files_before,
            files_after=done.files_after,
            bytes_before=read.bytes_before,
            bytes_after=done.bytes_after,
            row_count=done.rows,
            server=self._server,
        )
