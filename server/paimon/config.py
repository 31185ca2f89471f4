"""``/v1/config``: what a client asks first."""

from __future__ import annotations

from urllib.parse import unquote_plus

from model.catalog_errors import WarehouseNotExist
from server.paimon.routes import CATALOG, argument
from server.process.services import services


def config() -> object:
    """The prefix of all further paths; the one warehouse is called like the catalog (some clients escape its name twice)."""
    warehouse = argument("warehouse")
    if warehouse is not None and CATALOG not in (warehouse, unquote_plus(warehouse)):
        raise WarehouseNotExist(f"There is no warehouse {warehouse} here; the catalog is called {CATALOG}.", resource_name=warehouse)
    overrides = {"data-token.enabled": "true"} if services().data_tokens.configured else {}
    return {"defaults": {"prefix": CATALOG}, "overrides": overrides}
