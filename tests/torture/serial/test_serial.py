"""UPDATE, DELETE and MERGE of two servers on the same rows, beside appends, compactions, a job and Paimon's clients."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lake import Lake
from tests.fix_server import StartServer
from tests.interop.asked import Asked
from tests.interop.conftest import HERE, ROOT
from tests.running import RunningServer
from tests.torture.serial.campaign import ALL, LOCAL, Campaign

pytestmark = [pytest.mark.slow]
SECONDS = float(os.environ.get("SLUICE_TEST_SECONDS", "600"))
SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261125"))


@pytest.fixture
def servers(start_server: StartServer, dsn: str, warehouse: Path) -> list[RunningServer]:
    """Two servers of one catalog and warehouse."""
    shared = {"SLUICE_CATALOG_DSN": dsn, "SLUICE_WAREHOUSE": str(warehouse)}
    return [start_server(name, **shared) for name in ("first", "second")]


@pytest.fixture
def pypaimon_process(servers: list[RunningServer], tmp_path: Path) -> Iterator[Asked]:
    python = ROOT / ".venv-pypaimon" / "bin" / "python"
    if not python.exists():
        pytest.skip("pypaimon cannot be had here: run `make pypaimon`.")
    process = Asked([str(python), str(HERE / "pypaimon_rows.py"), servers[1].url], tmp_path / "pypaimon.log")
    yield process
    process.close()


@pytest.mark.torture
def test_two_servers_change_the_same_rows(servers: list[RunningServer], lake: Lake) -> None:
    """`make test` has two in one process: `tests/lake/rewrite/test_change_rows.py`."""
    campaign = Campaign(servers, lake, seed=SEED)
    for server in (*servers, *servers):
        campaign.add_client(server, LOCAL)
    campaign.add_compactions()
    campaign.run(5)
    print(dict(campaign.counts))
    campaign.check()


@pytest.mark.torture
@pytest.mark.interop
@pytest.mark.timeout(7200)
def test_two_servers_and_other_clients_change_the_same_rows(servers: list[RunningServer], lake: Lake, pypaimon_process: Asked) -> None:
    campaign = Campaign(servers, lake, seed=SEED)
    campaign.start_job()
    for server in (*servers, *servers):
        campaign.add_client(server, ALL)
    campaign.add_client(servers[0], LOCAL)
    campaign.add_pypaimon(pypaimon_process)
    campaign.add_compactions()
    campaign.run(SECONDS)
    print(dict(campaign.counts))
    campaign.check(copied=True)
