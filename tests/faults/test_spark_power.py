"""The power goes while Spark writes: what it wrote is there whole or not at all, as clients were told, and the server begins again.

All of it is in `make torture`; `make test` lets the power go under what is written here (`test_system_calls`), and asks of what Spark
writes whether it is on disk before Postgres is told (`test_spark`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import pytest

from tests.faults.below import EVERY, FIRST
from tests.faults.disk import Left
from tests.faults.shim import server_below
from tests.faults.spark_power import PowerCuts
from tests.faults.spark_statements import BULK, DELETE, ERASE, MERGE, OVERWRITE, SORT, UPDATE, Statement

pytestmark = pytest.mark.spark


@pytest.fixture
def power(dsn: str, template: str, tmp_path: Path, shim_library: Path) -> Iterator[PowerCuts]:
    """A server whose processes are all under the shim, and whose Postgres lies elsewhere."""
    with server_below(shim_library, tmp_path, SLUICE_CATALOG_DSN=dsn) as (server, shim):
        yield PowerCuts(server, shim, dsn, template)


@pytest.mark.slow
@pytest.mark.torture
def test_the_power_goes_while_spark_writes(power: PowerCuts) -> None:
    for at in (60, 120):
        assert power.hold([BULK, OVERWRITE, SORT], at=at)
    assert power.strike([BULK, OVERWRITE, SORT], at=170, left=Left.NOTHING) == (True, True)
    assert power.looked_back() == 4


@pytest.mark.slow
@pytest.mark.torture
def test_the_power_goes_in_the_batch_of_a_job(power: PowerCuts) -> None:
    power.with_job()
    assert power.hold([], at=40)
    assert power.strike([], at=60, left=Left.NOTHING) == (True, True)
    assert power.looked_back() == 2


def _each_call(power: PowerCuts, name: str, statements: Sequence[Statement]) -> None:
    """What the power would leave at call after call; ``SLUICE_TEST_FIRST`` and ``SLUICE_TEST_EVERY`` take a part."""
    calls = next(number for number, at in enumerate(count(FIRST, EVERY)) if not power.hold(statements, at=at))
    print(f"{name}: {calls} calls, {power.looked_back()} disks", flush=True)
    assert calls


@pytest.mark.torture
@pytest.mark.timeout(14400)
@pytest.mark.parametrize("statement", [BULK, OVERWRITE, SORT, DELETE, UPDATE, MERGE, ERASE], ids=lambda statement: statement.name)
def test_the_power_goes_at_every_call_of_spark(power: PowerCuts, statement: Statement) -> None:
    _each_call(power, statement.name, [statement])


@pytest.mark.torture
@pytest.mark.timeout(14400)
def test_the_power_goes_at_every_call_of_a_jobs_batch(power: PowerCuts) -> None:
    power.with_job()
    _each_call(power, "a batch of a job", [])


@pytest.mark.torture
def test_rows_that_nobody_flushed_are_missed(dsn: str, template: str, tmp_path: Path, shim_library: Path) -> None:
    """What these tests look at would tell of it."""
    with server_below(shim_library, tmp_path, SLUICE_CATALOG_DSN=dsn, SLUICE_WAREHOUSE_SYNC="false") as (server, shim):
        power = PowerCuts(server, shim, dsn, template)
        assert not power.hold([BULK], at=10**9)
        with pytest.raises(AssertionError):
            power.looked_back()


@pytest.mark.torture
@pytest.mark.timeout(28800)
def test_a_server_begins_again_after_power_cuts_under_three_statements_and_a_job(power: PowerCuts) -> None:
    """With all processes killed, on a disk of either kind in turns, and with a new JVM each time."""
    power.with_job()
    kinds = list(Left)
    for number, at in enumerate(count(FIRST, EVERY)):
        came, cut = power.strike([BULK, OVERWRITE, SORT], at=at, left=kinds[number % 2])
        print(f"call {at}: came {came}, cut {cut}", flush=True)
        if not came:
            break
        assert cut
