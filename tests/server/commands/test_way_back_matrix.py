"""Every catalog with every warehouse: whoever does what `restore` says has all that files and catalog still hold, and can write on.

There are several tables, with tags, branches, a policy, a schema that changes, and tables that come, are dropped, and are dropped for good.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from catalog.backup.archive import write_archive
from lake.register.restored.after_restore import Difference
from lake.register.whole import is_readable
from lake.rewrite.orphans import remove_orphan_files
from migrations import upgrade
from model.errors import TableDamaged
from model.identifier import Identifier
from model.snapshot import Snapshot
from server.commands.restore import restore
from server.settings.settings import read_settings
from table.format.store import TableFiles
from tests.fix_postgres import database
from tests.lake.register.damage import forget_metadata
from tests.server.commands.conftest import Server
from tests.short import short
from workers.pool import WorkerPool

MOMENTS = ("older", "same", "newer", "expired")
CATALOGS = ("older", "same", "newer", "empty")
CELLS = [
    *((catalog, warehouse, False) for catalog, warehouse in product(CATALOGS, MOMENTS)),
    *(("newer", warehouse, True) for warehouse in ("older", "same")),  # a tag made since, whose snapshot the warehouse has
]
"""Of catalogs and warehouses, and whether tags that `restore` says may have been deleted since are deleted, where there is one."""
MADE_SINCE = {"older": (("orders", "again"),), "same": (("orders$branch_c", "second"), ("orders", "again"))}
"""Tags of the newer catalog that a warehouse has no file of, but the snapshot."""
ORDINARY = {
    ("older", "newer", False),  # the backup of last night
    ("older", "expired", False),
    ("same", "expired", False),
    ("same", "newer", False),
    ("newer", "newer", False),
    ("newer", "older", False),  # the warehouse of last night
    ("newer", "same", True),
    ("empty", "older", False),
    ("empty", "expired", False),
}
HISTORY = {
    "older": (
        "CREATE DATABASE shop",
        "CREATE TABLE shop.orders (id INT, day STRING) PARTITIONED BY (day) WITH ('file-index.bloom-filter.columns' = 'id')",
        "INSERT INTO shop.orders VALUES (1, 'a b')",
        "CALL sys.create_tag('shop.orders', 'first')",
        "INSERT INTO shop.orders VALUES (2, 'ü')",
        "CALL sys.create_branch('shop.orders', 'b', 'first')",
        "INSERT INTO shop.orders$branch_b VALUES (11, 'b')",
        "CREATE ROLE reader",
        "GRANT SELECT ON shop.orders TO ROLE reader",
        "CREATE POLICY mine ON shop.orders TO ROLE reader USING (id = 1)",
        *(f"CREATE TABLE shop.{name} (id INT) WITH ('bucket' = '1', 'bucket-key' = 'id')" for name in ("queue", "dropped", "gone")),
        *(f"INSERT INTO shop.{name} VALUES (1)" for name in ("queue", "dropped", "gone")),
    ),
    "same": (
        "INSERT INTO shop.orders VALUES (3, 'a b')",
        "CALL sys.create_tag('shop.orders', 'second')",
        "INSERT INTO shop.orders VALUES (4, 'ü')",
        "INSERT INTO shop.orders$branch_b VALUES (12, 'b')",
        "ALTER TABLE shop.queue ADD note STRING",
        "INSERT INTO shop.queue VALUES (2, 'n')",
        "INSERT INTO shop.dropped VALUES (2)",
    ),
    "newer": (
        "INSERT INTO shop.orders VALUES (5, 'a b')",
        "CALL sys.create_tag('shop.orders', 'again', 1)",
        "CALL sys.create_branch('shop.orders', 'c', 'second')",
        "INSERT INTO shop.orders$branch_c VALUES (21, 'c')",
        "INSERT INTO shop.orders VALUES (6, 'ü')",
        "INSERT INTO shop.queue VALUES (3, 'm')",
        "CREATE TABLE shop.fresh (id INT)",
        "INSERT INTO shop.fresh VALUES (1)",
        "DROP TABLE shop.dropped",
        "DROP TABLE shop.gone PURGE",
    ),
    "expired": tuple(
        f"CALL sys.expire_snapshots(`table` => 'shop.{name}', retain_max => 1, retain_min => 1)" for name in ("orders", "queue", "fresh")
    ),
}
TABLES = ("orders", "queue", "dropped", "gone", "fresh")
BRANCHES = {"older": ("b",), "same": ("b",), "newer": ("b", "c"), "expired": ("b", "c")}
TAGS = {"older": ("first",), "same": ("first", "second"), "newer": ("again", "first", "second"), "expired": ("again", "first", "second")}


def sources(moment: str) -> list[str]:
    """All that can be asked for rows at a moment."""
    late = moment in ("newer", "expired")
    tables = ["orders", "queue", *(("fresh",) if late else ("dropped", "gone"))]
    branches = [f"orders$branch_{name}" for name in BRANCHES[moment]]
    return [*tables, *branches, *(f"orders AS OF {tag}" for tag in TAGS[moment])]


def asked(server: Server, source: str) -> list[tuple[Any, ...]]:
    """The rows of a table, branch or tag; those of a tag from its files, as a SELECT of it needs Spark."""
    name, _, tag = source.partition(" AS OF ")
    if not tag:
        return server.rows(f"SELECT * FROM shop.{source}")
    table = server.lake.open(Identifier("shop", name))
    snapshot = Snapshot.from_json(server.lake.tags.get(table, tag).snapshot)
    paths = [table.files.data_path(table.schema, entry) for entry in table.files.live_entries(snapshot)]
    return sorted((tuple(row.values()) for path in paths for row in pq.ParquetFile(path).read().to_pylist()), key=str)


@pytest.fixture(scope="module")
def moments(server_dsn: str, template: str, tmp_path_factory: pytest.TempPathFactory, workers: WorkerPool) -> Path:
    """A catalog and its warehouse at three moments, and once more after snapshots expired; all of a warehouse at the same place."""
    place = tmp_path_factory.mktemp("moments")
    with database(server_dsn, template) as dsn:
        server = opened(dsn, place, workers)
        server.lake.standing.compare()
        for moment in MOMENTS:
            server.run(*HISTORY[moment])
            ROWS[moment] = {source: asked(server, source) for source in sources(moment)}
            write_archive(dsn, place / f"{moment}.catalog", warehouse=str(place / "warehouse"))
            shutil.copytree(place / "warehouse", place / moment)
        server.close()
    return place


ROWS: dict[str, dict[str, list[tuple[Any, ...]]]] = {}
"""By moment, the rows of everything that could be asked then: whatever the catalog is, what the files hold is what can be had."""


def opened(dsn: str, place: Path, workers: WorkerPool) -> Server:
    server = Server(dsn, place / "warehouse", workers)
    server.lake.drop_retention = timedelta(days=7)
    return server


@pytest.fixture
def place(moments: Path) -> Iterator[Path]:
    shutil.rmtree(moments / "warehouse", ignore_errors=True)
    forget_metadata()
    yield moments
    forget_metadata()


def readable(server: Server, warehouse: Path) -> set[frozenset[str]]:
    """What every snapshot and tag that can be read holds, of those the catalog or a file knows: sets of data files."""
    held = set[frozenset[str]]()
    for name in TABLES:
        location = warehouse / f"shop.db/{name}"
        with server.catalog.reading() as tx:
            row = tx.tables.find(Identifier("shop", name))
            branches = ["main", *([] if row is None else tx.branches.names(row.table_id))]
            known = [] if row is None else [one.body for branch in branches for one in tx.snapshots.history(row.table_id, branch)]
            known += [] if row is None else [one.snapshot for branch in branches for one in tx.tags.all(row.table_id, branch)]
        branches = ["main", *(path.name.removeprefix("branch-") for path in (location / "branch").glob("branch-*"))]
        of_branches = [TableFiles(server.lake.file_io, str(location), branch) for branch in branches]
        snapshots = [Snapshot.from_json(body) for body in known]
        snapshots += [found for files in of_branches for one in files.snapshot_ids() if (found := files.read_snapshot(one)) is not None]
        whole = [one for one in snapshots if is_readable(of_branches[0], one)]
        held |= {frozenset(entry.file.file_name for entry in of_branches[0].live_entries(one)) for one in whole}
    return {names for names in held if all(any(warehouse.rglob(name)) for name in names)}


@pytest.mark.parametrize(("catalog", "warehouse", "deletes"), short(CELLS, ORDINARY))
def test_all_that_is_left_can_be_had(place: Path, empty_dsn: str, workers: WorkerPool, catalog: str, warehouse: str, deletes: bool) -> None:
    shutil.copytree(place / warehouse, place / "warehouse")
    settings = read_settings(
        {"SLUICE_DATA": str(place / "none"), "SLUICE_WAREHOUSE": str(place / "warehouse"), "SLUICE_CATALOG_DSN": empty_dsn}
    )
    differences: list[Difference] = []
    if catalog == "empty":
        upgrade(empty_dsn)
    else:
        _, differences = restore(settings, place / f"{catalog}.catalog", replace=False)
    server = opened(empty_dsn, place, workers)
    try:
        before = readable(server, place / "warehouse")
        if catalog == "empty":
            server.lake.standing.compare()
            assert server.lake.standing.mismatch is not None
            lying = [path.name for path in (place / "warehouse/shop.db").iterdir()]
            server.run("CALL sys.claim_warehouse()", "CREATE DATABASE shop")
            server.run(*(f"CALL sys.register_table('shop.{name}', '{place}/warehouse/shop.db/{name}')" for name in lying))
        statements = list(dict.fromkeys(one.statement for one in differences if one.statement))
        deleting = [statement for statement in statements if "delete_tag" in statement]
        made_since = catalog == "newer" and warehouse in ("older", "same")
        tags = MADE_SINCE[warehouse] if made_since else ()
        assert sorted(deleting) == [f"CALL sys.delete_tag('shop.{name}', '{tag}')" for name, tag in tags]
        server.run(*(statement for statement in statements if deletes or statement not in deleting))
        if catalog == "newer" and warehouse in ("older", "same"):
            if warehouse == "same":  # else its files are other than the catalog's, and it was among what is told
                server.run("UNDROP TABLE shop.dropped")
            server.run("CALL sys.repair_table('shop.dropped')")
        forget_metadata()
        missing = {one.table for one in differences if not one.statement}
        late = warehouse in ("newer", "expired")
        told = {"shop.gone"} if late and catalog in ("older", "same") else {"shop.fresh"} if not late and catalog == "newer" else set[str]()
        if (catalog, warehouse) == ("newer", "older"):
            told |= {"shop.orders$branch_c"}  # made since from what the warehouse lacks
        assert missing == told
        for name in told:
            with pytest.raises(TableDamaged):
                server.rows(f"SELECT * FROM {name}")
        if "shop.orders$branch_c" in told:
            server.run("CALL sys.delete_branch('shop.orders', 'c')")
        for source, rows in ROWS[warehouse].items():
            if source != "gone" or catalog != "newer":
                added = source == "queue" and warehouse == "older" and catalog in ("same", "newer")  # a column, which the catalog knows
                assert asked(server, source) == [(*row, *([None] if added else [])) for row in rows], source
        if made_since:
            for name, tag in tags:
                table = server.lake.open(Identifier("shop", *name.split("$branch_")))
                assert (tag in {one.name for one in server.lake.tags.all(table)}) is not deletes
                assert Path(table.files.layout.tag_file(tag)).exists() is not deletes
            assert deletes or asked(server, "orders AS OF again") == ROWS["newer"]["orders AS OF again"]
        if catalog != "empty":
            assert len(server.rows("SHOW POLICIES ON shop.orders")) == 1
        there = {f"shop.{name}" for name in TABLES if (place / f"warehouse/shop.db/{name}").exists()}
        there &= {f"shop.{name}" for (name,) in server.rows("SHOW TABLES IN shop")} - told
        for name in there:
            assert server.rows(f"CALL sys.check_table('{name}', deep => true)") == [], name
            table = server.lake.open(Identifier("shop", name.removeprefix("shop.")))
            remove_orphan_files(server.lake, table, older_than_millis=time.time_ns() // 1_000_000, check=lambda: None)
        assert readable(server, place / "warehouse") >= before
        server.lake.standing.look_around(tables=None)
        assert server.lake.standing.mismatch is None
        assert {str(trouble.table) for trouble in server.lake.standing.troubles()} <= told
        for source in ROWS[warehouse]:
            if (source.isalpha() and f"shop.{source}" in there) or source.startswith("orders$"):
                columns = len(asked(server, source)[0]) - 1
                server.run(f"INSERT INTO shop.{source} VALUES (100{', NULL' * columns})")
                assert (100, *[None] * columns) in server.rows(f"SELECT * FROM shop.{source}")
    finally:
        server.close()
