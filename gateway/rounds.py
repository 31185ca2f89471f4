"""What a gateway looks at again and again, each on a thread of its own: what frees files may wait for a store, time limits may not."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

_log = logging.getLogger(__name__)
_TICK_SECONDS = 0.5


class Rounds:
    """Runs each work every half second, from `start` to `close`."""

    def __init__(self, works: Mapping[str, Callable[[], object]]) -> None:
        """``works`` by what each does, as its thread is called."""
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(name, work), name=f"sluice-gateway-{name}", daemon=True)
            for name, work in works.items()
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Begin no further round."""
        self._stopping.set()

    def close(self) -> None:
        """Wait for the rounds at work to end."""
        self.stop()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()

    def _run(self, name: str, work: Callable[[], object]) -> None:
        while not self._stopping.wait(_TICK_SECONDS):
            try:
                work()
            except Exception:  # the rounds go on as long as the gateway lives, whatever one runs into
                _log.exception("A round of the gateway's failed: %s", name)
