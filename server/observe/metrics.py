"""``GET /metrics``: what the server does and has, for Prometheus."""

from __future__ import annotations

import time

from flask import Blueprint, Flask, Response, current_app, g, request
from prometheus_client import CollectorRegistry, Counter, Histogram, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from gateway.gateway import Gateway
from gateway.operation import Operation, OperationState
from lake.commit.metrics import CommitNote
from server.access.access import caller
from server.errors import speaks_flink, speaks_paimon
from server.observe.present import OfCatalog, OfServer, Seen
from server.openapi.document import documented
from server.openapi.schemas import TEXT
from server.process.services import services

bp = Blueprint("metrics", __name__)
_EXTENSION = "sluice.metrics"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
"""Seconds: a metadata statement takes one millisecond, a bulk insert minutes."""


def protocol_of(path: str) -> str:
    """Which protocol a path belongs to."""
    if speaks_paimon(path):
        return "paimon"
    if speaks_flink(path):
        return "flink"
    first, _, rest = path.strip("/").partition("/")
    if first == "ui":
        return "sql" if rest.partition("/")[0] == "sql" else "pages"
    return {"sql": "sql", "statements": "sql", "tables": "rows", "tokens": "tokens", "jobs": "jobs"}.get(first, "other")


class Metrics:
    """The figures of one server."""

    def __init__(self, gateway: Gateway) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._requests = Histogram(
            "sluice_request_seconds",
            "Time to the answer's first byte.",
            ["protocol", "method", "status"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._statements = Histogram(
            "sluice_statement_seconds",
            "Time from a text's submission to its end, by how it ended; waiting included.",
            ["state"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._errors = Counter("sluice_statement_errors", "Texts that failed, by class of error.", ["error"], registry=self.registry)
        self._commits = Histogram(
            "sluice_commit_seconds",
            "Time from a commit's build to its published snapshot, by who built it and how it ended.",
            ["writer", "outcome"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._conflicts = Counter("sluice_commit_conflicts", "Races lost in committing.", ["writer"], registry=self.registry)
        self._writes = Counter("sluice_commit_writes", "Writes that were committed; several may share a commit.", registry=self.registry)
        self.server = OfServer(gateway)
        self.registry.register(self.server)
        self.registry.register(OfCatalog(gateway))
        gateway.lake.commit_counters.append(self.commit_ended)
        gateway.listen(self.statement_ended)

    def request_answered(self, path: str, method: str, status: int, seconds: float) -> None:
        """Count a request; of its path only the protocol is told, or every path a scanner tries would make a series."""
        self.call_answered(protocol_of(path), method, status, seconds)

    def call_answered(self, protocol: str, method: str, status: int, seconds: float) -> None:
        """Count a call of any protocol; the status is HTTP's word for how it ended."""
        self._requests.labels(protocol, method, str(status)).observe(seconds)

    def commit_ended(self, note: CommitNote) -> None:
        """Count a commit."""
        self._commits.labels(note.writer, note.outcome).observe(note.seconds)
        self._conflicts.labels(note.writer).inc(note.conflicts + (note.outcome == "conflict"))
        if note.outcome == "committed":
            self._writes.inc(note.writes)

    def statement_ended(self, operation: Operation) -> None:
        """Count a statement's end."""
        state = operation.state if operation.state is not OperationState.CLOSED else OperationState.FINISHED
        self._statements.labels(state.value.lower()).observe(max(0.0, time.time() - operation.submitted))
        if operation.error is not None:
            self._errors.labels(getattr(operation.error, "error_class", "InternalError")).inc()


def metrics_of(app: Flask) -> Metrics:
    """The figures of an app's server, for its other protocols."""
    metrics = app.extensions[_EXTENSION]
    assert isinstance(metrics, Metrics)
    return metrics


def measure(app: Flask, gateway: Gateway) -> None:
    """Time every request of an app, and every statement of its gateway."""
    metrics = app.extensions[_EXTENSION] = Metrics(gateway)

    def begin() -> None:
        g.began = time.perf_counter()

    def end(response: Response) -> Response:
        metrics.request_answered(request.path, request.method, response.status_code, time.perf_counter() - g.began)
        return response

    app.before_request(begin)
    app.after_request(end)


@bp.get("/metrics")
@documented(tag="server", answers={200: {"text/plain": TEXT}})
def metrics() -> Response:
    """All figures in Prometheus's text form; tables are named to those who read all of them, jobs to administrators."""
    registry = metrics_of(current_app).registry
    lake = services().gateway.lake.for_caller(caller())
    seen = registry if lake.caller.administrator else Seen(registry, lake)
    return Response(generate_latest(seen), content_type=CONTENT_TYPE_LATEST, headers={"Cache-Control": "no-store"})
