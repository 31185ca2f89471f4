"""CALL sys.register_table, migrate_table, migrate_file: in place, all or nothing, only from where the server may read."""

from __future__ import annotations

import datetime as dt
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from catalog import CatalogStore
from gateway.gateway import Gateway, GatewayLimits
from lake import Lake
from lake.register.register import migration_commit
from model.errors import (
    BadRequest,
    Forbidden,
    InvalidName,
    InvalidOption,
    InvalidSchema,
    LakeError,
    RewriteConflict,
    SqlError,
    TableAlreadyExist,
)
from model.identifier import Identifier
from sql.connectors import ConnectorTable
from sql.spark.connectors import spark_connector
from sql.spark.streaming.rights import Rights
from sql.statements.procedures.calls import PROCEDURES
from sql.statements.procedures.register import register_table
from tests.fix_gateway import NoSpark
from tests.lake.access.test_access import user
from tests.sql.tables import context_of

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "s": ["a", None]})


@pytest.fixture
def imports(tmp_path: Path) -> Path:
    found = tmp_path / "imports"
    found.mkdir()
    return found


@pytest.fixture
def lake(catalog: CatalogStore, warehouse: Path, imports: Path) -> Iterator[Lake]:
    made = Lake(catalog, str(warehouse), import_dirs=[str(imports)])
    yield made
    made.close()


@pytest.fixture
def hive(imports: Path) -> Path:
    """Two partitions, one of whose files lacks its ending."""
    for name in ("day=2024-01-01/a.parquet", "day=2024-01-01/000000_0", "day=__HIVE_DEFAULT_PARTITION__/b.parquet"):
        path = imports / "hive" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(ROWS, path)
    return imports / "hive"


def names(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file())


def test_a_dry_run_tells_and_changes_nothing(gateway: Gateway, lake: Lake, hive: Path) -> None:
    before = names(hive)
    told = gateway.run(f"CALL sys.migrate_table(source_type => 'hive', table => '{hive}', target_table => 'm', dry_run => true)").collect()
    assert told == [
        ("table", "default.m (`id` BIGINT, `s` STRING, `day` DATE) PARTITIONED BY (`day`)"),
        ("rename", f"{hive}/day=2024-01-01/000000_0 to 000000_0.parquet"),
        ("partition day=2024-01-01", f"2 files, 4 rows, {2 * (hive / 'day=2024-01-01/a.parquet').stat().st_size} bytes"),
        ("partition day=NULL", f"1 files, 2 rows, {(hive / 'day=2024-01-01/a.parquet').stat().st_size} bytes"),
    ]
    assert names(hive) == before
    assert lake.list_tables("default") == []


def test_a_directory_becomes_a_table_where_it_lies(gateway: Gateway, lake: Lake, hive: Path, warehouse: Path) -> None:
    inodes = {path.stat().st_ino for path in hive.rglob("*") if path.is_file()}
    gateway.run(f"CALL sys.migrate_table(connector => 'hive', source_table => '{hive}', target_table => 'm', parallelism => 2)")
    rows = gateway.run("SELECT id, s, day FROM m").collect()
    day = dt.date(2024, 1, 1)
    assert sorted(map(repr, rows)) == sorted(map(repr, [(1, "a", day), (2, None, day)] * 2 + [(1, "a", None), (2, None, None)]))
    assert gateway.run("SHOW PARTITIONS m").collect() == [("day=2024-01-01",), ("day=__DEFAULT_PARTITION__",)]
    assert {path.stat().st_ino for path in hive.rglob("*") if path.is_file()} == inodes
    assert not list((warehouse / "default.db" / "m").rglob("*.parquet"))
    assert [row[1:5] for row in gateway.run("CALL sys.rewrite_files('m')").collect()] == [(0, 0, 2, None), (0, 0, 1, None)]
    gateway.run("INSERT INTO m VALUES (3, 'c', DATE '2024-01-02')")
    assert gateway.run("SELECT id FROM m WHERE day = DATE '2024-01-02'").collect() == [(3,)]
    gateway.run("DROP TABLE m")
    assert names(hive) == ["day=2024-01-01/000000_0.parquet", "day=2024-01-01/a.parquet", "day=__HIVE_DEFAULT_PARTITION__/b.parquet"]


def test_a_check_looks_at_every_file_where_names_are_the_same(gateway: Gateway, hive: Path) -> None:
    pq.write_table(ROWS, hive / "day=__HIVE_DEFAULT_PARTITION__" / "a.parquet")
    gateway.run(f"CALL sys.migrate_table(source_type => 'hive', table => '{hive}', target_table => 'm')").close()
    for lost in ("day=2024-01-01", "day=__HIVE_DEFAULT_PARTITION__"):
        kept = (file := hive / lost / "a.parquet").read_bytes()
        file.unlink()
        (row,) = gateway.run("CALL sys.check_table('m')").collect()
        assert str(file) in row
        file.write_bytes(kept)


def test_all_or_nothing(gateway: Gateway, lake: Lake, hive: Path) -> None:
    before = names(hive)
    gateway.run("CREATE TABLE taken (id INT)")
    call = f"CALL sys.migrate_table(table => '{hive}', target_table => '{{}}'{{}})"
    for target, rest, error in (
        ("taken", "", TableAlreadyExist),
        ("nowhere.m", "", LakeError),
        ("m", ", options => 'bucket=4'", InvalidSchema),
        ("m", ", options => 'bukcet=4'", InvalidOption),
        ("m", ", options => 'x'", InvalidOption),
        ("m", ", options => 'snapshot.num-retained.max=2'", InvalidOption),
        ("m", ", delete_origin => false", InvalidOption),
        ("m", ", source_type => 'iceberg'", InvalidOption),
        ("m", ", parallelism => 0", InvalidOption),
        ("a$b", "", LakeError),
    ):
        with pytest.raises(error):
            gateway.run(call.format(target, rest))
        assert names(hive) == before
    pq.write_table(pa.table({"id": ["x"]}), hive / "day=2024-01-01" / "z.parquet")
    with pytest.raises(InvalidSchema, match="Column id is BIGINT"):
        gateway.run(call.format("m", ""))
    assert lake.list_tables("default") == ["taken"]
    with pytest.raises(SqlError, match="needs target_table"):
        gateway.run(f"CALL sys.migrate_table('hive', '{hive}')")


def test_files_are_added_to_a_table(gateway: Gateway, lake: Lake, hive: Path) -> None:
    gateway.run("CREATE TABLE m (id BIGINT, s STRING, day DATE) PARTITIONED BY (day) WITH ('bucket' = '-1')")
    gateway.run("INSERT INTO m VALUES (9, 'z', DATE '2024-01-01')")
    call = f"CALL sys.migrate_file(source_type => 'hive', source_table => '{hive}', target_table => 'default.m'"
    assert len(gateway.run(call + ", dry_run => true)").collect()) == 4
    assert gateway.run("SELECT COUNT(*) FROM m").collect() == [(1,)]
    gateway.run(call + ")")
    assert gateway.run("SELECT COUNT(*) FROM m").collect() == [(7,)]
    assert len(gateway.run("SELECT id FROM m WHERE day = DATE '2024-01-01'").collect()) == 5
    more = shutil.copytree(hive, hive.parent / "more")
    gateway.run("CREATE TABLE q (id BIGINT, s STRING, day DATE) PARTITIONED BY (day)")
    gateway.run("CREATE TABLE n (id BIGINT NOT NULL, s STRING, day DATE) PARTITIONED BY (day) WITH ('bucket' = '-1')")
    gateway.run("CREATE TABLE o (id INT, s STRING, day DATE) PARTITIONED BY (day) WITH ('bucket' = '-1')")
    gateway.run("CREATE TABLE p (id BIGINT, s STRING) WITH ('bucket' = '-1')")
    for table, says in (("q", "'bucket' = '-1' only"), ("n", "NOT NULL"), ("o", "Column id is BIGINT"), ("p", "is partitioned by")):
        with pytest.raises(InvalidSchema, match=says):
            gateway.run(f"CALL sys.migrate_file(source_table => '{more}', target_table => '{table}')")


def test_files_become_one_tables_only(gateway: Gateway, lake: Lake, hive: Path, imports: Path) -> None:
    """Two tables of the same files would compact and expire each other's rows away, and each would pass the other's policies."""
    whole = f"'{hive}'"
    gateway.run(f"CALL sys.migrate_table(table => {whole}, target_table => 'm')")
    gateway.run("CREATE TABLE other (id BIGINT, s STRING, day DATE) PARTITIONED BY (day) WITH ('bucket' = '-1')")
    gateway.run("CREATE TABLE flat (id BIGINT, s STRING) WITH ('bucket' = '-1')")
    for place, target in ((hive, "other"), (hive / "day=2024-01-01", "flat"), (imports, "other")):
        for call in (
            f"CALL sys.migrate_table(table => '{place}', target_table => 'n')",
            f"CALL sys.migrate_file(source_table => '{place}', target_table => '{target}')",
            f"CALL sys.register_table('n', '{place}')",
        ):
            with pytest.raises((InvalidName, InvalidSchema), match=r"another table|no Paimon table"):
                gateway.run(call)
    lake.drop_retention = dt.timedelta(days=1)
    gateway.run("DROP TABLE m")
    with pytest.raises(InvalidName, match="another table"):  # it may be brought back
        gateway.run(f"CALL sys.migrate_table(table => {whole}, target_table => 'n')")
    gateway.run("UNDROP TABLE m")
    assert gateway.run("SELECT COUNT(*) FROM m").collect() == [(6,)]
    assert gateway.run("SHOW TABLES").collect() == [("flat",), ("m",), ("other",)]


def test_two_who_take_over_the_same_files_at_once(gateway: Gateway, lake: Lake, hive: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have looked before either decides."""
    gateway.run("CREATE TABLE a (id BIGINT, s STRING, day DATE) PARTITIONED BY (day) WITH ('bucket' = '-1')")
    table = lake.open_to_write(Identifier("default", "a"))
    plan = lake.plan_migration(table, str(hive))
    gateway.run(f"CALL sys.migrate_table(table => '{hive}', target_table => 'm')")
    with pytest.raises(InvalidName, match="another table"):
        lake.record_place(table, plan)
    renamed = replace(plan.source, files=tuple(replace(file, path=file.name_needed) for file in plan.source.files))
    monkeypatch.setattr(lake, "_survey", lambda *_: (plan.place, renamed))
    with pytest.raises(InvalidName, match="another table"):
        lake.migrate_table(Identifier("default", "n"), str(hive))
    assert gateway.run("SELECT COUNT(*) FROM m").collect() == [(6,)]
    assert gateway.run("SHOW TABLES").collect() == [("a",), ("m",)]


def test_a_table_is_given_more_files_of_its_directory(gateway: Gateway, hive: Path) -> None:
    gateway.run(f"CALL sys.migrate_table(table => '{hive}', target_table => 'm')")
    (hive / "day=2024-01-03").mkdir()
    pq.write_table(ROWS, hive / "day=2024-01-03" / "c.parquet")
    more = f"CALL sys.migrate_file(source_table => '{hive}', target_table => 'm')"
    gateway.run(more)
    assert gateway.run("SELECT COUNT(*) FROM m").collect() == [(8,)]
    gateway.run("CALL sys.compact(`table` => 'm', compact_strategy => 'full')")
    gateway.run("ALTER TABLE m DROP PARTITION (day = '2024-01-03')")
    for _ in range(2):  # what was merged or dropped lies there until it expires
        gateway.run(more)
        assert gateway.run("SELECT COUNT(*) FROM m").collect() == [(6,)]


@pytest.mark.parametrize("then", ["", "CALL sys.compact(`table` => 'm', compact_strategy => 'full')", "CALL sys.rewrite_file_index('m')"])
def test_a_rollback_leaves_what_was_migrated_where_it_lies(gateway: Gateway, lake: Lake, hive: Path, then: str) -> None:
    """Nothing was copied, so that there may be no other copy; what was written of it since goes."""
    gateway.run("CREATE TABLE m (id BIGINT, s STRING, day DATE) PARTITIONED BY (day) WITH ('bucket' = '-1')")
    gateway.run("INSERT INTO m VALUES (9, 'z', DATE '2024-01-01')")
    more = f"CALL sys.migrate_file(source_table => '{hive}', target_table => 'm')"
    gateway.run(more)
    there = names(hive)
    gateway.run("INSERT INTO m VALUES (10, 'y', DATE '2024-01-01')")
    if then:
        gateway.run("ALTER TABLE m SET ('file-index.bitmap.columns' = 'id')")
        gateway.run(then).close()
        assert gateway.run("SELECT COUNT(*) FROM m$snapshots").collect() == [(4,)]
    own = Path(lake.open(Identifier("default", "m")).location.removeprefix("file://"))
    (told,) = gateway.run("CALL sys.rollback_to(`table` => 'm', snapshot_id => 1, dry_run => true)").collect()
    (done,) = gateway.run("CALL sys.rollback_to('m', 1)").collect()
    assert told[:-1] == done[:-1]
    assert names(hive) == there
    assert len(list(own.rglob("data-*.parquet"))) == 1
    assert gateway.run("SELECT id FROM m").collect() == [(9,)]
    gateway.run(more)
    assert gateway.run("SELECT COUNT(*) FROM m").collect() == [(7,)]


def test_a_rollback_to_a_tag_leaves_what_was_migrated_by_what_has_expired(gateway: Gateway, lake: Lake, hive: Path) -> None:
    """What is left of the history names the files once more, with an index each, and does not tell who made them the table's."""
    gateway.run("CREATE TABLE m (id BIGINT, s STRING, day DATE) PARTITIONED BY (day) WITH ('bucket' = '-1')")
    gateway.run("INSERT INTO m VALUES (9, 'z', DATE '2024-01-01'); CALL sys.create_tag('m', 'g')")
    more = f"CALL sys.migrate_file(source_table => '{hive}', target_table => 'm')"
    gateway.run(f"{more}; ALTER TABLE m SET ('file-index.bitmap.columns' = 'id')")
    there = names(hive)
    gateway.run("CALL sys.rewrite_file_index('m'); CALL sys.expire_snapshots('m', retain_max => 1, retain_min => 1)").close()
    assert gateway.run("SELECT snapshot_id FROM m$snapshots").collect() == [(3,)]
    gateway.run("CALL sys.rollback_to('m', tag => 'g')")
    assert names(hive) == there
    assert gateway.run("SELECT id FROM m").collect() == [(9,)]
    gateway.run(more)
    assert gateway.run("SELECT COUNT(*) FROM m").collect() == [(7,)]


def test_files_are_added_once_by_two_at_once(gateway: Gateway, lake: Lake, hive: Path) -> None:
    """Both have looked at the table before either commits."""
    gateway.run("CREATE TABLE m (id BIGINT, s STRING, day DATE) PARTITIONED BY (day) WITH ('bucket' = '-1')")
    table = lake.open_to_write(Identifier("default", "m"))
    plan = lake.plan_migration(table, str(hive))
    gateway.run(f"CALL sys.migrate_file(source_table => '{hive}', target_table => 'm')")
    table = lake.open_to_write(Identifier("default", "m"))
    with pytest.raises(RewriteConflict, match="is part of the table"):
        lake.commit(table, migration_commit(plan.source.files, table.schema))
    assert gateway.run("SELECT COUNT(*) FROM m").collect() == [(6,)]


def test_only_import_directories_are_taken_over(gateway: Gateway, hive: Path, imports: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    pq.write_table(ROWS, outside / "a.parquet")
    (imports / "link").symlink_to(outside)
    (imports / "files").mkdir()
    (imports / "files" / "a.parquet").symlink_to(outside / "a.parquet")
    for place in (outside, imports / "link", imports / "files", f"{imports}/../outside", "/", "relative"):
        with pytest.raises((Forbidden, InvalidOption)):
            gateway.run(f"CALL sys.migrate_table(table => '{place}', target_table => 'm')")
        with pytest.raises(LakeError):
            gateway.run(f"CALL sys.register_table('m', '{place}')")


@pytest.fixture
def lying(gateway: Gateway, imports: Path, warehouse: Path) -> Path:
    """A Paimon table the catalog does not know."""
    gateway.run("CREATE TABLE t (id INT); INSERT INTO t VALUES (1); ALTER TABLE t ADD (s STRING); INSERT INTO t VALUES (2, 'b')")
    shutil.copytree(warehouse / "default.db" / "t", imports / "lying")
    return imports / "lying"


def test_a_table_is_registered_as_it_is(gateway: Gateway, lake: Lake, lying: Path) -> None:
    ((*_, note),) = gateway.run(f"CALL sys.register_table(table => 'r', path => 'file://{lying}')").collect()
    assert "Grants, row filters and masks are not in a table's files: none came along" in str(note)
    assert gateway.run("SELECT * FROM r").collect() == [(1, None), (2, "b")]
    assert gateway.run("INSERT INTO r VALUES (3, 'c')").collect() == [(1, 3)]
    assert gateway.run("SELECT COUNT(*) FROM r").collect() == [(3,)]
    assert (lying / "snapshot" / "snapshot-3").exists()
    with pytest.raises(InvalidName, match="already"):
        gateway.run(f"CALL sys.register_table('r2', '{lying}')")
    restarted = Gateway(Lake(lake.catalog, lake.warehouse), NoSpark())
    assert restarted.run("SELECT COUNT(*) FROM r").collect() == [(3,)]
    restarted.close()
    gateway.run("DROP TABLE r")
    assert (lying / "snapshot" / "snapshot-3").exists()
    gateway.run(f"CALL sys.register_table('again', '{lying}')")
    assert gateway.run("SELECT COUNT(*) FROM again").collect() == [(3,)]


def test_branches_and_tags_come_along(gateway: Gateway, lake: Lake, imports: Path, warehouse: Path) -> None:
    gateway.run("CREATE TABLE b (id INT); INSERT INTO b VALUES (1); CALL sys.create_tag('b', 'one'); INSERT INTO b VALUES (2)")
    gateway.run("CALL sys.create_branch('b', 'from_tag', 'one'); CALL sys.create_branch('b', 'empty')")
    gateway.run("INSERT INTO `b$branch_from_tag` VALUES (10); ALTER TABLE `b$branch_empty` ADD (s STRING)")
    shutil.copytree(warehouse / "default.db" / "b", imports / "b")
    gateway.run(f"CALL sys.register_table('r', '{imports / 'b'}')")
    assert sorted(gateway.run("SELECT id FROM r").collect()) == [(1,), (2,)]
    assert sorted(gateway.run("SELECT id FROM `r$branch_from_tag`").collect()) == [(1,), (10,)]
    assert gateway.run("SELECT * FROM `r$branch_empty`").collect() == []
    gateway.run("INSERT INTO `r$branch_empty` VALUES (7, 'x'); INSERT INTO `r$branch_from_tag` VALUES (11)")
    assert gateway.run("SELECT * FROM `r$branch_empty`").collect() == [(7, "x")]
    assert [tag.name for tag in lake.tags.all(lake.open(Identifier("default", "r")))] == ["one"]
    gateway.run("CALL sys.fast_forward('r', 'from_tag')")
    assert sorted(gateway.run("SELECT id FROM r").collect()) == [(1,), (10,), (11,)]
    (imports / "b" / "branch" / "branch-broken").mkdir()
    gateway.run("DROP TABLE r")
    with pytest.raises(InvalidSchema, match="branch-broken"):
        gateway.run(f"CALL sys.register_table('r', '{imports / 'b'}')")


def test_what_is_no_append_table_is_not_registered(gateway: Gateway, lying: Path) -> None:
    schema = lying / "schema" / "schema-1"
    text = schema.read_text()
    for broken, says in (
        (text.replace('"primaryKeys": []', '"primaryKeys": ["id"]'), "primary key"),
        ("{", "is no schema"),
        (text.replace('"options": {', '"options": {"type": "format-table", '), "format-table"),
        (
            text.replace('"options": {', '"options": {"commit.callbacks": "evil.Callback", '),
            r"'commit.callbacks' in .*/schema/schema-1: it names a program",
        ),
    ):
        assert broken != text
        schema.write_text(broken)
        with pytest.raises(InvalidSchema, match=says):
            gateway.run(f"CALL sys.register_table('r', '{lying}')")
    schema.write_text(text.replace('"options": {', f'"comment": "{"x" * 20_000}", "options": {{'))
    with pytest.raises(BadRequest, match=r"schema-1 is 20,000 bytes long; at most 16,384 fit"):
        gateway.run(f"CALL sys.register_table('r', '{lying}')")
    schema.write_text(text)
    (lying / "snapshot" / "snapshot-2").rename(lying / "snapshot" / "snapshot-4")
    with pytest.raises(InvalidSchema, match="snapshot-4 holds snapshot 2"):
        gateway.run(f"CALL sys.register_table('r', '{lying}')")


def test_an_old_schema_or_a_branch_brings_no_option_that_readers_would_run(gateway: Gateway, lying: Path) -> None:
    schema = lying / "schema" / "schema-0"
    text = schema.read_text()
    harmful = text.replace('"options": {', '"options": {"s3.endpoint": "http://evil.example", ')
    schema.write_text(harmful)
    with pytest.raises(InvalidSchema, match=r"'s3.endpoint' in .*/schema/schema-0: "):
        gateway.run(f"CALL sys.register_table('r', '{lying}')")
    schema.write_text(text)
    branch = lying / "branch" / "branch-evil" / "schema"
    branch.mkdir(parents=True)
    (branch / "schema-0").write_text(harmful)
    with pytest.raises(InvalidSchema, match=r"'s3.endpoint' in .*/branch-evil/schema/schema-0: "):
        gateway.run(f"CALL sys.register_table('r', '{lying}')")
    (branch / "schema-0").write_text(text.replace('"options": {', '"options": {"s3.storage-class": "STANDARD_IA", '))
    gateway.run(f"CALL sys.register_table('r', '{lying}')")


def test_files_that_lack_their_partition_are_not_registered(gateway: Gateway, imports: Path, warehouse: Path) -> None:
    gateway.run("CREATE TABLE p (id BIGINT, day STRING) PARTITIONED BY (day) WITH ('bucket' = '-1'); INSERT INTO p VALUES (1, 'x')")
    shutil.copytree(warehouse / "default.db" / "p", imports / "p")
    (file,) = (imports / "p").rglob("*.parquet")
    pq.write_table(pa.table({"id": pa.array([1], pa.int64())}), file)
    with pytest.raises(InvalidSchema, match="does not hold the partition column day"):
        gateway.run(f"CALL sys.register_table('r', '{imports / 'p'}')")


def test_whatever_takes_files_over_takes_createtable(gateway: Gateway, lake: Lake, hive: Path, lying: Path, imports: Path) -> None:
    """No right on a table is one on the files that others read in the import directories."""
    secret = user(lake, "ada")
    files, whole = imports / "files", imports / "whole"
    shutil.copytree(hive, files)
    (whole / "w").mkdir(parents=True)
    pq.write_table(ROWS, whole / "w" / "a.parquet")
    gateway.run("CREATE TABLE f (id BIGINT, s STRING, day DATE) PARTITIONED BY (day) WITH ('bucket' = '-1')").close()
    gateway.run("GRANT ALL ON f TO ada")
    calls = {
        "register_table": f"CALL sys.register_table('r', '{lying}')",
        "migrate_table": f"CALL sys.migrate_table(table => '{hive}', target_table => 'm')",
        "migrate_file": f"CALL sys.migrate_file(source_table => '{files}', target_table => 'f')",
        "migrate_database": f"CALL sys.migrate_database(database => '{whole}', target_database => 'default')",
    }
    taking = {name.removeprefix("sys.") for name, one in PROCEDURES.items() if one.body.__module__ == register_table.__module__}
    assert taking == calls.keys(), "each is tried here"
    before = names(imports)
    for call in calls.values():
        for text in (call, call.replace("')", "', dry_run => true)")):
            with pytest.raises(Forbidden, match="CREATETABLE"):
                gateway.run(text, caller=lake.access.caller(secret))
    table = lake.open(Identifier("default", "f"))
    with pytest.raises(Forbidden, match="CREATETABLE"):
        lake.for_caller(lake.access.caller(secret)).record_place(table, lake.plan_migration(table, str(files)))
    assert names(imports) == before
    lake.plan_migration(table, str(files))  # nothing has become the table's
    gateway.run("GRANT CREATETABLE ON DATABASE `default` TO ada")
    for call in calls.values():
        gateway.run(call, caller=lake.access.caller(secret))
    assert gateway.run("SELECT count(*) FROM f").collect() == [(6,)]
    gateway.run("INSERT INTO m VALUES (5, 'own', DATE '2024-01-01')", caller=lake.access.caller(secret))


def test_a_directory_of_directories_becomes_tables_each_by_itself(gateway: Gateway, lake: Lake, hive: Path, imports: Path) -> None:
    gateway.run("CREATE DATABASE d").close()
    whole = imports / "whole"
    for name in ("plain", "_hidden"):
        (whole / name).mkdir(parents=True)
        pq.write_table(ROWS, whole / name / "a.parquet")
    (whole / "bad").mkdir()
    (whole / "bad" / "a.parquet").write_bytes(b"no parquet")
    hive.rename(whole / "parted")
    call = f"CALL sys.migrate_database(source_type => 'hive', database => '{whole}', target_database => 'd'"
    told = gateway.run(f"{call}, dry_run => true)").collect()
    assert [row[:2] for row in told] == [("d.bad", "failed"), ("d.parted", "migrated"), ("d.plain", "migrated")]
    assert lake.list_tables("d") == []
    done = gateway.run(f"{call})").collect()
    assert [row[:-1] for row in done] == [row[:-1] for row in told]
    assert lake.list_tables("d") == ["parted", "plain"]
    assert gateway.run("SELECT id, s FROM d.plain").collect() == [(1, "a"), (2, None)]
    assert [row[1] for row in gateway.run(f"{call})").collect()] == ["failed", "failed", "failed"]  # they are there
    with pytest.raises(Forbidden):
        gateway.run(f"CALL sys.migrate_database(database => '{imports.parent}')").close()
    ada = user(lake, "ada")
    with pytest.raises(Forbidden):
        gateway.run(f"{call})", caller=lake.access.caller(ada)).close()


@pytest.fixture
def reading(lake: Lake, spark_stub: NoSpark, imports: Path) -> Iterator[Gateway]:
    made = Gateway(lake, spark_stub, limits=GatewayLimits(local_threads=1, import_dirs=(str(imports),)))
    made.start()
    yield made
    made.close()


def _create(path: object, more: str = "") -> str:
    return f"CREATE TEMPORARY TABLE f (id BIGINT) WITH ('connector' = 'filesystem', 'path' = '{path}'{more})"


def test_files_of_a_registered_table_are_read_through_it_alone(reading: Gateway, lake: Lake, imports: Path, warehouse: Path) -> None:
    reading.run("CREATE TABLE made (id BIGINT) WITH ('bucket' = '1', 'bucket-key' = 'id'); INSERT INTO made VALUES (1)").close()
    shutil.copytree(warehouse / "default.db" / "made", imports / "deep" / "orders")
    for where in ("free/x", "free/deep", "deep/ordersX"):
        (imports / where).mkdir(parents=True)
        pq.write_table(ROWS, imports / where / "a.parquet")
    reading.run(_create(imports / "deep" / "orders" / "bucket-0")).close()  # it is nobody's yet
    reading.run(f"CALL sys.register_table('r', '{imports}/deep/orders')").close()
    (imports / "free" / "linked").symlink_to(imports / "deep" / "orders" / "bucket-0")
    (imports / "free" / "x" / "link.parquet").symlink_to(next((imports / "deep" / "orders" / "bucket-0").iterdir()))
    watched = ", 'source.monitor-interval' = '1 s'"
    for path in ("deep/orders/bucket-0", "deep/orders", "deep", "", "deep/./orders/../orders", "free/linked", "free/x", "*/o*/b*", "d*"):
        for more in ("", watched):
            with pytest.raises(Forbidden, match=r"table of this catalog lie there.*by its name"):
                reading.run(_create(f"{imports}/{path}", more))
    for path in ("[!a]eep/[^x]rders/*", "deep/?rders/later-*"):
        with pytest.raises(Forbidden, match="table of this catalog"):
            reading.run(_create(f"{imports}/{path}", watched))
    for path in ("free/deep", "deep/ordersX", "free/d*", "deep/orders?", "deep/ordersX/a.parquet"):
        for more in ("", watched):
            reading.run(_create(f"{imports}/{path}", more) + "; DROP TEMPORARY TABLE f").close()
    with pytest.raises(Forbidden, match="table of this catalog"):
        reading.run(f"CALL sys.migrate_database(database => '{imports}/deep/orders')")
    reading.run("DROP TABLE r").close()
    reading.run(_create(imports / "deep" / "orders" / "bucket-0")).close()


def test_files_of_a_migrated_table_are_read_through_it_alone(reading: Gateway, hive: Path) -> None:
    reading.run(_create(hive) + "; DROP TEMPORARY TABLE f").close()
    reading.run(f"CALL sys.migrate_table(source_type => 'hive', table => '{hive}', target_table => 'm')").close()
    for path in (hive, hive / "day=2024-01-01", hive / "day*" / "*"):
        with pytest.raises(Forbidden, match="table of this catalog"):
            reading.run(_create(path))


def test_a_table_over_files_that_become_anothers_is_not_used_any_more(lake: Lake, imports: Path, hive: Path) -> None:
    context = replace(context_of(lake), import_dirs=(str(imports),))
    scope = context.connector_scope
    table = ConnectorTable(name="f", columns=(), options={"connector": "filesystem", "path": str(hive)})
    spark_connector(table, scope)
    rights = Rights(context, [], [table])
    rights.now()
    lake.migrate_table(Identifier("default", "m"), str(hive))
    with pytest.raises(Forbidden, match="table of this catalog"):
        spark_connector(table, scope)
    with pytest.raises(Forbidden, match="table of this catalog"):
        rights.now()


def test_the_warehouse_is_read_by_its_tables_alone(catalog: CatalogStore, warehouse: Path, spark_stub: NoSpark) -> None:
    for root, says in ((warehouse.parent, "the warehouse lies there"), (warehouse, "table of this catalog")):
        lake = Lake(catalog, str(warehouse), import_dirs=[str(root)])
        gateway = Gateway(lake, spark_stub, limits=GatewayLimits(local_threads=1, import_dirs=(str(root),)))
        gateway.start()
        try:
            gateway.run("CREATE TABLE IF NOT EXISTS t (id BIGINT)").close()
            for path in (warehouse, warehouse / "default.db" / "t", f"{warehouse}/*/t/schema"):
                with pytest.raises(Forbidden, match=says):
                    gateway.run(_create(path))
        finally:
            gateway.close()
            lake.close()


def test_a_table_whose_nested_types_are_spelled_whole(gateway: Gateway, warehouse: Path, imports: Path) -> None:
    """pypaimon 1.4 writes `MAP<STRING, INT>` into schema files, and numbers the fields of each ROW from 0."""
    gateway.run(
        "CREATE TABLE t (id INT, m MAP<STRING, INT>, r ROW<x INT, y STRING>, s ROW<x INT, y STRING>) WITH ('bucket' = '-1')"
    ).close()
    gateway.run("INSERT INTO t VALUES (1, MAP['a', 1], ROW(2, 'b'), ROW(3, 'c'))").close()
    wanted = gateway.run("SELECT * FROM t").collect()
    shutil.copytree(warehouse / "default.db" / "t", imports / "theirs")
    file = imports / "theirs" / "schema" / "schema-0"
    stored = json.loads(file.read_text())
    stored["fields"][1]["type"]["type"] = "MAP<STRING, INT>"
    for row in stored["fields"][2:]:
        row["type"]["fields"] = [field | {"id": at} for at, field in enumerate(row["type"]["fields"])]
    file.write_text(json.dumps(stored))
    gateway.run(f"CALL sys.register_table('taken', '{imports}/theirs')").close()
    assert gateway.run("SELECT * FROM taken").collect() == wanted
    gateway.run("INSERT INTO taken VALUES (1, MAP['a', 1], ROW(2, 'b'), ROW(3, 'c'))").close()
    assert gateway.run("SELECT * FROM taken").collect() == [*wanted, *wanted]
