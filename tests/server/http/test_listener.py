"""Thousands of connections that are overdue at the same moment do not hold up whoever asks just then."""

from __future__ import annotations

import asyncio
import socket
from typing import Any, cast

from server.http.gate import Gate
from server.http.listener import Listener


class _Idle:
    """A connection whose time is over; what ends it is counted."""

    ended = 0

    def __init__(self, deadline: float) -> None:
        self.deadline = deadline

    def overdue(self) -> None:
        _Idle.ended += 1


def test_those_that_are_overdue_together_end_some_at_a_time() -> None:
    asyncio.run(_look())


async def _look() -> None:
    with socket.create_server(("127.0.0.1", 0)) as bound:
        listener = Listener(bound, cast(Any, None), Gate(100_000, 100_000), None)
        crowd = [_Idle(deadline=0.0) for _ in range(1000)]
        late = _Idle(deadline=1e18)
        listener._open = cast(Any, {*crowd, late})
        _Idle.ended = 0
        listener._look()
        turns = [_Idle.ended]
        while _Idle.ended < 1000 and len(turns) < 1000:
            await asyncio.sleep(0)  # somebody else's turn
            turns.append(_Idle.ended)
        steps = [after - before for before, after in zip([0, *turns], turns, strict=False)]
        assert max(steps) <= 64
        assert _Idle.ended == 1000, "and the one that has time left stays"
