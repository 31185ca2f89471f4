"""TLS: the certificate and key every endpoint of the server shows, read anew when they are replaced on disk."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import time
from pathlib import Path

from model.errors import InvalidOption

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0
HANDSHAKE_SECONDS = 10.0
_CLIENT_HELLO = b"\x16"
PLAIN_ANSWER = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 52\r\nConnection: close\r\n\r\n"
    b"This port speaks HTTPS only; begin the URL with it.\n"
)
Stamp = tuple[tuple[int, int, int], ...]


class TlsFiles:
    """A certificate (with those between it and its root) and its key, as PEM files."""

    def __init__(self, certificate: Path, key: Path) -> None:
        """Read them; raises `InvalidOption` for files that cannot be read or do not belong together."""
        self._certificate = certificate
        self._key = key
        self._stamp = self._look()
        self._context = self._load()
        self._looked = time.monotonic()

    def context(self) -> ssl.SSLContext:
        """What a connection made now is secured with; files that were replaced by bad ones leave the old in force."""
        if time.monotonic() - self._looked > _LOOK_SECONDS:
            self._looked = time.monotonic()
            try:
                stamp = self._look()
                if stamp != self._stamp:
                    self._stamp = stamp
                    self._context = self._load()
                    _log.info("The certificate in %s was replaced and is used from now on", self._certificate)
            except InvalidOption as problem:
                _log.error("The certificate in force stays: %s", problem.message)
        return self._context

    def pem(self) -> tuple[bytes, bytes]:
        """Certificate and key as they are in the files."""
        return self._certificate.read_bytes(), self._key.read_bytes()

    def _look(self) -> Stamp:
        stamps = []
        for name, path in (("SLUICE_TLS_CERTIFICATE", self._certificate), ("SLUICE_TLS_KEY", self._key)):
            try:
                with path.open("rb") as file:
                    stat = os.fstat(file.fileno())
            except OSError as problem:
                raise InvalidOption(f"{name}: {path} cannot be read: {problem.strerror}.") from None
            stamps.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
        return tuple(stamps)

    def _load(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._certificate, self._key, password=_no_passphrase)
        except _Encrypted:
            raise InvalidOption(f"SLUICE_TLS_KEY: the key in {self._key} has a passphrase; give it without one.") from None
        except ssl.SSLError as problem:
            if problem.reason == "KEY_VALUES_MISMATCH":
                raise InvalidOption(f"The key in {self._key} does not belong to the certificate in {self._certificate}.") from None
            raise InvalidOption(
                f"{self._certificate} and {self._key} are no certificate and key in PEM form ({problem.reason or problem})."
            ) from None
        except OSError as problem:
            raise InvalidOption(f"{self._certificate} or {self._key} cannot be read: {problem.strerror}.") from None
        return context


class _Encrypted(Exception):
    """OpenSSL asked for a passphrase, which it would otherwise do on the terminal."""


def _no_passphrase() -> str:
    raise _Encrypted


def speaks_tls(connection: socket.socket) -> bool:
    """Whether a client's first byte begins a handshake, or nothing will come; raises `BlockingIOError` where none is there yet."""
    return peek(connection) in (_CLIENT_HELLO, b"")


def peek(connection: socket.socket) -> bytes:
    """The next byte as it came over the wire, left where it is; empty where the peer has closed."""
    return connection.recv(1, socket.MSG_PEEK)


def all_sent(transport: asyncio.Transport) -> bool:
    """Whether the kernel has all that was written, over TLS or not; False, too, where nobody can tell.

    A transport of TLS does not count what it has encrypted, which waits in the one below it.
    """
    if transport.get_write_buffer_size():
        return False
    if transport.get_extra_info("sslcontext") is None:
        return True
    below = getattr(getattr(transport, "_ssl_protocol", None), "_transport", None)  # nothing public leads to it
    return below is not None and not below.get_write_buffer_size()
