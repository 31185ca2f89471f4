"""Jobs whose server or Spark is killed between any two writes of their first two batches: nothing lost, nothing doubled."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.shim import server_below
from tests.torture.first_batches import SERVER, FirstBatches, Victim

pytestmark = pytest.mark.spark
_FIRST = int(os.environ.get("SLUICE_TEST_FIRST", "1"))
_EVERY = int(os.environ.get("SLUICE_TEST_EVERY", "1"))
_JOBS = int(os.environ.get("SLUICE_TEST_JOBS", "3"))


@pytest.fixture(scope="module")
def first_batches(tmp_path_factory: pytest.TempPathFactory, shim_library: Path) -> Iterator[FirstBatches]:
    """A server whose processes are all under the shim."""
    with server_below(shim_library, tmp_path_factory.mktemp("first")) as (server, shim):
        yield FirstBatches(server, shim)


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_a_kill_at_a_write_of_the_first_batch(first_batches: FirstBatches) -> None:
    struck = first_batches.strike(12, Victim.SERVER)
    assert (struck.came, struck.died) == (True, SERVER)


@pytest.mark.torture
@pytest.mark.timeout(14400)
@pytest.mark.parametrize("sends", [False, True], ids=["writes", "writes and messages"])
@pytest.mark.parametrize("mode", ["default", "latest"])
@pytest.mark.parametrize("victim", list(Victim), ids=lambda victim: victim.name)
def test_a_kill_at_every_write_of_the_first_two_batches(first_batches: FirstBatches, victim: Victim, mode: str, sends: bool) -> None:
    """``SLUICE_TEST_FIRST`` and ``SLUICE_TEST_EVERY`` take a part."""
    died: Counter[str] = Counter()
    where: Counter[str] = Counter()
    at = _FIRST
    while (struck := first_batches.strike(at, victim, mode=mode, sends=sends, jobs=_JOBS)).came:
        died[struck.died] += 1
        where[struck.where] += 1
        print(f"call {at}, {struck.where}: {struck.died} died", flush=True)
        at += _EVERY
    told = f"{victim.value}, {mode}: {at - _FIRST} calls, {sum(died.values())} deaths of {dict(died)} beside {_JOBS} jobs each"
    print(told, *(f"{times} × {path}" for path, times in sorted(where.items())), sep="\n")
    assert died
