"""What the catalog says of itself: its identity, its schema, and the time as its last run of expiry saw it."""

from __future__ import annotations

from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from catalog.records import ClockRow


class StateRepository:
    """Reads and writes ``catalog_state`` and ``pages_key`` inside the caller's transaction; the clock is Postgres's."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def identity(self) -> tuple[UUID | None, str, bool]:
        """The catalog's id, None where its row is gone; its schema's revision; and whether it holds a table, or keeps a dropped one."""
        query = """
            SELECT (SELECT catalog_id FROM catalog_state), (SELECT max(version_num) FROM alembic_version),
                   EXISTS (SELECT 1 FROM table_entry)
        """
        row = self._conn.execute(query).fetchone()
        assert row is not None
        return row[0], str(row[1]), bool(row[2])

    def is_writable(self) -> bool:
        """Whether what Postgres runs here can change something; a standby, or one that was set to be read only, cannot."""
        query = "SELECT current_setting('transaction_read_only') = 'off' FROM (SELECT count(*) FROM sluice_database) AS counted"
        row = self._conn.execute(query).fetchone()
        assert row is not None
        return bool(row[0])

    def become(self, catalog_id: UUID) -> None:
        """Take the identity a warehouse knows, as a restored catalog of before there was one does."""
        query = "INSERT INTO catalog_state (catalog_id) VALUES (%s) ON CONFLICT (one) DO UPDATE SET catalog_id = excluded.catalog_id"
        self._conn.execute(query, (catalog_id,))

    def erasure_key(self) -> bytes:
        """The key of digests of erasures; raises `LookupError` where the catalog has lost its identity."""
        row = self._conn.execute("SELECT erasure_key FROM catalog_state").fetchone()
        if row is None:
            raise LookupError("The catalog has no identity.")
        return bytes(row[0])

    def pages_key(self, made: bytes) -> bytes:
        """The key that signs the pages' cookies on all servers: the one there is, or ``made``, which all take from now on."""
        query = "INSERT INTO pages_key (key) VALUES (%s) ON CONFLICT (one) DO UPDATE SET key = pages_key.key RETURNING key"
        row = self._conn.execute(query, (made,)).fetchone()
        assert row is not None
        return bytes(row[0])

    def clock(self) -> ClockRow:
        """Postgres's time now, and what is on record."""
        query = """
            SELECT clock_timestamp() AS now, s.clock_seen_at AS seen_at, s.clock_confirmed_at AS confirmed_at
            FROM (SELECT 1) one LEFT JOIN catalog_state s ON true
        """
        with self._conn.cursor(row_factory=class_row(ClockRow)) as cur:
            row = cur.execute(query).fetchone()
        assert row is not None
        return row

    def note_run(self) -> None:
        """Expiry runs now, by a clock that is right."""
        self._conn.execute("UPDATE catalog_state SET clock_seen_at = clock_timestamp()")

    def confirm_clock(self) -> None:
        """Somebody says that the clock is right."""
        self._conn.execute("UPDATE catalog_state SET clock_seen_at = clock_timestamp(), clock_confirmed_at = clock_timestamp()")
