"""The record of who did what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from datetime import timedelta
from operator import attrgetter

from psycopg import Connection
from psycopg.rows import class_row

from catalog.records import AuditRow

_OF_THE_TABLE = {"protocol": "door"}
"""By field the column, where the table has an older name."""
_WRITTEN = tuple(field.name for field in fields(AuditRow) if field.name != "id")
_COLUMNS = ", ".join(_OF_THE_TABLE.get(name, name) for name in _WRITTEN)
_READ = ", ".join(f"{_OF_THE_TABLE.get(field.name, field.name)} AS {field.name}" for field in fields(AuditRow))
_VALUES = attrgetter(*_WRITTEN)


class AuditRepository:
    """Reads and writes ``audit_log`` inside the caller's transaction."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def add(self, rows: Sequence[AuditRow]) -> None:
        """Append rows."""
        with self._conn.cursor() as cur, cur.copy(f"COPY audit_log ({_COLUMNS}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(_VALUES(row))

    def newest(self, *, principal: str | None, before: int | None, limit: int) -> list[AuditRow]:
        """Rows of one principal or of all, the newest first, of those before a place in the log."""
        query = f"""
            SELECT {_READ} FROM audit_log
            WHERE id < coalesce(%s, 9223372036854775807) AND (%s::text IS NULL OR principal = %s) ORDER BY id DESC LIMIT %s
        """  # noqa: S608 - names of columns
        with self._conn.cursor(row_factory=class_row(AuditRow)) as cur:
            return cur.execute(query, (before, principal, principal, limit)).fetchall()

    def naming(self, word: str, *, after: int, limit: int) -> list[AuditRow]:
        """Rows behind a place in the log whose text has this in it, in upper or lower case; the oldest first."""
        query = f"""
            SELECT {_READ} FROM audit_log WHERE id > %s AND strpos(lower(action), lower(%s)) > 0 ORDER BY id LIMIT %s
        """  # noqa: S608 - names of columns
        with self._conn.cursor(row_factory=class_row(AuditRow)) as cur:
            return cur.execute(query, (after, word, limit)).fetchall()

    def retell(self, rows: Sequence[AuditRow]) -> None:
        """Put other texts in the place of those of these rows."""
        with self._conn.cursor() as cur:
            cur.executemany("UPDATE audit_log SET action = %s WHERE id = %s", [(row.action, row.id) for row in rows])

    def forget(self, older_than: timedelta) -> int:
        """Drop rows that are too old; returns how many."""
        return self._conn.execute("DELETE FROM audit_log WHERE time < now() - %s", (older_than,)).rowcount
