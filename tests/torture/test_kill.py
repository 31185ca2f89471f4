"""Kill -9 at random moments under load: every acknowledged row is there once, none is there in part, files and Postgres agree."""

from __future__ import annotations

import os

import pytest

from tests.fix_server import StartServer
from tests.torture.campaign import run

SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261121"))


@pytest.mark.torture
@pytest.mark.slow
def test_a_kill(start_server: StartServer) -> None:
    """`make test` kills a server under statements of every kind: `tests/torture/kills/test_kills.py`."""
    run(start_server(), kills=1, seed=SEED, longest=2.0)


@pytest.mark.torture
@pytest.mark.timeout(7200)
def test_fifty_kills(start_server: StartServer) -> None:
    run(start_server(), kills=50, seed=SEED + 1, longest=4.0)
