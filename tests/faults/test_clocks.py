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
from catalog.commits.idempotency import Taken
from catalog.commits.reservations import Client
from lake import Lake
from lake.rewrite.maintenance import maintain
from model.identifier import MAIN_BRANCH, Identifier
from tests.faults.below import ROOT
from tests.faults.shim import Shim
from tests.faults.world import world

DAYS = 2 * 86_400
EVERYTHING = {"maintenance": True, "renewed": False, "reservation": True, "jobs": 1, "key": True}
NOTHING = {"maintenance": False, "renewed": False, "reservation": False, "jobs": 0, "key": False}


def asked(dsn: str, warehouse: str, name: str, owner: UUID) -> dict[str, Any]:
    """What a server gets that asks for a table's maintenance and reservation, a key and all jobs; what it forgets, repeats and tags."""
    catalog = CatalogStore(dsn)
    lake = Lake(catalog, warehouse)
    table = lake.open(Identifier("default", name))
    with catalog.transaction() as tx:
        forgotten = tx.idempotency.forget_old()
        got: dict[str, Any] = {
            "renewed": tx.leases.renew(owner, "server", 600.0),
            "maintenance": bool(tx.leases.take([table.table_id], owner)),
            "reservation": not tx.turns.line(table.table_id, MAIN_BRANCH).reserved_seconds,
            "jobs": len(tx.jobs.take(owner, "server", most=5, seconds=600.0)),
            "key": tx.idempotency.claim("sql:", name, body_hash="", owner=owner) == Taken(again=False),
        }
    if got["reservation"]:
        with catalog.turn([(table.table_id, MAIN_BRANCH)], seconds=30) as turn:
            assert turn is not None
            turn.reserve(Client(str(owner), "client"), 600.0)
    got |= {"forgotten": forgotten, "repeated": answer_of_repeat(catalog), "tags": len(maintain(lake, table).tags_made)}
    lake.close()
    catalog.close()
    return got


def answer_of_repeat(catalog: CatalogStore) -> Any:
    """What is answered to who repeats the request that was done."""
    with catalog.transaction() as tx:
        row = tx.idempotency.claim("sql:", "done", body_hash="", owner=UUID(int=9))
    return None if isinstance(row, Taken) else row.answer


@pytest.mark.parametrize("ahead", [DAYS, -DAYS], ids=["ahead", "behind"])
def test_a_clock_two_days_off_takes_nothing_and_loses_nothing(dsn: str, tmp_path: Path, shim_library: Path, ahead: int) -> None:
    warehouse = str(tmp_path / "warehouse")
    options = "'tag.automatic-creation' = 'process-time', 'tag.creation-period' = 'hourly'"
    with world(dsn, tmp_path) as server:
        for name in ("theirs", "ours"):
            server.must(f"CREATE TABLE {name} (id INT) WITH ({options})", f"INSERT INTO {name} VALUES (1)")
        server.lake.jobs.create(name="j", statement="INSERT …", database="default", settings={}, tables={})
    shim = Shim(shim_library, tmp_path, tmp_path / "warehouse")
    environment = os.environ | shim.environment | {"TEST_FAULT_CLOCK": str(ahead)}
    catalog = CatalogStore(dsn)
    with catalog.transaction() as tx:
        tx.idempotency.claim("sql:", "done", body_hash="", owner=UUID(int=9))
        tx.idempotency.finish("sql:", "done", owner=UUID(int=9), answer={"rows": 1})
    kept = {"forgotten": 0, "repeated": {"rows": 1}}

    def elsewhere(name: str, owner: int) -> dict[str, Any]:
        """The same, asked by a process with the other clock."""
        command = [sys.executable, "-m", "tests.faults.test_clocks", dsn, warehouse, name, str(owner)]
        report = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True).stdout
        told: dict[str, Any] = json.loads(report)
        assert abs(told.pop("time") - time.time() - ahead) < DAYS / 4, "its clock is off"
        return told

    assert asked(dsn, warehouse, "ours", UUID(int=1)) == EVERYTHING | kept | {"tags": 1}
    assert elsewhere("ours", 2) == NOTHING | kept | {"tags": 0}, "what a server holds is not taken by one that thinks it is another day"
    with catalog.transaction() as tx:
        tx.jobs.abandon("server")
    catalog.close()
    assert elsewhere("theirs", 2) == EVERYTHING | kept | {"renewed": True, "tags": 0}, "and a tag of another day is not made"
    assert asked(dsn, warehouse, "theirs", UUID(int=1)) == NOTHING | kept | {"renewed": True, "tags": 1}, (
        "and it holds what it takes; the first still has its own"
    )
    shim.close()


if __name__ == "__main__":
    _, where, files, table, number = sys.argv
    print(json.dumps(asked(where, files, table, UUID(int=int(number))) | {"time": time.time()}))
