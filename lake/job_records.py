"""What a job that runs reads of the catalog and notes there: no caller's, as the job's lease says whose it is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from catalog import CatalogStore
from lake.commit.writers import same_committer
from lake.jobs import BatchClaim
from lake.tables.handle import LakeTable
from model.errors import JobLeaseLost
from model.snapshot import Snapshot
from model.work.job import NO_BATCH, JobLease


@dataclass(frozen=True, slots=True)
class InTarget:
    """What the target's snapshots tell of a checkpoint."""

    batch: int
    """The last that they name; -1 where they name none."""
    whole: bool
    """Whether a later one would be named, too: none of those after what is known has expired, as expiry takes the oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unread:
    """What a table holds behind a position."""

    next_snapshot: int
    """The one that comes next; 1 where the table has none."""
    snapshots: int
    """How many of those behind the position have rows."""


class JobRecords:
    """One catalog's; each method is one transaction and raises `Unavailable` where Postgres is away."""

    def __init__(self, catalog: CatalogStore) -> None:
        self._catalog = catalog

    def begin(self, lease: JobLease, part: str, starts: Mapping[str, Any], *, checkpoint: str | None) -> None:
        """Keep where an INSERT's tables begin; ``checkpoint`` is noted where no batch was committed yet. Raises `JobLeaseLost`."""
        with self._catalog.transaction(brief=True) as tx:
            if not tx.jobs.begin(lease, part, starts, checkpoint=checkpoint):
                raise JobLeaseLost(str(lease.job_id))

    def note(self, claim: BatchClaim) -> None:
        """A batch that no commit of the catalog's tables notes. Raises `JobLeaseLost`."""
        with self._catalog.transaction(brief=True) as tx:
            claim.finish(tx)

    def clock(self) -> float:
        """The time of Postgres, in seconds since 1970."""
        with self._catalog.reading() as tx:
            return tx.jobs.clock()

    def watermarks(self, group: str) -> list[tuple[str, str, int]]:
        """Job, part and watermark (milliseconds since 1970) of each query of an alignment group that holds others back."""
        with self._catalog.reading() as tx:
            return tx.jobs.aligned(group)

    def last_in(self, targets: Iterable[LakeTable], commit_user: str, *, by: str) -> InTarget:
        """The last batch of a checkpoint that snapshots name of the tables it goes into: its rows, and those that do not fit.

        ``by``: the principal that the job runs as.
        """
        last, whole = NO_BATCH, True
        with self._catalog.reading() as tx:
            histories = [tx.snapshots.history(target.table_id, target.identifier.branch) for target in targets]
        for history in histories:
            bodies = (row.body for row in history if row.body["commitUser"] == commit_user)
            batch = max((body["commitIdentifier"] for body in bodies if same_committer(body, by)), default=NO_BATCH)
            last, whole = max(last, batch), whole and (batch != NO_BATCH or not history or history[0].snapshot_id == 1)
        return InTarget(last, whole)

    def unread(self, table: LakeTable, snapshot_id: int) -> Unread:
        """What a table holds from a snapshot on."""
        with self._catalog.reading() as tx:
            latest = tx.snapshots.latest(table.table_id, table.identifier.branch)
            snapshots = tx.snapshots.appended_since(table.table_id, table.identifier.branch, snapshot_id)
        return Unread(next_snapshot=1 if latest is None else latest.snapshot_id + 1, snapshots=snapshots)

    def key_of(self, table: LakeTable, snapshot_id: int) -> str | None:
        """What tells a snapshot of a table from others of its number; None where the catalog has none of it."""
        with self._catalog.reading() as tx:
            row = tx.snapshots.get(table.table_id, table.identifier.branch, snapshot_id)
        return None if row is None else Snapshot.from_json(row.body).key
