"""What a process remembers of a table is only ever a guess: others' commits, rollbacks, renames and ALTERs are seen by the decision."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from catalog import CatalogStore
from lake import Lake, LakeTable
from lake.commit.clients.commit import ClientCommit
from lake.commit.clients.rights import Rights
from model.errors import TableNotExist
from model.identifier import Identifier
from model.schema.change import SetOption
from model.snapshot import BATCH_COMMIT_IDENTIFIER, CommitKind, Snapshot
from table.format.manifests.entries import EntryKind, ManifestEntry
from tests.lake.test_commit import T, append, names
from tests.lake.test_commit import table as table


@pytest.fixture
def other(catalog: CatalogStore, warehouse: Path) -> Iterator[Lake]:
    made = Lake(catalog, str(warehouse))
    yield made
    made.close()


def client_commit(table: LakeTable, base: Snapshot | None, *, user: str = "u", changes: Sequence[ManifestEntry] = ()) -> ClientCommit:
    """What a client builds on a snapshot: changes, or nothing new, under two lists of its own."""
    before = table.files.new_manifest_list(table.files.manifests_of(base) if base else [])
    after = table.files.new_manifest_list(table.files.new_manifests(changes, [], target=1 << 20))
    rows = sum(entry.file.row_count for entry in changes)
    snapshot = Snapshot(
        id=base.id + 1 if base else 1, uuid=str(uuid4()), schema_id=0, base_manifest_list=before[0], base_manifest_list_size=before[1],
        delta_manifest_list=after[0], delta_manifest_list_size=after[1], commit_user=user, commit_identifier=BATCH_COMMIT_IDENTIFIER,
        commit_kind=CommitKind.APPEND, time_millis=1, delta_record_count=rows,
        total_record_count=rows + ((base.total_record_count or 0) if base else 0),
    )  # fmt: skip
    return ClientCommit(snapshot=snapshot, table_id=table.table_id, base_given=True, base=base.uuid if base else None)


def test_an_append_goes_on_from_where_another_server_rolled_back_to(lake: Lake, other: Lake, table: LakeTable) -> None:
    for name in ("a", "b", "c"):
        lake.commit(table, append(name))
    other.history.rollback_to_snapshot(other.open(T), 1)
    assert lake.commit(table, append("d")).id == 2
    assert names(lake.open(T)) == names(other.open(T)) == ["a", "d"]
    other.commit(other.open(T), append("e"))
    other.alter_table(T, [SetOption(key="write-only", value="true")])
    assert lake.commit(lake.open(T), append("f")).schema_id == 1
    assert names(lake.open(T)) == ["a", "d", "e", "f"]


def test_a_clients_commit_is_compared_with_what_other_servers_did(lake: Lake, other: Lake, table: LakeTable, warehouse: Path) -> None:
    first = client_commit(table, None)
    assert lake.client_commit(T, first)
    assert lake.client_commit(T, first), "a repeat"
    mine, theirs = client_commit(table, first.snapshot), client_commit(table, first.snapshot)
    assert other.client_commit(T, theirs)
    assert not lake.client_commit(T, mine)
    assert lake.client_commit(T, theirs), "a repeat, decided by the other"
    other.history.rollback_to_snapshot(other.open(T), 1)
    again = client_commit(table, first.snapshot)
    assert lake.client_commit(T, again)
    assert not lake.client_commit(T, theirs), "it is gone"
    late = client_commit(table, again.snapshot)
    other.rename_table(T, Identifier("default", "u"))
    with pytest.raises(TableNotExist):
        lake.client_commit(T, late)
    assert not (warehouse / "default.db" / "u").exists(), "a table's place never moves"
    assert lake.client_commit(Identifier("default", "u"), late)


def added(table: LakeTable, name: str) -> ManifestEntry:
    (new,) = append(name).adds
    table.files.io.add(table.files.layout.data_file(table.schema, (), 0, name), b"x")
    return ManifestEntry(kind=EntryKind.ADD, partition=new.partition, bucket=new.bucket, total_buckets=1, file=new.file)


def test_a_clients_commit_that_lands_by_another_server_while_it_is_judged_is_a_repeat(lake: Lake, other: Lake, table: LakeTable) -> None:
    """Its client sent it again, as to a load balancer whose first server did not answer in time: told of a lost race it would double it."""
    before = lake.commit(table, append("a"))

    def sent_again(commit: ClientCommit) -> None:
        assert other.client_commit(T, commit)

    commit = client_commit(table, before, changes=[added(table, "b")])
    assert lake.client_commit(T, replace(commit, judged=lambda rows: sent_again(commit))), "its own snapshot's file lies there"
    commit = client_commit(table, commit.snapshot, changes=[added(table, "c")])
    assert Lake(lake.catalog, lake.warehouse)._client_committer.commit(T, commit, Rights(table=lambda _: sent_again(commit))), (
        "its own list"
    )
    assert sorted(names(lake.open(T))) == ["a", "b", "c"]


def test_a_clients_commit_that_loses_while_it_is_judged_has_lost(lake: Lake, other: Lake, table: LakeTable) -> None:
    before = lake.commit(table, append("a"))
    mine, theirs = (client_commit(table, before, changes=[added(table, name)]) for name in ("mine", "theirs"))
    assert not lake.client_commit(
        T, replace(mine, judged=lambda rows: None if other.client_commit(T, theirs) else pytest.fail("not taken"))
    )
    assert sorted(names(lake.open(T))) == ["a", "theirs"]
