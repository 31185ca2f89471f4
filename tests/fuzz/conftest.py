"""The server's own fixtures: a real gateway and Postgres, no Spark."""

from __future__ import annotations

from tests.server.conftest import client, gateway, services

__all__ = ["client", "gateway", "services"]
