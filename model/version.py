"""The version of this installation, and the distribution that says it."""

from __future__ import annotations

from importlib.metadata import version

DISTRIBUTION = "sluice-server"
"""What the server and its packages are installed as; the client beside it is `sluice-client`."""


def sluice_version() -> str:
    """The server's version, as `pyproject.toml` says it."""
    return version(DISTRIBUTION)
