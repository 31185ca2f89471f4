"""Traces by OpenTelemetry; nothing here is imported where no endpoint is set."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Any

from flask import Flask, Response, g, request
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span as OtelSpan
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from gateway.origin import ORIGIN
from model.errors import LakeError
from model.spans import CURRENT, NO_SPAN, Span, Value, install
from model.version import sluice_version
from server.errors import request_id

_PATH = "/v1/traces"


class _Traced:
    """A span of OpenTelemetry's."""

    def __init__(self, inner: OtelSpan) -> None:
        self.inner = inner
        self.trace_id = f"{inner.get_span_context().trace_id:032x}"

    def set(self, key: str, value: Value) -> None:
        self.inner.set_attribute(key, value)


class Maker:
    """Makes spans below the one the thread is in."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer

    def __call__(self, name: str, attributes: Mapping[str, Value], since: float | None) -> AbstractContextManager[Span]:
        """A span of the work in the block."""
        return self._made(name, attributes, since)

    @contextlib.contextmanager
    def _made(self, name: str, attributes: Mapping[str, Value], since: float | None) -> Iterator[Span]:
        above = CURRENT.get()
        context = set_span_in_context(above.inner) if isinstance(above, _Traced) else Context()
        start = None if since is None else int(since * 1e9)
        inner = self.tracer.start_span(name, context=context, attributes=attributes, start_time=start)
        token = CURRENT.set(_Traced(inner))
        try:
            yield CURRENT.get()
        except BaseException as error:  # texts of errors that are no LakeError may hold anything
            inner.set_status(Status(StatusCode.ERROR, error.message if isinstance(error, LakeError) else type(error).__name__))
            inner.set_attribute("error.type", type(error).__name__)
            raise
        finally:
            CURRENT.reset(token)
            inner.end()


@contextlib.contextmanager
def tracing(endpoint: str) -> Iterator[Maker]:
    """Send spans to an OTLP collector over HTTP until the block ends; the standard OTEL_* variables shape the rest.

    A collector that is away costs spans, never requests.
    """
    resource = Resource.create({"service.name": "sluice", "service.version": sluice_version()} | _named())
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=traces_url(endpoint))))
    maker = Maker(provider.get_tracer("sluice"))
    install(maker)
    try:
        yield maker
    finally:
        install(None)
        provider.shutdown()


def _named() -> dict[str, str]:
    """What the environment calls this service, which `Resource.create` would have the defaults above win over."""
    attributes = Resource.create().attributes
    name = str(attributes.get("service.name", ""))
    return {} if name.startswith("unknown_service") else {"service.name": name}


def traces_url(endpoint: str) -> str:
    """Where spans go: a collector's address without a path means its usual one."""
    scheme, _, rest = endpoint.rstrip("/").partition("://")
    return f"{scheme}://{rest}" if "/" in rest else f"{scheme}://{rest}{_PATH}"


def trace(app: Flask, maker: Maker) -> None:
    """A span for each request, below the client's own where it sends a traceparent; it ends with the answer's last byte."""
    propagator = TraceContextTextMapPropagator()

    def begin() -> None:
        route = request.url_rule.rule if request.url_rule is not None else ""
        attributes: dict[str, Any] = {
            "http.request.method": request.method,
            "url.path": request.path,
            "http.route": route,
            "client.address": request.remote_addr or "",
            "sluice.request_id": request_id(),
            "sluice.protocol": ORIGIN.get().protocol,
        }
        above = propagator.extract({key.lower(): value for key, value in request.headers.items()}, context=Context())
        name = f"{request.method} {route}".rstrip()
        g.traced = _Traced(maker.tracer.start_span(name, context=above, kind=SpanKind.SERVER, attributes=attributes))
        CURRENT.set(g.traced)

    def answered(response: Response) -> Response:
        traced = g.pop("traced", None)
        if traced is not None:
            traced.set("http.response.status_code", response.status_code)
            traced.set("enduser.id", ORIGIN.get().principal)
            if response.status_code >= 500:
                traced.inner.set_status(Status(StatusCode.ERROR))
            response.call_on_close(traced.inner.end)
        return response

    def leave(error: BaseException | None) -> None:
        CURRENT.set(NO_SPAN)

    app.before_request(begin)
    app.after_request(answered)
    app.teardown_request(leave)
