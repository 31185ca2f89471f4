"""Failures as Flight's clients see them: the gRPC status says of which kind they are, the text is Sluice's own."""

from __future__ import annotations

from dataclasses import dataclass

import grpc

from server.errors import Failure, failure_of

_LONGEST_TEXT = 3000
"""Bytes: a status travels in a header, of which clients take 8 KB with everything in it percent-encoded."""
_CODE = grpc.StatusCode
_BY_STATUS: dict[int, grpc.StatusCode] = {
    401: _CODE.UNAUTHENTICATED,
    403: _CODE.PERMISSION_DENIED,
    404: _CODE.NOT_FOUND,
    410: _CODE.NOT_FOUND,
    408: _CODE.DEADLINE_EXCEEDED,
    429: _CODE.UNAVAILABLE,
    501: _CODE.UNIMPLEMENTED,
    503: _CODE.UNAVAILABLE,
}
_STATUS_OF = {code: status for status, code in reversed(_BY_STATUS.items())} | {_CODE.INVALID_ARGUMENT: 400, _CODE.CANCELLED: 499}
_BY_CLASS: dict[str, grpc.StatusCode] = {
    "StatementCanceled": _CODE.CANCELLED,
    "InternalError": _CODE.INTERNAL,
    "TableDamaged": _CODE.INTERNAL,
}


@dataclass(frozen=True, slots=True)
class FlightFailure:
    """A failure as a client of Flight is told of it."""

    status: int
    """The HTTP status the other protocols would answer with."""
    code: grpc.StatusCode
    text: str


class PassedOnFailure(Exception):
    """What another server refused a call with that was passed on to it."""

    def __init__(self, code: grpc.StatusCode, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


def flight_failure(error: BaseException, id_: str) -> FlightFailure:
    """What a client is told of an error."""
    if isinstance(error, PassedOnFailure):
        return FlightFailure(_STATUS_OF.get(error.code, 500), error.code, error.text)
    failure = failure_of(error, id_)
    default = _CODE.INVALID_ARGUMENT if failure.status < 500 else _CODE.INTERNAL
    code = _BY_CLASS.get(failure.error_class) or _BY_STATUS.get(failure.status, default)
    text = _text(failure).encode()
    cut = text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + b"..."
    return FlightFailure(failure.status, code, cut.decode(errors="ignore"))


def _text(failure: Failure) -> str:
    line, column = failure.facts.get("line"), failure.facts.get("column")
    where = f"line {line}" if column is None else f"line {line}, column {column}"
    place = f" ({where})" if line is not None and f"line {line}" not in failure.detail else ""
    completed = failure.facts.get("completed")
    before = f"\nTook effect before it: {'; '.join(completed)}" if completed else ""
    return f"{failure.error_class}: {failure.detail}{place}{before}"
