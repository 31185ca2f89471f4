"""Which gateway session a client's calls belong to: that of its cookie, or, where it keeps none, that of its connection.

The connection of a call that another server passed on is that server's, for whichever clients it has: there the cookie alone says.
"""

from __future__ import annotations

import contextlib
import threading
from dataclasses import dataclass, field

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
    told: set[Owner] = field(default_factory=set)
    """Others of its principal on its connection who know that it is not theirs."""


class ClientSessions:
    """Sessions are opened when a client first needs one, so that those who only ask questions hold nothing."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._lock = threading.Lock()
        self._by_cookie: dict[str, _Client] = {}
        self._by_peer: dict[str, dict[Owner, _Client]] = {}
        """The rights of a principal may change on a connection, and proxies let several share one."""
        self._told: LRUCache[str, bool] = LRUCache(_MOST_REMEMBERED)
        """Cookies whose clients know that their session is over."""

    def find(self, call: Call) -> str | None:
        """The handle of the call's session, None where it has none.

        Raises `SessionNotExist` once where its session has ended, or is one of other rights than its principal comes with now: what it had
        SET is gone, and silence about that would be wrong answers.
        """
        with self._lock:
            client = self._client(call)
            if client is None:
                if self._loses(call):
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
                self._by_peer.setdefault(client.peer, {})[client.owner] = client
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
            clients = [client for clients in self._by_peer.values() for client in clients.values()]
        present = connected(port)
        for client in clients:
            if endpoint(client.peer) in present:
                continue
            if client.keeps_cookies:
                with self._lock:
                    self._leave_peer(client)
            else:
                self._end(client)

    def _client(self, call: Call) -> _Client | None:
        client: _Client | None = None
        if call.cookie is not None:
            client = self._by_cookie.get(call.cookie)
        elif PASSED_ON not in call.passed_on:
            clients = self._by_peer.get(call.peer, {})
            admitting = (other for other in reversed(clients.values()) if other.owner.admits(call.caller.owner))
            client = clients.get(call.caller.owner) or next(admitting, None)
        if client is None or not client.owner.admits(call.caller.owner):
            return None
        client.keeps_cookies |= call.cookie is not None
        return client

    def _loses(self, call: Call) -> bool:
        """Whether a call that has no session had one before and does not know yet that it is over; it knows from now on."""
        if call.cookie is not None:
            known = call.cookie in self._told
            self._told[call.cookie] = True
            return not known
        if PASSED_ON in call.passed_on:
            return False
        owner = call.caller.owner
        lost = [
            client
            for client in self._by_peer.get(call.peer, {}).values()
            if client.owner.principal == owner.principal and owner not in client.told
        ]
        for client in lost:
            client.told.add(owner)
        return bool(lost)

    def _end(self, client: _Client) -> None:
        self._forget(client)
        with contextlib.suppress(SessionNotExist):  # it was idle for too long
            self._gateway.close_session(client.handle)

    def _forget(self, client: _Client) -> None:
        with self._lock:
            self._told[client.cookie] = True
            self._by_cookie.pop(client.cookie, None)
            self._leave_peer(client)

    def _leave_peer(self, client: _Client) -> None:
        clients = self._by_peer.get(client.peer, {})
        if clients.get(client.owner) is client:
            del clients[client.owner]
            if not clients:
                del self._by_peer[client.peer]


def _over() -> SessionNotExist:
    return SessionNotExist(
        "This connection's session has ended, by being idle too long, with the server that held it or with rights that its token had, "
        "and with it what was SET, USEd or temporary in it. The next statement begins a new one."
    )
