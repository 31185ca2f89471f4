"""A table's past that changes under its present: no statement meets a bug, and all that is kept can be read at the end."""

from __future__ import annotations

import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from gateway.gateway import Gateway
from lake import Lake
from lake.inspect.counts import totals
from lake.tables.partitions import partitions
from model.identifier import Identifier
from tests.interop.strict import check_warehouse
from tests.short import one_in
from tests.sql.statements.test_names_at_once import Crowd

SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261126"))
LAYOUTS = {
    "queue": "WITH ('bucket' = '1', 'bucket-key' = 'id', 'rows.erasable' = 'true')",
    "no buckets": "WITH ('bucket' = '-1', 'rows.erasable' = 'true')",
    "partitions": "PARTITIONED BY (p) WITH ('bucket' = '-1', 'rows.erasable' = 'true')",
}


class Historians(Crowd):
    """Callers that write, and callers that tag, branch, go back and clean up."""

    @staticmethod
    def _statement(rng: random.Random, row: int) -> str:
        tag, other_tag = rng.sample(("g1", "g2", "g3"), 2)
        branch, other_branch = rng.sample(("b1", "b2"), 2)
        name = rng.choice(("t", "t", "t", f"`t$branch_{branch}`"))
        place = f"'{name}'" if name == "t" else f"'default.{name}'"
        kinds = {
            f"INSERT INTO {name} (id, p) VALUES ({row}, '{row % 3}')": 20,
            f"INSERT OVERWRITE {name} (id, p) VALUES ({row}, '{row % 3}')": 2,
            f"DELETE FROM {name} WHERE id = {row - rng.randrange(20)}": 3,
            f"UPDATE {name} SET id = {row} WHERE id = {row - rng.randrange(20)}": 3,
            f"TRUNCATE TABLE {name}": 1,
            f"ALTER TABLE {name} DROP IF EXISTS PARTITION (p = '{row % 3}')": 1,
            f"CALL sys.create_tag({place}, '{tag}')": 4,
            f"CALL sys.delete_tag({place}, '{tag}')": 3,
            f"CALL sys.rename_tag({place}, '{tag}', '{other_tag}')": 2,
            f"CALL sys.replace_tag({place}, '{tag}', {rng.randrange(1, 40)})": 2,
            f"CALL sys.create_branch('t', '{branch}', '{tag}')": 3,
            f"CALL sys.create_branch('t', '{branch}')": 1,
            f"CALL sys.rename_branch('t', '{branch}', '{other_branch}')": 2,
            f"CALL sys.delete_branch('t', '{branch}')": 2,
            f"CALL sys.fast_forward('t', '{branch}')": 2,
            f"CALL sys.rollback_to({place}, '{tag}')": 1,
            f"CALL sys.rollback_to({place}, snapshot_id => {rng.randrange(1, 40)})": 1,
            f"CALL sys.expire_snapshots({place}, retain_max => {rng.randrange(1, 9)}, retain_min => 1)": 3,
            f"CALL sys.compact({place}, compact_strategy => 'full')": 3,
            f"CALL sys.compact_manifest({place}, options => 'manifest.merge-min-count=2')": 2,
            f"CALL sys.rewrite_files({place})": 1,
            "CALL sys.remove_orphan_files('t')": 1,
            "CALL sys.expire_tags('t', older_than => '2000-01-01 00:00:00')": 1,
            f"CALL sys.reset_consumer('t', 'me', {rng.randrange(1, 40)})": 1,
            f"ALTER TABLE t ADD (c{row} INT)": 1,
            "ALTER TABLE t SET ('snapshot.num-retained.max' = '12')": 1,
            f"SELECT COUNT(*) FROM {name}": 4,
            f"SELECT id FROM {name} WHERE id > 5": 4,
            f"SELECT * FROM `{name.strip('`')}$tags`": 1,
        }
        (text,) = rng.choices(list(kinds), list(kinds.values()))
        return text


def crowd(gateways: Sequence[Gateway], lake: Lake, warehouse: Path, layout: str, seed: int, *, callers: int, statements: int) -> None:
    gateways[0].run(f"CREATE TABLE t (id INT, p STRING) {LAYOUTS[layout]}").close()
    many = Historians(gateways[0], lake, seed, *gateways[1:])
    many.run(callers, statements)
    whole(many, warehouse, layout)


def whole(many: Crowd, warehouse: Path, layout: str) -> None:
    """All that is kept can be read, is counted as it is, and is what Paimon's format says."""
    assert not many.bugs, "\n".join(many.bugs)
    branches = [branch for (branch,) in many.ask("SELECT branch_name FROM t$branches")]
    for name in ("t", *(f"t$branch_{branch}" for branch in branches)):
        assert many.ask(f"CALL sys.check_table('default.`{name}`', deep => true)") == [], (name, many.statuses)
        rows = many.ask(f"SELECT * FROM `{name}`")
        assert many.ask(f"SELECT COUNT(*) FROM `{name}`") == [(len(rows),)]
        for server in many.servers:
            table = server.lake.open(Identifier("default", *name.split("$branch_")))
            counted = totals(server.lake.catalog, server.lake._publisher, table)
            assert (0 if counted is None else counted[1].record_count) == len(rows), (name, many.statuses)
            listed = {(row.name, row.record_count, row.file_count) for row in server.lake.partition_page(table) if row.file_count}
            found = partitions(table, table.latest()) if layout == "partitions" else []
            live = {(one.name, one.record_count, one.file_count) for one in found}
            assert listed == live, (name, many.statuses)
    check_warehouse(warehouse)


@pytest.mark.parametrize("layout", one_in(2, LAYOUTS))
def test_the_past_is_whole(gateway: Gateway, other_server: Gateway, lake: Lake, warehouse: Path, layout: str) -> None:
    crowd([gateway, other_server], lake, warehouse, layout, SEED, callers=4, statements=30)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_past_is_whole_each_time(gateway: Gateway, other_server: Gateway, lake: Lake, warehouse: Path, layout: str, seed: int) -> None:
    crowd([gateway, other_server][: 1 + seed % 2], lake, warehouse, layout, SEED + 1 + seed, callers=8, statements=80)
