"""Where a statement came from: set by the door that took the request, kept by whatever the request starts."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A request."""

    door: str = "internal"
    """Which protocol it spoke: ``sql``, ``rows``, ``flink``, ``paimon``; ``internal`` where no request asked."""
    address: str | None = None
    request_id: str | None = None


_NONE = Origin()
ORIGIN: ContextVar[Origin] = ContextVar("origin", default=_NONE)
"""The request this thread answers."""
