"""Statements that run until they are let go, for tests of what happens meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gateway.operation import Operation
from sql.execution.results import ResultSet
from sql.statements.base import ExecutionContext


@dataclass
class Held:
    """A statement that runs until it is let go; deaf to cancels."""

    needs_spark: bool = False
    reached: threading.Event = field(default_factory=threading.Event)
    let_go: threading.Event = field(default_factory=threading.Event)
    freed: threading.Event = field(default_factory=threading.Event)
    asks: Callable[[ExecutionContext], object] = lambda context: None
    """What it does before it is held."""

    def run(self, context: ExecutionContext) -> ResultSet:
        self.asks(context)
        self.reached.set()
        assert self.let_go.wait(120)
        result = ResultSet.ok()
        result.on_close(self.freed.set)
        return result


class HeldStep:
    """A step of the commit core that is held where a commit comes to it, once; it is the core's hook."""

    def __init__(self) -> None:
        self.name = ""
        self.reached = threading.Event()
        self.let_go = threading.Event()

    def hold(self, name: str) -> None:
        self.name = name

    def __call__(self, name: str) -> None:
        if name == self.name:
            self.name = ""
            self.reached.set()
            assert self.let_go.wait(60)


def run_out(operation: Operation) -> None:
    """Let its time limit be over; the gateway finds it so by its next look."""
    limit = operation._limit
    assert limit is not None
    operation._limit = limit._replace(begun=limit.begun - limit.seconds)


def in_background(action: Callable[[], Any]) -> Callable[[], Any]:
    """Start an action; call what comes back to get its outcome."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(action())
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=run)
    thread.start()

    def join() -> Any:
        thread.join(120)
        assert outcome, "it has not ended in time"
        return outcome[0]

    return join
