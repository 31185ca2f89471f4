"""The commit endpoint: what is taken, what is a repeat, what is refused and why; and the snapshots that come of it."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from flask.testing import FlaskClient

from catalog import CatalogStore
from gateway.gateway import Gateway
from lake import Lake
from model.identifier import Identifier
from server.app import create_app
from server.process.services import Services
from server.settings.settings import read_settings
from table.format.manifests.entries import EntryKind, ManifestEntry
from table.format.rows.moments import date_of, time_of
from tests.server.conftest import NoSpark
from tests.server.paimon.committing import BATCH, AnewWriter, Writer
from tests.server.paimon.speaking import PREFIX, Rest, new_table, schema

T = "databases/d/tables/t"
COMMIT = f"{T}/commit"


@pytest.fixture
def writer(rest: Rest, gateway: Gateway) -> Writer:
    rest.post("databases/d/tables", new_table())
    return Writer(rest, gateway.lake)


def snapshot_file(tmp_path: Path, snapshot_id: int | str) -> Path:
    return (
        tmp_path / "warehouse" / "d.db" / "t" / "snapshot" / str(snapshot_id if isinstance(snapshot_id, str) else f"snapshot-{snapshot_id}")
    )


def test_a_commit_is_kept_as_it_came(rest: Rest, writer: Writer, tmp_path: Path) -> None:
    assert rest.refused("GET", f"{T}/snapshot")[:2] == (404, "SNAPSHOT")
    statistics = [{"spec": {}, "recordCount": 99, "fileSizeInBytes": 1, "fileCount": 7, "lastFileCreationTime": 2, "totalBuckets": 4}]
    added = writer.file(rows=20, created=5)
    sent = writer.commit(told=statistics, changes=[added], watermark=None, properties={"k": "v"})
    kept = {key: value for key, value in sent.items() if value is not None}
    got = rest.get(f"{T}/snapshot")["snapshot"]
    assert got == {"snapshot": kept, "recordCount": 20, "fileSizeInBytes": added.file.file_size, "fileCount": 1, "lastFileCreationTime": 5}
    assert json.loads(snapshot_file(tmp_path, 1).read_text()) == kept
    assert snapshot_file(tmp_path, "LATEST").read_text() == "1"
    writer.commit(told=statistics, changes=[writer.file(rows=5, created=4)])
    got = rest.get(f"{T}/snapshot")["snapshot"]
    assert (got["recordCount"], got["fileCount"], got["lastFileCreationTime"]) == (25, 2, 5), "by the files, whatever the client says"


def test_clients_hear_when_the_last_file_was_made_since_1970(rest: Rest, writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    writer.commit(changes=[writer.file(rows=20, created=1_700_000_000_000)])
    with monkeypatch.context() as zone:
        zone.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        assert rest.get(f"{T}/snapshot")["snapshot"]["lastFileCreationTime"] == 1_700_000_000_000 - 9 * 3_600_000
    time.tzset()


def test_a_file_of_a_version_that_is_gone_is_refused(rest: Rest, writer: Writer, gateway: Gateway) -> None:
    """As by a client that has written since before `fast_forward`: whoever reads the file would miss its schema."""
    writer.commit(changes=[writer.file(rows=1)])
    for text in (
        "CALL sys.create_tag('d.t', 'one')", "CALL sys.create_branch('d.t', 'b', 'one')", "ALTER TABLE d.t ADD (c INT)",
        "CALL sys.fast_forward('d.t', 'b')", "ALTER TABLE d.t ADD (e INT)",
    ):  # fmt: skip
        gateway.run(text).close()
    late = writer.file(rows=1)
    late = replace(late, file=replace(late.file, schema_id=1))
    body = writer.body(writer.latest(), changes=[late])
    answer = rest.call("POST", f"{T}/commit", body)
    assert answer.status_code == 400
    assert "Version 1 of the schema of d.t is gone" in answer.text


def test_a_lost_race_is_false(writer: Writer) -> None:
    first = writer.commit()
    stale = writer.body(None)
    assert not writer.post(stale)
    assert not writer.post(writer.body(first) | {"baseSnapshotUuid": str(uuid4())})
    assert not writer.post(writer.body(first) | {"baseSnapshotUuid": None})
    assert not writer.post(writer.body(first | {"id": 5}))
    assert writer.latest() == {key: value for key, value in first.items() if value is not None}


def test_a_repeat_is_a_success_and_applied_once(rest: Rest, writer: Writer, services: Services) -> None:
    body = writer.body(None)
    assert writer.post(body)
    assert writer.post(body)
    second = writer.body(body["snapshot"])
    assert writer.post(second)
    assert writer.post(body), "also when others have committed meanwhile"
    assert [one["id"] for one in rest.get(f"{T}/snapshots")["snapshots"]] == [2, 1]
    again = Rest(create_app(services).test_client())  # another server would know no more
    assert again.post(COMMIT, second) == {"success": True}


def test_clients_without_uuids_are_compared_by_id(rest: Rest, writer: Writer) -> None:
    def old(base: dict[str, Any] | None) -> dict[str, Any]:
        body = writer.body(base)
        del body["baseSnapshotUuid"], body["snapshot"]["uuid"]
        return body

    first, rival = old(None), old(None)
    assert writer.post(first)
    assert writer.post(first), "same id and delta manifest list: a repeat"
    assert not writer.post(rival)
    second = old(first["snapshot"])
    assert writer.post(second)
    third = writer.body(second["snapshot"] | {"uuid": None})
    assert writer.post(third), "a new client sends a null base after a snapshot without uuid"
    assert "uuid" not in rest.get(f"{T}/snapshots/2")["snapshot"]


def test_streaming_commits_are_known_by_user_identifier_and_kind(rest: Rest, writer: Writer) -> None:
    landed = writer.commit(commitIdentifier=7)
    assert writer.post(writer.body(None, commitIdentifier=7)), "a repeat under another uuid, by one that has not seen what landed"
    rebuilt = writer.body(landed, commitIdentifier=7)
    rebuilt["snapshot"]["deltaManifestList"] = landed["deltaManifestList"]
    assert writer.post(rebuilt), "Paimon 1.0 builds anew on the newest snapshot without looking for its own, with the same list"
    assert writer.latest()["id"] == 1  # type: ignore[index]
    assert writer.post(writer.body(writer.latest(), commitIdentifier=7, commitKind="COMPACT"))
    assert writer.post(writer.body(writer.latest(), commitIdentifier=8))
    assert writer.post(writer.body(writer.latest(), commitIdentifier=8, commitUser="other"))
    assert writer.latest()["id"] == 4  # type: ignore[index]
    for _ in range(2):  # batch commits share their identifier: never a repeat
        assert writer.post(writer.body(writer.latest(), commitIdentifier=BATCH))
    assert writer.latest()["id"] == 6  # type: ignore[index]
    assert writer.post(writer.body(writer.latest(), commitIdentifier=str(BATCH))), "the protocol's description says text"
    assert writer.latest()["commitIdentifier"] == BATCH  # type: ignore[index]


def test_a_writer_that_went_back_to_an_older_state_commits_anew(writer: Writer) -> None:
    """Flink keeps commitUser in a savepoint: a job started from an older one sends the same identifiers with other files."""
    for identifier in (1, 2):
        writer.commit(commitIdentifier=identifier)
    for identifier in (1, 2):
        assert writer.post(writer.body(writer.latest(), commitIdentifier=identifier))
    assert writer.latest()["id"] == 4  # type: ignore[index]


def test_a_commit_that_is_built_anew_without_a_look_for_its_own_is_known_by_its_files(writer: Writer) -> None:
    """Answered otherwise its client would remove the files, which are committed (pypaimon 1.2 does not look)."""
    changes = [writer.file(rows=3)]
    landed = writer.commit(changes=changes, commitIdentifier=7)
    assert writer.post(writer.body(landed, changes=changes, commitIdentifier=7))
    assert writer.latest()["id"] == 1  # type: ignore[index]
    assert writer.post(writer.body(landed, changes=[writer.file(rows=3)], commitIdentifier=7))
    assert writer.latest()["id"] == 2  # type: ignore[index]


def test_the_spark_source_writes_a_repeat_anew(rest: Rest, writer: Writer) -> None:
    """Spark repeats a micro-batch after a crash, also on what has landed since; earlier releases of our source do not say that they do."""
    landed = writer.commit(changes=[writer.file(rows=3)], commitIdentifier=7)
    rebuilt = writer.body(landed, changes=[writer.file(rows=3)], commitIdentifier=7)
    told = rest.post(COMMIT, rebuilt | {"identifierDecides": True})
    assert told == {"success": True, "snapshotUuid": landed["uuid"]}, "its files are not those that landed, and may be deleted"
    earlier = {"User-Agent": "python-httpx/0.28.1"}
    assert rest.client.post(f"{PREFIX}/{COMMIT}", json=rebuilt, headers=earlier).get_json() == {"success": True}
    assert writer.latest()["id"] == 1  # type: ignore[index]
    assert writer.post(rebuilt | {"identifierDecides": False})
    assert writer.latest()["id"] == 2  # type: ignore[index]
    next_one = writer.body(writer.latest(), commitIdentifier=8) | {"identifierDecides": True}
    for _ in range(2):
        assert rest.post(COMMIT, next_one) == {"success": True, "snapshotUuid": next_one["snapshot"]["uuid"]}
    assert "'identifierDecides' must be true or false" in rest.call("POST", COMMIT, rebuilt | {"identifierDecides": "yes"}).text


def test_properties_of_ours_are_not_taken_from_clients(writer: Writer) -> None:
    """Java's rollbackToAsLatest copies those of the snapshot it goes back to; streams and repairs would believe them."""
    writer.commit(properties={"sluice.operation": "COMPACT", "sluice.answers": "[]", "mine": "stays"})
    kept = writer.latest()["properties"]  # type: ignore[index]
    assert kept["mine"] == "stays"
    assert {key for key in kept if key.startswith("sluice.")} <= {"sluice.committed-by"}


def test_another_table_is_no_table(rest: Rest, writer: Writer) -> None:
    for table_id in (str(uuid4()), "nonsense"):
        assert rest.refused("POST", COMMIT, writer.body(None) | {"tableId": table_id})[:2] == (404, "TABLE")
    body = writer.body(None)
    rest.delete(T)
    rest.post("databases/d/tables", new_table())
    assert rest.refused("POST", COMMIT, body)[:2] == (404, "TABLE")
    assert rest.refused("POST", "databases/d/tables/none/commit", body)[:2] == (404, "TABLE")
    body = Writer(rest, rest.client.application.extensions["sluice"].gateway.lake).body(None)
    del body["tableId"]
    assert rest.post(COMMIT, body) == {"success": True}


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"deltaManifestList": "manifest-list-none-1"}, "does not exist"),
        ({"baseManifestList": "manifest-list-none-0"}, "does not exist"),
        ({"deltaManifestList": "../schema/schema-0"}, "is no name of a file"),
        ({"deltaManifestList": ".."}, "is no name of a file"),
        ({"baseManifestList": "/etc/passwd"}, "is no name of a file"),
        ({"statistics": "../../../x"}, "is no name of a file"),
        ({"changelogManifestList": ".."}, "is no name of a file"),
        ({"timeMillis": 253_402_300_799_999}, "ahead of this server's clock"),
        ({"watermark": 2**63 - 1}, "more than a year ahead"),
        ({"deltaRecordCount": 3}, "its entries hold 0"),
        ({"totalRecordCount": 3}, "the table then holds 0"),
        ({"deltaManifestListSize": 3}, "readers trust what it says"),
        ({"schemaId": 9}, "newest is 0"),
        ({"commitKind": "GUESS"}, "none of"),
        ({"commitUser": None}, "commitUser"),
        ({"commitUser": "", "commitIdentifier": 7}, "'commitUser' of the snapshot is empty"),
        ({"id": "1"}, "id"),
        ({"id": 2**63}, "64 bits"),
        ({"timeMillis": True}, "timeMillis"),
        ({"commitIdentifier": None}, "commitIdentifier"),
        ({"commitIdentifier": 2**63}, "commitIdentifier"),
        ({"uuid": 3}, "uuid"),
        ({"uuid": ""}, "uuid"),
        ({"baseManifestList": ""}, "baseManifestList"),
        ({"indexManifest": "index-manifest-none"}, "does not exist"),
        ({"watermark": "late"}, "watermark"),
        ({"watermark": 2**63}, "64 bits"),
        ({"properties": {"k": 1}}, "properties"),
        ({"timeMillis": 2**62}, "timeMillis"),
        ({"totalRecordCount": -1}, "totalRecordCount"),
        ({"commitUser": "a\0b"}, "NUL"),
        ({"commitUser": "u" * 256}, "'commitUser' is 256 bytes long"),
        ({"properties": {"k": "v" * 200_000}}, "at most 131,072 fit"),
        ({"unknown": ["v" * 200_000]}, "at most 131,072 fit"),
        ({"version": 99}, "knows 1 to 3"),
        ({"changelogRecordCount": 2**63 - 1}, "changelogRecordCount"),
        ({"changelogRecordCount": -1}, "changelogRecordCount"),
        ({"changelogRecordCount": 1}, "its changelog holds 0"),
    ],
)
def test_what_can_never_be_read_is_refused_with_the_reason(rest: Rest, writer: Writer, changed: dict[str, Any], words: str) -> None:
    answer = rest.call("POST", COMMIT, writer.body(None, **changed))
    assert answer.status_code == 400
    assert words in answer.get_json(force=True)["message"]
    assert writer.latest() is None


def test_a_batch_may_have_no_user(rest: Rest, writer: Writer) -> None:
    """As those of the procedure `expire_partitions` of Spark, Flink and Java; nothing tells one from another but the uuid."""
    first = writer.body(None, commitUser="")
    assert writer.post(first)
    assert writer.post(writer.body(first["snapshot"], commitUser=""))
    assert writer.post(first), "a repeat"
    assert [one["id"] for one in rest.get(f"{T}/snapshots")["snapshots"]] == [2, 1]


@pytest.mark.parametrize(
    ("type_", "far", "near", "names"),
    [
        ("DATE", date_of(3_663_382), date_of(1), {"1": 2, "3663382": 3}),
        ("DATE", date_of(-721_354), date_of(1), {"-721354": 3, "1": 2}),
        ("TIMESTAMP(3)", time_of(9 * 10**17, zoned=False), time_of(0, zoned=False), {"+30489-11-11T16:00": 3, "1970-01-01T00:00": 2}),
    ],
)
def test_partitions_outside_python_s_years_are_taken(
    rest: Rest, gateway: Gateway, type_: str, far: object, near: object, names: dict[str, int]
) -> None:
    """In commits that come one after the other, whose manifests are held against the bounds their lists tell, and merged."""
    rest.post("databases/d/tables", new_table("t", schema(("id", "INT"), ("p", type_), partition=["p"], manifest_merge_min_count="2")))
    writer = Writer(rest, gateway.lake)
    for value in (far, near, far):
        writer.commit(changes=[writer.file(rows=1, partition=(value,))])
    writer.commit(changes=[writer.file(rows=1, partition=(far,)), writer.file(rows=1, partition=(near,))])
    listed = rest.get(f"{T}/partitions")["partitions"]
    assert {one["spec"]["p"]: one["recordCount"] for one in listed} == names
    assert gateway.run("SELECT COUNT(*) FROM d.t").collect() == [(5,)]


def test_a_schema_id_never_shrinks(rest: Rest, writer: Writer) -> None:
    rest.post(T, {"changes": [{"action": "addColumn", "fieldNames": ["x"], "dataType": "INT"}]})
    first = writer.commit(schemaId=1)
    assert rest.refused("POST", COMMIT, writer.body(first, schemaId=0))[0] == 400
    assert writer.post(writer.body(first, schemaId=1))


def gone(entry: ManifestEntry) -> ManifestEntry:
    return replace(entry, kind=EntryKind.DELETE)


def of_version(entry: ManifestEntry, schema_id: int) -> ManifestEntry:
    return replace(entry, file=replace(entry.file, schema_id=schema_id))


def evolved(rest: Rest, writer: Writer) -> tuple[ManifestEntry, ManifestEntry]:
    """A file of the first schema in the past, and one of the second that is live."""
    old, new = writer.file(rows=2), of_version(writer.file(rows=3), 1)
    writer.commit(changes=[old])
    rest.post(T, {"changes": [{"action": "addColumn", "fieldNames": ["x"], "dataType": "INT"}]})
    writer.commit(changes=[gone(old), new], schemaId=1, commitKind="OVERWRITE")
    return old, new


def test_an_overwrite_goes_back_to_an_older_schema(rest: Rest, writer: Writer, gateway: Gateway) -> None:
    """As Flink's sys.rollback_to_as_latest does, with the files of the snapshot it goes back to."""
    writer = AnewWriter(rest, gateway.lake)
    old, new = evolved(rest, writer)
    beside = rest.refused("POST", COMMIT, writer.body(writer.latest(), changes=[old], schemaId=0, commitKind="OVERWRITE"))
    assert beside[0] == 400
    back = writer.commit(changes=[gone(new), old], schemaId=0, commitKind="OVERWRITE")
    assert rest.refused("POST", f"{T}/rollback-schema", {"schemaId": 0})[0] == 500  # a snapshot before it needs the newer one
    assert writer.post(writer.body(back, changes=[of_version(writer.file(rows=1), 1)], schemaId=1))


def test_going_forward_after_a_way_back_keeps_nothing_that_would_be_read_wrongly(rest: Rest, writer: Writer, gateway: Gateway) -> None:
    writer = AnewWriter(rest, gateway.lake)
    old, new = evolved(rest, writer)
    rest.post(f"{T}/tags", {"tagName": "evolved"})
    writer.commit(changes=[gone(new), old], schemaId=0, commitKind="OVERWRITE")
    rest.post(f"{T}/tags", {"tagName": "back"})
    rest.post(f"{T}/branches", {"branch": "b", "fromTag": "back"})
    gateway.run("ALTER TABLE d.`t$branch_b` ADD (y STRING)").close()
    rest.post(f"{T}/branches/b/forward", {})
    assert [one["id"] for one in rest.get(f"{T}/snapshots")["snapshots"]] == [3]
    assert rest.get(f"{T}/tags")["tags"] == ["back"]


def test_a_table_written_past_the_catalog_stops_until_it_is_repaired(rest: Rest, writer: Writer, gateway: Gateway, tmp_path: Path) -> None:
    writer.commit()
    foreign = snapshot_file(tmp_path, 2)
    foreign.write_text(json.dumps(writer.body(writer.latest(), uuid="theirs")["snapshot"]))
    assert rest.refused("POST", COMMIT, writer.body(writer.latest()))[:2] == (500, "TABLE")
    assert gateway.run("CALL sys.repair_table('d.t', true)").collect() == [("registered", 2, None, True)]
    gateway.run("CALL sys.repair_table('d.t')").collect()
    assert writer.latest()["uuid"] == "theirs"  # type: ignore[index]
    writer.commit()


@pytest.mark.parametrize("kind", ["format-table", "object-table", "iceberg-table"])
def test_clients_commit_to_tables_of_paimon_alone(rest: Rest, writer: Writer, lake: Lake, kind: str) -> None:
    """The rows of other kinds are what lies in their directory: snapshots there would be nobody's."""
    with lake.catalog.transaction() as tx:
        row = tx.tables.get(Identifier("d", "t"))
        tx.tables.advance_schema(
            row.table_id, base=0, to=1, schema={**row.schema, "id": 1, "options": {**row.schema["options"], "type": kind}}
        )
    assert rest.refused("POST", "databases/d/tables/t/commit", writer.body(None, schemaId=1)) == (400, "TABLE", "d.t")


def test_versions(rest: Rest, writer: Writer) -> None:
    made = [writer.commit() for _ in range(3)]
    rest.post(f"{T}/tags", {"tagName": "one", "snapshotId": 1})
    for version, expected in (("EARLIEST", 1), ("LATEST", 3), ("2", 2), ("one", 1)):
        assert rest.get(f"{T}/snapshots/{version}")["snapshot"]["uuid"] == made[expected - 1]["uuid"]
    for missing in ("9", "none", str(2**70)):
        assert rest.refused("GET", f"{T}/snapshots/{missing}") == (404, "SNAPSHOT", missing)
    for name in ("a+b", "a b"):
        rest.post(f"{T}/tags", {"tagName": name, "snapshotId": 1})
        assert rest.get(f"{T}/snapshots/{name.replace(' ', '%20')}")["snapshot"]["id"] == 1
    rest.delete(f"{T}/tags/a+b")  # escaped as Java does elsewhere, this is "a b"
    assert rest.get(f"{T}/snapshots/a+b")["snapshot"]["id"] == 1, "Java sends a version as it is"
    assert rest.refused("GET", f"{T}/snapshots/a%20b")[0] == 404
    page = rest.get(f"{T}/snapshots", maxResults="2")
    assert ([one["id"] for one in page["snapshots"]], page["nextPageToken"]) == ([3, 2], "2")
    assert [one["id"] for one in rest.get(f"{T}/snapshots", pageToken="2")["snapshots"]] == [1]
    assert rest.refused("GET", f"{T}/snapshots", pageToken="x")[0] == 400


def test_rollback_to_a_snapshot(rest: Rest, writer: Writer, tmp_path: Path) -> None:
    made = [writer.commit() for _ in range(4)]
    rest.post(f"{T}/tags", {"tagName": "late", "snapshotId": 4})
    assert rest.refused("POST", f"{T}/rollback", {"instant": {"type": "snapshot", "snapshotId": 9}}) == (404, "SNAPSHOT", "9")
    stale = rest.call("POST", f"{T}/rollback", {"instant": {"type": "snapshot", "snapshotId": 2}, "fromSnapshot": 3})
    assert (stale.status_code, stale.get_json(force=True)["message"]) == (500, "Latest snapshot 4 is not 3")
    assert rest.post(f"{T}/rollback", {"instant": {"type": "snapshot", "snapshotId": 2}, "fromSnapshot": 4}) is None
    assert writer.latest()["uuid"] == made[1]["uuid"]  # type: ignore[index]
    assert sorted(path.name for path in snapshot_file(tmp_path, 1).parent.iterdir()) == ["EARLIEST", "LATEST", "snapshot-1", "snapshot-2"]
    assert snapshot_file(tmp_path, "LATEST").read_text() == "2"
    assert rest.get(f"{T}/tags")["tags"] == []
    again = writer.commit()
    assert json.loads(snapshot_file(tmp_path, 3).read_text())["uuid"] == again["uuid"]
    for bad in ({"type": "snapshot"}, {"type": "moon"}, {}, "x"):
        assert rest.refused("POST", f"{T}/rollback", {"instant": bad})[0] == 400


def test_nothing_goes_on_from_a_snapshot_that_cannot_be_read(rest: Rest, writer: Writer, tmp_path: Path) -> None:
    made = [writer.commit() for _ in range(3)]
    (snapshot_file(tmp_path, 1).parents[1] / "manifest" / made[1]["deltaManifestList"]).unlink()
    for path, sent in (
        ("rollback", {"instant": {"type": "snapshot", "snapshotId": 2}}),
        ("tags", {"tagName": "second", "snapshotId": 2}),
    ):
        refused = rest.call("POST", f"{T}/{path}", sent)
        assert refused.status_code == 500  # as the protocol tells damage
        assert made[1]["deltaManifestList"] in refused.get_json(force=True)["message"]
    assert writer.latest()["uuid"] == made[2]["uuid"]  # type: ignore[index]
    assert rest.get(f"{T}/tags")["tags"] == []


def test_rollback_to_a_tag(rest: Rest, writer: Writer) -> None:
    first = writer.commit()
    rest.post(f"{T}/tags", {"tagName": "eod"})
    writer.commit()
    assert rest.refused("POST", f"{T}/rollback", {"instant": {"type": "tag", "tagName": "no"}}) == (404, "TAG", "no")
    rest.post(f"{T}/rollback", {"instant": {"type": "tag", "tagName": "eod"}})
    assert writer.latest()["uuid"] == first["uuid"]  # type: ignore[index]
    assert rest.get(f"{T}/tags")["tags"] == ["eod"]


def test_rollback_of_the_schema(rest: Rest, writer: Writer, tmp_path: Path) -> None:
    for at in range(2):
        rest.post(T, {"changes": [{"action": "addColumn", "fieldNames": [f"x{at}"], "dataType": "INT"}]})
    writer.commit(schemaId=1)
    assert rest.refused("POST", f"{T}/rollback-schema", {"schemaId": 0})[0] == 500
    rest.post(f"{T}/rollback-schema", {"schemaId": 1})
    assert rest.get(T)["schemaId"] == 1
    assert not (tmp_path / "warehouse" / "d.db" / "t" / "schema" / "schema-2").exists()
    rest.post(T, {"changes": [{"action": "addColumn", "fieldNames": ["y"], "dataType": "INT"}]})
    assert rest.get(T)["schemaId"] == 3, "the number of a version that is gone is not given again"
    schemas = tmp_path / "warehouse" / "d.db" / "t" / "schema"
    assert sorted(file.name for file in schemas.iterdir()) == ["schema-0", "schema-1", "schema-3"]
    assert rest.refused("POST", f"{T}/rollback-schema", {"schemaId": 7})[0] == 404


def test_numbers_of_sql_commits_and_of_silent_clients(rest: Rest, writer: Writer, gateway: Gateway) -> None:
    gateway.run("INSERT INTO d.t VALUES (1, 'a'), (2, 'b')").collect()
    got = rest.get(f"{T}/snapshot")["snapshot"]
    assert (got["recordCount"], got["fileCount"]) == (2, 1)
    assert got["fileSizeInBytes"] > 0
    writer.commit(changes=[writer.file(rows=3)])
    assert rest.get(f"{T}/snapshot")["snapshot"]["recordCount"] == 5, "the client said nothing"


def test_many_writers_lose_and_double_nothing(rest: Rest, writer: Writer, services: Services) -> None:
    def work(mine: Writer) -> list[str]:
        won = []
        for _ in range(5):
            while not mine.post(body := mine.body(mine.latest())):
                pass
            won.append(body["snapshot"]["uuid"])
        return won

    # One after the other: CPython 3.11 counts how deep it is in an `ast`, of which werkzeug makes its routes, once for all threads.
    all_writers = [Writer(Rest(create_app(services).test_client()), services.gateway.lake) for _ in range(6)]
    with ThreadPoolExecutor(6) as threads:  # what one of them meets is told here
        won = [uuid for mine in threads.map(work, all_writers) for uuid in mine]
    snapshots = rest.get(f"{T}/snapshots")["snapshots"]
    assert [one["id"] for one in snapshots] == list(range(30, 0, -1))
    assert sorted(one["uuid"] for one in snapshots) == sorted(won)


def test_two_servers_on_one_catalog(rest: Rest, writer: Writer, services: Services, dsn: str, tmp_path: Path) -> None:
    catalog = CatalogStore(dsn)
    lake = Lake(catalog, str(tmp_path / "warehouse"))
    other_gateway = Gateway(lake, NoSpark())
    other: FlaskClient = create_app(Services(gateway=other_gateway, settings=read_settings({"SLUICE_DATA": str(tmp_path)}))).test_client()
    there = Writer(Rest(other), lake)
    for _ in range(3):
        writer.commit()
        there.commit()
    repeated = writer.body(writer.latest())
    assert writer.post(repeated)
    assert there.post(repeated), "a repeat is known to the other server"
    rest.post(f"{T}/rollback", {"instant": {"type": "snapshot", "snapshotId": 4}})
    assert there.commit()["id"] == 5
    assert writer.commit()["id"] == 6
    assert [one["id"] for one in there.rest.get(f"{T}/snapshots")["snapshots"]] == [6, 5, 4, 3, 2, 1]
    lake.close()
    catalog.close()


def test_statistics_feed_the_list_of_partitions(rest: Rest, gateway: Gateway) -> None:
    rest.post("databases/d/tables", new_table("t", schema(("id", "BIGINT"), ("day", "STRING"), partition=["day"])))
    writer = Writer(rest, gateway.lake)
    first = {day: writer.file(rows=2, partition=(day,), buckets=-1) for day in ("a", "b")}
    writer.commit(changes=list(first.values()))
    gone = replace(first["a"], kind=EntryKind.DELETE)
    writer.commit(changes=[gone, writer.file(rows=2, partition=("b",), buckets=-1)], commitKind="OVERWRITE")
    (found,) = rest.get(f"{T}/partitions")["partitions"]
    assert (found["spec"], found["recordCount"], found["fileCount"], found["lastFileCreationTime"]) == ({"day": "b"}, 4, 2, 7)


def test_the_audit_log_tells_what_a_commit_did(rest: Rest, writer: Writer, gateway: Gateway) -> None:
    first = writer.file(rows=5)
    writer.commit(changes=[first])
    gone = replace(first, kind=EntryKind.DELETE)
    writer.commit(changes=[gone, writer.file(rows=3)], commitKind="OVERWRITE", operation="DELETE")
    rest.refused("POST", COMMIT, {"snapshot": {"id": 0}})
    rest.post("tables/rename", {"source": {"database": "d", "object": "t"}, "destination": {"database": "d", "object": "u"}})
    told = [row.action.partition("/tables/")[2] for row in gateway.lake.audit.newest(None)][::-1][-4:]
    assert told == [
        "t/commit /* d.t, snapshot 1, APPEND, no operation told, files with 5 rows added and with 0 rows taken away */",
        "t/commit /* d.t, snapshot 2, OVERWRITE, DELETE, files with 3 rows added and with 5 rows taken away */",
        "t/commit",
        "rename /* d.t RENAME TO d.u */",
    ]


def test_files_by_columns_that_were_replaced_are_refused(rest: Rest, writer: Writer) -> None:
    """They would be read by other columns of their names, or by none; columns of the same name and type stay what they are."""
    name, key = ("name", "STRING"), ("id", "BIGINT NOT NULL")
    writer.commit(changes=[writer.file(rows=2)])
    rest.post("databases/d/tables/t/replace", {"schema": schema(name, key)})
    writer.commit(changes=[writer.file(rows=1)], schemaId=1)
    rest.post("databases/d/tables/t/replace", {"schema": schema(name, ("id", "INT"))})
    latest = writer.latest()
    body = writer.body(latest, changes=[writer.file(rows=1)], schemaId=2)
    status, _, _ = rest.refused("POST", "databases/d/tables/t/commit", body)
    assert (status, writer.latest()) == (400, latest)


def test_files_routed_by_what_was_replaced_are_refused(rest: Rest, writer: Writer) -> None:
    """Rows of a key would lie in two buckets."""
    columns = (("id", "BIGINT NOT NULL"), ("name", "STRING"))
    writer.commit(changes=[writer.file(rows=2)])
    for key in ("id", "name"):
        rest.post("databases/d/tables/t/replace", {"schema": schema(*columns, bucket="4", bucket_key=key)})
    late = writer.file(rows=1, buckets=4)
    late = replace(late, file=replace(late.file, schema_id=1))
    latest = writer.latest()
    answer = rest.call("POST", COMMIT, writer.body(latest, changes=[late], schemaId=2))
    assert (answer.status_code, writer.latest()) == (400, latest)
    assert b"Version 1 of the schema of d.t was replaced, and rows lie in other directories or buckets now" in answer.data
