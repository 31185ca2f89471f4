"""Tables as this server saw them last, for INSERTs whose decision says whether they are still so: they need not be asked for first."""

from __future__ import annotations

import threading

from cachetools import TTLCache

from catalog.records import TableRow
from model.identifier import Identifier

_SECONDS = 60.0
_TABLES = 10_000


class RememberedTables:
    """Rows of tables by name; a table whose files are not all in place is never remembered."""

    def __init__(self) -> None:
        self._rows: TTLCache[Identifier, TableRow] = TTLCache(_TABLES, _SECONDS)
        self._lock = threading.Lock()

    def get(self, table: Identifier) -> TableRow | None:
        """The table as it was when it was seen last, if that was lately."""
        with self._lock:
            return self._rows.get(table)

    def seen(self, table: Identifier, row: TableRow) -> None:
        """Remember a row that was read just now."""
        with self._lock:
            if row.moving_from is None and not row.stale and row.published_schema_id >= row.schema_id and row.diverged_at is None:
                self._rows[table] = row
            else:
                self._rows.pop(table, None)

    def forget(self, table: Identifier) -> None:
        """What is known of a table does not hold any more."""
        with self._lock:
            self._rows.pop(table, None)
