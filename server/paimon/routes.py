"""Paths of the protocol: names in them are escaped as Java's form encoding does, so they are read from the raw request line."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote_plus, urlsplit

import orjson
from flask import request

from lake import Lake
from model.access import Access, table_resource
from model.errors import BadRequest, OutcomeUnknown
from model.identifier import Identifier
from server.access.access import caller
from server.process.services import services
from server.sql.bodies import json_object, read_body

CATALOG = "sluice"
"""The catalog's name: a client's ``warehouse``, and the prefix of all its paths."""
MOST_BODY_BYTES = 1 << 20
"""Of a body whoever sends it."""
MOST_LARGE_BODY_BYTES = 32 << 20
"""Of one that tells of partitions, by who may write their table."""

Handler = Callable[..., object]


@dataclass(slots=True)
class _Node:
    """The handlers of one path, and the paths that go on behind it."""

    handlers: dict[str, Handler] = field(default_factory=dict)
    literals: dict[str, _Node] = field(default_factory=dict)
    name: _Node | None = None


_ROOT = _Node()


def route(method: str, path: str) -> Callable[[Handler], Handler]:
    """Register a handler for ``databases/{}/tables/{}``; each ``{}`` is an argument of it. What it returns is the JSON of the answer."""

    def register(handler: Handler) -> Handler:
        node = _ROOT
        for part in path.split("/"):
            if part == "{}":
                node.name = node.name or _Node()
                node = node.name
            else:
                node = node.literals.setdefault(part, _Node())
        if method in node.handlers:
            raise ValueError(f"{method} {path} is handled twice")
        node.handlers[method] = handler
        return handler

    return register


def done_once(handler: Handler) -> Handler:
    """Of a handler that knows a request which is sent again: its clients may repeat it by themselves where its outcome is unknown."""

    @functools.wraps(handler)
    def told(*names: str) -> object:
        try:
            return handler(*names)
        except OutcomeUnknown as unknown:
            unknown.repeatable = True
            raise

    return told


def registered() -> Iterator[tuple[str, str]]:
    """Method and path, as they were registered, of all there is below ``/v1/sluice``."""

    def below(node: _Node, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        yield from ((method, "/".join(path)) for method in node.handlers)
        for part, child in [*node.literals.items(), *([("{}", node.name)] if node.name else [])]:
            yield from below(child, (*path, part))

    return below(_ROOT, ())


def find(segments: list[str]) -> tuple[Mapping[str, Handler], list[str]] | None:
    """The handlers of a path by method, and the names in it; None where the protocol has no such path."""
    node, names = _ROOT, []
    for segment in segments:
        if (literal := node.literals.get(segment)) is not None:
            node = literal
        elif node.name is not None and segment:
            names.append(unquote_plus(segment))
            node = node.name
        else:
            return None
    return (node.handlers, names) if node.handlers else None


def raw_segments(environ: Mapping[str, Any]) -> list[str]:
    """The path's parts behind ``/v1/sluice``, still escaped; a slash at the end says nothing."""
    raw: str = environ.get("REQUEST_URI") or environ.get("RAW_URI") or environ["PATH_INFO"]
    path = urlsplit(raw).path if "://" in raw.partition("?")[0] else raw.partition("?")[0]
    return path.strip("/").split("/")[2:]


def lake() -> Lake:
    """The lake, as the present request's caller may use it."""
    return services().gateway.lake.for_caller(caller())


def body() -> dict[str, Any]:
    """The present request's JSON object, whatever its content type says; raises `BadRequest` for anything else."""
    return _object(read_body(MOST_BODY_BYTES))


def body_about(table: Identifier) -> dict[str, Any]:
    """The same where it may tell of many partitions of a table: more than others may send is read only of who may write that."""

    def ask() -> None:
        here, resource = caller(), table_resource(table)
        if not here.may(Access.DELETE, resource):
            here.require(Access.UPDATE, resource)

    return _object(read_body(MOST_LARGE_BODY_BYTES, free=MOST_BODY_BYTES, ask=ask))


def _object(raw: bytes) -> dict[str, Any]:
    if not raw.strip():
        raise BadRequest("The request has no body; a JSON object is expected.")
    return json_object(raw)


def argument(name: str) -> str | None:
    """A query parameter; None where it is missing or empty."""
    return request.args.get(name) or None


def encoded(answer: object) -> bytes:
    """The JSON of an answer; nothing is an empty body."""
    return b"" if answer is None else orjson.dumps(answer)
