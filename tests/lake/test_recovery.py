"""Recovery after a start, where what it asks fails."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from lake import recovery
from lake.recovery import Recovered
from model.errors import LakeError, TableDamaged, Unavailable


@pytest.mark.parametrize(
    ("problem", "lines"),
    [(TableDamaged("default.t", file="manifest-1", problem="is missing"), 1), (Unavailable("Postgres is away."), 0)],
)
def test_what_nobody_else_tells_is_told_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, problem: LakeError, lines: int
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(recovery, "_PAUSE_SECONDS", 0.0)
    tries: list[int] = []

    def finish(go_on: Callable[[], bool]) -> Recovered:
        assert go_on()
        tries.append(1)
        if len(tries) < 4:
            raise problem
        return Recovered()

    recovery._run(finish, threading.Event())
    assert len(tries) == 4
    assert len([record for record in caplog.records if record.name == recovery.__name__]) == lines
