"""A request's head: what is refused of it, and the WSGI environment made from it."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote_to_bytes

import orjson

from model.errors import LakeError
from server.sql.disconnect import CONNECTION, Client

MOST_HEAD_BYTES = 64 << 10
_MOST_HEADERS = 256
_QUOTED_SLASH = re.compile(rb"(?i)%2F")
_HOST = re.compile(rb"(?:\[[0-9A-Fa-f:.%]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(?::[0-9]*)?")
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"})
_RETRY_SECONDS = 5
_ONCE = frozenset({b"host", b"content-length", b"transfer-encoding", b"content-type", b"authorization"})


def _names_host(host: bytes) -> bool:
    """Whether it is an address, or a name as DNS has them: the app takes no other, and fails where it builds a link."""
    if not _HOST.fullmatch(host):
        return False
    *labels, last = host.partition(b":")[0].split(b".")
    return host.startswith(b"[") or (len(last) < 64 and all(0 < len(label) < 64 for label in labels))


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why the server itself answers a request, before any app sees it."""

    status: HTTPStatus
    detail: str
    retry_seconds: int | None = None

    def answer(self) -> bytes:
        """The whole answer; the connection is closed after it."""
        document = {"type": "about:blank", "title": self.status.phrase, "status": self.status.value, "detail": self.detail}
        body = orjson.dumps(document | {"errorClass": "BadRequest" if self.status == 400 else self.status.phrase.title().replace(" ", "")})
        head = f"HTTP/1.1 {self.status.value} {self.status.phrase}\r\nContent-Type: application/problem+json\r\n"
        if self.retry_seconds is not None:
            head += f"Retry-After: {self.retry_seconds}\r\n"
        return f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


def refused(status: HTTPStatus, detail: str, *, retry_seconds: int | None = None) -> Refusal:
    """A refusal; who is one too many is told when to come again."""
    if status is HTTPStatus.TOO_MANY_REQUESTS and retry_seconds is None:
        retry_seconds = _RETRY_SECONDS
    return Refusal(status=status, detail=detail, retry_seconds=retry_seconds)


def no_place(principal: str) -> Refusal:
    """The refusal of a request whose connection is one too many of its principal's."""
    return refused(
        HTTPStatus.TOO_MANY_REQUESTS,
        f"{principal} has as many connections as one principal may (http.connections-of-one), and all others of them are being answered. "
        "Nothing was done; try again once one has ended.",
    )


def not_kept(problem: Exception) -> Refusal:
    """The refusal of a request whose body cannot be kept, and why."""
    if isinstance(problem, LakeError):
        return refused(HTTPStatus(problem.status), problem.message)
    return refused(HTTPStatus.INTERNAL_SERVER_ERROR, "The server could not keep the request's body on its disk.")


@dataclass(slots=True)
class RequestHead:
    """The lines before a body, as they come."""

    url: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    size: int = 0
    method: str = ""
    version: str = "1.1"
    keep_alive: bool = True

    def add_url(self, part: bytes) -> None:
        """A part of the request's target."""
        self.size += len(part)
        if self.size <= MOST_HEAD_BYTES:
            self.url += part

    def add(self, name: bytes, value: bytes) -> None:
        """One header; what is past the limit is only counted."""
        self.size += len(name) + len(value) + 4
        if self.size <= MOST_HEAD_BYTES and len(self.headers) <= _MOST_HEADERS:
            self.headers.append((name.lower(), value.strip(b" \t")))

    def without_upgrade(self) -> bytes:
        """The head as it came, but for its offer of another protocol."""
        lines = [f"{self.method} {self.url.decode('latin-1')} HTTP/{self.version}".encode("latin-1")]
        lines += [b"%b: %b" % header for header in self.headers if header[0] not in (b"upgrade", b"http2-settings", b"connection")]
        return b"\r\n".join(lines) + b"\r\n\r\n"

    @property
    def too_large(self) -> bool:
        """Whether it is larger than is read."""
        return self.size > MOST_HEAD_BYTES or len(self.headers) > _MOST_HEADERS

    def value(self, name: bytes) -> bytes | None:
        """A header's first value."""
        return next((value for key, value in self.headers if key == name), None)

    @property
    def length(self) -> int | None:
        """How long the body says it is; None for one in chunks."""
        if self.chunked:
            return None
        return int(self.value(b"content-length") or 0)

    @property
    def chunked(self) -> bool:
        """Whether the body comes in chunks."""
        return self.value(b"transfer-encoding") is not None

    @property
    def expects_continue(self) -> bool:
        """Whether the client waits to be asked for the body."""
        return self.version == "1.1" and (self.value(b"expect") or b"").lower() == b"100-continue"

    def check(self) -> Refusal | None:
        """Why this request is not served; the parser has refused what is no HTTP already."""
        if self.too_large:
            return too_large_head()
        if self.version not in ("1.0", "1.1"):
            return refused(HTTPStatus.HTTP_VERSION_NOT_SUPPORTED, "This server speaks HTTP/1.0 and HTTP/1.1.")
        if self.method not in _METHODS:
            return refused(HTTPStatus.NOT_IMPLEMENTED, f"The method {self.method} is not known here.")
        names = [name for name, _ in self.headers]
        for name in _ONCE:
            if names.count(name) > 1:
                return refused(HTTPStatus.BAD_REQUEST, f"The request has more than one header {name.decode().title()}.")
        host = self.value(b"host")
        if host is None and self.version == "1.1":
            return refused(HTTPStatus.BAD_REQUEST, "The request has no Host header.")
        if host is not None and not _names_host(host):
            return refused(HTTPStatus.BAD_REQUEST, "The Host header names no host.")
        coding = self.value(b"transfer-encoding")
        if coding is not None and (coding.lower() != b"chunked" or self.version == "1.0"):
            return refused(HTTPStatus.NOT_IMPLEMENTED, "The only Transfer-Encoding known here is chunked, in HTTP/1.1.")
        target = self._target()
        if target is None or b"#" in self.url:
            return refused(HTTPStatus.BAD_REQUEST, "The request's target is no path.")
        return None

    def _target(self) -> bytes | None:
        """Path and query; a client that takes the server for a proxy names it first."""
        if self.url.startswith(b"/"):
            return self.url
        if self.url == b"*" and self.method == "OPTIONS":
            return self.url
        scheme, mark, rest = self.url.partition(b"://")
        if not mark or scheme.lower() not in (b"http", b"https"):
            return None
        return b"/" + rest.partition(b"/")[2]

    def environ(self, *, scheme: str, server: tuple[str, int], client: tuple[str, int], link: Client) -> dict[str, Any]:
        """What the app gets of it, but for the body."""
        target = self._target() or b"/"
        path, _, query = target.partition(b"?")
        plain = b"%2F".join(unquote_to_bytes(part) for part in _QUOTED_SLASH.split(path))
        environ: dict[str, Any] = {
            "REQUEST_METHOD": self.method,
            "SCRIPT_NAME": "",
            "PATH_INFO": plain.decode("latin-1"),
            "QUERY_STRING": query.decode("latin-1"),
            "REQUEST_URI": self.url.decode("latin-1"),
            "SERVER_NAME": server[0],
            "SERVER_PORT": str(server[1]),
            "SERVER_PROTOCOL": f"HTTP/{self.version}",
            "SERVER_SOFTWARE": "sluice",
            "REMOTE_ADDR": client[0],
            "REMOTE_PORT": str(client[1]),
            "wsgi.version": (1, 0),
            "wsgi.url_scheme": scheme,
            "wsgi.errors": sys.stderr,
            "wsgi.multithread": True,
            "wsgi.multiprocess": False,
            "wsgi.run_once": False,
            "wsgi.input_terminated": True,
            CONNECTION: link,
        }
        for name, value in self.headers:
            if b"_" in name:  # it would be read as the name with a dash, which a proxy may have taken care of
                continue
            key = name.decode("latin-1").upper().replace("-", "_")
            if key not in ("CONTENT_TYPE", "CONTENT_LENGTH"):
                key = f"HTTP_{key}"
            text = value.decode("latin-1")
            environ[key] = f"{environ[key]}{'; ' if key == 'HTTP_COOKIE' else ', '}{text}" if key in environ else text
        return environ


def too_large_head() -> Refusal:
    """The refusal of a head past the limit."""
    return refused(
        HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        f"The request's head is larger than {MOST_HEAD_BYTES} bytes or has more than {_MOST_HEADERS} headers.",
    )
