"""Answers that are made when rows have come: until then they hold no thread."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from flask import Response, current_app, request, stream_with_context

from server.sql.disconnect import CONNECTION, WAITING
from sql.execution.results import Waiting

Make = Callable[[bool], bytes | None]
"""The answer's body, None where it is too early; told whether the time is over, where it must be made."""


def can_be_held() -> bool:
    """Whether the server that runs the app lets answers wait; a test that calls the app does not."""
    return CONNECTION in request.environ


def held(waiting: Waiting, make: Make, *, seconds: float, content_type: str) -> Response:
    """Answer 200 with what is made as soon as there is something, after so many seconds in any case.

    A failure to make it is answered as if the view had raised it.
    """
    waiting.never_wait()
    until = _Until(waiting, time.monotonic() + seconds)
    request.environ[WAITING] = until
    answer = _HeldResponse(content_type=content_type)
    answer.response = stream_with_context(_made(answer, make, until))
    return answer


def _made(answer: _HeldResponse, make: Make, until: _Until) -> Iterator[bytes]:
    try:
        while (body := make(until.over)) is None:
            yield b""
    except Exception as error:
        failure = current_app.process_response(current_app.make_response(current_app.handle_user_exception(error)))
        answer.start_response(failure.status, failure.headers.to_wsgi_list(), sys.exc_info())
        body = failure.get_data()
    yield body


class _HeldResponse(Response):
    """Nothing of it goes out before its body does, so that its head may still be another."""

    start_response: Callable[..., Any]

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Any:
        self.start_response = start_response
        return super().__call__(environ, start_response)


class _Until:
    """Waiting up to a moment."""

    def __init__(self, waiting: Waiting, at: float) -> None:
        self._waiting = waiting
        self._at = at

    @property
    def over(self) -> bool:
        """Whether the moment has come."""
        return time.monotonic() >= self._at

    def never_wait(self) -> None:
        self._waiting.never_wait()

    def call_when_due(self, call: Callable[[], None]) -> float:
        return min(self._waiting.call_when_due(call), max(0.0, self._at - time.monotonic()))
