"""Tables as other engines make them: their options, kinds and formats, and what this server leaves to them."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gateway.gateway import Gateway
from lake.register.upgrade import remove_schema_files
from maintenance.coordinator import Coordinator
from model.errors import UnsupportedType
from model.identifier import Identifier
from model.snapshot import CommitKind
from model.work.work_limits import MaintenanceLimits
from table.format.layout import escape
from table.format.manifests.entries import ManifestEntry, NewFile
from table.scan.read import check_whole
from table.write.snapshot_builder import CommitRequest
from tests.maintenance.test_coordinator import until
from tests.server.paimon.speaking import PLAIN, Rest, new_table, schema

T = "databases/d/tables/t"
NOTED = {"owner": "root", "path": "file:/elsewhere", "provider": "paimon", "location": "/x", "createdBy": "me"}


def test_a_format_table_has_nothing_but_its_files(rest: Rest, gateway: Gateway) -> None:
    rest.post("databases/d/tables", new_table("t", schema(("a", "INT"), partition=None, type="format-table")))
    place = Path(rest.get(T)["path"].removeprefix("file://"))
    rest.post(T, {"changes": [{"action": "addColumn", "fieldNames": ["b"], "dataType": "INT"}]})
    assert rest.get(T)["schemaId"] == 1
    assert [p for p in place.rglob("*") if p.is_file()] == []


def test_schema_files_among_rows_are_taken_away(rest: Rest, gateway: Gateway) -> None:
    """Version 0.1 left them; nothing else that lies there goes."""
    rest.post("databases/d/tables", new_table("t", schema(("a", "INT"), partition=None, type="format-table")))
    table = gateway.lake.open_any(Identifier("d", "t"))
    table.files.write_schema(table.schema)
    own = Path(table.location) / "schema" / "schema-7"
    own.write_text(json.dumps({"id": 7}))
    remove_schema_files(gateway.lake)
    assert [p.name for p in own.parent.iterdir()] == ["schema-7"]
    own.unlink()
    table.files.write_schema(table.schema)
    remove_schema_files(gateway.lake)
    assert not own.parent.exists()


def test_a_kind_nobody_knows_is_refused(rest: Rest) -> None:
    assert rest.refused("POST", "databases/d/tables", new_table("t", schema(("a", "INT"), type="tabel")))[0] == 400


def test_what_other_catalogs_note_is_not_copied(rest: Rest, gateway: Gateway) -> None:
    options = {**NOTED, "made.up": "it's */ odd", "bucket": "-1"}
    rest.post("databases/d/tables", new_table("t", PLAIN | {"options": {k: v for k, v in options.items() if k != "path"}}))
    rest.post(T, {"changes": [{"action": "setOption", "key": "target-file-size", "value": "1 mb"}]})
    gateway.run("CREATE TABLE d.u LIKE d.t")
    assert rest.get("databases/d/tables/u")["schema"]["options"] == {
        "made.up": "it's */ odd", "bucket": "-1", "target-file-size": "1 mb",
    }  # fmt: skip
    (text,) = gateway.run("SHOW CREATE TABLE d.t").collect()[0]
    assert "owner" not in text
    gateway.run("DROP TABLE d.t")
    gateway.run(text)
    assert rest.get(T)["schema"]["options"] == {"bucket": "-1", "target-file-size": "1 mb"}


def test_going_forward_to_a_branch_without_snapshots_is_a_bad_request(rest: Rest) -> None:
    rest.post("databases/d/tables", new_table("t", PLAIN))
    rest.post(f"{T}/branches", {"branch": "b"})
    assert rest.refused("POST", f"{T}/branches/b/forward", {})[:2] == (400, None)
    assert rest.refused("POST", f"{T}/branches/no/forward", {})[:2] == (404, "BRANCH")


def test_no_retries_and_an_empty_table_are_told_as_what_they_are(rest: Rest) -> None:
    rest.post("databases/d/tables", new_table("t", PLAIN | {"options": {"commit.max-retries": "0"}}))
    status, kind, *_ = rest.refused("POST", f"{T}/tags", {"tagName": "x"})
    assert (status, kind) == (404, "SNAPSHOT")


def test_a_database_has_one_comment(rest: Rest, gateway: Gateway) -> None:
    rest.post("databases", {"name": "c", "options": {"comment": "once", "k": "v"}})
    assert gateway.run("DESCRIBE DATABASE c").collect() == [("name", "c"), ("comment", "once"), ("k", "v")]


def test_partitions_are_named_as_people_read_them(rest: Rest, gateway: Gateway) -> None:
    gateway.run("CREATE TABLE d.t (id INT, day DATE) PARTITIONED BY (day); INSERT INTO d.t VALUES (1, DATE '2024-01-02'), (2, NULL)")
    named = [("day=2024-01-02",), ("day=__DEFAULT_PARTITION__",)]
    assert gateway.run("SHOW PARTITIONS d.t").collect() == named
    assert gateway.run("SELECT partition FROM d.t$partitions").collect() == named
    # Spark's procedure leaves its marker in a directory called as its user called it.
    marker = Path(gateway.lake.open(Identifier("d", "t")).location) / "day=2024-01-02" / "_SUCCESS"
    marker.parent.mkdir()
    marker.write_text("{}")
    assert gateway.run("SELECT done FROM d.t$partitions").collect() == [(True,), (False,)]


MARKED = {
    "old name": ("marker", "19724", "3600000", "2024-01-02T03:04"),
    "new name": ("marker", "2024-01-02", "01:00:00", "2024-01-02 03:04:00"),
    "old spec": ("call", "19724", "3600000", "2024-01-02T03:04"),
    "new spec": ("call", "2024-01-02", "01:00:00", "2024-01-02 03:04:00"),
    "SQL": ("sql", "2024-01-02", "01:00:00", "2024-01-02 03:04:00"),
    "nobody": ("marker", "2024-01-03", "01:00:00", "2024-01-02 03:04:00"),
}


@pytest.mark.parametrize("who", MARKED)
def test_whoever_marks_a_partition_as_done_all_lists_say_so(rest: Rest, gateway: Gateway, who: str) -> None:
    how, day, time, moment = MARKED[who]
    gateway.run("CREATE TABLE d.t (id INT, day DATE, h TIME, at TIMESTAMP(0)) PARTITIONED BY (day, h, at)")
    gateway.run("INSERT INTO d.t VALUES (1, DATE '2024-01-02', TIME '01:00:00', TIMESTAMP '2024-01-02 03:04:00'), (2, NULL, NULL, NULL)")
    spec = {"day": day, "h": time, "at": moment}
    if how == "marker":
        marker = Path(gateway.lake.open(Identifier("d", "t")).location, *(f"{k}={escape(v)}" for k, v in spec.items()), "_SUCCESS")
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.write_text("{}")
    elif how == "call":
        rest.post(f"{T}/partitions/mark", {"specs": [spec]})
    else:
        gateway.run(f"CALL sys.mark_partition_done('d.t', 'day={day}')")
    done = who != "nobody"
    assert gateway.run("SELECT done FROM d.t$partitions").collect() == [(done,), (False,)]
    assert gateway.run("SELECT done FROM sys.partitions WHERE table_name = 't'").collect() == [(done,), (False,)]
    listed = rest.get(f"{T}/partitions")["partitions"]
    assert [one["done"] for one in listed] == [done, False]
    assert rest.post(f"{T}/partitions/list-by-names", {"specs": [one["spec"] for one in listed]})["partitions"] == listed
    assert rest.post(f"{T}/partitions/list-by-filter", {})["partitions"] == listed
    assert gateway.run("SHOW PARTITIONS d.t").collect()[0] == ("day=2024-01-02/h=01%3A00%3A00/at=2024-01-02 03%3A04%3A00",)


EVOLVING = {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}


def test_sql_does_not_write_what_it_would_break(rest: Rest, gateway: Gateway) -> None:
    rest.post("databases/d/tables", new_table("t", schema(("a", "INT"), partition=None, bucket="-1", **EVOLVING)))
    with pytest.raises(UnsupportedType, match=r"data-evolution\.enabled"):
        gateway.run("INSERT INTO d.t VALUES (1)")
    table = gateway.lake.open(Identifier("d", "t"))
    assert list(Path(table.location).rglob("*.parquet")) == []


UNMERGEABLE = [{"file.format": "avro"}, {"row-tracking.enabled": "true"}]


def _unmergeable(rest: Rest, gateway: Gateway, options: dict[str, str], inserts: int) -> None:
    """Make a table with rows; SQL writes none into one whose format it does not write, and whether rows have ids is told at first."""
    later = options if "file.format" in options else {}
    made = schema(("a", "INT"), partition=None, bucket="-1", **({} if later else options))
    rest.post("databases/d/tables", new_table("t", made))
    for n in range(inserts):
        gateway.run(f"INSERT INTO d.t VALUES ({n})")
    rest.post(T, {"changes": [{"action": "setOption", "key": key, "value": value} for key, value in later.items()]})


@pytest.mark.parametrize("options", UNMERGEABLE, ids=lambda options: next(iter(options)))
def test_compaction_by_hand_is_refused_before_files_are_merged(rest: Rest, gateway: Gateway, options: dict[str, str]) -> None:
    """It merged all files and had its commit refused."""
    _unmergeable(rest, gateway, options, 3)
    bucket = Path(gateway.lake.open(Identifier("d", "t")).location) / "bucket-0"
    before = bucket.stat().st_mtime_ns  # a file that comes and goes leaves its trace here
    for call in ("compact(`table` => 'd.t', compact_strategy => 'full')", "compact(`table` => 'd.t', dry_run => true)"):
        with pytest.raises(UnsupportedType, match=r"Table d\.t is not compacted here: .*" + "|".join(options)):
            gateway.run(f"CALL sys.{call}")
    assert gateway.run("CALL sys.compact_database('d')").collect() == []
    assert bucket.stat().st_mtime_ns == before


@pytest.mark.parametrize("options", UNMERGEABLE, ids=lambda options: next(iter(options)))
def test_tables_that_are_not_merged_expire_and_are_told_of_once(
    rest: Rest, gateway: Gateway, caplog: pytest.LogCaptureFixture, options: dict[str, str]
) -> None:
    _unmergeable(rest, gateway, options, 12)
    expiry = {"snapshot.num-retained.max": "2", "snapshot.num-retained.min": "1"}
    changes = [{"action": "setOption", "key": key, "value": value} for key, value in expiry.items()]
    rest.post(T, {"changes": changes})
    table = gateway.lake.open(Identifier("d", "t"))
    coordinator = Coordinator(gateway.lake, MaintenanceLimits(interval=0.05, patience=0.1))

    def told() -> list[logging.LogRecord]:
        return [record for record in caplog.records if "are not merged" in record.getMessage()]

    with caplog.at_level("INFO"):
        coordinator.start()
        try:
            until(lambda: len(gateway.lake.snapshots(table)) == 2 and bool(told()))
        finally:
            coordinator.close()
    assert len(told()) == 1
    assert not [record for record in caplog.records if record.exc_info and record.name.startswith("maintenance")]
    assert coordinator.failing() == {}


def test_maintenance_follows_tables_of_clients_that_give_no_uuid(rest: Rest, gateway: Gateway) -> None:
    """Java up to 1.4: their snapshots are known by another key, and expire like others."""
    rest.post("databases/d/tables", new_table("t", schema(("a", "INT"), partition=None, bucket="-1")))
    for n in range(4):
        gateway.run(f"INSERT INTO d.t VALUES ({n})")
    table = gateway.lake.open(Identifier("d", "t"))
    latest = table.latest()
    assert latest is not None
    sent: dict[str, Any] = {key: value for key, value in latest.to_json().items() if key not in ("uuid", "properties")}
    base, base_size = table.files.new_manifest_list(table.files.manifests_of(latest))
    delta, delta_size = table.files.new_manifest_list([])
    sent |= {"id": 5, "deltaRecordCount": 0, "commitKind": "COMPACT", "baseManifestList": base, "baseManifestListSize": base_size}
    sent |= {"deltaManifestList": delta, "deltaManifestListSize": delta_size}
    assert rest.post(f"{T}/commit", {"snapshot": sent}) == {"success": True}
    changes = [{"action": "setOption", "key": f"snapshot.num-retained.{key}", "value": "1"} for key in ("min", "max")]
    rest.post(T, {"changes": changes})
    coordinator = Coordinator(gateway.lake, MaintenanceLimits(interval=0.05, patience=0.1))
    coordinator.start()
    try:
        until(lambda: len(gateway.lake.snapshots(table)) == 1)
    finally:
        coordinator.close()


def test_rows_after_an_update_with_row_tracking_are_read(rest: Rest, gateway: Gateway) -> None:
    """Paimon's UPDATE names the columns of its files, which are all of them."""
    rest.post("databases/d/tables", new_table("t", schema(("a", "INT"), ("b", "INT"), partition=None, bucket="-1")))
    gateway.run("INSERT INTO d.t VALUES (1, 10), (2, 20)")

    def told(*columns: str) -> None:
        table = gateway.lake.open(Identifier("d", "t"))
        entry: ManifestEntry = next(table.files.live_entries(table.latest()))
        new = replace(entry.file, write_cols=columns, file_name=f"{len(columns)}-{entry.file.file_name}")
        path = Path(table.files.data_path(table.schema, entry))
        path.with_name(new.file_name).write_bytes(path.read_bytes())
        made = NewFile(partition=entry.partition, bucket=entry.bucket, file=new)
        gateway.lake.commit(table, CommitRequest(kind=CommitKind.OVERWRITE, adds=(made,), deletes=(entry,), commit_user="spark"))

    told("a", "b", "_ROW_ID", "_SEQUENCE_NUMBER")
    assert sorted(gateway.run("SELECT a, b FROM d.t").collect()) == [(1, 10), (2, 20)]
    told("b")
    with pytest.raises(UnsupportedType, match="only some columns"):
        gateway.run("SELECT a, b FROM d.t").collect()
    table = gateway.lake.open(Identifier("d", "t"))
    (entry,) = table.files.live_entries(table.latest())
    evolving = replace(table.schema, options={**table.schema.options, "data-evolution.enabled": "true"})
    check_whole(replace(entry.file, write_cols=("a", "b")), table.schema, table.schema)
    with pytest.raises(UnsupportedType, match="data evolution"):  # the rows lie in other files, too
        check_whole(replace(entry.file, write_cols=("a", "b")), evolving, evolving)
