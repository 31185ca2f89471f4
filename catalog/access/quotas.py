"""Quotas as they were set, and what each server's users take of them now."""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from psycopg import Connection

from model.work.quota import Holder, Quota

USAGE_SECONDS = 10.0
"""What a server told longer ago than this counts no more: it has ended, or cannot be heard."""


class QuotaRepository:
    """Reads and writes ``quota`` and ``quota_usage`` inside the caller's transaction; the clock is Postgres's."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def put(self, quota: Quota) -> None:
        """Set one, or give it another value."""
        query = """
            INSERT INTO quota (holder, principal, name, value) VALUES (%s, %s, %s, %s)
            ON CONFLICT (holder, principal, name) DO UPDATE SET value = excluded.value
        """
        self._conn.execute(query, (quota.holder.value, quota.principal, quota.name, quota.value))

    def remove(self, holder: Holder, principal: str, name: str) -> bool:
        """Take one away; False where there was none."""
        query = "DELETE FROM quota WHERE holder = %s AND principal = %s AND name = %s"
        return self._conn.execute(query, (holder.value, principal, name)).rowcount == 1

    def forget_role(self, principal: str) -> None:
        """Take away those of a role that is dropped."""
        self._conn.execute("DELETE FROM quota WHERE holder = 'ROLE' AND principal = %s", (principal,))

    def all(self) -> list[Quota]:
        """Every quota, by holder and name."""
        rows = self._conn.execute("SELECT holder, principal, name, value FROM quota ORDER BY holder, principal, name").fetchall()
        return [Quota(holder=Holder(holder), principal=principal, name=name, value=value) for holder, principal, name, value in rows]

    def tell(self, server: UUID, usage: Mapping[tuple[str, str], int]) -> None:
        """Say all that a server's users take now, by (principal, quota)."""
        self._conn.execute("DELETE FROM quota_usage WHERE server = %s OR told_at < now() - make_interval(secs => 60)", (server,))
        if usage:
            query = """
                INSERT INTO quota_usage (server, principal, name, amount, told_at)
                SELECT %s, principal, name, amount, now() FROM unnest(%s::text[], %s::text[], %s::bigint[]) AS t(principal, name, amount)
            """
            keys = list(usage)
            self._conn.execute(query, (server, [key[0] for key in keys], [key[1] for key in keys], [usage[key] for key in keys]))

    def taken(self, besides: UUID | None = None) -> dict[tuple[str, str], int]:
        """What users take by what all servers, or all but one, told lately."""
        query = """
            SELECT principal, name, sum(amount)::bigint FROM quota_usage
            WHERE server IS DISTINCT FROM %s AND told_at > now() - make_interval(secs => %s) GROUP BY principal, name
        """
        return {(principal, name): amount for principal, name, amount in self._conn.execute(query, (besides, USAGE_SECONDS))}
