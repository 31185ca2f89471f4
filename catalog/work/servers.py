"""The servers of a catalog: their numbers, where the others reach them, and whether they live."""

from __future__ import annotations

from datetime import timedelta

from psycopg import Connection
from psycopg.rows import class_row

from catalog.records import ServerRow

_ALIVE = timedelta(seconds=30)
"""A server that was not seen for so long may be gone."""
_REMEMBERED = timedelta(days=7)
"""For so long the others can say what a server was called that is gone, and nobody gets its number."""


class ServerRepository:
    """Reads and writes ``server`` inside the caller's transaction; the clock is Postgres's."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def join(self, name: str) -> int | None:
        """A number for a server that starts; None where the next one was taken, and one is to ask again."""
        self._conn.execute("DELETE FROM server WHERE seen_at < now() - %s", (_REMEMBERED,))
        query = "INSERT INTO server (number, name) VALUES (nextval('server_number'), %s) ON CONFLICT DO NOTHING RETURNING number"
        row = self._conn.execute(query, (name,)).fetchone()
        return None if row is None else int(row[0])

    def tell(self, number: int, name: str, url: str | None) -> float | None:
        """The server lives, and is reached there; returns for how many seconds it was not seen, None where nobody remembers it."""
        query = """
            WITH before AS (SELECT extract(epoch FROM now() - seen_at)::float8 AS silent FROM server WHERE number = %(number)s)
            INSERT INTO server (number, name, url) VALUES (%(number)s, %(name)s, %(url)s)
            ON CONFLICT (number) DO UPDATE SET url = excluded.url, seen_at = now()
            RETURNING (SELECT silent FROM before)
        """
        row = self._conn.execute(query, {"number": number, "name": name, "url": url}).fetchone()
        return None if row is None or row[0] is None else float(row[0])

    def all(self) -> list[ServerRow]:
        """The servers that are remembered, by number."""
        query = """
            SELECT number, name, url, url IS NOT NULL AND seen_at > now() - %s AS alive,
                   extract(epoch FROM now() - seen_at)::float8 AS silent
            FROM server ORDER BY number
        """
        with self._conn.cursor(row_factory=class_row(ServerRow)) as cur:
            return cur.execute(query, (_ALIVE,)).fetchall()
