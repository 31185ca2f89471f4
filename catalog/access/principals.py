"""Tokens and roles: who a caller is."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from psycopg import Connection, errors
from psycopg.rows import class_row

from model.access import AccessToken
from model.errors import AccessAlreadyExist, AccessNotExist

_TOKEN = "SELECT name, principal, administrator, created_at, expires_at FROM access_token "


class TokenRepository:
    """Reads and writes ``access_token`` inside the caller's transaction."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def create(self, name: str, *, principal: str, administrator: bool, digest: bytes, expires_at: dt.datetime | None) -> None:
        """Add a token, known by its hash; raises `AccessAlreadyExist`."""
        query = "INSERT INTO access_token (name, principal, administrator, hash, expires_at) VALUES (%s, %s, %s, %s, %s)"
        try:
            with self._conn.transaction():
                self._conn.execute(query, (name, principal, administrator, digest, expires_at))
        except errors.UniqueViolation as clash:
            raise AccessAlreadyExist(f"A token named {name} exists; revoke it first or choose another name.") from clash

    def all(self) -> list[AccessToken]:
        """Every token, by name, expired ones too."""
        with self._conn.cursor(row_factory=class_row(AccessToken)) as cur:
            return cur.execute(_TOKEN + "ORDER BY name").fetchall()

    def lock(self) -> None:
        """Let nobody else make or revoke tokens until the transaction ends."""
        self._conn.execute("LOCK TABLE access_token IN SHARE ROW EXCLUSIVE MODE")

    def valid(self, digest: bytes) -> AccessToken | None:
        """The token of this hash, or None where there is none or it has expired."""
        with self._conn.cursor(row_factory=class_row(AccessToken)) as cur:
            return cur.execute(_TOKEN + "WHERE hash = %s AND (expires_at IS NULL OR expires_at > now())", (digest,)).fetchone()

    def of(self, principal: str) -> list[AccessToken]:
        """The tokens of a principal that have not expired."""
        with self._conn.cursor(row_factory=class_row(AccessToken)) as cur:
            return cur.execute(_TOKEN + "WHERE principal = %s AND (expires_at IS NULL OR expires_at > now())", (principal,)).fetchall()

    def any(self) -> bool:
        """Whether a token was ever made and not revoked; an expired one counts, as expiry must not open a server."""
        return self._conn.execute("SELECT 1 FROM access_token LIMIT 1").fetchone() is not None

    def drop(self, name: str) -> None:
        """Remove it; raises `AccessNotExist`."""
        if not self._conn.execute("DELETE FROM access_token WHERE name = %s", (name,)).rowcount:
            raise AccessNotExist(f"There is no token named {name}.")


class RoleRepository:
    """Reads and writes ``access_role`` and ``access_role_member`` inside the caller's transaction."""

    def __init__(self, conn: Connection) -> None:
        self._conn = conn

    def names(self) -> list[str]:
        """All roles, by name."""
        return [name for (name,) in self._conn.execute("SELECT name FROM access_role ORDER BY name").fetchall()]

    def hold(self, names: Sequence[str]) -> None:
        """Let those of the names that are roles not be dropped until the transaction ends, and wait for who drops one."""
        self._conn.execute("SELECT FROM access_role WHERE name = ANY(%s) ORDER BY name FOR KEY SHARE", (list(names),))

    def create(self, name: str) -> bool:
        """Add a role; False when there is one of that name."""
        return self._conn.execute("INSERT INTO access_role (name) VALUES (%s) ON CONFLICT DO NOTHING", (name,)).rowcount == 1

    def drop(self, name: str) -> bool:
        """Remove a role with its memberships and grants; False when there was none."""
        if not self._conn.execute("DELETE FROM access_role WHERE name = %s", (name,)).rowcount:
            return False
        self._conn.execute("DELETE FROM access_role_member WHERE member = %s", (name,))
        self._conn.execute("DELETE FROM access_grant WHERE principal = %s", (name,))
        return True

    def add(self, role: str, member: str) -> None:
        """Give the role to a user or another role; raises `AccessNotExist` for a role that is none."""
        try:
            with self._conn.transaction():
                self._conn.execute("INSERT INTO access_role_member (role, member) VALUES (%s, %s) ON CONFLICT DO NOTHING", (role, member))
        except errors.ForeignKeyViolation as missing:
            raise AccessNotExist(f"There is no role {role}.") from missing

    def remove(self, role: str, member: str) -> bool:
        """Take the role back; False where it was not given."""
        return self._conn.execute("DELETE FROM access_role_member WHERE role = %s AND member = %s", (role, member)).rowcount == 1

    def members(self) -> list[tuple[str, str]]:
        """Every (role, member)."""
        return [(role, member) for role, member in self._conn.execute("SELECT role, member FROM access_role_member ORDER BY 1, 2")]

    def exists(self, name: str) -> bool:
        """Whether there is a role of this name."""
        return self._conn.execute("SELECT FROM access_role WHERE name = %s", (name,)).fetchone() is not None

    def of(self, *members: str) -> list[str]:
        """The roles of users or roles, directly or through other roles."""
        query = """
            WITH RECURSIVE held (role) AS (
                SELECT role FROM access_role_member WHERE member = ANY(%s)
                UNION SELECT m.role FROM access_role_member m JOIN held h ON m.member = h.role
            ) SELECT role FROM held
        """
        return [role for (role,) in self._conn.execute(query, (list(members),)).fetchall()]
