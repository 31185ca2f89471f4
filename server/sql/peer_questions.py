"""Questions to several servers of the catalog at the same time, of which each gets a few at once.

One that hangs holds so many threads and connections and no more, however often it is asked; further questions wait for their turn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

MOST_AT_ONCE = 8
"""So many questions one server gets at the same time."""
Answer = TypeVar("Answer")


class PeerQuestions:
    """Those of one server."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: dict[int, ThreadPoolExecutor] = {}
        """By the number of the server that is asked."""

    def ask(self, questions: Mapping[int, Callable[[], Answer]]) -> dict[Future[Answer], int]:
        """Ask each server, by its number, what is to be asked of it; one that is cancelled before its turn is not asked.

        The threads for servers that are not among them end.
        """
        with self._lock:
            for number in self._threads.keys() - questions.keys():
                self._threads.pop(number).shutdown(wait=False)
            return {self._threads_for(number).submit(question): number for number, question in questions.items()}

    def _threads_for(self, number: int) -> ThreadPoolExecutor:
        if number not in self._threads:
            self._threads[number] = ThreadPoolExecutor(MOST_AT_ONCE, thread_name_prefix=f"sluice-ask-{number}")
        return self._threads[number]
