"""What values of server settings may look like."""

from __future__ import annotations

import ipaddress
import socket
from urllib.parse import urlsplit

from model.options.option import Parser
from model.text.whole_number import whole_number


def address() -> Parser[tuple[str, int]]:
    """``host:port``; an IPv6 host stands in brackets."""

    def parse(raw: str) -> tuple[str, int]:
        host, _, text = raw.rpartition(":")
        port = whole_number(text, most=65535)
        if not host or port is None:
            raise ValueError("host:port is expected, such as 127.0.0.1:8083")
        return host.removeprefix("[").removesuffix("]"), port

    def show(value: tuple[str, int]) -> str:
        return f"[{value[0]}]:{value[1]}" if ":" in value[0] else f"{value[0]}:{value[1]}"

    return Parser("host:port", parse, show)


def directories() -> Parser[tuple[str, ...]]:
    """Paths, parted by commas."""
    return Parser("paths", lambda raw: tuple(part.strip() for part in raw.split(",") if part.strip()), ",".join)


def pairs() -> Parser[tuple[tuple[str, str], ...]]:
    """``key=value``, parted by commas."""

    def parse(raw: str) -> tuple[tuple[str, str], ...]:
        parsed = []
        for part in filter(str.strip, raw.split(",")):
            key, equals, value = part.partition("=")
            if not equals or not key.strip():
                raise ValueError("key=value pairs parted by commas are expected")
            parsed.append((key.strip(), value.strip()))
        return tuple(parsed)

    return Parser("key=value pairs", parse, lambda value: ",".join(f"{key}={written}" for key, written in value))


def packages() -> Parser[tuple[str, ...]]:
    """Maven coordinates, parted by commas."""

    def parse(raw: str) -> tuple[str, ...]:
        coordinates = tuple(part.strip() for part in raw.split(",") if part.strip())
        if wrong := next((coordinate for coordinate in coordinates if len(list(filter(None, coordinate.split(":")))) != 3), None):
            raise ValueError(f"group:artifact:version is expected, not {wrong}")
        return coordinates

    return Parser("packages", parse, ",".join)


def origins() -> Parser[tuple[str, ...]]:
    """Origins as browsers spell them, parted by commas, or ``*``."""

    def parse(raw: str) -> tuple[str, ...]:
        addresses = tuple(part.strip() for part in raw.split(",") if part.strip())
        for origin in addresses:
            parts = urlsplit(origin)
            if origin != "*" and (
                parts.scheme not in ("http", "https") or not parts.netloc or f"{parts.scheme}://{parts.netloc}" != origin
            ):
                raise ValueError(f"{origin!r} is no origin; scheme, host and port are one, as in https://app.example.org")
        return addresses

    return Parser("origins", parse, ",".join)


def words() -> Parser[tuple[str, ...]]:
    """Words, parted by commas."""
    return Parser("words", lambda raw: tuple(part.strip() for part in raw.split(",") if part.strip()), ",".join)


def issuer_url() -> Parser[str]:
    """An ``https`` URL; ``http`` on this machine only, where nobody else can answer for it."""

    def parse(raw: str) -> str:
        parts = urlsplit(raw.strip())
        safe = parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
        if not safe or not parts.netloc or parts.query or parts.fragment:
            raise ValueError("an https URL is expected, such as https://login.example.org/realms/data")
        return raw.strip()

    return Parser("URL", parse, str)


def http_url() -> Parser[str]:
    """An ``http`` or ``https`` URL of a server, without a path, a user or a password."""

    def parse(raw: str) -> str:
        parts = urlsplit(raw.strip())
        beside = parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0 or beside:  # a port that is none raises itself
            raise ValueError("an http or https URL of host and port alone is expected, such as https://sluice-1.internal:8083")
        return raw.strip().rstrip("/")

    return Parser("URL", parse, str)


def address_or_off() -> Parser[tuple[str, int] | None]:
    """``host:port``, or ``off`` for None."""
    plain = address()
    return Parser(
        "host:port or off",
        lambda raw: None if raw.strip().lower() == "off" else plain.parse(raw),
        lambda value: "off" if value is None else plain.show(value),
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def reached_at(host: str, port: int, *, secure: bool) -> str:
    """Where other servers reach one that listens there: by this machine's name, unless it listens at one address only."""
    host = socket.gethostname() if host in ("0.0.0.0", "::") else host
    return _uri("https" if secure else "http", host, port)


def own_uri(host: str, port: int, *, scheme: str = "http") -> str:
    """Where this machine's own processes reach a server that listens there."""
    return _uri(scheme, {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), port)


def _uri(scheme: str, host: str, port: int) -> str:
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
