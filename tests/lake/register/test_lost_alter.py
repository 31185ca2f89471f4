"""A catalog that is older than its warehouse by an ALTER alone: its version of the schema is a file that the catalog does not know.

Were its number given to another version, Paimon's readers would take the columns of the one for those of the other.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.commit.notifier import Hook
from lake.register.restored.after_restore import differences
from lake.rewrite.expiry import create_tag
from model.errors import InvalidSchema, TableDamaged, TableDiverged, UnsupportedType
from model.identifier import Identifier
from model.schema.change import AddColumn
from model.schema.schema import Schema, column
from model.schema.types import BigIntType
from table.format.snapshot_file import snapshot_bytes
from tests.lake.register.test_standing import older
from tests.lake.test_commit import T, append, names
from tests.lake.test_commit import table as table

Opened = Callable[..., Lake]


@pytest.fixture
def opened(catalog: CatalogStore, warehouse: Path) -> Iterator[Opened]:
    """Servers on the catalog as it is now."""
    lakes: list[Lake] = []

    def make(hook: Hook = lambda _: None) -> Lake:
        lakes.append(Lake(catalog, str(warehouse), hook=hook))
        return lakes[-1]

    yield make
    for lake in lakes:
        lake.close()


def add(lake: Lake, line: Identifier, name: str) -> Schema:
    return lake.alter_table(line, [AddColumn(name=name, type=BigIntType())])


def with_columns(schema: Schema, *names: str) -> Schema:
    return replace(schema, fields=tuple(column(name, "BIGINT") for name in names))


def alters(lake: Lake, line: Identifier) -> None:
    add(lake, line, "c2")


def replaces(lake: Lake, line: Identifier) -> None:
    schema = lake.open(line).schema
    lake.replace_table(line, with_columns(schema, *schema.field_names, "c2"))


@pytest.mark.parametrize(("branch", "rows"), [("main", True), ("main", False), ("b", False)])
def test_it_is_noticed_and_registered(
    lake: Lake, table: LakeTable, opened: Opened, dsn: str, catalog: CatalogStore, warehouse: Path, tmp_path: Path, branch: str, rows: bool
) -> None:
    line = replace(T, branch=branch)
    lake.branches.create(table, "b")
    if rows:
        for each in (T, replace(T, branch="b")):
            lake.commit(lake.open(each), append("a"))
    lake._publisher._notifier.close()
    older(dsn, tmp_path / "old")
    lost = add(lake, line, "c1")
    older(dsn, tmp_path / "old", back=True)

    repair = f"CALL sys.repair_table('{line.written()}')"
    (told,) = differences(catalog, str(warehouse))
    assert (told.statement, "schema-1 in the warehouse is newer" in told.what) == (repair, True)
    fresh = opened()
    fresh.standing.look_around()
    (trouble,) = fresh.standing.troubles()
    assert (trouble.statement, "schema-1" in trouble.problem) == (repair, True)
    with catalog.reading() as tx:
        assert len(tx.overview.sums().diverged) == 1
    with pytest.raises(TableDiverged):
        fresh.commit(fresh.open(line), append("lost"))
    done = fresh.repair_table(line)
    assert (done.schemas, done.registered, done.set_aside) == ((1,), (), ())
    assert fresh.open(line).schema == lost
    fresh.standing.look_around()
    assert fresh.standing.troubles() == []
    assert add(fresh, T, "c2").id == 2
    fresh.commit(fresh.open(line), append("b"))
    assert names(fresh.open(line)) == (["a", "b"] if rows else ["b"])


def test_one_of_types_that_are_not_here_is_noticed(lake: Lake, table: LakeTable, opened: Opened) -> None:
    """A commit was told that there is no such type, and by no file."""
    version = json.loads((Path(table.location) / "schema" / "schema-0").read_text())
    fields = [*version["fields"], {"id": 9, "name": "new", "type": "SPARKLING"}]
    (Path(table.location) / "schema" / "schema-1").write_text(json.dumps(version | {"id": 1, "fields": fields}))
    fresh = opened()
    fresh.standing.look_around()
    (trouble,) = fresh.standing.troubles()
    assert "schema-1" in trouble.problem
    with pytest.raises(TableDiverged, match="schema-1"):
        fresh.commit(fresh.open(T), append("lost"))
    with pytest.raises(UnsupportedType, match=r"schema-1 has a type of a newer version .*SPARKLING"):
        fresh.repair_table(T)
    lies = Path(table.location).with_name("outside")
    shutil.copytree(table.location, lies)
    with pytest.raises(UnsupportedType, match=r"outside/schema/schema-1 has a type of a newer version .*SPARKLING"):
        fresh.register_table(replace(T, table="there"), str(lies))


@pytest.mark.parametrize(
    ("change", "rows", "branch", "lost"),
    [(alters, True, "main", 1), (alters, False, "b", 2), (replaces, True, "b", 1), (replaces, False, "main", 2)],
)
def test_its_number_is_given_to_no_other_before_anybody_looked(
    lake: Lake,
    table: LakeTable,
    opened: Opened,
    dsn: str,
    tmp_path: Path,
    change: Callable[[Lake, Identifier], None],
    rows: bool,
    branch: str,
    lost: int,
) -> None:
    """Numbers are the whole table's; the first lost one may have been a branch's that was dropped since."""
    lake.branches.create(table, "b")
    if rows:
        lake.commit(lake.open(T), append("a"))
    lake._publisher._notifier.close()
    older(dsn, tmp_path / "old")
    if lost == 2:
        lake.branches.create(table, "gone")
        add(lake, replace(T, branch="gone"), "c0")
        lake.branches.drop(table, ["gone"])
    assert add(lake, replace(T, branch=branch), "c1").id == lost
    older(dsn, tmp_path / "old", back=True)
    fresh = opened()
    with pytest.raises(
        TableDiverged, match=rf"schema-{lost}.*sys.repair_table\('{replace(T, branch=branch).written()}', true\)".replace("$", r"\$")
    ):
        change(fresh, T)
    assert fresh.open(T).schema.id == 0
    fresh.repair_table(replace(T, branch=branch))
    change(fresh, T)
    assert fresh.open(T).schema.id == lost + 1


def test_another_file_in_the_place_of_a_decided_version_stops_commits(
    lake: Lake, table: LakeTable, opened: Opened, warehouse: Path
) -> None:
    """One that came between the look and the decision; before, it stood for the version without a word."""
    place = warehouse / "default.db/t/schema/schema-1"

    def meddle(step: str) -> None:
        if step == "schema decided":
            body = table.schema.to_json()
            place.write_text(json.dumps(body | {"id": 1, "comment": "another"}))

    meddled = opened(meddle)
    added = add(meddled, T, "c1")
    fresh = opened()
    with pytest.raises(TableDiverged, match="schema-1"):
        fresh.commit(fresh.open(T), append("a"))
    done = fresh.repair_table(T)
    assert [path for _, path in done.rewritten] == [f"{table.location}/schema/schema-1"]
    assert Schema.from_json(json.loads(place.read_text())) == added
    fresh.commit(fresh.open(T), append("a"))
    assert [json.loads(kept.read_text())["comment"] for kept in (warehouse / "default.db/t/_diverged").rglob("schema-1")] == ["another"]


def test_snapshots_of_a_version_behind_another_branchs_number_are_registered(
    lake: Lake, table: LakeTable, opened: Opened, dsn: str, tmp_path: Path
) -> None:
    lake.branches.create(table, "b")
    add(lake, replace(T, branch="b"), "c0")
    lake.commit(lake.open(T), append("a"))
    lake._publisher._notifier.close()
    older(dsn, tmp_path / "old")
    lost = add(lake, T, "c1")
    lake.commit(lake.open(T), append("b"))
    lake._publisher.close()
    older(dsn, tmp_path / "old", back=True)
    fresh = opened()
    done = fresh.repair_table(T)
    assert (done.registered, done.schemas, done.set_aside) == ((2,), (2,), ())
    assert (names(fresh.open(T)), fresh.open(T).schema) == (["a", "b"], lost)


def test_a_version_that_came_with_what_is_set_aside_is_not_the_tables(
    lake: Lake, table: LakeTable, opened: Opened, warehouse: Path
) -> None:
    """Its number is taken, so that the tag on what was set aside is read as it was written."""
    lake.commit(table, append("a"))
    lake.commit(table, append("b"))
    there = warehouse / "default.db/t"
    second = table.files.read_snapshot(2)
    assert second is not None
    (there / "schema/schema-1").write_text(json.dumps(table.schema.to_json() | {"id": 1, "comment": "theirs"}))
    (there / "snapshot/snapshot-4").write_bytes(snapshot_bytes(replace(second, id=4, schema_id=1, uuid="theirs")))
    (there / "snapshot/snapshot-3").write_text("not ours")
    fresh = opened()
    done = fresh.repair_table(T)
    assert (done.set_aside, done.schemas, [number for _, number in done.kept]) == ((3, 4), (1,), [4])
    assert fresh.open(T).schema.id == 0
    assert add(fresh, T, "c2").id == 2


def test_a_version_that_none_could_have_here_is_named(lake: Lake, table: LakeTable, opened: Opened, warehouse: Path) -> None:
    place = warehouse / "default.db/t/schema/schema-1"
    place.write_text(json.dumps(table.schema.to_json() | {"id": 1, "options": {"type": "object-table"}}))
    with pytest.raises(TableDiverged):
        add(lake, T, "c1")
    with pytest.raises(InvalidSchema):
        lake.repair_table(T)
    place.unlink()
    lake.repair_table(T)
    add(lake, T, "c1")


def test_the_schema_of_another_table_in_its_place_is_not_taken_over(
    lake: Lake, table: LakeTable, opened: Opened, dsn: str, tmp_path: Path
) -> None:
    older(dsn, tmp_path / "old")
    schema = table.schema
    lake.drop_table(T, purge=True)
    lake.create_table(T, with_columns(replace(schema, id=0, time_millis=0, options={}), "other"))
    add(lake, T, "c1")
    older(dsn, tmp_path / "old", back=True)
    fresh = opened()
    with pytest.raises(TableDiverged):
        add(fresh, T, "c2")
    with pytest.raises(TableDamaged, match="is another table's schema"):
        fresh.repair_table(T)


def test_our_own_versions_are_no_sign(lake: Lake, table: LakeTable, opened: Opened) -> None:
    other = opened()
    lake.commit(table, append("a"))
    create_tag(lake, lake.open(T), "one")
    lake.branches.create(lake.open(T), "b", from_tag="one")
    add(other, T, "c1")
    add(lake, replace(T, branch="b"), "d1")
    lake.history.rollback_schema(lake.open(T), 0)
    add(other, T, "c2")
    other.branches.fast_forward(other.open(T), "b")
    add(lake, T, "c3")
    opened().standing.look_around(tables=None)
    assert opened().standing.troubles() == []
    lake.commit(lake.open(T), append("b"))
