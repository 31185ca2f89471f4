"""A table whose metadata, options or links name what is not its own is damaged: readable nowhere, and nothing foreign is ever deleted."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from gateway.gateway import Gateway
from lake import Lake, LakeTable
from lake.rewrite.expiry import create_tag, delete_tag, expire_snapshots, rollback
from lake.rewrite.orphans import remove_orphan_files
from model.errors import InvalidOption, LakeError, TableDamaged
from model.identifier import Identifier
from model.schema.change import SetOption
from model.snapshot import CommitKind, Snapshot
from table.format.manifests.entries import DataFile, ManifestEntry, NewFile
from table.retention.expiry import ExpiryRules
from table.retention.named_files import metadata_of
from table.write.snapshot_builder import CommitRequest, build_snapshot
from table.write.writer import write_batches
from tests.fix_gateway import NoSpark
from tests.lake.kept import go_on, keep
from tests.lake.rewrite.test_compaction import batch_of

MINE, THEIRS = Identifier("default", "mine"), Identifier("default", "theirs")


def make_both(gateway: Gateway) -> None:
    for name in ("mine", "theirs"):
        gateway.run(f"CREATE TABLE {name} (id BIGINT, v STRING) WITH ('bucket' = '1', 'bucket-key' = 'id')")
        gateway.run(f"INSERT INTO {name} VALUES (1, '{name}')")


@pytest.fixture
def gateway(lake: Lake) -> Iterator[Gateway]:
    made = Gateway(lake, NoSpark())
    make_both(made)
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared(module_gateway: Gateway) -> Gateway:
    """For what is refused before it changes anything."""
    make_both(module_gateway)
    return module_gateway


def tree(warehouse: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in (warehouse / "default.db" / "theirs").rglob("*") if path.is_file()}


def live(table: LakeTable) -> list[ManifestEntry]:
    return list(table.files.live_entries(table.latest()))


def forged(lake: Lake, change: Callable[[DataFile], DataFile]) -> None:
    """Add an entry to the table as a client could that writes manifests past the server."""
    table = lake.open(MINE)
    file = change(dataclasses.replace(live(table)[0].file, file_name="x.parquet"))
    new = NewFile(partition=live(table)[0].partition, bucket=0, file=file)
    request = CommitRequest(kind=CommitKind.APPEND, adds=(new,), commit_user="u")
    latest = table.latest()
    assert latest is not None
    made = build_snapshot(table.files, table.schema, latest, [request], uuid=str(uuid4()), time_millis=latest.time_millis)
    with lake.catalog.transaction() as tx:
        tx.snapshots.advance(table.table_id, "main", base=latest.key, snapshot_id=made.id, uuid=made.key, body=made.to_json())
    table.latest()  # publishes it


def victim(lake: Lake) -> tuple[str, str]:
    """The other table's data file: from the table's bucket directory, and in full."""
    table = lake.open(THEIRS)
    path = table.files.data_path(table.schema, live(table)[0])
    return f"../../theirs/bucket-0/{path.rpartition('/')[2]}", path


HOSTILE: dict[str, Callable[[str, str], Callable[[DataFile], DataFile]]] = {
    "name": lambda relative, full: lambda file: dataclasses.replace(file, file_name=relative),
    "absolute name": lambda relative, full: lambda file: dataclasses.replace(file, file_name=full),
    "path": lambda relative, full: lambda file: dataclasses.replace(file, external_path=full),
    "uri": lambda relative, full: lambda file: dataclasses.replace(file, external_path=f"file:///{full}"),
    "dots": lambda relative, full: lambda file: dataclasses.replace(file, external_path=full.replace("/theirs/", "/mine/../theirs/")),
    "scheme": lambda relative, full: lambda file: dataclasses.replace(file, external_path=f"s3://b{full}"),
    "no path": lambda relative, full: lambda file: dataclasses.replace(file, external_path="/a\0b"),
    "beside": lambda relative, full: lambda file: dataclasses.replace(file, extra_files=(relative,)),
    "nul": lambda relative, full: lambda file: dataclasses.replace(file, file_name="a\0b.parquet"),
    "long": lambda relative, full: lambda file: dataclasses.replace(file, file_name="ü" * 5000),
    "dot": lambda relative, full: lambda file: dataclasses.replace(file, file_name=".."),
}


def use_up(lake: Lake, gateway: Gateway) -> list[BaseException]:
    """Whatever deletes files, on the table as it is; the failures on the way."""
    failed: list[BaseException] = []

    def tried(work: Callable[[], object]) -> None:
        try:
            work()
        except LakeError as problem:
            failed.append(problem)

    def first() -> Snapshot:
        return lake.snapshots(lake.open(MINE))[0]

    tried(lambda: create_tag(lake, lake.open(MINE), "kept"))
    tried(lambda: remove_orphan_files(lake, lake.open(MINE), older_than_millis=0, check=go_on))
    tried(lambda: gateway.run("INSERT OVERWRITE mine VALUES (5, 'over')"))
    tried(lambda: gateway.run("TRUNCATE TABLE mine"))
    tried(lambda: expire_snapshots(lake, lake.open(MINE), keep(1)))
    tried(lambda: delete_tag(lake, lake.open(MINE), "kept"))
    tried(lambda: rollback(lake, lake.open(MINE), first()))
    tried(lambda: expire_snapshots(lake, lake.open(MINE), ExpiryRules(at_least=1, at_most=1, retained=keep(1).retained, per_run=None)))
    tried(lambda: gateway.run("DROP TABLE mine"))
    return failed


@pytest.mark.parametrize("kind", HOSTILE)
def test_what_manifests_name_outside_is_neither_read_nor_deleted(lake: Lake, gateway: Gateway, warehouse: Path, kind: str) -> None:
    relative, full = victim(lake)
    before = tree(warehouse)
    forged(lake, HOSTILE[kind](relative, full))
    if kind != "beside":
        for statement in ("SELECT * FROM mine", "SELECT v FROM mine WHERE id = 1"):
            with pytest.raises(TableDamaged) as damaged:
                gateway.run(statement).collect()
            assert damaged.value.status == 503
            assert "default.mine" in damaged.value.message
    use_up(lake, gateway)  # a rollback lets such a snapshot go, and none of what it names
    assert tree(warehouse) == before
    assert gateway.run("SELECT v FROM theirs").collect() == [("theirs",)]


@pytest.mark.parametrize("link", ["bucket", "file", "manifest", "snapshot", "tag", "branch", "bucket of orphans"])
def test_links_lead_nowhere(lake: Lake, gateway: Gateway, warehouse: Path, tmp_path: Path, link: str) -> None:
    before = tree(warehouse)
    directory, theirs = warehouse / "default.db" / "mine", warehouse / "default.db" / "theirs"
    data = next((directory / "bucket-0").iterdir())
    other = next((theirs / "bucket-0").iterdir())
    if link == "bucket":
        shutil.rmtree(directory / "bucket-0")
        (directory / "bucket-0").symlink_to(theirs / "bucket-0")
    elif link == "file":
        data.unlink()
        data.symlink_to(other)
    elif link in ("manifest", "snapshot", "tag", "branch"):
        shutil.rmtree(directory / link, ignore_errors=True)
        (theirs / link).mkdir(exist_ok=True)
        (theirs / link / f"{link}-kept").write_text("{}")
        before = tree(warehouse)
        (directory / link).symlink_to(theirs / link)
    else:
        (directory / "bucket-7").symlink_to(theirs / "bucket-0")
    if link in ("bucket", "file"):
        with pytest.raises(LakeError):
            gateway.run("SELECT * FROM mine").collect()
    if link == "bucket":
        with pytest.raises(TableDamaged, match="link"):
            gateway.run("INSERT INTO mine VALUES (2, 'b')")
    if link == "bucket of orphans":
        with pytest.raises(TableDamaged, match="link"):
            remove_orphan_files(lake, lake.open(MINE), older_than_millis=0, check=go_on)
    use_up(lake, gateway)
    assert tree(warehouse) == before


def test_a_link_that_stays_inside_is_followed(lake: Lake, gateway: Gateway, warehouse: Path) -> None:
    directory = warehouse / "default.db" / "mine"
    data = next((directory / "bucket-0").iterdir())
    moved = directory / "aside.parquet"
    data.rename(moved)
    data.symlink_to(moved)
    assert gateway.run("SELECT v FROM mine").collect() == [("mine",)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("data-file.path-directory", "../theirs"), ("data-file.path-directory", "a/../../theirs"), ("data-file.path-directory", ".."),
        ("data-file.path-directory", "a//b"), ("data-file.path-directory", "a\\b"), ("data-file.prefix", "/../../theirs/bucket-0/y-"),
        ("data-file.prefix", "../y"), ("data-file.prefix", "a\0"), ("data-file.prefix", "x" * 300),
    ],
)  # fmt: skip
def test_options_name_no_other_place(shared: Gateway, module_path: Path, key: str, value: str) -> None:
    lake, warehouse = shared.lake, module_path / "warehouse"
    before = tree(warehouse)
    assert before
    with pytest.raises(InvalidOption):
        lake.alter_table(MINE, [SetOption(key=key, value=value)])
    written = value.replace("'", "''")
    with pytest.raises(LakeError):
        shared.run(f"CREATE TABLE made (id BIGINT) WITH ('bucket' = '-1', '{key}' = '{written}')")
    # A schema from before the check, or one somebody registered.
    table = lake.open(MINE)
    hostile = dataclasses.replace(table, schema=dataclasses.replace(table.schema, options={**table.schema.options, key: value}))
    if value == "a//b":  # one of Paimon's own spellings of a/b
        return
    with pytest.raises((TableDamaged, InvalidOption)):
        write_batches(hostile.files, hostile.schema, [batch_of(hostile, [1])])
    assert tree(warehouse) == before


@pytest.mark.parametrize("field", ["statistics", "base_manifest_list", "delta_manifest_list", "changelog_manifest_list", "index_manifest"])
@pytest.mark.parametrize("name", ["..", "../../theirs/snapshot/snapshot-1", "/etc/passwd", "", "a\0b", "x" * 300])
def test_names_in_snapshots_stay_inside(shared: Gateway, field: str, name: str) -> None:
    table = shared.lake.open(MINE)
    latest = table.latest()
    assert latest is not None
    hostile = dataclasses.replace(latest, **{field: name})  # type: ignore[arg-type]
    with pytest.raises(TableDamaged):
        list(metadata_of(table.files, hostile))
