"""Small servers of the standard library, which tests start and stop."""

from __future__ import annotations

from socketserver import BaseServer
from threading import Thread

_LOOK_SECONDS = 0.02


def in_background(server: BaseServer) -> Thread:
    """Let a server answer on a thread of its own until its `shutdown`, which waits for the thread's next look at whether it is to end.

    By default that is half a second away.
    """
    thread = Thread(target=server.serve_forever, args=(_LOOK_SECONDS,), daemon=True)
    thread.start()
    return thread
