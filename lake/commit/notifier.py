"""Telling Postgres, after the answer, that snapshots' files are there, and all servers that there are new snapshots.

A snapshot is noted once its file is flushed to disk, so that what is on record as published survives a loss of power; one flush
serves all that waits.

Neither is part of a commit: a note that is lost makes a file be looked for again, and who waits for a snapshot looks by itself
from time to time. In the deciding transaction NOTIFY would make all commits of the catalog wait for each other's disk write.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from uuid import UUID

from catalog import CatalogStore
from catalog.objects.publications import Note
from model.errors import LakeError
from model.repeats import REPEATS
from model.snapshot import Snapshot
from table.format.store import TableFiles

Hook = Callable[[str], None]
"""Called with the name of a step that was just finished; tests stop the process there."""

Unsafe = Callable[[Note, TableFiles, Exception], None]
Late = Callable[[Note, TableFiles], None]

PAUSE_SECONDS = 0.02
"""Under load notes are sent together so often."""
IDLE_SECONDS = 2.0
"""The thread ends when for so long nothing was to be noted."""
_log = logging.getLogger(__name__)


def no_hook(_: str) -> None:
    """Do nothing between the steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Waiting:
    note: Note
    files: TableFiles
    flushed: bool


class Notifier:
    """Collects notes and sends them from a thread of its own, which lives while there are any.

    ``unsafe`` hears of a snapshot whose file could not be flushed: it must be written anew before it is noted. ``late`` hears of one that
    is no more: its file was written while it was rolled back, or expired.
    """

    def __init__(self, catalog: CatalogStore, hook: Hook = no_hook, unsafe: Unsafe | None = None, late: Late | None = None) -> None:
        self._catalog = catalog
        self._hook = hook
        self._unsafe = unsafe
        self._late = late
        self._change = threading.Condition()
        self._waiting: list[_Waiting] = []
        self._thread: threading.Thread | None = None
        self._closed = False

    def note(self, table_id: UUID, files: TableFiles, branch: str, snapshot: Snapshot, *, flushed: bool = False) -> None:
        """Tell of a published snapshot, soon, once its file is on disk, where it is not ``flushed`` already."""
        note = Note(table_id=table_id, branch=branch, snapshot_id=snapshot.id, key=snapshot.key)
        with self._change:
            self._waiting.append(_Waiting(note=note, files=files, flushed=flushed))
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="sluice-notifier", daemon=True)
                self._thread.start()
            elif len(self._waiting) == 1:
                self._change.notify()

    def forget(self, table_id: UUID) -> None:
        """Send nothing of what a table's snapshots were: their files may have been taken away."""
        with self._change:
            self._waiting = [entry for entry in self._waiting if entry.note.table_id != table_id]

    def close(self) -> None:
        """Send what waits, once, and end."""
        with self._change:
            self._closed = True
            thread = self._thread
            self._change.notify()
        if thread is not None:
            thread.join()
        self._send()

    def _run(self) -> None:
        while self._wait():
            try:
                self._send()
            except Exception:  # snapshots are noted as long as the server lives
                _log.exception("Published snapshots could not be noted")
            with self._change:
                self._change.wait_for(lambda: self._closed, PAUSE_SECONDS)

    def _wait(self) -> bool:
        """Until there is something to send; False where the thread is to end."""
        with self._change:
            self._change.wait_for(lambda: self._waiting or self._closed, IDLE_SECONDS)
            if self._closed or not self._waiting:
                self._thread = None
                return False
            return True

    def _send(self) -> None:
        """Send all that waits."""
        with self._change:
            waiting, self._waiting = self._waiting, []
        files = {entry.note: entry.files for entry in self._flush(waiting)}
        if not files:
            return
        try:
            with self._catalog.reading() as tx:
                gone = tx.publications.note(list(files))
        except LakeError as away:
            _log.info("%d published snapshots could not be noted: %s", len(files), away, extra=REPEATS)
            return
        for note in gone if self._late is not None else ():
            self._late(note, files[note])  # type: ignore[misc]
        self._hook("noted")

    def _flush(self, waiting: Sequence[_Waiting]) -> Sequence[_Waiting]:
        """Flush the snapshots' files together; returns those that are on disk."""
        unflushed = [entry for entry in waiting if not entry.flushed]
        if not unflushed:
            return waiting
        try:
            unflushed[0].files.io.sync([_path(entry) for entry in unflushed])
        except Exception as problem:  # whatever it is: they are not to be noted
            if len(unflushed) > 1:  # one that is gone with its table is no fault of the others
                return [entry for each in waiting for entry in self._flush([each])]
            if not isinstance(problem, FileNotFoundError) and self._unsafe is not None:
                self._unsafe(unflushed[0].note, unflushed[0].files, problem)
            return [entry for entry in waiting if entry.flushed]
        self._hook("flushed")
        return waiting


def _path(entry: _Waiting) -> str:
    return entry.files.layout.snapshot_file(entry.note.snapshot_id)
