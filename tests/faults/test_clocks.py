"""A server whose clock is two days off neither takes what another holds nor loses what it holds: Postgres's clock decides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from catalog import CatalogStore
from model.identifier import MAIN_BRANCH, Identifier
from tests.faults.below import ROOT
from tests.faults.shim import Shim
from tests.faults.world import world

DAYS = 2 * 86_400
EVERYTHING = {"maintenance": True, "renewed": True, "reservation": True, "jobs": 1}
NOTHING = {"maintenance": False, "renewed": False, "reservation": False, "jobs": 0}


def asked(dsn: str, table_id: UUID, owner: UUID) -> dict[str, Any]:
    """What a server gets that asks for a table's maintenance and its reservation, and for all jobs."""
    catalog = CatalogStore(dsn)
    with catalog.transaction() as tx:
        got: dict[str, Any] = {
            "maintenance": tx.leases.take(table_id, owner, "server", 600.0),
            "renewed": bool(tx.leases.renew(owner, 600.0)),
            "reservation": tx.reservations.ask(table_id, MAIN_BRANCH, str(owner), seconds=600.0).mine,
            "jobs": len(tx.jobs.take(owner, "server", most=5, seconds=600.0)),
        }
    catalog.close()
    return got


@pytest.mark.parametrize("ahead", [DAYS, -DAYS], ids=["ahead", "behind"])
def test_a_clock_two_days_off_takes_nothing_and_loses_nothing(dsn: str, tmp_path: Path, shim_library: Path, ahead: int) -> None:
    with world(dsn, tmp_path) as server:
        tables = []
        for name in ("theirs", "ours"):
            server.must(f"CREATE TABLE {name} (id INT)", f"INSERT INTO {name} VALUES (1)")
            tables.append(server.lake.open(Identifier("default", name)).table_id)
        server.lake.jobs.create(name="j", statement="INSERT …", database="default", settings={}, tables={})
    theirs, ours = tables
    shim = Shim(shim_library, tmp_path, tmp_path / "warehouse")
    environment = os.environ | shim.environment | {"TEST_FAULT_CLOCK": str(ahead)}

    def elsewhere(table_id: UUID, owner: int) -> dict[str, Any]:
        """The same, asked by a process with the other clock."""
        command = [sys.executable, "-m", "tests.faults.test_clocks", dsn, str(table_id), str(owner)]
        report = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
        told: dict[str, Any] = json.loads(report)
        assert abs(told.pop("time") - time.time() - ahead) < DAYS / 4, "its clock is off"
        return told

    assert asked(dsn, ours, UUID(int=1)) == EVERYTHING
    assert elsewhere(ours, 2) == NOTHING, "what a server holds is not taken by one that thinks it is another day"
    catalog = CatalogStore(dsn)
    with catalog.transaction() as tx:
        tx.jobs.abandon("server")
    catalog.close()
    assert elsewhere(theirs, 2) == EVERYTHING
    assert asked(dsn, theirs, UUID(int=1)) == NOTHING | {"renewed": True}, "and it holds what it takes; the first still has its own"
    shim.close()


if __name__ == "__main__":
    _, where, table, number = sys.argv
    print(json.dumps(asked(where, UUID(table), UUID(int=int(number))) | {"time": time.time()}))
