"""What a repair takes in: nothing that every other way refuses, and nothing that the caller may not do."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from lake import Lake, LakeTable
from model.access import Access, table_resource
from model.errors import Forbidden, InvalidSchema
from model.snapshot import CommitKind
from table.write.snapshot_builder import CommitRequest, build_snapshot
from tests.lake.access.test_access import as_user, give, user
from tests.lake.register.damage import wait_for_notes
from tests.lake.register.test_repair import write_past
from tests.lake.test_commit import T, append, names, snapshot_file
from tests.lake.test_commit import table as table

TABLE = table_resource(T)


@pytest.fixture
def ada(lake: Lake) -> str:
    secret = user(lake, "ada")
    for access in (Access.ALTER, Access.SELECT, Access.UPDATE):
        give(lake, access, TABLE, "ada")
    return secret


def alter_past(table: LakeTable, change: Callable[[dict[str, Any]], object]) -> None:
    """A later schema, and a snapshot of it, as a writer makes them that knows only the files."""
    directory = Path(table.location) / "schema"
    schema = json.loads((directory / "schema-0").read_text())
    schema["id"] = 1
    change(schema)
    (directory / "schema-1").write_text(json.dumps(schema))
    write_past(replace(table, schema=replace(table.schema, id=1)), "theirs")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda schema: schema["options"].update({"merge-engine.class": "x"}),
            "merge-engine.class.*schema-1",
        ),
        (lambda schema: schema["options"].update({"data-file.external-paths": "file:///etc"}), "data-file.external-paths"),
        (lambda schema: schema.update(primaryKeys=[schema["fields"][0]["name"]]), "primary key"),
        (lambda schema: schema["options"].update({"type": "format-table"}), "is a format-table"),
    ],
    ids=["option", "place", "key", "kind"],
)
def test_a_repair_takes_in_no_schema_that_nobody_could_make_here(
    lake: Lake, table: LakeTable, change: Callable[[dict[str, Any]], object], why: str
) -> None:
    lake.commit(table, append("ours"))
    alter_past(table, change)
    for dry_run in (True, False):
        with pytest.raises(InvalidSchema, match=why):
            lake.repair_table(T, dry_run=dry_run)
    assert lake.open(T).schema.id == 0


def test_options_by_which_rows_go_take_delete(lake: Lake, table: LakeTable, ada: str) -> None:
    lake.commit(table, append("ours"))
    alter_past(table, lambda schema: schema["options"].update({"snapshot.num-retained.max": "10"}))
    with pytest.raises(Forbidden, match="takes DELETE"):
        as_user(lake, ada).repair_table(T)
    give(lake, Access.DELETE, TABLE, "ada")
    assert as_user(lake, ada).repair_table(T).registered == (2,)
    assert lake.open(T).schema.options["snapshot.num-retained.max"] == "10"


def test_what_goes_on_and_adds_takes_alter(lake: Lake, table: LakeTable, ada: str) -> None:
    lake.commit(table, append("ours"))
    write_past(table, "theirs")
    assert as_user(lake, ada).repair_table(T).registered == (2,)


def test_a_snapshot_that_takes_files_away_takes_delete(lake: Lake, table: LakeTable, ada: str) -> None:
    made = lake.commit(table, append("ours"))
    everything = CommitRequest(kind=CommitKind.OVERWRITE, overwrite=lambda partition: True, commit_user=str(uuid4()))
    gone = build_snapshot(table.files, table.schema, made, [everything], uuid=str(uuid4()), time_millis=1)
    with table.files.snapshots() as place:
        table.files.publish_snapshot(gone, place)
    for dry_run in (True, False):
        with pytest.raises(Forbidden, match="takes DELETE"):
            as_user(lake, ada).repair_table(T, dry_run=dry_run)
    assert names(table) == ["ours"]
    give(lake, Access.DELETE, TABLE, "ada")
    assert as_user(lake, ada).repair_table(T).registered == (2,)


def test_going_back_takes_delete(lake: Lake, table: LakeTable, ada: str, warehouse: Path) -> None:
    lake.commit(table, append("a"))
    made = lake.commit(table, append("b"))
    for name in (made.base_manifest_list, made.delta_manifest_list):
        Path(table.files.layout.manifest(name)).unlink()
    wait_for_notes(lake)
    snapshot_file(warehouse, 2).unlink()
    with pytest.raises(Forbidden, match="takes DELETE"):
        as_user(lake, ada).repair_table(T)
    give(lake, Access.DELETE, TABLE, "ada")
    assert as_user(lake, ada).repair_table(T).back_from == 2
