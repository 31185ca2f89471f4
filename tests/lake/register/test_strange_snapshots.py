"""Snapshots that somebody wrote past the catalog with what it cannot hold: repair and registration name it, or set it aside."""

from __future__ import annotations

import json
import random
import string
from pathlib import Path
from typing import Any

import pytest

from lake import Lake, LakeTable
from model.errors import InvalidSchema
from model.identifier import Identifier
from model.schema.change import AddColumn
from model.schema.types import BigIntType
from tests.lake.register.damage import wait_for_notes
from tests.lake.test_commit import T, append, names, snapshot_file
from tests.lake.test_commit import table as table

R = Identifier("default", "r")


@pytest.fixture
def body(lake: Lake, table: LakeTable, warehouse: Path) -> dict[str, Any]:
    """The third snapshot, which the catalog has lost."""
    for name in ("a", "b", "c"):
        lake.commit(table, append(name))
    wait_for_notes(lake)
    lake._publisher._notifier.close()
    with lake.catalog.transaction() as tx:
        tx.snapshots.point(table.table_id, "main", tx.snapshots.get(table.table_id, "main", 2))
        tx.snapshots.remove(table.table_id, "main", above=2)
    lake._publisher.doubt(table.table_id, "main")
    return dict(json.loads(snapshot_file(warehouse, 3).read_bytes()))


def test_one_of_a_key_that_the_catalog_has_at_another_id_is_set_aside(
    lake: Lake, table: LakeTable, warehouse: Path, body: dict[str, Any]
) -> None:
    first = json.loads(snapshot_file(warehouse, 1).read_bytes())
    snapshot_file(warehouse, 3).write_text(json.dumps(body | {"uuid": first["uuid"]}))
    done = lake.repair_table(T)
    assert (done.registered, done.set_aside) == ((), (3,))
    lake.commit(lake.open(T), append("d"))
    assert names(lake.open(T)) == ["a", "b", "d"]


def test_of_two_of_one_key_the_second_is_set_aside(lake: Lake, table: LakeTable, warehouse: Path, body: dict[str, Any]) -> None:
    lake.repair_table(T)
    lake.commit(lake.open(T), append("d"))
    lake._publisher._notifier.close()
    with lake.catalog.transaction() as tx:
        tx.snapshots.point(table.table_id, "main", tx.snapshots.get(table.table_id, "main", 2))
        tx.snapshots.remove(table.table_id, "main", above=2)
    fourth = json.loads(snapshot_file(warehouse, 4).read_bytes())
    snapshot_file(warehouse, 4).write_text(json.dumps(fourth | {"uuid": body["uuid"]}))
    done = lake.repair_table(T)
    assert (done.registered, done.set_aside) == ((3,), (4,))
    assert names(lake.open(T)) == ["a", "b", "c"]


def test_in_a_line_that_came_after_an_expiry_too(lake: Lake, table: LakeTable, warehouse: Path, body: dict[str, Any]) -> None:
    """Where the catalog's line is replaced all of it is registered anew."""
    second = json.loads(snapshot_file(warehouse, 2).read_bytes())
    for number, uuid in ((5, body["uuid"]), (6, second["uuid"]), (7, body["uuid"])):
        snapshot_file(warehouse, number).write_text(json.dumps(body | {"id": number, "uuid": uuid}))
    snapshot_file(warehouse, 3).unlink()
    snapshot_file(warehouse, 1).unlink()
    done = lake.repair_table(T)
    assert (done.registered, done.set_aside) == ((5,), (6, 7))
    assert names(lake.open(T)) == ["a", "b", "c"]


LONG = "".join(random.Random(1).choices(string.ascii_letters, k=20_000))
"""More than fits into an index."""
STRANGE: dict[str, dict[str, Any]] = {
    "NUL": {"uuid": "a\0b"},
    "half of a character": {"uuid": "a\ud800b"},
    "NUL in a property": {"properties": {"k": "a\0b"}},
    "half of a character in a property": {"properties": {"k": "\ud800"}},
    "not a number": {"properties": {"k": float("nan")}},
    "long uuid": {"uuid": LONG},
    "long user": {"commitUser": LONG},
    "late": {"timeMillis": 10**30},
    "identifier": {"commitIdentifier": 10**30},
}


@pytest.mark.parametrize("what", STRANGE)
def test_what_the_catalog_cannot_hold_is_set_aside(lake: Lake, warehouse: Path, body: dict[str, Any], what: str) -> None:
    snapshot_file(warehouse, 3).write_text(json.dumps(body | STRANGE[what]))
    done = lake.repair_table(T)
    assert (done.registered, done.set_aside, done.kept) == ((), (3,), ())
    lake.commit(lake.open(T), append("d"))
    assert names(lake.open(T)) == ["a", "b", "d"]


def test_the_least_number_is_one(lake: Lake, warehouse: Path, body: dict[str, Any]) -> None:
    """By which Flink's writers say that there is no watermark yet."""
    snapshot_file(warehouse, 3).write_text(json.dumps(body | {"watermark": -(2**63), "commitIdentifier": 2**63 - 1}))
    assert lake.repair_table(T).registered == (3,)


@pytest.mark.parametrize("what", ["two of a key", "a version twice", "another version's file"])
def test_a_directory_that_tells_one_thing_twice_is_not_registered(
    lake: Lake, table: LakeTable, warehouse: Path, body: dict[str, Any], what: str
) -> None:
    place = warehouse / "default.db/t"
    if what == "two of a key":
        first = json.loads(snapshot_file(warehouse, 1).read_bytes())
        snapshot_file(warehouse, 3).write_text(json.dumps(body | {"uuid": first["uuid"]}))
    elif what == "a version twice":
        (place / "schema/schema-00").write_bytes((place / "schema/schema-0").read_bytes())
    else:
        (place / "schema/schema-1").write_bytes((place / "schema/schema-0").read_bytes())
    moved = warehouse / "default.db/r"
    place.rename(moved)
    if what == "a version twice":  # no reader takes such a file for one
        assert lake.register_table(R, str(moved)) is not None
        return
    with pytest.raises(InvalidSchema, match="Snapshots 1 and 3" if what == "two of a key" else "schema-1 holds version 0"):
        lake.register_table(R, str(moved))


def test_a_version_whose_file_has_another_spelling_is_registered_once(lake: Lake, table: LakeTable, warehouse: Path) -> None:
    place = warehouse / "default.db/t/schema"
    (place / "schema-1").write_text(json.dumps(table.schema.to_json() | {"id": 1, "comment": "x"}))
    (place / "schema-01").write_bytes((place / "schema-1").read_bytes())
    assert lake.repair_table(T).schemas == (1,)
    assert lake.alter_table(T, [AddColumn(name="c", type=BigIntType())]).id == 2
