"""Files that a snapshot took away and a later one adds again, and what becomes of them when the past expires."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.gateway import Gateway
from lake.rewrite.expiry import delete_tags, expire_snapshots, rollback
from lake.rewrite.orphans import remove_orphan_files
from model.identifier import Identifier
from table.format.manifests.entries import EntryKind, ManifestEntry
from tests.lake.kept import keep
from tests.server.paimon.committing import AnewWriter, Writer
from tests.server.paimon.speaking import Rest, new_table

T = "databases/d/tables/t"
NAME = Identifier("d", "t")


@pytest.fixture
def writer(rest: Rest, gateway: Gateway) -> Writer:
    rest.post("databases/d/tables", new_table())
    return AnewWriter(rest, gateway.lake)


def gone(entry: ManifestEntry) -> ManifestEntry:
    return replace(entry, kind=EntryKind.DELETE)


def whole(gateway: Gateway) -> list[int]:
    """The ids of all snapshots, whose files are there."""
    table = gateway.lake.open(NAME)
    snapshots = gateway.lake.snapshots(table)
    for snapshot in snapshots:
        for entry in table.files.live_entries(snapshot):
            assert Path(table.files.data_path(table.schema, entry)).exists(), snapshot.id
        for name in (snapshot.index_manifest, snapshot.statistics):
            assert name is None or [*Path(table.location).rglob(name)], snapshot.id
    return [snapshot.id for snapshot in snapshots]


def gone_and_back(writer: Writer, gateway: Gateway) -> None:
    """As Flink's `sys.rollback_to_as_latest` does: by the same files, and the same statistics."""
    files = gateway.lake.open(NAME).files
    files.io.add(files.layout.statistics_file("stat-one"), b"{}")
    old, new = writer.file(rows=2), writer.file(rows=3)
    writer.commit(changes=[old], statistics="stat-one")
    writer.commit(changes=[gone(old), new], commitKind="OVERWRITE")
    writer.commit(changes=[gone(new), old], commitKind="OVERWRITE", statistics="stat-one")


@pytest.mark.parametrize("kept", [1, 2, 3, 4])
@pytest.mark.parametrize("then", ["it stays", "it goes"])
def test_what_went_and_came_back_survives_expiry(writer: Writer, gateway: Gateway, kept: int, then: str) -> None:
    gone_and_back(writer, gateway)
    table = gateway.lake.open(NAME)
    latest = table.latest()
    back = [gone(entry) for entry in table.files.live_entries(latest)] if then == "it goes" else []
    writer.commit(changes=[*back, writer.file(rows=1)], commitKind="OVERWRITE" if back else "APPEND")
    writer.commit(changes=[writer.file(rows=1)])
    expire_snapshots(gateway.lake, table, keep(kept))
    assert whole(gateway) == [*range(6 - kept, 6)]
    expire_snapshots(gateway.lake, table, keep(1))
    assert whole(gateway) == [5]
    remove_orphan_files(gateway.lake, table, older_than_millis=time.time_ns() // 1_000_000, check=lambda: None)
    assert whole(gateway) == [5]


def test_files_that_an_append_adds_again_survive_expiry(writer: Writer, gateway: Gateway) -> None:
    """As by a job that went on from an old savepoint."""
    old = writer.file(rows=2)
    writer.commit(changes=[old])
    writer.commit(changes=[gone(old)], commitKind="OVERWRITE")
    writer.commit(changes=[old])
    expire_snapshots(gateway.lake, gateway.lake.open(NAME), keep(2))
    assert whole(gateway) == [2, 3]


def test_files_that_an_append_adds_again_and_an_overwrite_takes_away_survive_expiry(writer: Writer, gateway: Gateway) -> None:
    """The snapshot between those two has them, and neither the earliest that is kept nor the latest."""
    old = writer.file(rows=2)
    writer.commit(changes=[old])
    writer.commit(changes=[gone(old)], commitKind="OVERWRITE")
    writer.commit(changes=[old])
    writer.commit(changes=[gone(old)], commitKind="OVERWRITE")
    writer.commit(changes=[writer.file(rows=1)])
    expire_snapshots(gateway.lake, gateway.lake.open(NAME), keep(4))
    assert whole(gateway) == [2, 3, 4, 5]


def merged_and_back(writer: Writer, *, kind: str = "COMPACT") -> ManifestEntry:
    """A file that a compaction took away is there again in the third snapshot, and merged again in the fourth, of five."""
    old, merged = writer.file(rows=2), writer.file(rows=2)
    writer.commit(changes=[old])
    writer.commit(changes=[gone(old), merged], commitKind="COMPACT")
    back = [old] if kind == "APPEND" else [gone(merged), old]
    writer.commit(changes=back, commitKind=kind)
    writer.commit(changes=[gone(old), writer.file(rows=2)], commitKind="COMPACT")
    writer.commit(changes=[writer.file(rows=1)])
    return old


@pytest.mark.parametrize("kept", [1, 2, 3, 4])
@pytest.mark.parametrize("kind", ["APPEND", "COMPACT", "OVERWRITE"])
def test_files_that_are_compacted_again_survive_expiry(writer: Writer, gateway: Gateway, kind: str, kept: int) -> None:
    """As where a client takes its compaction back: only the snapshot between its two compactions has the file."""
    merged_and_back(writer, kind=kind)
    table = gateway.lake.open(NAME)
    expire_snapshots(gateway.lake, table, keep(kept))
    assert whole(gateway) == [*range(6 - kept, 6)]


@pytest.mark.parametrize("kind", ["APPEND", "COMPACT", "OVERWRITE"])
def test_files_that_are_compacted_again_survive_the_tag_that_had_them(rest: Rest, writer: Writer, gateway: Gateway, kind: str) -> None:
    old = writer.file(rows=2)
    writer.commit(changes=[old])
    rest.post(f"{T}/tags", {"tagName": "one"})
    merged = writer.file(rows=2)
    writer.commit(changes=[gone(old), merged], commitKind="COMPACT")
    table = gateway.lake.open(NAME)
    expire_snapshots(gateway.lake, table, keep(1))
    writer.commit(changes=[old] if kind == "APPEND" else [gone(merged), old], commitKind=kind)
    writer.commit(changes=[gone(old), writer.file(rows=2)], commitKind="COMPACT")
    writer.commit(changes=[writer.file(rows=1)])
    delete_tags(gateway.lake, table, ["one"])
    assert whole(gateway) == [2, 3, 4, 5]


@pytest.mark.parametrize("kind", ["APPEND", "COMPACT", "OVERWRITE"])
def test_a_rollback_leaves_what_came_back_by_any_commit(writer: Writer, gateway: Gateway, kind: str) -> None:
    merged_and_back(writer, kind=kind)
    table = gateway.lake.open(NAME)
    rollback(gateway.lake, table, gateway.lake.snapshots(table)[1])
    assert whole(gateway) == [1, 2]


def test_appends_that_take_files_away_are_looked_at(writer: Writer, gateway: Gateway) -> None:
    """Paimon's own writers make an OVERWRITE of such a commit, but nothing keeps a client from it."""
    old = writer.file(rows=2)
    writer.commit(changes=[old])
    writer.commit(changes=[gone(old), writer.file(rows=1)])
    writer.commit(changes=[old])
    writer.commit(changes=[gone(old), writer.file(rows=1)])
    writer.commit(changes=[writer.file(rows=1)])
    table = gateway.lake.open(NAME)
    expire_snapshots(gateway.lake, table, keep(4))
    assert whole(gateway) == [2, 3, 4, 5]
    rollback(gateway.lake, table, gateway.lake.snapshots(table)[0])
    assert whole(gateway) == [2]


def test_what_manifests_tell_to_have_gone_is_not_added_again(rest: Rest, gateway: Gateway) -> None:
    """Java's readers would leave it out, and its writers fail at it."""
    rest.post("databases/d/tables", new_table())
    writer = Writer(rest, gateway.lake)
    old = writer.file(rows=2)
    writer.commit(changes=[old])
    writer.commit(changes=[gone(old), writer.file(rows=1)], commitKind="OVERWRITE")
    refused = rest.call("POST", f"{T}/commit", writer.body(writer.latest(), changes=[old]))
    assert (refused.status_code, "CALL sys.compact_manifest('d.t')" in refused.text) == (400, True)
    gateway.run("CALL sys.compact_manifest('d.t')").close()
    writer.commit(changes=[old])
    assert whole(gateway) == [1, 2, 3, 4]


def test_files_that_are_there_no_more_are_refused(rest: Rest, writer: Writer, gateway: Gateway) -> None:
    old = writer.file(rows=2)
    writer.commit(changes=[old])
    writer.commit(changes=[gone(old), writer.file(rows=1)], commitKind="OVERWRITE")
    expire_snapshots(gateway.lake, gateway.lake.open(NAME), keep(1))
    refused = rest.call("POST", f"{T}/commit", writer.body(writer.latest(), changes=[old]))
    assert (refused.status_code, f"{old.file.file_name}, which does not exist" in refused.text) == (400, True)


def test_what_a_tag_kept_and_came_back_survives_the_tag(rest: Rest, writer: Writer, gateway: Gateway) -> None:
    old = writer.file(rows=2)
    writer.commit(changes=[old])
    rest.post(f"{T}/tags", {"tagName": "one"})
    writer.commit(changes=[gone(old)], commitKind="OVERWRITE")
    writer.commit(changes=[writer.file(rows=1)])
    table = gateway.lake.open(NAME)
    expire_snapshots(gateway.lake, table, keep(1))
    writer.commit(changes=[old], commitKind="OVERWRITE")
    delete_tags(gateway.lake, table, ["one"])
    assert whole(gateway) == [3, 4]


def test_a_rollback_leaves_what_came_back_to_those_who_had_it(rest: Rest, writer: Writer, gateway: Gateway) -> None:
    gone_and_back(writer, gateway)
    table = gateway.lake.open(NAME)
    second = gateway.lake.snapshots(table)[1]
    rollback(gateway.lake, table, second)
    assert whole(gateway) == [1, 2]
