"""Java's `rollbackToAsLatest` over changes of the schema: a new snapshot with the schema id and the files of an older one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.gateway import Gateway
from lake.rewrite.expiry import expire_snapshots
from lake.tables.tags import Tags
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from table.format.manifests.entries import EntryKind, ManifestEntry
from tests.lake.kept import keep
from tests.server.paimon.committing import AnewWriter
from tests.server.paimon.speaking import Rest

R = Identifier("d", "r")
COMMIT = "databases/d/tables/r/commit"


def gone(entry: ManifestEntry) -> ManifestEntry:
    return replace(entry, kind=EntryKind.DELETE)


def column_made_anew(gateway: Gateway) -> None:
    """A table with rows of a column that was dropped in its past, and now of another one of its name."""
    for text in (
        "CREATE TABLE d.r (id INT, x INT)",
        "INSERT INTO d.r VALUES (1, 10)",
        "ALTER TABLE d.r DROP x",
        "ALTER TABLE d.r ADD x INT",
        "TRUNCATE TABLE d.r",
        "INSERT INTO d.r VALUES (2, 20)",
    ):
        gateway.run(text).close()


def way_back(writer: AnewWriter, gateway: Gateway, to: int) -> dict[str, Any]:
    """What Java's `rollbackToAsLatest` commits."""
    table = gateway.lake.open(R)
    target = next(snapshot for snapshot in gateway.lake.snapshots(table) if snapshot.id == to)
    then, now = ({entry.key(): entry for entry in table.files.live_entries(snapshot)} for snapshot in (target, table.latest()))
    changes = [gone(entry) for key, entry in now.items() if key not in then] + [entry for key, entry in then.items() if key not in now]
    return writer.body(writer.latest(), changes=changes, schemaId=target.schema_id, commitKind="OVERWRITE")


def rows(gateway: Gateway) -> list[tuple[object, ...]]:
    return sorted(gateway.run("SELECT * FROM d.r").collect())


def test_over_a_column_that_was_dropped_and_added_anew(rest: Rest, gateway: Gateway) -> None:
    """Its old values are another column's, and have not been shown since it was dropped."""
    column_made_anew(gateway)
    writer = AnewWriter(rest, gateway.lake, "r")
    assert writer.post(way_back(writer, gateway, 1))
    assert rows(gateway) == [(1, None)]
    gateway.run("INSERT INTO d.r VALUES (3, 30)").close()
    assert writer.post(way_back(writer, gateway, 3))
    assert rows(gateway) == [(2, 20)]
    assert writer.post(way_back(writer, gateway, 5))
    assert rows(gateway) == [(1, None), (3, 30)]


def test_rows_of_a_column_that_was_dropped_are_refused_in_any_other_commit(rest: Rest, gateway: Gateway) -> None:
    """As of a client that had loaded the table before: their values would never be read."""
    column_made_anew(gateway)
    writer = AnewWriter(rest, gateway.lake, "r")
    late = writer.file(rows=1, buckets=1)
    late = replace(late, file=replace(late.file, schema_id=0))
    table = gateway.lake.open(R)
    there = [gone(entry) for entry in table.files.live_entries(table.latest())]
    back = way_back(writer, gateway, 1)
    back["snapshot"]["commitKind"] = "APPEND"
    overwrites = [writer.body(writer.latest(), changes=changes, schemaId=2, commitKind="OVERWRITE") for changes in ([late], [*there, late])]
    for body in (*overwrites, writer.body(writer.latest(), changes=[late], schemaId=2)):
        answer = rest.call("POST", COMMIT, body)
        assert (answer.status_code, "Version 0 of the schema of d.r was replaced" in answer.text) == (400, True), answer.text
    assert rest.refused("POST", COMMIT, back)[0] == 400
    assert rows(gateway) == [(2, 20)]


def test_to_before_the_table_was_replaced_names_what_takes_the_schema_along(rest: Rest, gateway: Gateway) -> None:
    for text in ("CREATE TABLE d.r (id INT, x INT)", "INSERT INTO d.r VALUES (1, 10)"):
        gateway.run(text).close()
    first = gateway.lake.snapshots(gateway.lake.open(R))[0]
    gateway.lake.replace_table(R, new_schema([column("id", "STRING"), column("x", "STRING")]))
    writer = AnewWriter(rest, gateway.lake, "r")
    answer = rest.call("POST", COMMIT, way_back(writer, gateway, 1))
    assert (answer.status_code, "CALL sys.rollback_to('d.r', 1)" in answer.text) == (400, True), answer.text
    gateway.run("CALL sys.create_tag('d.r', 'old', 1)").close()
    expire_snapshots(gateway.lake, gateway.lake.open(R), keep(1))
    back = writer.body(writer.latest(), changes=[*gateway.lake.open(R).files.live_entries(first)], schemaId=0, commitKind="OVERWRITE")
    answer = rest.call("POST", COMMIT, back)
    assert (answer.status_code, "CALL sys.rollback_to('d.r', 'old')" in answer.text) == (400, True), answer.text
    gateway.run("CALL sys.rollback_to('d.r', 'old')").close()
    assert rows(gateway) == [(1, 10)]


def test_a_tag_that_became_another_snapshots_meanwhile_is_for_the_client_to_repeat(
    rest: Rest, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """409 would be a branch that is there already, which clients pass over."""
    for text in (
        "CREATE TABLE d.r (id INT)",
        "INSERT INTO d.r VALUES (1)",
        "CALL sys.create_tag('d.r', 'g')",
        "INSERT INTO d.r VALUES (2)",
    ):
        gateway.run(text).close()
    looked = Tags.require_whole

    def late(*asked: Any) -> None:
        monkeypatch.undo()
        looked(*asked)
        gateway.run("CALL sys.replace_tag('d.r', 'g', 2)").close()

    monkeypatch.setattr(Tags, "require_whole", late)
    asked = "POST", "databases/d/tables/r/branches", {"branch": "b", "fromTag": "g"}
    answer = rest.call(*asked)
    assert (answer.status_code, answer.get_json()["code"]) == (503, 503)
    assert "Repeat it" in answer.get_json()["message"]
    assert rest.call("GET", "databases/d/tables/r/branches").get_json() == {"branches": []}
    assert rest.call(*asked).status_code == 200
    assert gateway.run("SELECT id FROM d.`r$branch_b`").collect() == [(1,), (2,)]


@pytest.mark.damages
@pytest.mark.parametrize("instant", [{"type": "snapshot", "snapshotId": 1}, {"type": "tag", "tagName": "one"}])
def test_a_rollback_to_rows_that_are_lost_is_refused(rest: Rest, gateway: Gateway, warehouse: Path, instant: dict[str, Any]) -> None:
    for text in ("CREATE TABLE d.r (id INT, x INT)", "INSERT INTO d.r VALUES (1, 10)", "CALL sys.create_tag('d.r', 'one')"):
        gateway.run(text).close()
    (lost,) = (warehouse / "d.db/r/bucket-0").glob("*.parquet")
    gateway.run("TRUNCATE TABLE d.r").close()
    gateway.run("INSERT INTO d.r VALUES (2, 20)").close()
    lost.unlink()
    answer = rest.call("POST", "databases/d/tables/r/rollback", {"instant": instant})
    assert (answer.status_code, lost.name in answer.get_json()["message"]) == (500, True)
    assert rows(gateway) == [(2, 20)]
