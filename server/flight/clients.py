"""Which gateway session a client's calls belong to: that of its cookie, or, where it keeps none, that of its connection.

The connection of a call that another server passed on is that server's, for whichever clients it has: there the cookie alone says.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass

from cachetools import LRUCache

from gateway.gateway import Gateway
from lake import Owner
from model.errors import SessionNotExist
from model.work.handle import new_handle
from server.flight.calls import Call
from server.flight.connections import connected, endpoint
from server.flight.forward import PASSED_ON

_MOST_REMEMBERED = 10_000


@dataclass(slots=True, kw_only=True)
class _Client:
    handle: str
    owner: Owner
    cookie: str
    peer: str
    keeps_cookies: bool = False


class ClientSessions:
    """Sessions are opened when a client first needs one, so that those who only ask questions hold nothing."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._lock = threading.Lock()
        self._by_cookie: dict[str, _Client] = {}
        self._by_peer: dict[str, _Client] = {}
        self._told: LRUCache[str, bool] = LRUCache(_MOST_REMEMBERED)
        """Cookies whose clients know that their session is over."""

    def find(self, call: Call) -> str | None:
        """The handle of the call's session, None where it has none.

        Raises `SessionNotExist` once where its session has ended: what it had SET is gone, and silence about that would be wrong answers.
        """
        with self._lock:
            client = self._client(call)
            if client is None:
                if call.cookie is not None and call.cookie not in self._told:
                    self._told[call.cookie] = True
                    raise _over()
                return None
        try:
            self._gateway.session_properties(client.handle)
        except SessionNotExist:
            self._forget(client)
            raise _over() from None
        return client.handle

    def open(self, call: Call) -> str:
        """The handle of the call's session, which is opened where it has none."""
        session = self.find(call)
        if session is not None:
            return session
        handle = self._gateway.open_session("flight", caller=call.caller)
        client = _Client(handle=handle, owner=call.caller.owner, cookie=new_handle(self._gateway.limits.server), peer=call.peer)
        with self._lock:
            self._by_cookie[client.cookie] = client
            if PASSED_ON not in call.passed_on:
                self._by_peer[client.peer] = client
        call.set_cookie(client.cookie)
        return handle

    def close(self, call: Call) -> bool:
        """End the call's session; False where it has none."""
        with self._lock:
            client = self._client(call)
        if client is None:
            return False
        self._end(client)
        return True

    def tend(self, port: int) -> None:
        """End the sessions of connections that are no more, except those of clients who name them by cookie."""
        with self._lock:
            if not self._by_peer:
                return
            clients = list(self._by_peer.values())
        present = connected(port)
        for client in clients:
            if endpoint(client.peer) in present:
                continue
            if client.keeps_cookies:
                with self._lock:
                    self._by_peer.pop(client.peer, None)
            else:
                self._end(client)

    def _client(self, call: Call) -> _Client | None:
        client: _Client | None = None
        if call.cookie is not None:
            client = self._by_cookie.get(call.cookie)
        elif PASSED_ON not in call.passed_on:
            client = self._by_peer.get(call.peer)
        if client is None or not client.owner.admits(call.caller.owner):
            return None
        client.keeps_cookies |= call.cookie is not None
        return client

    def _end(self, client: _Client) -> None:
        self._forget(client)
        with contextlib.suppress(SessionNotExist):  # it was idle for too long
            self._gateway.close_session(client.handle)

    def _forget(self, client: _Client) -> None:
        with self._lock:
            self._told[client.cookie] = True
            self._by_cookie.pop(client.cookie, None)
            if self._by_peer.get(client.peer) is client:
                del self._by_peer[client.peer]


def _over() -> SessionNotExist:
    return SessionNotExist(
        "This connection's session has ended, by being idle too long or with the server that held it, and with it what was SET, USEd or "
        "temporary in it. The next statement begins a new one."
    )
