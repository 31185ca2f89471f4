"""The light client people install, and the command; nothing of the server is imported here."""

from __future__ import annotations

from sluice.client import Client as Client
from sluice.client import ServerError as ServerError
from sluice.dbapi import *  # noqa: F403 - the module itself is the DB-API driver, as PEP 249 wants it
from sluice.dbapi import __all__ as _driver

__all__ = ["Client", "ServerError", *_driver]
