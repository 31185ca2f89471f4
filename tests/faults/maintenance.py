"""What administrators and the maintenance do to a table: partitions, branches, layouts, files of others, new schemas."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from model.errors import LakeError
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from sql.statements.procedures.analyze import commit_statistics
from tests.faults.operation import BEFORE, Operation, Told, all_files, asking, branched_off, is_there, place, refused
from tests.faults.world import Answer, World

_DAY_SECONDS = 86_400


def _partitioned(*, by: Sequence[str] = ("a", "b")) -> Callable[[World, str], None]:
    """The same rows in two partitions: the odd ones in the first."""

    def prepare(world: World, table: str) -> None:
        world.must(
            f"ALTER TABLE {table} SET ('drop.retention' = '0 s')",
            f"DROP TABLE {table}",
            f"CREATE TABLE {table} (id INT, s STRING) PARTITIONED BY (s) WITH ('bucket' = '-1')",
        )
        for first in (1, 3, 5):
            world.must(f"INSERT INTO {table} VALUES ({first}, '{by[0]}'), ({first + 1}, '{by[1]}')")

    return prepare


def _marked(world: World, table: str, told: Told) -> str:
    markers = [path for path in all_files(world, place(world, table)) if path.endswith("/s=a/_SUCCESS")]
    assert len(markers) in told.one_of(0, 1)
    return table


def _branch(before: Sequence[str], after: Sequence[str]) -> Callable[[World, str, Told], str]:
    """The branch has its row under the one name or the other, or is gone; its name is free again."""

    def check(world: World, table: str, told: Told) -> str:
        names = [row[0] for row in world.rows(f"SELECT branch_name FROM {table}$branches")]
        assert names in told.one_of(list(before), list(after))
        for name in names:
            assert world.ids(f"{table}$branch_{name}") == [50]
            world.must(f"INSERT INTO {table}$branch_{name} VALUES (51, 'x')")
            assert world.ids(f"{table}$branch_{name}") == [50, 51]
        if "b" not in names:
            world.must(f"CALL sys.create_branch('{table}', 'b')")
            assert world.ids(f"{table}$branch_b") == []
        return table

    return check


def _all_kinds(world: World, table: str) -> None:
    branched_off(world, table)
    world.must(f"CALL sys.create_tag('{table}', 'old', 1)", f"CALL sys.reset_consumer('{table}', 'c', 2)")


def _purged(world: World, table: str, told: Told) -> str:
    """Several decisions one after the other: asked again it goes on where it ended, and its end lets nothing stay."""
    names = world.rows(f"SELECT branch_name FROM {table}$branches") + world.rows(f"SELECT tag_name FROM {table}$tags")
    if told is Told.REFUSED:
        assert names == [("b",), ("old",)], names
    elif told is Told.DONE:
        assert names == []
    assert told is not Told.DONE or world.rows(f"SELECT count(*) FROM {table}$snapshots") == [(1,)]
    return table


def _analyzed(world: World, table: str) -> Sequence[Answer]:
    """As `sys.analyze_table` commits, which lets Spark count."""
    try:
        opened = world.lake.open(Identifier("default", table))
        latest = opened.latest()
        assert latest is not None
        counts = {"snapshotId": latest.id, "schemaId": latest.schema_id, "mergedRecordCount": len(BEFORE), "mergedRecordSize": 1000}
        commit_statistics(world.lake, opened, {**counts, "colStats": {}})
    except LakeError as problem:
        return [refused(problem)]
    return [Answer(status=200, body=None)]


def has_statistics(world: World, table: str, told: Told) -> str:
    """Statistics that can be read, and no file of any that are none."""
    found = world.rows(f"SELECT snapshot_id, mergedRecordCount FROM {table}$statistics")
    assert found in told.one_of([], [(3, len(BEFORE))])
    there = all_files(world, f"{place(world, table)}/statistics")
    assert len(there) in ((len(found),) if told is not Told.UNKNOWN else (len(found), 1)), there
    return table


def _no_consumers(world: World, table: str, told: Told) -> str:
    assert world.rows(f"SELECT * FROM {table}$consumers") in told.one_of([("c", 2)], [])
    return table


def _created(world: World, table: str, told: Told) -> str:
    """The table beside it is there or not; where it is not, its name is free."""
    if not is_there(world, f"{table}_made", told.one_of(False, True)):
        world.must(f"CREATE TABLE {table}_made (id INT, s STRING)")
    assert world.ids(f"{table}_made") == []
    world.must(f"INSERT INTO {table}_made VALUES (1, 'a')")
    assert world.ids(f"{table}_made") == [1]
    return table


def _replaced(world: World, table: str) -> Sequence[Answer]:
    """As CREATE OR REPLACE TABLE of other engines asks for it."""
    schema = new_schema([column("id", "INT"), column("s", "STRING"), column("n", "INT")], options={"bucket": "-1"})
    try:
        world.lake.replace_table(Identifier("default", table), schema)
    except LakeError as problem:
        return [refused(problem)]
    return [Answer(status=200, body=None)]


def _ingested(world: World, table: str) -> Sequence[Answer]:
    """Rows of Flight SQL in the place of a table, with a column more."""
    try:
        world.ingest(table, pa.table({"id": pa.array([20], pa.int32()), "s": ["z"], "n": pa.array([1], pa.int32())}))
    except LakeError as problem:
        return [refused(problem)]
    return [Answer(status=200, body=None)]


def _has_the_schema(world: World, table: str, told: Told) -> str:
    """The schema goes with the rows."""
    columns = [row[0] for row in world.rows(f"DESCRIBE {table}")]
    before = world.ids(table) == list(BEFORE)
    assert columns == (["id", "s"] if before else ["id", "s", "n"])
    return table


def _file_lost(world: World, table: str) -> None:
    """The first data file is gone: from outside."""
    (first, *_) = world.rows(f"SELECT file_path FROM {table}$files WHERE min_value_stats LIKE '%1%' ORDER BY creation_time LIMIT 1")
    path = str(first[0])
    assert world.store.exists(path)
    world.store.delete(path)


def _rescaled(world: World, table: str, told: Told) -> str:
    """Rows of another number of buckets take no more beside them."""
    if told is not Told.DONE:
        world.must(f"CALL sys.rescale('{table}')")
    return table


def _without_the_lost(world: World, table: str, told: Told) -> str:
    if told is not Told.DONE:
        world.must(f"CALL sys.remove_unexisting_files('{table}', dry_run => false)")
    return table


def _litter(world: World, table: str) -> None:
    """What crashes left, two days old."""
    old = time.time() - 2 * _DAY_SECONDS
    for name in ("bucket-0/data-dead-0.parquet", "manifest/manifest-dead-0", "snapshot/.snapshot-9.dead.tmp"):
        path = f"{place(world, table)}/{name}"
        world.store.write(path, b"x")
        if world.store.atomic_rename:  # nobody tells a store how old an object is
            os.utime(path, (old, old))


def _foreign_files(world: World, table: str) -> None:
    """Files of another engine, where they may be taken over."""
    rows = pa.table({"id": pa.array([7, 8], pa.int32()), "s": ["c", "d"]})
    for number in range(2):
        file = pa.BufferOutputStream()
        pq.write_table(rows.slice(number, 1), file)
        world.store.write(f"{world.elsewhere}/{table}_files/part-{number}.parquet", file.getvalue().to_pybytes())


def _migrated(world: World, table: str, told: Told) -> str:
    """The table of the foreign files is there whole, or not at all and can be made again."""
    if not is_there(world, f"{table}_m", told.one_of(False, True)):
        world.must(_migrate(world, table))
    assert world.ids(f"{table}_m") == [7, 8]
    return table


def _migrate(world: World, table: str) -> str:
    return f"CALL sys.migrate_table(`table` => '{world.elsewhere}/{table}_files', target_table => '{table}_m')"


def _add_files(world: World, table: str) -> str:
    return f"CALL sys.migrate_file(source_table => '{world.elsewhere}/{table}_files', target_table => '{table}')"


MAINTENANCE = [
    Operation(name="create", run=asking("CREATE TABLE {t}_made (id INT, s STRING)"), check=_created),
    Operation(name="replace", run=_replaced, check=_has_the_schema, after=()),
    Operation(name="ingest in the place of a table", run=_ingested, check=_has_the_schema, after=(20,)),
    Operation(name="drop partition", run=asking("ALTER TABLE {t} DROP PARTITION (s = 'a')"), prepare=_partitioned(), after=(2, 4, 6)),
    Operation(
        name="drop partition by procedure", run=asking("CALL sys.drop_partition('{t}', 's=a')"), prepare=_partitioned(), after=(2, 4, 6)
    ),
    Operation(
        name="expire partitions",
        run=asking("CALL sys.expire_partitions(`table` => '{t}', expiration_time => '9 d', timestamp_formatter => 'yyyy-MM-dd')"),
        prepare=_partitioned(by=("2001-01-01", "2990-01-01")),
        after=(2, 4, 6),
    ),
    Operation(name="mark partition", run=asking("CALL sys.mark_partition_done('{t}', 's=a')"), prepare=_partitioned(), check=_marked),
    Operation(
        name="branch renamed", run=asking("CALL sys.rename_branch('{t}', 'b', 'c')"), prepare=branched_off, check=_branch(["b"], ["c"])
    ),
    Operation(name="branch removed", run=asking("CALL sys.delete_branch('{t}', 'b')"), prepare=branched_off, check=_branch(["b"], [])),
    Operation(
        name="rescale",
        run=asking("CALL sys.rescale('{t}')"),
        prepare=lambda world, table: world.must(f"ALTER TABLE {table} SET ('bucket' = '2')"),
        options="'bucket' = '1', 'bucket-key' = 'id'",
        check=_rescaled,
    ),
    Operation(name="rewrite files", run=asking("CALL sys.rewrite_files('{t}')")),
    Operation(
        name="rewrite index",
        run=asking("CALL sys.rewrite_file_index('{t}')"),
        prepare=lambda world, table: world.must(f"ALTER TABLE {table} SET ('file-index.bloom-filter.columns' = 'id')"),
    ),
    Operation(name="analyze", run=_analyzed, check=has_statistics),
    Operation(name="merge manifests", run=asking("CALL sys.compact_manifest('{t}')")),
    Operation(
        name="remove unexisting files",
        run=asking("CALL sys.remove_unexisting_files('{t}', dry_run => false)"),
        prepare=_file_lost,
        completes=True,
        after=(3, 4, 5, 6),
        check=_without_the_lost,
    ),
    Operation(name="remove orphans", run=asking("CALL sys.remove_orphan_files('{t}')"), prepare=_litter),
    Operation(
        name="migrate table",
        run=lambda world, table: [world.ask(_migrate(world, table))],
        prepare=_foreign_files,
        check=_migrated,
    ),
    Operation(
        name="migrate files",
        run=lambda world, table: [world.ask(_add_files(world, table))],
        prepare=_foreign_files,
        after=(*BEFORE, 7, 8),
    ),
    Operation(name="purge files", run=asking("CALL sys.purge_files('{t}')"), prepare=_all_kinds, check=_purged, after=()),
    Operation(name="consumers removed", run=asking("CALL sys.clear_consumers('{t}')"), prepare=_all_kinds, check=_no_consumers),
]
