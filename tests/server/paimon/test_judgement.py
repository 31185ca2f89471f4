"""What a client's commit may do: INSERT appends and nothing else, and nobody's commit loses, doubles or hides rows by mistake."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gateway.gateway import Gateway
from lake import DiskSpace, Lake
from lake.access.callers import Caller
from lake.commit.clients.added_files import MOST_LOOKED_AT
from model.access import Access, Columns, Grant, Policy, ResourceType, table_resource
from model.catalog_errors import InvalidCommit
from model.errors import Forbidden, StorageFull
from model.identifier import Identifier
from model.schema.types import VarCharType
from model.snapshot import Snapshot
from server.paimon.messages.snapshots import client_commit
from table.format.manifests.entries import EntryKind, ManifestEntry, SimpleStats
from table.format.rows import binary_row
from table.format.store import TableFiles
from table.write.snapshot_builder import COMMITTED_BY
from tests.fix_gateway import Ask
from tests.server.paimon.committing import Writer, rows_of_nulls
from tests.server.paimon.speaking import Rest, new_table, schema

T = Identifier("d", "t")
ID = pa.schema([("id", pa.int64())])


@pytest.fixture
def writer(rest: Rest, gateway: Gateway) -> Writer:
    rest.post("databases/d/tables", new_table())
    made = Writer(rest, gateway.lake)
    for rows in (2, 3):
        made.commit(changes=[made.file(rows=rows)])
    return made


def holding(lake: Lake, *accesses: Access) -> Lake:
    grants = tuple(Grant(resource=table_resource(T), access=access, principal="ada") for access in accesses)
    return lake.for_caller(Caller(principal="ada", grants=grants))


def holding_all_but_delete(lake: Lake) -> Lake:
    grant = Grant(resource=table_resource(Identifier("d", "n")), access=Access.UPDATE, principal="ada")
    return lake.for_caller(Caller(principal="ada", grants=(grant,)))


def live(files: TableFiles, base: dict[str, Any]) -> list[ManifestEntry]:
    return list(files.live_entries(Snapshot.from_json(base)))


def gone(entry: ManifestEntry) -> ManifestEntry:
    return replace(entry, kind=EntryKind.DELETE)


def with_base(writer: Writer, entries: Sequence[ManifestEntry], **changed: Any) -> dict[str, Any]:
    """A commit whose base list holds these entries in one merged manifest."""
    name, size = writer._files.new_manifest_list(writer._files.new_manifests(entries, [], target=1 << 20))
    return writer.body(writer.latest(), baseManifestList=name, baseManifestListSize=size, **changed)


def loses_all(writer: Writer, old: list[ManifestEntry]) -> dict[str, Any]:
    name, size = writer._files.new_manifest_list([])
    return writer.body(writer.latest(), baseManifestList=name, baseManifestListSize=size)


def doubles(writer: Writer, old: list[ManifestEntry]) -> dict[str, Any]:
    latest = writer.latest()
    assert latest is not None
    listed = writer._files.manifests_of(Snapshot.from_json(latest))
    name, size = writer._files.new_manifest_list([*listed, *listed])
    return writer.body(latest, baseManifestList=name, baseManifestListSize=size)


def hides(writer: Writer, old: list[ManifestEntry]) -> dict[str, Any]:
    """A list that says of a manifest what readers leave it out for."""
    latest = writer.latest()
    assert latest is not None
    listed = [replace(meta, min_bucket=7, max_bucket=7) for meta in writer._files.manifests_of(Snapshot.from_json(latest))]
    name, size = writer._files.new_manifest_list(listed)
    return writer.body(latest, baseManifestList=name, baseManifestListSize=size)


def _holding(writer: Writer, entry: ManifestEntry, data: bytes, extension: str = ".parquet") -> ManifestEntry:
    """The file with other bytes, whose size its entry tells."""
    renamed = _renamed(entry, entry.file.file_name.replace(".parquet", extension))
    writer._files.io.write(_path(writer, renamed), data)
    return _sized(renamed, len(data))


def _with_names(entry: ManifestEntry) -> ManifestEntry:
    """The file with statistics that say that no name in it is NULL."""
    unbounded = binary_row.encode_prefixed([VarCharType()], (None,))
    stats = SimpleStats(min_values=unbounded, max_values=unbounded, null_counts=(0,))
    return _other(entry, value_stats=stats, value_stats_cols=("name",))


def _of_column(name: str) -> bytes:
    """A Parquet file of one row with a text in a column."""
    out = pa.BufferOutputStream()
    pq.write_table(pa.table({name: ["text"]}), out)
    return bytes(out.getvalue())


def other_rows(entry: ManifestEntry, rows: int) -> ManifestEntry:
    return replace(entry, file=replace(entry.file, row_count=rows))


NEVER: dict[str, Callable[[Writer, list[ManifestEntry]], dict[str, Any]]] = {
    "an append that leaves all out": loses_all,
    "an append that names a manifest twice": doubles,
    "a list that hides a manifest": hides,
    "a merge that loses a file": lambda w, old: with_base(w, old[:1]),
    "a merge that adds a file": lambda w, old: with_base(w, [*old, w.file(rows=1)]),
    "a merge that tells other rows": lambda w, old: with_base(w, [other_rows(old[0], 9), old[1]]),
    "a merge of all, doubled": lambda w, old: with_base(w, [*old, replace(old[0], file=replace(old[0].file, level=1))]),
    "a file added again": lambda w, old: w.body(w.latest(), changes=[old[0]]),
    "a file added twice": lambda w, old: w.body(w.latest(), changes=[new := w.file(rows=1), new]),
    "a file added again at another level": lambda w, old: w.body(w.latest(), changes=[_other(old[0], level=3)]),
    "a file added again with one beside it": lambda w, old: w.body(w.latest(), changes=[_other(old[0], extra_files=("x.index",))]),
    "a file added again with an index": lambda w, old: w.body(w.latest(), changes=[_other(old[0], embedded_file_index=b"x")]),
    "a file added again by its path": lambda w, old: w.body(w.latest(), changes=[_external(old[0], _path(w, old[0]))]),
    "a file added again by another spelling": lambda w, old: w.body(
        w.latest(), changes=[_external(w.file(rows=1), _path(w, old[0]).replace("/bucket-0/", "//./bucket-0/"))]
    ),
    "a file added at two levels": lambda w, old: w.body(w.latest(), changes=[new := w.file(rows=1), _other(new, level=1)]),
    "a file of a compaction added again": lambda w, old: w.body(
        w.latest(), changes=[gone(old[0]), _other(old[1], level=1, row_count=old[0].file.row_count)], commitKind="COMPACT"
    ),
    "a file that is not there": lambda w, old: w.body(w.latest(), changes=[_renamed(w.file(rows=1), "data-none.parquet")]),
    "a file of another size": lambda w, old: w.body(w.latest(), changes=[_sized(w.file(rows=1), 10)]),
    "a file of other rows": lambda w, old: w.body(w.latest(), changes=[other_rows(w.file(rows=1), 2)]),
    "a file of other rows among many": lambda w, old: w.body(
        w.latest(), changes=[*(w.file(rows=1) for _ in range(MOST_LOOKED_AT - 1)), other_rows(w.file(rows=3), 2)]
    ),
    "a file that is none": lambda w, old: w.body(w.latest(), changes=[_holding(w, w.file(rows=1), b"PAR1 and no more")]),
    "a file whose end is missing": lambda w, old: w.body(w.latest(), changes=[_holding(w, w.file(rows=1), rows_of_nulls(ID, 1)[:-1])]),
    "a file of other columns": lambda w, old: w.body(w.latest(), changes=[_holding(w, w.file(rows=1), _of_column("other"))]),
    "a file without a column of which it tells values": lambda w, old: w.body(
        w.latest(), changes=[_with_names(_holding(w, w.file(rows=1), rows_of_nulls(ID, 1)))]
    ),
    "a column of another type": lambda w, old: w.body(w.latest(), changes=[_holding(w, w.file(rows=1), _of_column("id"))]),
    "an ORC file that is none": lambda w, old: w.body(w.latest(), changes=[_holding(w, w.file(rows=1), b"ORC, it says", ".orc")]),
    "an Avro file that is none": lambda w, old: w.body(w.latest(), changes=[_holding(w, w.file(rows=1), b"Avro", ".avro")]),
    "a file elsewhere": lambda w, old: w.body(w.latest(), changes=[_renamed(w.file(rows=1), "../../t/bucket-0/x")]),
    "a path elsewhere": lambda w, old: w.body(w.latest(), changes=[_external(w.file(rows=1), "/etc/passwd")]),
    "an unknown file removed": lambda w, old: w.body(
        w.latest(), changes=[gone(w.file(rows=1))], commitKind="OVERWRITE", totalRecordCount=4
    ),
    "negative rows": lambda w, old: w.body(w.latest(), changes=[w.file(rows=-1)]),
    "a schema to come": lambda w, old: w.body(w.latest(), changes=[_of_schema(w.file(rows=1), 7)]),
    "a compaction that drops rows": lambda w, old: w.body(w.latest(), changes=[gone(old[0])], commitKind="COMPACT"),
    "a compaction that adds rows": lambda w, old: w.body(w.latest(), changes=[gone(old[0]), w.file(rows=9)], commitKind="COMPACT"),
    "ids of rows beyond those added": lambda w, old: w.body(w.latest(), changes=[w.file(rows=1)], nextRowId=2**63 - 1),
    "ids of rows below all": lambda w, old: w.body(w.latest(), changes=[w.file(rows=1)], nextRowId=-5),
    "a file of ids nobody gave": lambda w, old: w.body(w.latest(), changes=[_numbered(w.file(rows=1), 7)], nextRowId=1),
    "an analysis that adds": lambda w, old: w.body(w.latest(), changes=[w.file(rows=1)], commitKind="ANALYZE"),
}


def _other(entry: ManifestEntry, **changed: Any) -> ManifestEntry:
    return replace(entry, file=replace(entry.file, **changed))


def _path(writer: Writer, entry: ManifestEntry) -> str:
    return writer._files.data_path(writer._files.read_schema(0), entry)


def _renamed(entry: ManifestEntry, name: str) -> ManifestEntry:
    return replace(entry, file=replace(entry.file, file_name=name))


def _sized(entry: ManifestEntry, size: int) -> ManifestEntry:
    return replace(entry, file=replace(entry.file, file_size=size))


def _external(entry: ManifestEntry, path: str) -> ManifestEntry:
    return replace(entry, file=replace(entry.file, external_path=path))


def _numbered(entry: ManifestEntry, first: int) -> ManifestEntry:
    return replace(entry, file=replace(entry.file, first_row_id=first))


def _of_schema(entry: ManifestEntry, schema_id: int) -> ManifestEntry:
    return replace(entry, file=replace(entry.file, schema_id=schema_id))


@pytest.mark.parametrize("kind", NEVER)
def test_what_no_commit_may_do(writer: Writer, gateway: Gateway, kind: str) -> None:
    latest = writer.latest()
    assert latest is not None
    before = live(writer._files, latest)
    body = NEVER[kind](writer, before)
    for lake in (holding(gateway.lake, Access.UPDATE), gateway.lake):
        with pytest.raises((InvalidCommit, Forbidden) if lake is not gateway.lake else InvalidCommit):
            lake.client_commit(T, client_commit(body))
    assert writer.latest() == latest
    assert live(writer._files, latest) == before


def test_no_partition_is_another_name_of_a_file_that_is_there(rest: Rest, gateway: Gateway) -> None:
    """NULL and its name as a text lie in one directory."""
    rest.post("databases/d/tables", new_table("p", schema(("p", "STRING"), ("v", "STRING"), partition=["p"], bucket="-1")))
    writer = Writer(rest, gateway.lake, "p")
    made = writer.commit(changes=[old := writer.file(rows=1, partition=(None,))])
    named = writer.file(rows=1, partition=("__DEFAULT_PARTITION__",))
    assert writer.post(writer.body(made, changes=[named]))
    again = writer.body(writer.latest(), changes=[replace(old, partition=named.partition)])
    with pytest.raises(InvalidCommit, match="has already"):
        gateway.lake.client_commit(Identifier("d", "p"), client_commit(again))


@pytest.mark.parametrize("lists", ["deltaManifestList", "baseManifestList"])
@pytest.mark.parametrize("kept", ["as a snapshot", "on a branch", "as a tag"])
def test_no_old_list_brings_rows_back(writer: Writer, gateway: Gateway, other_server: Gateway, ask: Ask, lists: str, kept: str) -> None:
    """Its name is in the snapshots, and what it names is there until it expires; a server may not have seen the list before."""
    second = writer.latest()
    assert second is not None
    if kept != "as a snapshot":
        ask("CALL sys.create_tag(table => 'd.t', tag => 'x')")
    if kept == "on a branch":
        gateway.lake.branches.create(gateway.lake.open(T), "b", from_tag="x")
        gateway.lake.tags.delete(gateway.lake.open(T), "x")
    removed = [gone(entry) for entry in live(writer._files, second)]
    assert writer.post(writer.body(second, changes=removed, commitKind="OVERWRITE"))
    assert writer.post(with_base(writer, [], changes=[writer.file(rows=1)]))
    if kept != "as a snapshot":
        ask("CALL sys.expire_snapshots(table => 'd.t', retain_max => 1, retain_min => 1)")
    latest, rows = writer.latest(), 2 if lists == "baseManifestList" else 3
    assert latest is not None
    again = writer.body(latest, deltaRecordCount=rows, totalRecordCount=1 + rows)
    again["snapshot"] |= {"deltaManifestList": second[lists], "deltaManifestListSize": second[f"{lists}Size"]}
    for lake in (gateway.lake, other_server.lake):
        with pytest.raises(InvalidCommit, match="holds already"):
            lake.client_commit(T, client_commit(again))
    assert writer.latest() == latest
    writer.commit(changes=[writer.file(rows=1)])


@pytest.mark.parametrize("kept", ["on a branch", "as a tag"])
def test_no_list_that_came_beside_brings_rows_back(rest: Rest, writer: Writer, gateway: Gateway, other_server: Gateway, kept: str) -> None:
    """Another server has made the branch, or taken in a client's tag, since this one has looked at main."""
    for _ in range(2):
        assert other_server.lake.client_commit(T, client_commit(writer.body(writer.latest(), changes=[writer.file(rows=1)])))
    latest = writer.latest()
    assert latest is not None
    old = writer.file(rows=1)
    if kept == "on a branch":
        rest.post("databases/d/tables/t/branches", {"branch": "b"})
        branch = Writer(rest, gateway.lake, "t$branch_b")
        made = branch.commit(changes=[old])
        branch.commit(changes=[gone(old)], commitKind="OVERWRITE")
    else:
        made = writer.body(latest, changes=[old])["snapshot"]
        with gateway.lake.catalog.transaction() as tx:
            tx.tags.put(gateway.lake.open(T).table_id, "x", made, published=True)
    again = writer.body(latest, changes=[old])
    again["snapshot"] |= {name: made[name] for name in ("deltaManifestList", "deltaManifestListSize")}
    for lake in (other_server.lake, gateway.lake):
        with pytest.raises(InvalidCommit, match="holds already"):
            lake.client_commit(T, client_commit(again))
    assert writer.latest() == latest
    assert other_server.lake.client_commit(T, client_commit(writer.body(latest, changes=[writer.file(rows=1)])))


def test_no_old_manifest_brings_rows_back(writer: Writer, gateway: Gateway) -> None:
    second = writer.latest()
    assert second is not None
    removed = [gone(entry) for entry in live(writer._files, second)]
    latest = writer.commit(changes=removed, commitKind="OVERWRITE")
    name, size = writer._files.new_manifest_list(writer._files.delta_manifests(Snapshot.from_json(second)))
    again = writer.body(latest, deltaRecordCount=3, totalRecordCount=3, deltaManifestList=name, deltaManifestListSize=size)
    with pytest.raises(InvalidCommit, match="which the snapshot before it holds"):
        gateway.lake.client_commit(T, client_commit(again))


def test_a_file_may_change_its_level(writer: Writer) -> None:
    """As Paimon's compactions change it where there is nothing to merge."""
    made = writer.latest()
    assert made is not None
    old = live(writer._files, made)
    moved = writer.commit(changes=[gone(old[0]), _other(old[0], level=5)], commitKind="COMPACT")
    assert {entry.file.level for entry in live(writer._files, moved)} == {0, 5}


@pytest.mark.parametrize("kind", ["APPEND", "OVERWRITE"])
def test_taking_rows_away_takes_delete(writer: Writer, gateway: Gateway, kind: str) -> None:
    latest = writer.latest()
    assert latest is not None
    old = live(writer._files, latest)
    body = writer.body(latest, changes=[gone(old[0]), writer.file(rows=1)], commitKind=kind)
    with pytest.raises(Forbidden, match="takes DELETE"):
        holding(gateway.lake, Access.UPDATE).client_commit(T, client_commit(body))
    with pytest.raises(Forbidden, match="takes UPDATE"):
        holding(gateway.lake, Access.DELETE).client_commit(T, client_commit(body))
    assert holding(gateway.lake, Access.UPDATE, Access.DELETE).client_commit(T, client_commit(body))


def test_an_append_a_merge_and_a_compaction_take_insert(writer: Writer, gateway: Gateway) -> None:
    ada = holding(gateway.lake, Access.UPDATE)
    latest = writer.latest()
    assert latest is not None
    old = live(writer._files, latest)
    assert ada.client_commit(T, client_commit(with_base(writer, old, changes=[writer.file(rows=1)], properties={COMMITTED_BY: "root"})))
    made = writer.latest()
    assert made is not None
    assert made["properties"][COMMITTED_BY] == "ada", "the server's word"
    merged = writer.body(made, changes=[*map(gone, old), writer.file(rows=5)], commitKind="COMPACT")
    assert ada.client_commit(T, client_commit(merged))
    assert ada.client_commit(T, client_commit(merged)), "a repeat"
    back = writer.body(writer.latest(), changes=[writer.file(rows=1)], timeMillis=1_000)
    with pytest.raises(Forbidden, match="DELETE"):
        ada.client_commit(T, client_commit(back))


def test_one_append_after_the_other_dates_a_table_an_hour_back_at_most(writer: Writer, gateway: Gateway) -> None:
    """A clock may be wrong by so much, and appends that come late are dated after what they build on."""
    ada, now, minute = holding(gateway.lake, Access.UPDATE), time.time_ns() // 1_000_000, 60_000

    def append(time_millis: int) -> None:
        assert ada.client_commit(T, client_commit(writer.body(writer.latest(), changes=[writer.file(rows=1)], timeMillis=time_millis)))

    append(now - 50 * minute)
    for minutes in (100, 70):
        with pytest.raises(Forbidden, match="DELETE"):
            append(now - minutes * minute)
    append(now - 55 * minute)
    root = gateway.lake
    assert root.client_commit(T, client_commit(writer.body(writer.latest(), changes=[writer.file(rows=1)], timeMillis=now - 300 * minute)))
    append(now - 200 * minute)
    with pytest.raises(Forbidden, match="DELETE"):
        append(now - 201 * minute)


def column_grant() -> Grant:
    column = replace(table_resource(T), type=ResourceType.COLUMN)
    return Grant(resource=column, access=Access.SELECT, principal="ada", columns=Columns(names=("a",)))


@pytest.mark.parametrize("kept", ["rows", "rows from all", "a column's values", "columns"])
@pytest.mark.parametrize("reads", [True, False])
def test_no_one_compacts_by_commit_of_whom_a_part_is_kept(writer: Writer, gateway: Gateway, kept: str, reads: bool) -> None:
    """Nobody compares the rows of what replaces with those that are replaced, and these would go."""
    made = writer.latest()
    assert made is not None
    if kept != "columns":
        first = gateway.lake.open(T).schema.field_names[0]
        column, to = (first if kept == "a column's values" else None), () if kept == "rows from all" else ("ada",)
        gateway.lake.permissions.create_policy(T, Policy(name="p", column=column, principals=to, sql="a > 1", rule={}))
    accesses = [Access.UPDATE, *([Access.SELECT] if reads and kept != "columns" else [])]
    grants = tuple(Grant(resource=table_resource(T), access=access, principal="ada") for access in accesses)
    caller = Caller(principal="ada", grants=(*grants, *([column_grant()] if kept == "columns" else [])))
    ada = gateway.lake.for_caller(caller)
    old = live(writer._files, made)
    merged = writer.body(made, changes=[*map(gone, old), writer.file(rows=5)], commitKind="COMPACT")
    with pytest.raises(Forbidden, match=r"keeps a part.*CALL sys\.compact"):
        ada.client_commit(T, client_commit(merged))
    assert ada.client_commit(T, client_commit(with_base(writer, old, commitKind="COMPACT"))), "manifests alone"
    assert ada.client_commit(T, client_commit(writer.body(writer.latest(), changes=[writer.file(rows=1)]))), "rows of its own"


def test_rows_of_clients_leave_the_reserve_alone(writer: Writer, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """As those of all others; what frees space is taken at any time."""
    made = writer.latest()
    assert made is not None
    space = DiskSpace(directory="/data", free=10 << 20, reserved=20 << 20)
    monkeypatch.setattr(gateway.lake.reserve, "short", lambda: space)
    body = writer.body(made, changes=[writer.file(rows=1)])
    with pytest.raises(StorageFull, match="kept free"):
        gateway.lake.client_commit(T, client_commit(body))
    assert writer.rest.refused("POST", f"{writer.path}/commit", body)[0] == 500, "the protocol has no 507"
    assert writer.latest() == made
    old = live(writer._files, made)
    merged = writer.commit(changes=[*map(gone, old), writer.file(rows=5)], commitKind="COMPACT")
    replaced = writer.commit(changes=[*map(gone, live(writer._files, merged)), writer.file(rows=1)], commitKind="OVERWRITE")
    writer.commit(commitKind="ANALYZE")
    assert replaced["totalRecordCount"] == 1
    monkeypatch.undo()
    body = writer.body(writer.latest(), changes=[writer.file(rows=1)])
    assert writer.post(body)
    monkeypatch.setattr(gateway.lake.reserve, "short", lambda: space)
    assert writer.post(body), "a repeat of what was taken"


def test_ids_of_rows_go_on_and_are_nobody_elses(rest: Rest, gateway: Gateway) -> None:
    made = schema(("a", "INT"), bucket="-1")
    made["options"]["row-tracking.enabled"] = "true"
    rest.post("databases/d/tables", new_table("n", made))
    writer, ada, name = Writer(rest, gateway.lake, "n"), holding_all_but_delete(gateway.lake), Identifier("d", "n")

    def sent(first: int | None, end: int | None) -> dict[str, Any]:
        added = writer.file(rows=2)
        return writer.body(writer.latest(), changes=[added if first is None else _numbered(added, first)], nextRowId=end)

    assert ada.client_commit(name, client_commit(sent(0, 2)))
    assert ada.client_commit(name, client_commit(sent(None, 4)))
    for first, end in ((4, 2**63 - 1), (4, 3), (4, None), (None, None), (5, 6)):
        with pytest.raises(InvalidCommit):
            ada.client_commit(name, client_commit(sent(first, end)))
    with pytest.raises(Forbidden, match="takes DELETE"):
        ada.client_commit(name, client_commit(sent(1, 4)))
    with pytest.raises(Forbidden, match="takes DELETE"):
        ada.client_commit(name, client_commit(sent(0, 4)))
    assert ada.client_commit(name, client_commit(sent(4, 6)))


def test_statements_that_take_away_take_delete(writer: Writer, gateway: Gateway) -> None:
    ada = holding(gateway.lake, Access.UPDATE)
    opened = ada.open(T)
    for attempt in (
        lambda: ada.history.rollback_to_snapshot(opened, 1),
        lambda: ada.branches.drop(opened, ["b"]),
        lambda: ada.tags.delete(opened, "x"),
        lambda: ada.drop_partitions(opened, []),
        lambda: ada.open_to_write(T, overwrite=True),
    ):
        with pytest.raises(Forbidden, match="DELETE"):
            attempt()


@pytest.mark.parametrize("order", ["Java's", "pypaimon's"])
@pytest.mark.parametrize("values", [[1.0, float("nan")], [float("nan"), 1.0], [float("nan")]])
def test_clients_may_bound_a_partition_of_nan_as_they_do(
    rest: Rest, gateway: Gateway, monkeypatch: pytest.MonkeyPatch, values: list[float], order: str
) -> None:
    """Java takes NaN for the largest number, and pypaimon for whatever Python's min and max make of it."""
    rest.post("databases/d/tables", new_table("nan", schema(("p", "DOUBLE"), ("v", "STRING"), partition=["p"], bucket="-1")))
    writer = Writer(rest, gateway.lake, "nan")
    with monkeypatch.context() as client:
        if order == "pypaimon's":
            client.setattr("table.format.manifests.entries._in_java_order", lambda value: value)
        body = writer.body(None, changes=[writer.file(rows=1, partition=(value,)) for value in values])
    assert writer.post(body)


def test_a_compaction_of_data_evolution_keeps_the_rows_and_not_the_counts_of_files(rest: Rest, gateway: Gateway) -> None:
    """As Java merges a file and one that holds a changed column of the same rows: two files of two rows become one of two."""
    made = schema(("a", "INT"), ("b", "INT"), bucket="-1")
    made["options"] |= {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}
    rest.post("databases/d/tables", new_table("e", made))
    writer, name = Writer(rest, gateway.lake, "e"), Identifier("d", "e")
    for rows, first, end in ((2, 0, 2), (3, 2, 5), (2, 0, 5)):
        assert gateway.lake.client_commit(
            name, client_commit(writer.body(writer.latest(), changes=[_numbered(writer.file(rows=rows), first)], nextRowId=end))
        )
    latest = writer.latest()
    assert latest is not None
    old = live(writer._files, latest)
    assert len(old) == 3

    def compacted(*ranges: tuple[int, int]) -> dict[str, Any]:
        added = [_numbered(writer.file(rows=rows), first) for first, rows in ranges]
        return writer.body(latest, changes=[*map(gone, old), *added], commitKind="COMPACT", nextRowId=5)

    for ranges in ([(0, 4)], [(1, 4)], [(0, 2)], []):
        with pytest.raises(InvalidCommit, match="keeps the number of rows"):
            gateway.lake.client_commit(name, client_commit(compacted(*ranges)))
    assert gateway.lake.client_commit(name, client_commit(compacted((0, 2), (2, 3))))
