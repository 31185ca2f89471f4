"""The pages are put into an app."""

from __future__ import annotations

from flask import Flask

from server.access.visitor import remember_visitors
from server.process.services import Services


def add_pages(app: Flask, services: Services) -> None:
    """Put the pages into an app."""
    from server.pages import access, catalog, dropped, login, overview, quotas, settings, shell, sql, work  # noqa: F401 - they register their routes
    from server.pages.tables import maintenance, view  # noqa: F401 - they register their routes
    from server.pages.tables import overview as table_overview  # noqa: F401

    remember_visitors(app, services.gateway.lake, secure=services.settings.tls_certificate is not None)
    shell.add_shell(app)
