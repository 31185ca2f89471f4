"""What the whole catalog looks like to those who run it; no caller's, so nothing of it is shown to callers without a right to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catalog import CatalogStore
from catalog.records import ConsumerLagRow, OverviewRow, SmallFilesRow
from model.identifier import Identifier
from model.work.job import Job

_MANY_FILES = 100
_SMALL_BYTES = 8 << 20
_MOST_TABLES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All servers' catalog at one moment."""

    sums: OverviewRow
    lagging: Sequence[ConsumerLagRow]
    """Consumers behind their tables, those furthest behind first."""
    small: Sequence[SmallFilesRow]
    """Tables of very many small files."""
    jobs: Sequence[Job]
    """Those that have not ended, and those that failed."""


def overview(catalog: CatalogStore, *, consumers: int = 100) -> Overview:
    """Ask Postgres once; raises `Unavailable`."""
    with catalog.reading() as tx:
        jobs = [job for job in tx.jobs.all(principal=None) if not job.state.ended or job.state == "FAILED"]
        small = tx.overview.small_files(files=_MANY_FILES, mean_bytes=_SMALL_BYTES, limit=_MOST_TABLES)
        return Overview(sums=tx.overview.sums(), lagging=tx.overview.lagging(limit=consumers), small=small, jobs=jobs)


def consumer_table(row: ConsumerLagRow) -> str:
    """The table a consumer reads, as SQL names it."""
    return Identifier(row.database, row.table_name, row.branch).written()
