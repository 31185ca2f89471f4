"""TLS: the certificate and key every door of the server shows, read anew when they are replaced on disk."""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import ssl
import time
from pathlib import Path
from typing import IO, Any

from cheroot.makefile import StreamReader, StreamWriter
from cheroot.ssl import Adapter

from model.errors import InvalidOption

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 1.0
_HANDSHAKE_SECONDS = 10.0
_CLIENT_HELLO = b"\x16"
_PLAIN_ANSWER = (
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
        found = []
        for name, path in (("SLUICE_TLS_CERTIFICATE", self._certificate), ("SLUICE_TLS_KEY", self._key)):
            try:
                with path.open("rb") as file:
                    stat = os.fstat(file.fileno())
            except OSError as problem:
                raise InvalidOption(f"{name}: {path} cannot be read: {problem.strerror}.") from None
            found.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
        return tuple(found)

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


class TlsAdapter(Adapter):
    """Wraps cheroot's connections; hands are shaken by the thread that serves one, so that a slow client keeps nobody out."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files

    def bind(self, sock: socket.socket) -> socket.socket:
        """The listening socket stays as it is."""
        return sock

    def wrap(self, sock: socket.socket) -> tuple[ssl.SSLSocket, dict[str, Any]]:
        """A socket that has not shaken hands yet, and nothing for the environment."""
        return self._files.context().wrap_socket(sock, server_side=True, do_handshake_on_connect=False), {}

    def get_environ(self) -> dict[str, Any]:
        """Nothing of TLS is told to the app but the scheme."""
        return {}

    def makefile(self, sock: ssl.SSLSocket, mode: str = "r", bufsize: int = 16384) -> IO[bytes]:
        """What reads or writes a connection."""
        made: IO[bytes] = _Reader(sock, mode, bufsize) if "r" in mode else StreamWriter(sock, mode, bufsize)
        return made


class _Reader(StreamReader):
    """Knows of bytes that were decrypted and not read yet: no selector would tell of them."""

    def __init__(self, sock: ssl.SSLSocket, mode: str, bufsize: int) -> None:
        super().__init__(sock, mode, bufsize)
        self._tls = sock

    def has_data(self) -> bool:
        return bool(super().has_data()) or self._tls.pending() > 0  # type: ignore[no-untyped-call] # cheroot has no types here


def shake_hands(connection: ssl.SSLSocket) -> bool:
    """Agree on keys with a new client; False where it cannot be. One that speaks plain HTTP is told so."""
    usual = connection.gettimeout()
    connection.settimeout(_HANDSHAKE_SECONDS)
    try:
        if peek(connection) not in (_CLIENT_HELLO, b""):
            _answer_plainly(connection)
            return False
        connection.do_handshake()
    except (OSError, ValueError) as problem:  # a scanner, a client that does not trust the certificate, or one that left
        _log.debug("TLS was not agreed on: %s", problem)
        return False
    connection.settimeout(usual)
    return True


def peek(connection: socket.socket) -> bytes:
    """The next byte as it came over the wire, left where it is; empty where the peer has closed."""
    return socket.socket.recv(connection, 1, socket.MSG_PEEK)  # an SSLSocket's own refuses to peek


def _answer_plainly(connection: ssl.SSLSocket) -> None:
    with contextlib.suppress(OSError), socket.socket(fileno=os.dup(connection.fileno())) as plain:
        plain.settimeout(_HANDSHAKE_SECONDS)
        plain.recv(65536)  # unread bytes would turn the close into a reset, which takes the answer along
        plain.sendall(_PLAIN_ANSWER)
