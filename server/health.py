"""Live: the process answers. Ready: what it stands on can be used."""

from __future__ import annotations

import orjson
from flask import Blueprint, Response

from server.openapi import documented, json_of
from server.services import services

bp = Blueprint("health", __name__)


@bp.get("/livez")
@documented(tag="server", answers={200: json_of("Health")}, open=True)
def live() -> Response:
    """The process runs and answers."""
    return _answer({"status": "ok"}, 200)


@bp.get("/readyz")
@documented(tag="server", answers={200: json_of("Health"), 503: json_of("Health")})
def ready() -> Response:
    """200 when Postgres, Spark and the warehouse can be used and the server is not stopping, else 503; what lacks is named.

    200 with the status ``degraded`` where new rows are refused because the disk is nearly full.
    """
    if services().stopping.is_set():
        return _answer({"status": "stopping"}, 503)
    health = services().gateway.health()
    parts = {"postgres": health.postgres, "spark": health.spark, "warehouse": health.warehouse, "disk": health.disk}
    # A server whose disk is nearly full stays in the balancer: it still answers whoever reads.
    status = "unavailable" if not health.ok else "ok" if health.disk.ok else "degraded"
    body: dict[str, object] = {"status": status} | {
        name: {"ok": part.ok} | ({"detail": part.detail} if part.detail else {}) for name, part in parts.items()
    }
    return _answer(body, 200 if health.ok else 503)


def _answer(body: dict[str, object], status: int) -> Response:
    return Response(orjson.dumps(body), status, headers={"Cache-Control": "no-store"}, mimetype="application/json")
