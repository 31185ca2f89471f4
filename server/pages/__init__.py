"""The pages a person visits: server-rendered, readable without scripts, and every action on them a statement it shows."""

from __future__ import annotations

from flask import Flask

from server.pages.shell import page_failure as page_failure
from server.services import Services
from server.visitor import is_page as is_page
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


__all__ = ["add_pages", "is_page", "page_failure"]
