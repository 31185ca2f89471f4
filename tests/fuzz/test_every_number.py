"""Each number of a snapshot at its ends, by each way in that is no commit: what takes it, and what came before it was looked at."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from gateway.gateway import Gateway
from model.event_time import is_far_ahead
from model.identifier import Identifier
from model.snapshot import NO_WATERMARK
from tests.fuzz.oracle import sql
from tests.fuzz.test_hostile_tables import said
from tests.lake.register.damage import forget_metadata
from tests.short import one_in, short

_ENDS = (-(2**63), -(2**53), -1, 0, 2**31, 10**15, 253_402_300_799_999, 253_402_300_800_000, 2**62, 2**63 - 1)
_NUMBERS = (
    "id", "version", "schemaId", "timeMillis", "watermark", "nextRowId", "totalRecordCount", "deltaRecordCount", "changelogRecordCount",
    "commitIdentifier", "baseManifestListSize", "deltaManifestListSize",
)  # fmt: skip
_READ = (
    "SELECT * FROM {t}", "SELECT COUNT(*) FROM {t}", "SELECT * FROM {t}$snapshots", "SELECT * FROM {t}$tags", "SELECT * FROM {t}$files",
    "SELECT * FROM {t} FOR SYSTEM_TIME AS OF TIMESTAMP '2099-01-01 00:00:00'",
    "SELECT * FROM {t} FOR SYSTEM_TIME AS OF TIMESTAMP '1971-01-01 00:00:00'", "SELECT * FROM {t} /*+ OPTIONS('scan.watermark'='1') */",
    "SELECT * FROM {t} /*+ OPTIONS('scan.tag-name'='laid') */", "CALL sys.check_table('{t}')", "SELECT * FROM sys.tables",
    "CALL sys.create_tag_from_timestamp('{t}', 'then', 1000)",
)  # fmt: skip
_CHANGE = (
    "CALL sys.expire_tags('{t}')", "CALL sys.expire_snapshots('{t}', 1)", "CALL sys.create_branch('{t}', 'c', 'laid')",
    "INSERT INTO {t} VALUES (9)", "SELECT * FROM {t}$snapshots", "CALL sys.trigger_tag_automatic_creation('{t}')",
    "CALL sys.rollback_to('{t}', 'laid')", "INSERT INTO {t} VALUES (10)", "SELECT * FROM {t}",
)  # fmt: skip


@pytest.fixture
def import_dirs(tmp_path: Path) -> list[str]:
    return [str(tmp_path / "imports")]


@pytest.fixture
def place(client: FlaskClient, tmp_path: Path) -> Path:
    """The directory of a table `t` of two snapshots."""
    sql(client, "CREATE TABLE t (id INT) WITH ('tag.automatic-creation'='batch')")
    sql(client, "INSERT INTO t VALUES (1)")
    sql(client, "INSERT INTO t VALUES (2)")
    return tmp_path / "warehouse" / "default.db" / "t"


def _strange(body: dict[str, Any], member: str) -> Iterator[tuple[int, str]]:
    for end in _ENDS:
        if end != body.get(member):
            yield end, json.dumps(body | {member: end})


def _told(client: FlaskClient, table: str, where: str, texts: tuple[str, ...] = _READ) -> None:
    """Ask all of it; the oracle judges each answer."""
    for text in texts:
        said(client, text.format(t=table), where)
    for tab in ("", "/snapshots"):
        assert client.get(f"/tables/default/{table}{tab}").status_code in (200, 404, 503), where


def _tags(client: FlaskClient) -> list[list[Any]]:
    rows: list[list[Any]] = sql(client, "SELECT tag_name FROM t$tags").get_json()["rows"]
    return rows


@pytest.mark.parametrize("member", one_in(3, _NUMBERS))
def test_in_a_tag_that_came_as_a_file(client: FlaskClient, place: Path, member: str) -> None:
    (place / "tag").mkdir(exist_ok=True)
    body = json.loads((place / "snapshot/snapshot-2").read_text())
    for number, (end, text) in enumerate(_strange(body, member)):
        laid = place / "tag" / "tag-laid"
        laid.write_text(text)
        forget_metadata()
        _told(client, "t", f"{member} = {end}")
        beyond = member == "timeMillis" and not 0 <= end <= body["timeMillis"]
        beyond |= member in ("schemaId", "totalRecordCount", "nextRowId", "changelogRecordCount") and end < 0
        beyond |= member == "id" and not 0 < end < 2**62
        beyond |= member == "watermark" and end != NO_WATERMARK and is_far_ahead(end)
        assert not (beyond and ["laid"] in _tags(client)), f"{member} = {end} was taken"
        if number % 3 == 0:
            _told(client, "t", f"{member} = {end}", _CHANGE)
        said(client, "CALL sys.delete_tag('t', 'laid')", f"{member} = {end}")
        laid.unlink(missing_ok=True)
        forget_metadata()
        assert ["laid"] not in _tags(client)


@pytest.mark.parametrize("member", short(_NUMBERS, ("watermark", "deltaRecordCount", "schemaId", "nextRowId")))
def test_in_a_table_that_is_registered(client: FlaskClient, gateway: Gateway, place: Path, import_dirs: list[str], member: str) -> None:
    body = json.loads((place / "snapshot/snapshot-2").read_text())
    for number, (end, text) in enumerate(_strange(body, member)):
        name = f"r{number}"
        copied = Path(import_dirs[0]) / name
        shutil.copytree(place, copied)
        (copied / "snapshot/snapshot-2").write_text(text)
        taken = said(client, f"CALL sys.register_table('{name}', '{copied}')", f"{member} = {end}").status_code == 200
        if member == "timeMillis":
            assert taken == (0 <= end < 253_402_300_800_000)
        _told(client, name, f"{member} = {end}")
        if not taken:
            continue
        said(client, f"INSERT INTO {name} VALUES (3)", f"{member} = {end}")
        latest = gateway.lake.open(Identifier("default", name)).latest()
        assert latest is not None
        assert latest.watermark is None or not is_far_ahead(latest.watermark)
        _told(client, name, f"{member} = {end}", _CHANGE)


@pytest.mark.parametrize("member", ["timeMillis", "watermark"])
def test_in_the_catalog_which_earlier_versions_wrote(client: FlaskClient, gateway: Gateway, place: Path, member: str) -> None:
    """Tags and registered tables were taken in with any number: they are shown, and read as before."""
    assert place.is_dir()
    sql(client, "CALL sys.create_tag('t', 'kept')")
    catalog, table = gateway.lake.catalog, gateway.lake.open(Identifier("default", "t"))
    for end in _ENDS:
        with catalog.transaction() as tx:
            tag = tx.tags.find(table.table_id, "kept", "main")
            assert tag is not None
            tx.tags.drop(table.table_id, "kept", "main")
            tx.tags.put(table.table_id, "kept", {**tag.snapshot, member: end}, "main", created_millis=end % 10**12, published=True)
            row = tx.snapshots.latest(table.table_id, "main")
            assert row is not None
            tx.snapshots.point(table.table_id, "main", None)
            tx.snapshots.remove(table.table_id, "main", above=row.snapshot_id - 1)
            tx.snapshots.insert(table.table_id, "main", replace(row, body={**row.body, member: end}))
            tx.snapshots.point(table.table_id, "main", row)
        forget_metadata()
        _told(client, "t", f"{member} = {end}")
        assert sql(client, "SELECT COUNT(*) FROM t").get_json()["rows"] == [[2]]
        assert sql(client, "SELECT COUNT(*) FROM t$snapshots").get_json()["rows"] == [[2]]
        assert ["kept"] in _tags(client)
