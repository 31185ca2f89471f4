"""``GET /metrics``: what the server does and has, for Prometheus."""

from __future__ import annotations

import time
from collections.abc import Iterator

from flask import Blueprint, Flask, Response, current_app, g, request
from prometheus_client import CollectorRegistry, Counter, Histogram, PlatformCollector, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from server.errors import speaks_flink, speaks_paimon
from server.openapi import documented
from server.openapi_schemas import TEXT
from sql.gateway import Gateway
from sql.operation import Operation, OperationState

bp = Blueprint("metrics", __name__)
_EXTENSION = "sluice.metrics"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800)
"""Seconds: a metadata statement takes one millisecond, a bulk insert minutes."""


def door(path: str) -> str:
    """Which protocol a path belongs to."""
    if speaks_paimon(path):
        return "paimon"
    if speaks_flink(path):
        return "flink"
    first = path.strip("/").partition("/")[0]
    return {"sql": "sql", "statements": "sql", "tables": "rows"}.get(first, "other")


class Metrics:
    """The figures of one server."""

    def __init__(self, gateway: Gateway) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self._requests = Histogram(
            "sluice_request_seconds",
            "Time to the answer's first byte.",
            ["door", "method", "status"],
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
        self.registry.register(_Present(gateway))
        gateway.listen(self.statement_ended)

    def request_answered(self, path: str, method: str, status: int, seconds: float) -> None:
        """Count a request; of its path only the door is told, or every path a scanner tries would make a series."""
        self._requests.labels(door(path), method, str(status)).observe(seconds)

    def statement_ended(self, operation: Operation) -> None:
        """Count a statement's end."""
        state = operation.state if operation.state is not OperationState.CLOSED else OperationState.FINISHED
        self._statements.labels(state.value.lower()).observe(max(0.0, time.time() - operation.submitted))
        if operation.error is not None:
            self._errors.labels(getattr(operation.error, "error_class", "InternalError")).inc()


class _Present:
    """What is so at the moment of asking."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def describe(self) -> Iterator[Metric]:
        """Nothing is asked of the gateway before the first scrape."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """The gauges."""
        states = GaugeMetricFamily("sluice_statements", "Statements that wait or run.", labels=["state"])
        running = [operation.state for operation in self._gateway.running()]
        for state in (OperationState.PENDING, OperationState.RUNNING):
            states.add_metric([state.value.lower()], running.count(state))
        yield states
        waiting = GaugeMetricFamily("sluice_queued_works", "Pieces of work that wait for a thread.", labels=["lane"])
        for lane, count in self._gateway.queued().items():
            waiting.add_metric([lane], count)
        yield waiting
        yield GaugeMetricFamily("sluice_sessions", "Open gateway sessions.", value=self._gateway.open_sessions())
        yield GaugeMetricFamily("sluice_streams", "Streaming queries being read.", value=self._gateway.streams())
        yield GaugeMetricFamily("sluice_spark_ready", "1 when Spark takes statements.", value=float(self._gateway.spark_ready()))
        pool = GaugeMetricFamily("sluice_catalog_pool", "Connections to the catalog's Postgres, and who waits for one.", labels=["what"])
        for what, value in self._gateway.lake.catalog.pool_stats().items():
            pool.add_metric([what], value)
        yield pool


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
    """All figures in Prometheus's text form."""
    found = current_app.extensions[_EXTENSION]
    assert isinstance(found, Metrics)
    return Response(generate_latest(found.registry), content_type=CONTENT_TYPE_LATEST, headers={"Cache-Control": "no-store"})
