"""Kill the server under load again and again, and verify everything each time it is back."""

from __future__ import annotations

import random
import time

from tests.e2e.agreement import assert_agreement, embedded_dsn
from tests.e2e.load import Insert, Load, create, insert_until_known, whole_inserts
from tests.running import RunningServer

TABLE = "default.t"


def run(server: RunningServer, *, kills: int, seed: int, longest: float) -> None:
    """``kills`` times: load, kill -9 at a random moment, start, verify. Half of the unanswered inserts are repeated under their keys."""
    moments = random.Random(seed)
    create(server, TABLE)
    certain: set[Insert] = set()
    possible: set[Insert] = set()
    for number in range(kills):
        load = Load(server, TABLE, clients=16, inserts=1_000_000, readers=1, first=number * 100).start()
        time.sleep(moments.uniform(0.05, longest))
        server.kill()
        load.stop()
        where = f"seed {seed}, kill {number}"
        assert not load.book.problems, f"{where}: {load.book.problems[:3]}"
        server.start()
        certain |= load.book.acknowledged
        possible |= load.book.unknown
        _verify(server, certain, possible, where)
        if number % 10 == 9 or number == kills - 1:  # a killed server's claims on its keys run out after a while
            for what in sorted(possible - certain)[::2]:
                insert_until_known(server, TABLE, what)
                certain.add(what)
            _verify(server, certain, possible, where)


def _verify(server: RunningServer, certain: set[Insert], possible: set[Insert], where: str) -> None:
    found = whole_inserts(server, TABLE)
    assert certain <= found, f"{where}: acknowledged and lost: {sorted(certain - found)[:5]}"
    assert found <= certain | possible, f"{where}: never sent: {sorted(found - certain - possible)[:5]}"
    assert server.value(f"SELECT COUNT(*) FROM {TABLE}") == 3 * len(found)
    if found:
        assert_agreement(embedded_dsn(server), server, TABLE)
