"""Idempotency keys: a write under a key happens once (`architecture.md`, last section)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import NAMESPACE_OID, UUID, uuid4, uuid5

from psycopg import Cursor
from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from catalog.connection import CatalogConnection
from catalog.records import IdempotencyRow

KEPT = timedelta(hours=24)
LEASE = timedelta(seconds=30)
"""How long a claim outlives the last sign of its server; longer work renews it."""
_HOLD = "SELECT 1 FROM idempotency_key WHERE scope = %s AND key = %s AND owner = %s AND answer IS NULL FOR UPDATE"
_REGISTERED = "registered"
"""The scope of what a repair read of snapshots, whose key is the work's id: they do not tell who used which key for what."""


def work_of(scope: str, key: str, body_hash: str) -> UUID:
    """By what the work under a key is known to who does not know the key: the same for each try."""
    return uuid5(NAMESPACE_OID, "\0".join((scope, key, body_hash)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """A key and who works under it."""

    scope: str
    key: str
    body_hash: str
    owner: UUID
    claimed: bool
    """Whether the owner has claimed it before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A key that is the caller's now."""

    again: bool
    """Whether somebody who is gone worked under it: what it did is not known."""


class IdempotencyRepository:
    """Reads and writes ``idempotency_key`` inside the caller's transaction.

    A key counts until it is forgotten, however old the clock says that it is: that may be wrong.
    """

    def __init__(self, conn: CatalogConnection) -> None:
        self._conn = conn

    def claim(self, scope: str, key: str, *, body_hash: str, owner: UUID, idle: Sequence[UUID] = ()) -> IdempotencyRow | Taken:
        """Take the key, or tell who has it. Unfinished claims of dead servers, and of ``idle`` owners, who did nothing, are taken over."""
        while True:
            mine = Key(scope=scope, key=key, body_hash=body_hash, owner=owner, claimed=False)
            if (taken := self._claim(mine, idle).fetchone()) is not None:
                return Taken(again=taken[0])
            if (claimed := self.look(scope, key, body_hash)) is not None:
                return claimed  # otherwise it was given back meanwhile

    def look(self, scope: str, key: str, body_hash: str) -> IdempotencyRow | None:
        """Who has the key, and what was answered under it; None where nobody has."""
        return self.looking(scope, key, body_hash).fetchone()

    def looking(self, scope: str, key: str, body_hash: str) -> Cursor[IdempotencyRow]:
        """The same, to be fetched once it has come."""
        look = """
            SELECT CASE WHEN scope = %(registered)s THEN %(hash)s ELSE body_hash END AS body_hash, owner,
                   lease_until > now() AS alive, answer
            FROM idempotency_key
            WHERE (scope, key) IN ((%(scope)s, %(key)s), (%(nobody)s, %(key)s), (%(registered)s, %(work)s))
            ORDER BY answer IS NULL, scope = %(scope)s DESC LIMIT 1
        """
        return self._conn.cursor(row_factory=class_row(IdempotencyRow)).execute(look, _values(scope, key, body_hash))

    def known(self, scope: str, key: str) -> bool:
        """Whether work is or was done under a key; of what a repair registered only the work's id is known."""
        query = """
            SELECT 1 FROM idempotency_key
            WHERE scope = ANY(%s) AND key = %s AND (lease_until > now() OR answer IS NOT NULL)
        """
        return self._conn.execute(query, ([scope, _nobodys(scope)], key)).fetchone() is not None

    def register(self, answers: Mapping[str, Mapping[str, Any]], *, at_millis: int) -> None:
        """Keep what was answered to works of these ids at that time; what is known of one stays."""
        query = """
            INSERT INTO idempotency_key (scope, key, body_hash, owner, lease_until, answer, created_at)
            VALUES (%s, %s, '', %s, now(), %s, to_timestamp(%s / 1000.0)) ON CONFLICT DO NOTHING
        """
        with self._conn.cursor() as cur:
            cur.executemany(query, [(_REGISTERED, work, uuid4(), Jsonb(dict(answer)), at_millis) for work, answer in answers.items()])

    def hold_or_claim(self, key: Key) -> Cursor[Any]:
        """See to it that the key is its owner's until the transaction ends; a statement of one row where it is."""
        return self._conn.execute(_HOLD, (key.scope, key.key, key.owner)) if key.claimed else self._claim(key)

    def holding(self, key: Key) -> Callable[[], bool]:
        """`hold_or_claim` of a key that was claimed, in the round trip of the next statement; tells whether it is held, from then on."""
        cursor = self._conn.ahead(_HOLD, (key.scope, key.key, key.owner))
        return lambda: cursor.rowcount == 1

    def _claim(self, mine: Key, idle: Sequence[UUID] = ()) -> Cursor[Any]:
        """Take the key; a statement of one row where that was possible, which says whether somebody had it before.

        Before schema 0005 no caller was told from another, and a scope named none: what was done under such a key is not done again, nor is
        what a repair found in snapshots.
        """
        query = """
            INSERT INTO idempotency_key AS k (scope, key, body_hash, owner, lease_until)
            SELECT %(scope)s, %(key)s, %(hash)s, %(owner)s, now() + %(lease)s
            WHERE NOT EXISTS (
                SELECT 1 FROM idempotency_key o
                WHERE (o.scope, o.key) IN ((%(nobody)s, %(key)s), (%(registered)s, %(work)s))
                  AND o.answer IS NOT NULL
            )
            ON CONFLICT (scope, key) DO UPDATE
              SET body_hash = excluded.body_hash, owner = excluded.owner, lease_until = excluded.lease_until,
                  answer = NULL, created_at = now()
              WHERE k.answer IS NULL AND k.body_hash = excluded.body_hash AND (k.lease_until < now() OR k.owner = ANY(%(owners)s))
            RETURNING xmax::text <> '0'
        """
        values = {**_values(mine.scope, mine.key, mine.body_hash), "owner": mine.owner, "owners": [mine.owner, *idle], "lease": LEASE}
        return self._conn.execute(query, values)

    def renew(self, owners: list[UUID], *, decided: Mapping[str, Any]) -> None:
        """Say that the work of these claims is still going on, also where all that is answered yet is that it was ``decided``."""
        query = "UPDATE idempotency_key SET lease_until = now() + %s WHERE owner = ANY(%s) AND (answer IS NULL OR answer = %s)"
        self._conn.execute(query, (LEASE, owners, Jsonb(dict(decided))))

    def finish(self, scope: str, key: str, *, owner: UUID, answer: Mapping[str, Any], instead: Mapping[str, Any] | None = None) -> bool:
        """Store the answer where there is none; or one that says less (``instead``): then it is the last, and nobody works on.

        False when the claim was lost to another server meanwhile, or has its answer.
        """
        query = """
            UPDATE idempotency_key SET answer = %s, lease_until = CASE WHEN %s THEN now() ELSE lease_until END
            WHERE scope = %s AND key = %s AND owner = %s AND (answer IS NULL OR answer = %s)
        """
        less = None if instead is None else Jsonb(dict(instead))
        return self._conn.execute(query, (Jsonb(dict(answer)), instead is not None, scope, key, owner, less)).rowcount == 1

    def finish_held(self, scope: str, key: str, *, owner: UUID, answer: Mapping[str, Any]) -> None:
        """Store the answer of a key that the transaction holds without one, in the round trip of its next statement, or of its end."""
        query = "UPDATE idempotency_key SET answer = %s WHERE scope = %s AND key = %s AND owner = %s AND answer IS NULL"
        self._conn.later(query, (Jsonb(dict(answer)), scope, key, owner))

    def run_out(self, claims: Sequence[tuple[str, str, UUID]]) -> None:
        """End claims (scope, key, owner) under which nothing was done, those that are there; what a try before had claimed stays told.

        One that a transaction holds stays: it may be of a connection whose end Postgres has not noticed, which is not waited for.
        """
        query = """
            UPDATE idempotency_key SET lease_until = now() - interval '1 second'
            WHERE (scope, key) IN (
                SELECT k.scope, k.key
                FROM unnest(%s::text[], %s::text[], %s::uuid[]) AS idle (scope, key, owner) JOIN idempotency_key k USING (scope, key, owner)
                WHERE k.answer IS NULL AND k.lease_until > now()
                FOR UPDATE OF k SKIP LOCKED
            )
        """
        self._conn.execute(query, tuple(map(list, zip(*claims, strict=True))))

    def let_go(self, owner: UUID) -> None:
        """What was answered under the claim is the last."""
        self._conn.execute("UPDATE idempotency_key SET lease_until = now() WHERE owner = %s AND answer IS NOT NULL", (owner,))

    def abandon(self, scope: str, key: str, *, owner: UUID) -> None:
        """Give the key back: nothing was done under it."""
        query = "DELETE FROM idempotency_key WHERE scope = %s AND key = %s AND owner = %s AND answer IS NULL"
        self._conn.execute(query, (scope, key, owner))

    def forget_old(self) -> int:
        """Remove keys older than a day."""
        return self._conn.execute("DELETE FROM idempotency_key WHERE created_at < now() - %s", (KEPT,)).rowcount


def _values(scope: str, key: str, body_hash: str) -> dict[str, Any]:
    work = str(work_of(scope, key, body_hash))
    return {
        "scope": scope, "key": key, "hash": body_hash, "work": work, "nobody": _nobodys(scope), "registered": _REGISTERED,
    }  # fmt: skip


def _nobodys(scope: str) -> str:
    """The scope in which keys were kept when no caller was told from another."""
    return f"{scope.partition(':')[0]}:"
