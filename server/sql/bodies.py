"""Reading request bodies: bounded, streamed, and loud when they stop in the middle."""

from __future__ import annotations

import datetime as dt
import io
import re
from collections.abc import Callable
from typing import IO, Any

import orjson
from flask import request

from model.errors import BadRequest, StatementTooLarge

_CHUNK = 1 << 16
_SMALL_BYTES = 1 << 16
MOST_JSON_VALUES = 500_000
"""Values and brackets in a JSON body: each becomes an object of some fifty bytes, made while no other thread of the server runs."""
_SIGNS = (b"[", b"{", b",")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_DISCARD_BYTES = 256 << 20
"""Up to so much of a refused body is read and thrown away, so that its sender gets to read the answer."""


class BodyStream(io.RawIOBase):
    """A request's body as a file; raises `StatementTooLarge` past its cap and `BadRequest` where the client broke off."""

    def __init__(self, stream: IO[bytes], *, length: int | None, cap: int) -> None:
        self._stream = stream
        self._length = length
        self._cap = cap
        self._read = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._stream.read(len(buffer))
        except (ValueError, OSError) as problem:  # a chunk that is none, a reset, a stall
            raise BadRequest("The request's body ended before all of it had come.") from problem
        self._read += len(data)
        if self._read > self._cap:
            raise too_large(self._cap)
        if not data and self._length is not None and self._read < self._length:
            raise BadRequest(f"The request's body ended after {self._read} of {self._length} bytes.")
        buffer[: len(data)] = data
        return len(data)


def body_stream(cap: int) -> io.BufferedReader:
    """The present request's body, sized or chunked; raises `StatementTooLarge` before reading where its size tells so."""
    length = request.content_length
    if length is not None and length > cap:
        discard()
        raise too_large(cap)
    chunked = bool(request.environ.get("wsgi.input_terminated"))
    if length is None and not chunked:
        length = 0
    stream: IO[bytes] = request.environ["wsgi.input"]
    return io.BufferedReader(BodyStream(stream, length=length, cap=cap), buffer_size=1 << 20)


def read_body(cap: int, *, free: int | None = None, ask: Callable[[], object] | None = None) -> bytes:
    """The whole body of the present request; raises `StatementTooLarge` for more than ``cap`` bytes.

    Of anybody ``free`` bytes are read; before more of them ``ask`` raises where the caller may not send them.
    """
    length = request.content_length
    if length is not None and length <= min(cap, _SMALL_BYTES):
        return _small_body(length)
    if ask is None or free is None:
        free = cap
    reader = body_stream(cap)
    try:
        body = reader.read(free + 1)
        if len(body) > free:
            if ask is not None:
                ask()
            body += reader.read()
        return body
    except StatementTooLarge:
        discard()
        raise


def _small_body(length: int) -> bytes:
    """A body that is read at once, without the megabyte of buffer that a large one gets."""
    stream: IO[bytes] = request.environ["wsgi.input"]
    try:
        data = stream.read(length)
    except (ValueError, OSError) as problem:
        raise BadRequest("The request's body ended before all of it had come.") from problem
    if len(data) < length:
        raise BadRequest(f"The request's body ended after {len(data)} of {length} bytes.")
    return data


def json_object(body: bytes, *, what: str = "The body") -> dict[str, Any]:
    """A JSON object; raises `BadRequest` for anything else. Nothing at all is an empty object."""
    if not body.strip():
        return {}
    if _signs(body) > MOST_JSON_VALUES and _signs(_STRING.sub(b"", body)) > MOST_JSON_VALUES:
        raise StatementTooLarge(f"{what} holds more than {MOST_JSON_VALUES:,} values; send them in several requests.")
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as problem:
        raise BadRequest(f"{what} is not JSON: {problem}.") from None
    if not isinstance(value, dict):
        raise BadRequest(f"{what} must be a JSON object.")
    return value


def _signs(body: bytes) -> int:
    return sum(body.count(sign) for sign in _SIGNS)


def member(body: dict[str, Any], name: str, kind: type, *, required: bool = False) -> Any:
    """A member of the given kind, or None; raises `BadRequest` where it is of another or missing."""
    value = body.get(name)
    if value is None:
        if required:
            raise BadRequest(f"The member '{name}' is missing.")
        return None
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadRequest(f"The member '{name}' must be {_KINDS[kind]}.")
    return value


_KINDS = {str: "a string", int: "a whole number", dict: "an object", list: "a list", bool: "true or false"}


def strings(body: dict[str, Any], name: str) -> dict[str, str]:
    """An object of strings; other scalars are written as text, as option values are."""
    values = member(body, name, dict) or {}
    for key, value in values.items():
        if isinstance(value, dict | list):
            raise BadRequest(f"The value of '{key}' in '{name}' must be a string.")
    return {key: value if isinstance(value, str) else orjson.dumps(value).decode() for key, value in values.items() if value is not None}


def discard() -> None:
    """Read on and forget, so that a client still sending is not cut off before it reads why."""
    stream: IO[bytes] = request.environ["wsgi.input"]
    stream = getattr(stream, "folded", stream)
    left = min(request.content_length or _DISCARD_BYTES, _DISCARD_BYTES)
    try:
        while left > 0 and (data := stream.read(min(_CHUNK, left))):
            left -= len(data)
    except (ValueError, OSError):
        return


def too_large(cap: int) -> StatementTooLarge:
    """The refusal of a body past a cap."""
    return StatementTooLarge(f"The request's body is larger than the {cap} bytes read here.")


def instant(sent: dict[str, Any], name: str) -> dt.datetime | None:
    """A member that is an instant with its zone; None where it is left out; raises `BadRequest` for anything else."""
    text = member(sent, name, str)
    if text is None:
        return None
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise BadRequest(f"{name} is an ISO 8601 instant such as 2030-01-31T00:00:00Z, not {text!r}.")
    return moment
