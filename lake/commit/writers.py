"""Whose a writer is: ``commitUser`` is a client's own word, and everybody reads the others' in the table's snapshots.

A commit under another's would be taken for one of its own: by the server, which answers it a repeat, by a job that looks for its last
batch, and by Paimon's clients, which leave out after a restart what their ``commitUser`` has committed already.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Any
from uuid import UUID

from cachetools import LRUCache

from catalog import CatalogStore
from lake.access.callers import EVERYBODY
from model.errors import Forbidden
from model.identifier import Identifier
from model.snapshot import BATCH_COMMIT_IDENTIFIER, Snapshot
from model.work.job import NO_CHECKPOINT
from table.write.snapshot_builder import COMMITTED_BY

_UUID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_OF_A_JOB = re.compile(rf"{_UUID}-({_UUID}|{NO_CHECKPOINT}(-\d+)?)", re.IGNORECASE)
"""What the batches of jobs are committed as (`lake.jobs.BatchClaim.commit_user`)."""


def same_committer(landed: Mapping[str, Any], principal: str | None) -> bool:
    """Whether a snapshot may be this principal's, by its body; where one of the two has no name, as on an open server, it may."""
    by = (landed.get("properties") or {}).get(COMMITTED_BY)
    return by is None or principal in (None, EVERYBODY.principal, by)


class Writers:
    """Asks the catalog whose a ``commitUser`` is; remembers those of streaming writers, which commit again and again."""

    def __init__(self, catalog: CatalogStore) -> None:
        self._catalog = catalog
        self._lock = threading.Lock()
        self._known: LRUCache[tuple[UUID, str, str], str] = LRUCache(10_000)

    def require_own(self, table: Identifier, table_id: UUID, snapshot: Snapshot) -> None:
        """Raise `Forbidden` for a commit under the ``commitUser`` of another principal's writer, or of a job."""
        principal = snapshot.properties.get(COMMITTED_BY)
        if principal is None:
            return
        user = snapshot.commit_user
        if _OF_A_JOB.fullmatch(user):
            raise _taken(table, user, "has the form of a job's")
        batch = snapshot.commit_identifier == BATCH_COMMIT_IDENTIFIER
        key = (table_id, table.branch, user)
        with self._lock:
            owner = self._known.get(key)
        if owner == principal:
            return
        with self._catalog.reading() as tx:  # that of a batch misleads streaming writers alone: others do not look for theirs
            but = BATCH_COMMIT_IDENTIFIER if batch else None
            owner = tx.snapshots.newest_property(table_id, table.branch, COMMITTED_BY, user=user, but=but)
        if owner == principal:
            with self._lock:
                self._known[key] = principal
        elif owner is not None:
            raise _taken(table, user, "is a writer of another principal")


def _taken(table: Identifier, user: str, why: str) -> Forbidden:
    return Forbidden(
        f"The commitUser {user} {why}, which would take this commit to {table} for one of its own: its rows of that commit would be left "
        f"out. Begin this writer anew, under a commitUser of its own; with DELETE on {table} it may go on with the other's."
    )
