"""`CALL sys.reassign_row_id` of Paimon's Flink and Spark: the same files with new ids of their rows, by manifests alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gateway.gateway import Gateway
from lake import Lake
from lake.access.callers import Caller
from model.access import Access, Grant, table_resource
from model.catalog_errors import InvalidCommit
from model.errors import Forbidden
from model.identifier import Identifier
from model.snapshot import Snapshot
from server.paimon.messages.snapshots import client_commit
from table.format.manifests.entries import ManifestEntry
from tests.server.paimon.committing import Writer
from tests.server.paimon.speaking import Rest, new_table, schema

T = Identifier("d", "e")


@pytest.fixture
def writer(rest: Rest, gateway: Gateway) -> Writer:
    """Of a table of three files in one partition, the last with a column of the first's rows, and one in another: ids 0, 2, 0 and 5."""
    made = schema(("a", "INT"), ("p", "INT"), bucket="-1", partition=["p"])
    made["options"] |= {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    rest.post("databases/d/tables", new_table("e", made))
    writer = Writer(rest, gateway.lake, "e")
    for rows, first, partition, end in ((2, 0, 1, 2), (3, 2, 1, 5), (2, 0, 1, 5), (1, 5, 2, 6)):
        file = numbered(writer.file(rows=rows, partition=(partition,)), first)
        assert gateway.lake.client_commit(T, client_commit(writer.body(writer.latest(), changes=[file], nextRowId=end)))
    return writer


def numbered(entry: ManifestEntry, first: int | None) -> ManifestEntry:
    return replace(entry, file=replace(entry.file, first_row_id=first))


def reassigned(writer: Writer, ids: Sequence[int | None], end: int, **changed: Any) -> dict[str, Any]:
    """A commit of all files with these first ids, in a base of one manifest and with an empty delta."""
    latest = writer.latest()
    assert latest is not None
    entries = [numbered(entry, first) for entry, first in zip(live(writer), ids, strict=True)]
    files = writer._files
    types = [field.type for field in files.read_schema(0).partition_fields]
    name, size = files.new_manifest_list(files.new_manifests(entries, types, target=1 << 20))
    told: dict[str, Any] = {"baseManifestList": name, "baseManifestListSize": size, "commitKind": "OVERWRITE", "nextRowId": end}
    return writer.body(latest, **(told | changed))


def live(writer: Writer) -> list[ManifestEntry]:
    return list(writer._files.live_entries(Snapshot.from_json(writer.latest() or {})))


def holding(lake: Lake, access: Access) -> Lake:
    grants = (Grant(resource=table_resource(T), access=access, principal="ada"),)
    return lake.for_caller(Caller(principal="ada", grants=grants))


def test_rows_get_new_ids(writer: Writer, gateway: Gateway) -> None:
    assert [entry.file.first_row_id for entry in live(writer)] == [0, 2, 0, 5]
    body = reassigned(writer, [6, 8, 6, 5], 11)
    with pytest.raises(Forbidden, match="takes DELETE"):
        holding(gateway.lake, Access.UPDATE).client_commit(T, client_commit(body))
    assert holding(gateway.lake, Access.DELETE).client_commit(T, client_commit(body))
    assert [entry.file.first_row_id for entry in live(writer)] == [6, 8, 6, 5]
    added = numbered(writer.file(rows=1, partition=(1,)), 11)
    assert gateway.lake.client_commit(T, client_commit(writer.body(writer.latest(), changes=[added], nextRowId=12))), "and go on from there"


WRONG: dict[str, Callable[[Writer], dict[str, Any]]] = {
    "ids that were given out": lambda w: reassigned(w, [6, 8, 6, 4], 11),
    "ids beyond the next": lambda w: reassigned(w, [6, 9, 6, 5], 11),
    "a part of the same rows": lambda w: reassigned(w, [6, 8, 0, 5], 11),
    "rows of one file elsewhere": lambda w: reassigned(w, [6, 8, 9, 5], 11),
    "ids of two files at once": lambda w: reassigned(w, [6, 7, 6, 5], 11),
    "ids of two partitions at once": lambda w: reassigned(w, [6, 8, 6, 6], 11),
    "no ids": lambda w: reassigned(w, [6, 8, 6, None], 11),
    "ids nobody has": lambda w: reassigned(w, [6, 8, 6, 5], 2**63 - 1),
    "an append": lambda w: reassigned(w, [6, 8, 6, 5], 11, commitKind="APPEND"),
    "rows beside": lambda w: reassigned(w, [6, 8, 6, 5], 12, changes=[numbered(w.file(rows=1, partition=(1,)), 11)]),
}


@pytest.mark.parametrize("how", WRONG)
def test_other_ids_are_refused(writer: Writer, gateway: Gateway, how: str) -> None:
    before = writer.latest()
    with pytest.raises(InvalidCommit):
        gateway.lake.client_commit(T, client_commit(WRONG[how](writer)))
    assert writer.latest() == before


def test_files_are_the_same(writer: Writer, gateway: Gateway) -> None:
    entries = live(writer)
    body = reassigned(writer, [6, 8, 6, 5], 11)
    other = [numbered(entries[0], 6), *entries[1:]]
    other[0] = replace(other[0], file=replace(other[0].file, schema_id=0, min_sequence_number=7))
    files = writer._files
    types = [field.type for field in files.read_schema(0).partition_fields]
    name, size = files.new_manifest_list(files.new_manifests(other, types, target=1 << 20))
    body["snapshot"] |= {"baseManifestList": name, "baseManifestListSize": size}
    with pytest.raises(InvalidCommit, match="does not hold what the snapshot before it holds"):
        gateway.lake.client_commit(T, client_commit(body))
