"""The next decision about a branch, kept for a writer that lost the race for the one before."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from psycopg import Connection

_REST = 10
"""After a reservation nobody used there is none for so many times its length: who reserves and does not commit keeps nobody for long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Whose the next decision is."""

    mine: bool = False
    others_seconds: float = 0.0
    """How long it still is another's."""


class ReservationRepository:
    """Reads and writes the reservation in ``snapshot_pointer``; the clock is Postgres's. A decision by its holder ends it."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def ask(self, table_id: UUID, branch: str, writer: str, *, seconds: float = 0.0) -> Reservation:
        """Whose the next decision is; with ``seconds`` it becomes the writer's for so long, where it is nobody's."""
        query = """
            WITH taken AS (
                UPDATE snapshot_pointer
                SET reserved_by = %(writer)s, reserved_until = clock_timestamp() + make_interval(secs => %(seconds)s)
                WHERE table_id = %(table)s AND branch = %(branch)s AND %(seconds)s > 0
                  AND (reserved_until IS NULL OR reserved_until + make_interval(secs => %(seconds)s * %(rest)s) < clock_timestamp())
                RETURNING 1
            )
            SELECT EXISTS (SELECT 1 FROM taken), reserved_by = %(writer)s,
                   coalesce(extract(epoch FROM reserved_until - clock_timestamp()), 0)::float8
            FROM snapshot_pointer WHERE table_id = %(table)s AND branch = %(branch)s
        """
        values = {"table": table_id, "branch": branch, "writer": writer, "seconds": seconds, "rest": _REST}
        row = self._conn.execute(query, values).fetchone()
        if row is None:
            return Reservation()
        taken, held, left = row
        mine = taken or (bool(held) and left > 0)
        return Reservation(mine=mine, others_seconds=0.0 if mine else max(0.0, left))

    def release(self, table_id: UUID, branch: str, writer: str) -> None:
        """Give the writer's reservation up."""
        query = "UPDATE snapshot_pointer SET reserved_until = NULL WHERE table_id = %s AND branch = %s AND reserved_by = %s"
        self._conn.execute(query, (table_id, branch, writer))
