"""The light client people install, and the command; nothing of the server is imported here."""

from __future__ import annotations

from sluice.client import Client as Client
from sluice.client import ServerError as ServerError

__all__ = ["Client", "ServerError"]
