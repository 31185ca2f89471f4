"""What the catalog says of itself: its identity, its schema, and the time as its last run of expiry saw it."""

from __future__ import annotations

from uuid import UUID

from psycopg import Connection
from psycopg.rows import class_row

from catalog.records import ClockRow, IdentityRow


class StateRepository:
    """Reads and writes ``catalog_state`` and ``pages_key`` inside the caller's transaction; the clock is Postgres's."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def identity(self) -> IdentityRow:
        """What tells the catalog from others; also of one of an earlier version, which knows no warehouse."""
        query = """
            SELECT s.catalog_id, (SELECT max(version_num) FROM alembic_version) AS revision,
                   EXISTS (SELECT 1 FROM table_entry) AS has_tables, to_jsonb(s) ->> 'warehouse' AS warehouse
            FROM (SELECT 1) one LEFT JOIN catalog_state s ON true
        """
        with self._conn.cursor(row_factory=class_row(IdentityRow)) as cur:
            row = cur.execute(query).fetchone()
        assert row is not None
        return row

    def keep_warehouse(self, warehouse: str, *, instead_of: str | None) -> str | None:
        """Note the catalog's warehouse where none is known, or ``instead_of`` is; returns the one known from now on.

        None where the catalog has no identity.
        """
        query = """
            UPDATE catalog_state SET warehouse = CASE WHEN warehouse = %s OR warehouse IS NULL THEN %s ELSE warehouse END
            RETURNING warehouse
        """
        row = self._conn.execute(query, (instead_of, warehouse)).fetchone()
        return None if row is None else str(row[0])

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

    def now_millis(self) -> int:
        """Postgres's time, in milliseconds since 1970: what is kept for so long goes by it, whichever server wrote it."""
        row = self._conn.execute("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint").fetchone()
        assert row is not None
        return int(row[0])

    def note_run(self) -> None:
        """Expiry runs now, by a clock that is right."""
        self._conn.execute("UPDATE catalog_state SET clock_seen_at = clock_timestamp()")

    def confirm_clock(self) -> None:
        """Somebody says that the clock is right."""
        self._conn.execute("UPDATE catalog_state SET clock_seen_at = clock_timestamp(), clock_confirmed_at = clock_timestamp()")
