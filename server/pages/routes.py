"""The pages are put into an app."""

from __future__ import annotations

from flask import Flask

from server.services import Services
from server.visitor import remember_visitors


def add_pages(app: Flask, services: Services) -> None:
    """Put the pages into an app."""
    from server.pages import (  # noqa: F401 - they register their routes
        access,
        catalog,
        dropped,
        login,
        overview,
        quotas,
        settings,
        shell,
        sql,
        table_overview,
        table_upkeep,
        view,
        work,
    )

    remember_visitors(app, services.gateway.lake, secure=services.settings.tls_certificate is not None)
    shell.add_shell(app)
