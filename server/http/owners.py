"""Whose a request is taken for before anybody has looked at it, so that no principal's and no address's requests take all threads."""

from __future__ import annotations

from typing import Any

from cachetools import LRUCache

from server.http.gate import network
from server.sql.disconnect import PRINCIPAL

_MOST_REMEMBERED = 10_000


class Owners:
    """Used by the event loop alone."""

    def __init__(self) -> None:
        self._found: LRUCache[int, str] = LRUCache(_MOST_REMEMBERED)
        """By a digest of what a request showed, the principal that was."""

    def owner(self, environ: dict[str, Any]) -> str:
        """The principal its token or cookie was found to be; else the address it comes from, for inventing tokens costs nothing."""
        credentials = _shown(environ)
        principal = None if credentials is None else self._found.get(credentials)
        return f"address {network(environ['REMOTE_ADDR'])}" if principal is None else f"principal {principal}"

    def learn(self, environ: dict[str, Any]) -> None:
        """A request was answered, and it may be known by now whose it was."""
        credentials, principal = _shown(environ), environ.get(PRINCIPAL)
        if credentials is not None and principal is not None:
            self._found[credentials] = principal


def _shown(environ: dict[str, Any]) -> int | None:
    text = environ.get("HTTP_AUTHORIZATION") or environ.get("HTTP_COOKIE")
    return None if text is None else hash(text)
