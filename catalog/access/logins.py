"""The logins of the pages that were ended before their time."""

from __future__ import annotations

from uuid import UUID

from psycopg import Connection


class LoginRepository:
    """Reads and writes ``ended_login`` inside the caller's transaction; the clock is Postgres's."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def end(self, login: UUID, *, seconds: float) -> None:
        """End a login whose cookie lasts so many seconds more at most, and forget those whose cookies have ended by themselves."""
        self._conn.execute("DELETE FROM ended_login WHERE expires_at < now()")
        query = "INSERT INTO ended_login (login, expires_at) VALUES (%s, now() + make_interval(secs => %s)) ON CONFLICT DO NOTHING"
        self._conn.execute(query, (login, seconds))

    def is_ended(self, login: UUID) -> bool:
        """Whether somebody logged out of it."""
        return self._conn.execute("SELECT 1 FROM ended_login WHERE login = %s", (login,)).fetchone() is not None
