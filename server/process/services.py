"""The long-lived objects requests work with."""

from __future__ import annotations

import sys
import threading
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from flask import current_app, has_request_context, request

from gateway.gateway import Gateway
from gateway.operation import STOP_SECONDS, Operation, OperationState
from lake import Caller
from lake.waiting_places import WaitingPlaces
from model.text.file_name import hide_places
from server.access.data_tokens import DataTokens
from server.settings.options import THREADS
from server.settings.settings import Settings

if TYPE_CHECKING:
    from lake.peers import Peers
    from server.access.oidc import OidcIssuer

EXTENSION = "sluice"
AT_ONCE = "X-Sluice-At-Once"
"""In a request that another server passes on and has no thread to wait for."""
CANCEL_SECONDS = STOP_SECONDS + 1.0
"""So long who cancels a statement waits at most for its end, where it commits at that moment."""
_PROGRAM = Path(__file__).parents[2]
"""Where the modules of the server lie."""


class FlightPort:
    """The port of Flight SQL, which is known once it listens."""

    def __init__(self) -> None:
        self.port: int | None = None

    def __call__(self) -> int | None:
        """None where the server has no Flight SQL."""
        return self.port


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """All that a view may use."""

    gateway: Gateway
    settings: Settings
    peers: Peers | None = None
    """The other servers of the catalog; None where nobody asks them."""
    flight_port: FlightPort = field(default_factory=FlightPort)
    """Where this server speaks Flight SQL, once it does."""
    stopping: threading.Event = field(default_factory=threading.Event)
    waiting: WaitingPlaces = field(default_factory=WaitingPlaces)
    """Of requests that wait until a statement has ended."""
    waiting_commits: WaitingPlaces = field(default_factory=WaitingPlaces)
    """Of clients' commits that lost a race and wait for their turns."""
    data_tokens: DataTokens = field(init=False)
    oidc: OidcIssuer | None = field(init=False)
    """The issuer whose tokens are taken, too."""

    def stop_waiting(self) -> None:
        """Let requests that wait for news be answered with what there is, now and from now on: the server ends."""
        self.stopping.set()
        self.gateway.lake.wake_waiting()

    def may_wait(self, caller: Caller) -> AbstractContextManager[bool]:
        """Whether a request may hold its thread until a statement has ended: a quarter of the threads may be held so."""
        if has_request_context() and AT_ONCE in request.headers:
            return nullcontext(False)
        return self.waiting.place(caller.principal, self.settings[THREADS] // 4)

    def cancel(self, operation: Operation, caller: Caller) -> bool:
        """Stop a statement, and wait for its end where it commits at that moment and a thread may; False where it ended by itself."""
        stopped = operation.cancel()
        with self.may_wait(caller) as may:
            operation.wait(CANCEL_SECONDS if may else 0.0)
        return stopped and operation.state is not OperationState.FINISHED

    def may_wait_for_turn(self, caller: Caller) -> AbstractContextManager[bool]:
        """The same of a client's commit that lost a race, until its turn comes."""
        return self.waiting_commits.place(caller.principal, self.settings[THREADS] // 4)

    def __post_init__(self) -> None:
        object.__setattr__(self, "data_tokens", DataTokens(self.settings))
        hide_places(self.settings.warehouse, str(self.settings.data), *self.settings.import_dirs, sys.prefix, str(_PROGRAM))
        issuer = None
        if self.settings.oidc is not None:
            from server.access.oidc import OidcIssuer

            issuer = OidcIssuer(self.settings.oidc)
        object.__setattr__(self, "oidc", issuer)
        self.gateway.lake.access.issuer = issuer


def services() -> Services:
    """The services of the app that answers the present request."""
    services_of_app = current_app.extensions[EXTENSION]
    assert isinstance(services_of_app, Services)
    return services_of_app
