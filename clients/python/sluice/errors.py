"""The exceptions of PEP 249, and which of them a server's refusal is."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

from sluice.client import describe


class Warning(Exception):  # noqa: A001 - PEP 249's name
    """Never raised; PEP 249 wants it."""


class Error(Exception):
    """Base of all; where the server refused, with what it said."""

    def __init__(self, message: str, *, status: int | None = None, document: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.document = document or {}

    @property
    def error_class(self) -> str | None:
        """The server's stable name of what went wrong."""
        return self.document.get("errorClass")

    @property
    def place(self) -> tuple[int, int] | None:
        """Line and column in the statement, from 1, where they are known."""
        return (self.document["line"], self.document.get("column") or 1) if "line" in self.document else None


class InterfaceError(Error):
    """The driver was used wrongly, such as after a close."""


class DatabaseError(Error):
    """The server refused or failed."""


class DataError(DatabaseError):
    """Values do not fit, or made the statement fail."""


class OperationalError(DatabaseError):
    """The server cannot be reached, is busy, stopped or canceled it, or does not let the caller in."""


class IntegrityError(DatabaseError):
    """Rows break a rule of the table; there is none that is not told as `DataError`."""


class InternalError(DatabaseError):
    """A bug of the server."""


class ProgrammingError(DatabaseError):
    """The statement or its values are wrong, or name what is not there."""


class NotSupportedError(DatabaseError):
    """What is asked for is not available."""


_BY_CLASS: dict[str, type[DatabaseError]] = {
    "InvalidData": DataError,
    "ExecutionError": DataError,
    "UnsupportedStatement": NotSupportedError,
    "UnsupportedType": NotSupportedError,
    "StatementCanceled": OperationalError,
    "CommitConflict": OperationalError,
    "IdempotencyInProgress": OperationalError,
}
_BY_STATUS: dict[int, type[DatabaseError]] = {
    500: InternalError,
    501: NotSupportedError,
    **dict.fromkeys((401, 403, 408, 429, 502, 503, 504, 507), OperationalError),
}


def refusal(status: int, text: str) -> DatabaseError:
    """The exception for an answer that is no success."""
    try:
        document = json.loads(text)
    except ValueError:
        document = None
    if not isinstance(document, dict) or "detail" not in document:
        return _BY_STATUS.get(status, OperationalError)(f"The server answered {status}: {text[:200]}", status=status)
    kind = _BY_CLASS.get(str(document.get("errorClass"))) or _BY_STATUS.get(status, ProgrammingError)
    return kind(describe(document), status=status, document=document)


_OTHER_WAYS = frozenset({"Forbidden", "MetadataOnlyTable"})


@contextlib.contextmanager
def suppress_refusal(*, of_reading: bool = False) -> Iterator[None]:
    """Let a statement be tried another way where the caller may not do it this way, or not with this table: nothing was written.

    What only reads may be refused for any reason but that it was canceled, or that the server wants to be left alone.
    """
    try:
        yield
    except DatabaseError as refused:
        if of_reading and refused.status not in (None, 401, 408, 429) and refused.error_class != "StatementCanceled":
            return
        if refused.error_class not in _OTHER_WAYS:
            raise
