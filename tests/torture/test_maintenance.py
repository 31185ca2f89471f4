"""Tables look after themselves under load: no writer fails or waits for it, and kills lose, double and reorder nothing."""

from __future__ import annotations

import os

import pytest

from tests.fix_server import StartServer
from tests.torture.maintenance import MOST_FILES, run, side_by_side

SIDE_BY_SIDE_SECONDS = float(os.environ.get("SLUICE_TEST_SECONDS", "180"))
SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261121"))


@pytest.mark.torture
@pytest.mark.slow
def test_a_kill_while_files_are_merged(start_server: StartServer) -> None:
    run(start_server(), kills=1, seed=SEED, seconds=4, pause=0.1)


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_thirty_kills_while_files_are_merged(start_server: StartServer) -> None:
    most = run(start_server(), kills=30, seed=SEED, seconds=180)
    print(f"seed {SEED}: most files a bucket {most}")


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_writers_do_not_feel_it(start_server: StartServer) -> None:
    book, most = side_by_side(start_server(), seconds=SIDE_BY_SIDE_SECONDS, turns=6)
    for table in most:
        with_, without = book.p99(table), book.p99(f"{table}_only")
        rate = len(book.taken[table]) / SIDE_BY_SIDE_SECONDS
        print(f"{table}: {rate:.0f} rows/s, p99 {with_:.0f} ms, write-only {without:.0f} ms: {with_ / without:.2f}; {most[table]} files")
    assert max(most.values()) < MOST_FILES
