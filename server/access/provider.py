"""What an OpenID Connect issuer publishes: one fetch at a time, which nobody waits for but a few who need what it brings."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx
import orjson
from joserfc import jwk
from joserfc.errors import JoseError

from model.errors import Unavailable

_log = logging.getLogger(__name__)
TIMEOUT_SECONDS = 5.0
_KEY_TYPES = ("RSA", "EC", "OKP")
_LONGEST_DOCUMENT = 1 << 20
_FRESH_SECONDS = 300.0
"""Keys are fetched anew after so long: one that the issuer withdrew counts no longer."""
_STALE_SECONDS = 3600.0
"""So long they count while the issuer cannot be asked."""
_AGAIN_SECONDS = 10.0
"""Between the end of a fetch and the next one, whatever keys tokens name."""
_MOST_WAITING = 8
"""So many threads wait for a fetch at once: a token that makes one wait need not be valid, and requests of others need threads."""
_DISCOVERY = "/.well-known/openid-configuration"


@dataclass(frozen=True, slots=True)
class Provider:
    """What the issuer published, and when it was fetched (monotonic)."""

    document: Mapping[str, Any]
    keys: tuple[jwk.Key, ...]
    at: float

    def fresh(self) -> bool:
        """Whether it counts without a look at the issuer."""
        return time.monotonic() - self.at < _FRESH_SECONDS

    def stale(self) -> bool:
        """Whether it counts no longer, even where the issuer cannot be asked."""
        return time.monotonic() - self.at > _STALE_SECONDS


class PublishedProvider:
    """The newest that is known of what one issuer publishes."""

    def __init__(self, issuer: str) -> None:
        self._issuer = issuer
        self._lock = threading.Condition()
        self._latest: Provider | None = None
        self._fetching = False
        self._ended = -_AGAIN_SECONDS
        """When the last fetch ended."""
        self._problem: object = ""
        """Why it failed."""
        self._waiting = 0

    @property
    def latest(self) -> Provider | None:
        """What is known now, however old."""
        return self._latest

    def get(self, *, beyond: Provider | None = None) -> Provider:
        """What the issuer publishes, fetched anew where it is old, or where something newer than ``beyond`` is wanted.

        Whoever finds it old waits for the fetch; while that runs others go on with what is known. Raises `Unavailable` at once where
        nothing that counts is known and enough wait already, or the last fetch failed a moment ago.
        """
        with self._lock:
            known = self._latest
            if known is not None and known.fresh() and known is not beyond:
                return known
            needed = known is None or known is beyond or known.stale()
            if self._begin() or (self._fetching and needed):
                if self._waiting < _MOST_WAITING:
                    self._wait(known)
                elif needed:
                    raise self.away("it is being asked, and enough requests wait for its answer")
            document = self._latest
            if document is None or document.stale():
                raise self.away(self._problem or "it has not answered yet")
            return document

    def away(self, problem: object) -> Unavailable:
        """The error that tells that the issuer cannot be asked."""
        return Unavailable(
            f"The issuer {self._issuer} cannot be asked ({problem}); try again soon. Tokens made by this server work meanwhile."
        )

    def _begin(self) -> bool:
        """Begin a fetch where none runs or ended just now; whether it was begun."""
        if self._fetching or time.monotonic() - self._ended < _AGAIN_SECONDS:
            return False
        self._fetching = True
        try:
            threading.Thread(target=self._renew, name="sluice-issuer", daemon=True).start()
        except RuntimeError as problem:  # no thread can be had
            self._fetching = False
            raise self.away(problem) from None
        return True

    def _wait(self, known: Provider | None) -> None:
        """Wait until the fetch has ended or its time is over."""
        self._waiting += 1
        try:
            if not self._lock.wait_for(lambda: not self._fetching or self._latest is not known, TIMEOUT_SECONDS):
                self._problem = "it does not answer"
        finally:
            self._waiting -= 1

    def _renew(self) -> None:
        fetched: Provider | None = None
        problem: object = ""
        try:
            fetched = _fetch(self._issuer)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, JoseError) as failed:
            _log.warning("The keys of the issuer %s could not be fetched: %s", self._issuer, failed)
            problem = failed
        except BaseException as bug:
            problem = f"{type(bug).__name__}: {bug}"
            raise
        finally:
            with self._lock:
                self._latest = fetched or self._latest
                self._problem = problem
                self._fetching = False
                self._ended = time.monotonic()
                self._lock.notify_all()


def _fetch(issuer: str) -> Provider:
    until = time.monotonic() + TIMEOUT_SECONDS
    with httpx.Client(timeout=TIMEOUT_SECONDS, follow_redirects=False) as client:
        document = _document(client, issuer.rstrip("/") + _DISCOVERY, until)
        if document.get("issuer") != issuer:
            raise ValueError(f"it calls itself {document.get('issuer')!r}")
        where = document.get("jwks_uri")
        if not isinstance(where, str):
            raise ValueError("its document names no jwks_uri")
        published = _document(client, where, until).get("keys")
    if not isinstance(published, list):
        raise ValueError("its keys are no list")
    keys = []
    for key in published:
        if isinstance(key, dict) and key.get("kty") in _KEY_TYPES and key.get("use", "sig") == "sig":
            try:
                keys.append(jwk.import_key(key))
            except (JoseError, ValueError):  # of a kind that is not known here; the others count
                _log.info("A key of the issuer %s is of no kind that is known here", issuer)
    return Provider(document, tuple(keys), time.monotonic())


def _document(client: httpx.Client, url: str, until: float) -> dict[str, Any]:
    with client.stream("GET", url) as answer:
        answer.raise_for_status()
        body = bytearray()
        for piece in answer.iter_bytes():
            body += piece
            if len(body) > _LONGEST_DOCUMENT:
                raise ValueError(f"{url} answers more than {_LONGEST_DOCUMENT} bytes")
            if time.monotonic() > until:
                raise ValueError(f"{url} answers too slowly")
    document = orjson.loads(bytes(body))
    if not isinstance(document, dict):
        raise ValueError(f"{url} answers no JSON object")
    return document
