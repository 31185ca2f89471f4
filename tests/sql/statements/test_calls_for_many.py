"""CALL procedures for many tables go on where one of them is damaged or diverged, and tell it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from uuid import uuid4

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import TableDamaged, TableDiverged
from tests.fix_gateway import gateway as gateway
from tests.fix_gateway import spark_stub as spark_stub
from tests.lake.register.damage import forget_metadata


@pytest.fixture
def tables(gateway: Gateway, warehouse: Path) -> list[Path]:
    """The directories of tables a, b and c of three files each."""
    for name in "abc":
        gateway.run(f"CREATE TABLE {name} (id INT) WITH ('write-only' = 'true')")
        for number in range(3):
            gateway.run(f"INSERT INTO {name} VALUES ({number})")
    return [warehouse / "default.db" / name for name in "abc"]


@pytest.mark.damages
def test_the_search_for_orphans_goes_on_beside_a_damaged_table(gateway: Gateway, lake: Lake, tables: list[Path]) -> None:
    orphans = [place / "bucket-0/data-left-0.parquet" for place in tables]
    for orphan in orphans:
        orphan.write_bytes(b"12345")
        os.utime(orphan, (0, 0))
    newest = json.loads((tables[1] / "snapshot/snapshot-3").read_text())
    (tables[1] / "manifest" / newest["deltaManifestList"]).write_bytes(b"none")
    forget_metadata()
    for name in ("*", "default.*"):
        a, b, c = gateway.run(f"CALL sys.remove_orphan_files(`table` => '{name}', dry_run => true)").collect()
        assert (a[:4], c[:3]) == (("default.a", 1, 5, str(orphans[0])), ("default.c", 1, 5))
        assert b[:4] == ("default.b", None, None, None)
        assert newest["deltaManifestList"] in b[4]
        assert "CALL sys.check_table('default.b')" in b[4]
    done = gateway.run("CALL sys.remove_orphan_files('*')").collect()
    assert [row[1] for row in done] == [1, None, 1]
    assert [orphan.exists() for orphan in orphans] == [False, True, False]
    assert [str(trouble.table) for trouble in lake.standing.troubles()] == ["default.b"]
    with pytest.raises(TableDamaged):
        gateway.run("CALL sys.remove_orphan_files('b')")


def test_compaction_goes_on_beside_a_diverged_table(gateway: Gateway, lake: Lake, tables: list[Path]) -> None:
    body = json.loads((tables[1] / "snapshot/snapshot-3").read_text())
    (tables[1] / "snapshot/snapshot-4").write_text(json.dumps(body | {"id": 4, "uuid": str(uuid4())}))
    lake.standing.look_around(tables=None)
    done = gateway.run("CALL sys.compact_database(compact_strategy => 'full')").collect()
    assert [row[:2] for row in done] == [("default.a", 1), ("default.b", None), ("default.c", 1)]
    assert "CALL sys.repair_table('default.b', true)" in done[1][-2]
    with pytest.raises(TableDiverged):
        gateway.run("CALL sys.compact(`table` => 'b', compact_strategy => 'full')")
