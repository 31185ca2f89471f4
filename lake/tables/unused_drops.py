"""Dropped tables whose time is over, and whose files show whether anybody has used them since."""

from __future__ import annotations

import logging

from catalog import CatalogStore
from lake.register.restored.used_since import used_since
from lake.register.standing import Standing
from model.errors import LakeError
from model.repeats import REPEATS
from table.format.io.file_io import FileIO

_log = logging.getLogger(__name__)


def unused_drops(catalog: CatalogStore, io: FileIO, standing: Standing, left_out: set[int], *, most: int) -> set[int]:
    """The next drops whose time is over and whose files nobody has used since, so many at most.

    The others are left out, until they are taken back, and ``standing`` tells of those that were used.
    """
    while True:
        with catalog.transaction() as tx:
            expired = tx.drops.expired(limit=most, but=left_out)
            dropped = [table for drop_id in expired for table in tx.drops.tables(drop_id=drop_id) if table.own_directory is not None]
        for table in dropped:
            try:
                use = used_since(catalog, io, table)
            except (LakeError, OSError) as problem:
                _log.info("Dropped table %s is kept while its files cannot be looked at: %s", table.identifier, problem, extra=REPEATS)
                left_out.add(table.drop_id)
                continue
            if use is not None:
                standing.keep_dropped(table, use)
                left_out.add(table.drop_id)
        if (unused := {*expired} - left_out) or not expired:
            with catalog.reading() as tx:
                standing.dropped_now({table.drop_id for table in tx.drops.tables()})
            return unused
