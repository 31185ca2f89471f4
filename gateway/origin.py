"""Where a statement came from: set by the endpoint that took the request, kept by whatever the request starts."""

from __future__ import annotations

from contextvars import Context, ContextVar
from dataclasses import dataclass

from model.spans import carry
from table.format.io.patience import begin_patience


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """A request."""

    protocol: str = "internal"
    """Which protocol it spoke: ``sql``, ``rows``, ``flink``, ``paimon``; ``internal`` where no request asked."""
    address: str | None = None
    request_id: str | None = None
    principal: str = ""
    """Who sent it, once that is known."""


_NONE = Origin()
ORIGIN: ContextVar[Origin] = ContextVar("origin", default=_NONE)
"""The request this thread answers, or works for."""
STATEMENT: ContextVar[str | None] = ContextVar("statement", default=None)
"""Handle of the statement this thread works on."""


def context_for(statement: str, store_seconds: float) -> Context:
    """What a statement's work knows of where it came from, on whatever thread, and how long it waits for object stores that fail.

    Nothing else of the request's is kept alive.
    """
    context = Context()
    context.run(ORIGIN.set, ORIGIN.get())
    context.run(STATEMENT.set, statement)
    context.run(begin_patience, store_seconds)
    carry(context)
    return context
