"""Failures as Flight's clients see them: the gRPC status says of which kind they are, the text is Sluice's own."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.flight as fl

from server.errors import Failure, failure_of


class _Untraced:
    """Keeps our stack out of a message: Arrow adds what `traceback` makes of an exception, and where that fails, only its class."""

    @property
    def __cause__(self) -> None:
        raise RuntimeError("not for clients")


# Flight has no classes of its own for these; Arrow's give the gRPC status their names say.
class InvalidArgument(_Untraced, pa.ArrowInvalid):  # type: ignore[misc]
    """INVALID_ARGUMENT."""


class NotFound(_Untraced, pa.ArrowKeyError):  # type: ignore[misc]
    """NOT_FOUND."""


class Unimplemented(_Untraced, pa.ArrowNotImplementedError):  # type: ignore[misc]
    """UNIMPLEMENTED."""


_BY_STATUS: dict[int, type[Exception]] = {
    401: fl.FlightUnauthenticatedError,
    403: fl.FlightUnauthorizedError,
    404: NotFound,
    408: fl.FlightTimedOutError,
    429: fl.FlightUnavailableError,
    501: Unimplemented,
    503: fl.FlightUnavailableError,
}
_BY_CLASS: dict[str, type[Exception]] = {
    "StatementCanceled": fl.FlightCancelledError,
    "InternalError": fl.FlightInternalError,
    "TableDamaged": fl.FlightInternalError,
}


def flight_error(error: BaseException, id_: str) -> tuple[int, Exception]:
    """The HTTP status the other doors would answer with, and the exception that tells a client of Flight the same."""
    failure = failure_of(error, id_)
    default = InvalidArgument if failure.status < 500 else fl.FlightServerError
    kind = _BY_CLASS.get(failure.error_class) or _BY_STATUS.get(failure.status, default)
    return failure.status, kind(_text(failure))


def _text(failure: Failure) -> str:
    line = failure.facts.get("line")
    place = f" (line {line}, column {failure.facts.get('column')})" if line is not None and f"line {line}" not in failure.detail else ""
    return f"{failure.error_class}: {failure.detail}{place}"
