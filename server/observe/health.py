"""Live: the process answers. Ready: what it stands on can be used."""

from __future__ import annotations

import orjson
from flask import Blueprint, Response

from gateway.health import Health, PartHealth
from model.access import table_resource
from server.access.access import caller
from server.openapi.document import documented, json_of
from server.process.services import services

bp = Blueprint("health", __name__)
_MOST_NAMED = 20


@bp.get("/livez")
@documented(tag="server", answers={200: json_of("Health")}, open=True)
def live() -> Response:
    """The process runs and answers."""
    return _answer({"status": "ok"}, 200)


@bp.get("/readyz")
@documented(tag="server", answers={200: json_of("Health"), 503: json_of("Health")})
def ready() -> Response:
    """200 when Postgres, Spark and the warehouse can be used and the server is not stopping, else 503; what lacks is named.

    200 with the status ``degraded`` where new rows are refused because the disk is nearly full, or where tables are damaged or diverged,
    each with the statement that helps; the others work. 503 where the warehouse is another catalog's, or the catalog a newer version's.
    """
    if services().stopping.is_set():
        return _answer({"status": "stopping"}, 503)
    health = services().gateway.health()
    parts = {"postgres": health.postgres, "spark": health.spark, "warehouse": health.warehouse, "disk": health.disk}
    parts |= {"catalog": health.catalog, "tables": _tables(health), "clock": health.clock}
    # A server whose disk is nearly full stays in the balancer: it still answers whoever reads.
    status = "unavailable" if not health.ok else "degraded" if not (health.disk.ok and health.clock.ok) or health.troubles else "ok"
    body: dict[str, object] = {"status": status} | {
        name: {"ok": part.ok} | ({"detail": part.detail} if part.detail else {}) for name, part in parts.items()
    }
    return _answer(body, 200 if health.ok else 503)


def _tables(health: Health) -> PartHealth:
    """The tables that need a hand, by name as far as the caller may see them."""
    sees = [trouble for trouble in health.troubles if caller().sees(table_resource(trouble.table))]
    named = [f"{trouble.table}: {trouble.problem}; {trouble.statement}" for trouble in sees[:_MOST_NAMED]]
    count = len(health.troubles)
    summary = f"{count} {'table needs' if count == 1 else 'tables need'} a hand. " if count else ""
    return PartHealth(ok=not count, detail=(summary + " ".join(named)).strip())


def _answer(body: dict[str, object], status: int) -> Response:
    return Response(orjson.dumps(body), status, headers={"Cache-Control": "no-store"}, mimetype="application/json")
