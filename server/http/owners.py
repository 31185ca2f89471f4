"""Whose a request is taken for before anybody has looked at it, so that no principal's and no address's requests take all threads."""

from __future__ import annotations

from typing import Any

from cachetools import LRUCache

from server.http.gate import network
from server.sql.disconnect import PRINCIPAL
from workers.spool import owner_of

_MOST_REMEMBERED = 10_000


class Owners:
    """Used by the event loop alone."""

    def __init__(self) -> None:
        self._found: LRUCache[int, str] = LRUCache(_MOST_REMEMBERED)
        """By a digest of what a request showed, the principal that was."""

    def owner(self, environ: dict[str, Any]) -> str:
        """The principal its token or cookie was found to be; else the address it comes from, for inventing tokens costs nothing."""
        principal = self.known(environ)
        return f"address {network(environ['REMOTE_ADDR'])}" if principal is None else owner_of(principal)

    def known(self, environ: dict[str, Any]) -> str | None:
        """The principal its token or cookie was found to be; None where nobody has looked at that yet."""
        credentials = _shown(environ)
        return None if credentials is None else self._found.get(credentials)

    def learn(self, environ: dict[str, Any]) -> str | None:
        """A request is being answered, and it may be known by now whose it is; returns the principal."""
        credentials, principal = _shown(environ), environ.get(PRINCIPAL)
        if credentials is not None and principal is not None:
            self._found[credentials] = principal
        return principal


def _shown(environ: dict[str, Any]) -> int | None:
    if header := environ.get("HTTP_AUTHORIZATION"):
        scheme, _, credential = header.partition(" ")
        return hash((scheme.lower(), credential.strip()))  # however it is spelled it is one token
    cookie = environ.get("HTTP_COOKIE")
    return None if cookie is None else hash(cookie)
