"""What the driver says of a Postgres that is away, full or read-only, as the errors that users are told."""

from __future__ import annotations

import psycopg
from psycopg_pool import PoolTimeout

from catalog.connection import ENDED_BY_POSTGRES
from model.catalog_errors import CatalogFull
from model.errors import InvalidData, Unavailable


def is_lost(problem: Exception) -> bool:
    """Whether the connection broke, so that nobody knows what became of what was sent; else it is Postgres that says no."""
    code = getattr(problem, "sqlstate", None) or ""
    return not code or code.startswith(("08", "57P"))


def unfit(problem: psycopg.DataError) -> Exception:
    """The error told for a text or number that Postgres cannot hold, wherever in a request it stood; any other is a bug."""
    if isinstance(problem, psycopg.errors.NumericValueOutOfRange):
        return InvalidData("A number is larger than the catalog can hold or look for: 64 bits.")
    if isinstance(problem, psycopg.errors.UntranslatableCharacter) or "NUL" in str(problem):
        return InvalidData("A text holds a NUL character, which the catalog can neither keep nor look for.")
    return problem


def read_only() -> Unavailable:
    """The error told while Postgres is a standby, as during a recovery or after a failover to another machine."""
    return Unavailable(
        "The catalog database can only be read: it stands by, or is still recovering. Nothing was changed. It can be written once it is "
        "promoted; else set SLUICE_CATALOG_DSN to the primary."
    )


def away(problem: Exception, cause: str = "") -> Unavailable:
    """The error told to users while Postgres is away; details of the connection are not theirs to see."""
    if isinstance(problem, PoolTimeout):
        return Unavailable(f"The catalog database does not answer{cause}. Nothing was changed; try again in a moment.")
    code = getattr(problem, "sqlstate", None)
    if code == "53100":  # disk_full
        return CatalogFull()
    if isinstance(problem, ENDED_BY_POSTGRES):
        return Unavailable(
            f"Postgres ended a transaction in which this server was silent for too long ({code}), as where its machine stood still or "
            "the store did not answer, so that its locks keep nobody waiting. Nothing was changed; try again."
        )
    return Unavailable(
        f"The catalog database cannot be used now{f' ({code})' if code else ''}{cause}. Nothing was changed; try again in a moment."
    )
