"""The connections requests go over."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import httpx

_CONNECT_SECONDS = 10.0
_IDLE_SECONDS, _PROBE_SECONDS, _PROBES = 60, 10, 6
"""A machine or a network that vanishes says nothing: within two minutes of silence it is found out, and firewalls see life."""
_PARKED = 20
"""Idle connections that are kept for the next request."""


def http_client(url: str, headers: Mapping[str, str]) -> httpx.Client:
    """A client for one server, for as many requests at once as there are threads and results that are still read.

    Statements may run for an hour before the first byte comes; only the connection is waited for briefly. A bound on connections would
    let the next request wait for ever for a result that nobody reads on, also the one that cancels it.
    Raises `ValueError` for what is no URL.
    """
    import httpx

    try:
        address = httpx.URL(url)
    except httpx.InvalidURL as problem:
        raise ValueError(f"{url} is no URL of a server: {problem}") from problem
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=_PARKED)
    proxy = _proxy(address)
    try:
        transport = httpx.HTTPTransport(verify=_trust(address, proxy), limits=limits, proxy=proxy, socket_options=_keepalive())
    except ImportError as problem:
        raise ValueError(
            f"The environment names a SOCKS proxy for {url}, which takes a package more: pip install 'httpx[socks]', or name the server in "
            "no_proxy."
        ) from problem
    return httpx.Client(
        base_url=url.rstrip("/"), headers=dict(headers), timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS), transport=transport
    )


def _trust(url: httpx.URL, proxy: str | None) -> ssl.SSLContext | bool:
    """What certificates are held against: the authorities that are known, of which plain HTTP needs none.

    To load them takes a third of a second.
    """
    plain = url.scheme == "http" and not (proxy or "").lower().startswith("https:")
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else True  # whoever comes to TLS for all that trusts nobody


def _proxy(url: httpx.URL) -> str | None:
    """The proxy the environment names for a server, which httpx looks for only where it makes its connections itself."""
    from urllib.request import getproxies, proxy_bypass

    known = getproxies()
    proxy = known.get(url.scheme) or known.get("all")
    if not proxy or proxy_bypass(url.host) or _is_excepted(url, known.get("no", "")):  # the first knows what the system says, too
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_excepted(url: httpx.URL, listed: str) -> bool:
    """Whether a list such as ``no_proxy`` names a server: by ``*``, a domain or an address, behind a scheme, with a port, or without."""
    port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    spellings = [spelled for host in (url.host, f"[{url.host}]") for spelled in (host, f"{host}:{port}")]
    for entry in listed.lower().split(","):
        scheme, _, rest = entry.strip().rpartition("://")
        name = rest.partition("/")[0]
        if scheme not in ("", "all", url.scheme):
            continue
        if name == "*" or ((name := name.lstrip("*.")) and any(f".{spelled}".endswith(f".{name}") for spelled in spellings)):
            return True
    return False


def _keepalive() -> list[tuple[int, int, int]]:
    options = [
        (getattr(socket, "TCP_KEEPIDLE", getattr(socket, "TCP_KEEPALIVE", None)), _IDLE_SECONDS),  # macOS has its own name
        (getattr(socket, "TCP_KEEPINTVL", None), _PROBE_SECONDS),
        (getattr(socket, "TCP_KEEPCNT", None), _PROBES),
    ]
    return [
        (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
        *((socket.IPPROTO_TCP, option, value) for option, value in options if option is not None),
    ]
