"""The OpenAPI document is that of the routes, and what it says of answers is so for requests nobody thought of."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from flask import Blueprint, Flask
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from openapi_spec_validator import OpenAPIV31SpecValidator
from schemathesis import checks
from schemathesis.schemas import BaseSchema

from server.errors import speaks_flink, speaks_paimon
from server.openapi.document import openapi, path_of
from tests.fix_memory import LastingPath
from tests.server.protocols_of_a_module import Endpoints, endpoints

BINARY = ("text/csv", "application/x-ndjson", "application/sql", "application/vnd.apache.arrow.stream", "application/vnd.apache.parquet")
CHECKS = ("status_code_conformance", "content_type_conformance", "response_schema_conformance", "unsupported_method")


@pytest.fixture(scope="module")
def opened(module_dsn: str, lasting_path: LastingPath) -> Iterator[Endpoints]:
    with endpoints(module_dsn, lasting_path("openapi")) as made:
        client = made.app.test_client()
        client.post("/sql", data="CREATE TABLE t (id INT, s STRING); INSERT INTO t VALUES (1, 'a')")
        yield made


def test_the_document_is_that_of_the_routes(opened: Endpoints) -> None:
    served = opened.app.test_client().get("/openapi.json").json
    assert served == openapi(opened.app)
    OpenAPIV31SpecValidator(served).validate()
    routes = {
        (path_of(rule), method.lower())
        for rule in opened.app.url_map.iter_rules()
        if not (speaks_flink(rule.rule) or speaks_paimon(rule.rule) or rule.rule.startswith("/ui") or rule.rule in ("/", "/docs"))
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    assert {(path, method) for path, methods in served["paths"].items() for method in methods} == routes
    assert ("/sql", "post") in routes
    assert all(operation["summary"].endswith(".") for methods in served["paths"].values() for operation in methods.values())


def test_a_route_nobody_described_is_an_error() -> None:
    app, bp = Flask("some"), Blueprint("more", "more")
    bp.get("/more")(lambda: "")
    app.register_blueprint(bp)
    with pytest.raises(LookupError, match="/more"):
        openapi(app)


def test_the_page_shows_it_without_script_or_other_hosts(opened: Endpoints) -> None:
    answer = opened.app.test_client().get("/docs")
    assert answer.status_code == 200
    assert "<script" not in answer.text
    assert not re.search(r"(src|href)=\"(https?:)?//", answer.text)
    assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
    for path, methods in openapi(opened.app)["paths"].items():
        for method in methods:
            assert f'<h2 id="h-{methods[method]["operationId"]}"><code>{method.upper()} {path}</code></h2>' in answer.text


def campaign(opened: Endpoints, cases: int) -> None:
    """Send requests made from the document; none may meet a bug, and every answer must be one the document tells."""
    for media in BINARY:
        schemathesis.serializer(media)(lambda _, value: value if isinstance(value, bytes) else str(value).encode())
    schema: BaseSchema = schemathesis.openapi.from_url(f"{opened.url}/openapi.json")
    found: list[Any] = list(schema.get_all_operations())
    strategies = [one.ok().as_strategy() for one in found]
    wanted: Any = [checks.CHECKS.get_one(name) for name in CHECKS]

    @settings(max_examples=cases, deadline=None, suppress_health_check=list(HealthCheck), derandomize=cases <= 300, database=None)
    @given(case=st.one_of(strategies))
    def check(case: Any) -> None:
        response = case.call()
        assert response.status_code != 500, response.text
        case.validate_response(response, checks=wanted)

    check()


def test_requests_made_from_the_document_get_the_answers_it_tells(opened: Endpoints) -> None:
    campaign(opened, 120)


@pytest.mark.torture
def test_five_thousand_requests(opened: Endpoints) -> None:
    campaign(opened, 5_000)
