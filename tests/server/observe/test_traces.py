"""Traces as a collector gets them: decoded from what comes over the wire."""

from __future__ import annotations

import http.server
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from gateway.gateway import Gateway
from model.spans import NO_SPAN, span
from server.app import create_app
from server.observe.traces import traces_url, tracing
from server.process.services import Services
from server.settings.settings import read_settings
from tests.fix_server import StartServer
from tests.serving import in_background

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Collector:
    """Takes spans as OTLP over HTTP and keeps them."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        taken = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                taken.take(self.path, self.rfile.read(int(self.headers["Content-Length"])))
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: object) -> None:
                return None

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def take(self, path: str, body: bytes) -> None:
        assert path == "/v1/traces"
        for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
            self.services |= {one.value.string_value for one in resource.resource.attributes if one.key == "service.name"}
            for scope in resource.scope_spans:
                self.spans += scope.spans

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]


@pytest.fixture
def collector() -> Iterator[Collector]:
    made = Collector()
    thread = in_background(made.server)
    yield made
    made.server.shutdown()
    thread.join()
    made.server.server_close()


def facts(span: Span) -> dict[str, str | int]:
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


def test_an_insert_is_one_trace_from_the_request_to_the_commit(gateway: Gateway, tmp_path: Path, collector: Collector) -> None:
    services = Services(gateway=gateway, settings=read_settings({"SLUICE_DATA": str(tmp_path)}))
    with tracing(collector.url) as maker:
        client: FlaskClient = create_app(services, maker=maker).test_client()
        client.post("/sql", data="CREATE TABLE t (id INT)").close()
        sent = {"traceparent": CALLER, "X-Request-Id": "mine"}
        with client.post("/sql", data="INSERT INTO t VALUES (1)", headers=sent) as answer:
            assert answer.status_code == 200
        assert client.post("/sql", data="SELECT * FROM nothing WHERE s = 'a' AND 'x.password' = 'hush'").status_code == 404
    assert collector.services == {"sluice"}
    (commit,) = collector.named("commit")
    above = {one.span_id: one for one in collector.spans}
    names, at = [], commit
    while at.parent_span_id in above:
        names.append(at.name)
        at = above[at.parent_span_id]
    assert names == ["commit", "execute", "statement"]
    assert (at.name, at.kind) == ("POST /sql", Span.SPAN_KIND_SERVER)
    assert at.trace_id.hex() == commit.trace_id.hex() == CALLER[3:35], "the caller's own trace goes on"
    assert at.parent_span_id.hex() == CALLER[36:52]
    assert (facts(at)["sluice.request_id"], facts(at)["http.response.status_code"]) == ("mine", 200)
    assert (facts(commit)["sluice.table"], facts(commit)["sluice.commit.outcome"]) == ("default.t", "committed")
    siblings = {one.name for one in collector.spans if one.parent_span_id == above[above[commit.parent_span_id].parent_span_id].span_id}
    assert siblings == {"queue", "parse", "plan", "execute"}
    (failed,) = [one for one in collector.named("statement") if one.status.code == 2]
    assert facts(failed)["error.type"] == "TableNotExist"
    assert "hush" not in str(failed)
    assert "******" in str(facts(failed)["db.query.text"])
    assert all(one.end_time_unix_nano >= one.start_time_unix_nano > 0 for one in collector.spans)


def test_without_a_collector_nothing_is_made() -> None:
    assert span("anything") is span("else") is NO_SPAN


def test_a_collector_that_is_away_costs_no_request(gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    services = Services(gateway=gateway, settings=read_settings({"SLUICE_DATA": str(tmp_path)}))
    with tracing("http://127.0.0.1:1") as maker:
        assert create_app(services, maker=maker).test_client().post("/sql", data="SHOW DATABASES").status_code == 200


def test_where_traces_go() -> None:
    assert read_settings({}).traces_endpoint is None
    assert read_settings({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/"}).traces_endpoint == "http://c:4318/v1/traces"
    assert read_settings({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "true"}).traces_endpoint is None
    assert traces_url("http://c:4318") == "http://c:4318/v1/traces"
    assert traces_url("https://c/own/path") == "https://c/own/path"


def test_a_server_sends_what_is_left_as_it_ends(start_server: StartServer, collector: Collector) -> None:
    server = start_server(SLUICE_TRACES_ENDPOINT=collector.url)
    server.sql("SHOW DATABASES")
    assert server.terminate() == 0
    assert "SHOW DATABASES" in {facts(one)["db.query.text"] for one in collector.named("statement")}


@pytest.mark.spark
def test_what_spark_ran_is_in_the_trace(on_spark: Gateway, tmp_path: Path, collector: Collector) -> None:
    services = Services(gateway=on_spark, settings=read_settings({"SLUICE_DATA": str(tmp_path)}))
    with tracing(collector.url) as maker:
        text = "SELECT count(*), sum(id) FROM range(1000) GROUP BY id % 3"
        assert create_app(services, maker=maker).test_client().post("/sql", data=text, buffered=True).status_code == 200
    found = [one for one in collector.named("spark") if facts(one).get("spark.jobs")]
    assert found
    (statement,) = [one for one in collector.named("statement") if "range(1000)" in str(facts(one)["db.query.text"])]
    (ran,) = [one for one in found if facts(one)["spark.job_group"] == facts(statement)["sluice.statement_id"]]
    assert "tasks" in str(facts(ran)["spark.stages"])
    assert ran.trace_id == statement.trace_id
