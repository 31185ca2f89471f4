"""The OpenAPI document of our own endpoints, made from what stands next to each route; a route without that is an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, TypeVar

from flask import Flask
from werkzeug.routing import Rule

from model.version import sluice_version
from server.access.visitor import is_page
from server.errors import PROBLEM, speaks_flink, speaks_paimon
from server.openapi.schemas import SCHEMAS

Schema = Mapping[str, Any]
F = TypeVar("F", bound=Callable[..., Any])
_DOCUMENTED = "__openapi__"
_ALWAYS = (400, 401, 403, 503)
"""What any request may be answered: it makes no sense, nobody knows who sends it, it may not be, Postgres is away."""
_PATH_PARAMETER = re.compile(r"<(?:[a-z]+:)?(\w+)>")
_PLACES = {
    "statement": "A statement's id, the X-Request-Id it was sent with, or its operation handle.",
    "database": "A database's name.",
    "table": "A table's name.",
    "job": "A job's id.",
    "name": "A token's name.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Documented:
    """What is said of an endpoint beside its docstring, which says what it does."""

    tag: str
    answers: Mapping[int, Mapping[str, Schema]]
    """Status, media type, schema."""
    parameters: Sequence[Schema] = ()
    body: Mapping[str, Schema] = field(default_factory=dict)
    body_required: bool = True
    errors: Sequence[int] = ()
    """Statuses of problem documents besides those any request may get."""
    headers: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """Headers of answers that carry something, and what."""
    open: bool = False
    """Whether it needs no token."""


def documented(**said: Any) -> Callable[[F], F]:
    """Say of a view what its clients must know; the fields of `Documented`."""
    facts = Documented(**said)

    def mark(view: F) -> F:
        setattr(view, _DOCUMENTED, facts)
        return view

    return mark


def reference(name: str) -> Schema:
    """A schema by name."""
    assert name in SCHEMAS, name
    return {"$ref": f"#/components/schemas/{name}"}


def json_of(name: str) -> dict[str, Schema]:
    """A JSON body of a named schema."""
    return {"application/json": reference(name)}


def query(name: str, schema: Schema, description: str) -> Schema:
    """A parameter of the query string."""
    return {"name": name, "in": "query", "required": False, "schema": schema, "description": description}


def is_ours(rule: Rule) -> bool:
    """Whether a route is one of our own endpoints: no other protocol's, and no page for people."""
    return not (speaks_flink(rule.rule) or speaks_paimon(rule.rule) or is_page(rule.rule) or rule.rule in FOR_PEOPLE)


FOR_PEOPLE = frozenset({"/", "/docs"})
"""Pages besides those of `server.pages`."""


def openapi(app: Flask) -> dict[str, Any]:
    """The document; raises `LookupError` for an endpoint nobody described."""
    paths: dict[str, dict[str, Any]] = {}
    for rule in sorted(app.url_map.iter_rules(), key=lambda rule: rule.rule):
        if is_ours(rule):
            view = app.view_functions[rule.endpoint]
            for method in sorted((rule.methods or set()) - {"HEAD", "OPTIONS"}):
                paths.setdefault(path_of(rule), {})[method.lower()] = _operation(rule, view)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Sluice",
            "version": sluice_version(),
            "description": "A catalog server with a SQL gateway. Flink's SQL gateway and the Paimon REST catalog, which are served beside "
            "these paths, are protocols of their own.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"token": []}, {}],
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "Where tokens are set; see docs/access.md."}},
        },
    }


def path_of(rule: Rule) -> str:
    """A route as OpenAPI spells it."""
    return _PATH_PARAMETER.sub(r"{\1}", rule.rule)


def _operation(rule: Rule, view: Callable[..., Any]) -> dict[str, Any]:
    facts = getattr(view, _DOCUMENTED, None)
    if not isinstance(facts, Documented):
        raise LookupError(f"{rule.rule} ({rule.endpoint}) is not described with @documented.")
    summary = " ".join((view.__doc__ or "").split())
    places = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}, "description": _PLACES[name]}
        for name in _PATH_PARAMETER.findall(rule.rule)
    ]
    made: dict[str, Any] = {
        "operationId": rule.endpoint.replace(".", "_"),
        "tags": [facts.tag],
        "summary": summary,
        "parameters": [*places, *facts.parameters],
        "responses": {str(status): _answer(status, content, facts) for status, content in facts.answers.items()},
    }
    for status in sorted({*_ALWAYS, *facts.errors} - set(facts.answers)):
        made["responses"][str(status)] = {"description": HTTPStatus(status).phrase, "content": {PROBLEM: {"schema": reference("Problem")}}}
    if facts.body:
        made["requestBody"] = {
            "required": facts.body_required,
            "content": {media: {"schema": schema} for media, schema in facts.body.items()},
        }
    if facts.open:
        made["security"] = []
    return made


def _answer(status: int, content: Mapping[str, Schema], facts: Documented) -> dict[str, Any]:
    made: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "content": {media: {"schema": schema} for media, schema in content.items()},
    }
    if named := facts.headers.get(status):
        made["headers"] = {name: {"description": said, "schema": {"type": "string"}} for name, said in named.items()}
    return made
