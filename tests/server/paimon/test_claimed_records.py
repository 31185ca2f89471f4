"""A client's APPEND takes nothing of others away by the names it tells, and holds nothing that a reader of Paimon's could not decode."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import fastavro
import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.access import Access
from model.catalog_errors import InvalidCommit
from model.identifier import Identifier
from model.snapshot import Snapshot
from server.paimon.messages.snapshots import client_commit
from table.format.manifests.avro_name import named
from table.format.manifests.entries import EntryKind, ManifestEntry, ManifestFile
from table.format.store import TableFiles
from table.index.container import encode
from table.retention.expiry import left_by_expiry
from tests.server.paimon.committing import Writer
from tests.server.paimon.speaking import Rest, new_table, schema
from tests.server.paimon.test_judgement import gone, holding, live

T = Identifier("d", "t")
Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def writer(rest: Rest, gateway: Gateway) -> Writer:
    rest.post("databases/d/tables", new_table("t", schema(("id", "BIGINT"), ("name", "STRING"), bucket="-1")))
    made = Writer(rest, gateway.lake)
    made.commit(changes=[made.file(rows=2)])
    return made


def _mutated(files: TableFiles, meta: ManifestFile, change: Change) -> ManifestFile:
    """The manifest with its one record changed as it lies in the file, in its place."""
    return replace(meta, file_size=_rewritten(files, meta.file_name, change))


def _rewritten(
    files: TableFiles, name: str, change: Change = lambda record: None, layout: Change = lambda schema: None, codec: str = "zstandard"
) -> int:
    """Write a manifest, list or index manifest anew, with its records and its schema changed; its bytes."""
    path = files.layout.manifest(name)
    reader = fastavro.reader(io.BytesIO(files.io.read(path)))
    written: Any = json.loads(reader.metadata["avro.schema"])
    records: list[Any] = list(reader)
    for record in records:
        change(record)
    layout(written)
    out = io.BytesIO()
    fastavro.writer(out, written, records, codec=codec, metadata=named(name))
    files.io.write(path, out.getvalue())
    return len(out.getvalue())


def _fields(written: dict[str, Any], *within: str) -> list[dict[str, Any]]:
    """The fields of a record, or of one within it."""
    fields: list[dict[str, Any]] = written["fields"]
    for name in within:
        fields = next(field for field in fields if field["name"] == name)["type"]["fields"]
    return fields


def _typed(at: int, type_: Any, *within: str) -> Change:
    return lambda written: _fields(written, *within)[at].update(type=type_)


def _turned(*within: str) -> Change:
    return lambda written: _fields(written, *within).reverse()


def _grown(*within: str) -> Change:
    return lambda written: _fields(written, *within).append({"name": "_LATER", "type": ["null", "string"], "default": None})


LAYOUTS: dict[str, tuple[Change, str]] = {
    "turned around": (_turned(), "zstandard"),
    "a number of another size": (_typed(0, "long"), "zstandard"),
    "a choice": (_typed(0, ["int", "long"]), "zstandard"),
    "packed as few unpack it": (lambda written: None, "xz"),
    "packed in another way": (lambda written: None, "bzip2"),
}
IN_A_FILE: dict[str, Change] = {
    "a file's fields turned around": _turned("_FILE"),
    "a file's number of another size": _typed(10, "long", "_FILE"),
    "statistics turned around": _turned("_FILE", "_VALUE_STATS"),
    "a field between": lambda written: _fields(written, "_FILE").insert(3, {"name": "_NEW", "type": ["null", "int"], "default": None}),
}
READABLE: dict[str, Change] = {
    "another name of the record": lambda written: written.update(name="ManifestEntry"),
    "what may be NULL": _typed(1, ["null", "int"]),
    "a later version's field": _grown("_FILE"),
    "an older version's fields": lambda written: _fields(written, "_FILE").__delitem__(slice(17, None)),
}


def _body(writer: Writer, change: Change) -> dict[str, Any]:
    """An APPEND of a file of two rows, whose entry is changed."""
    files, latest = writer._files, writer.latest()
    types = [field.type for field in files.read_schema(0).partition_fields]
    (meta,) = files.new_manifests([writer.file(rows=2)], types, target=1 << 20)
    name, size = files.new_manifest_list([_mutated(files, meta, change)])
    assert latest is not None
    total = latest["totalRecordCount"] + 2
    return writer.body(latest, deltaManifestList=name, deltaManifestListSize=size, deltaRecordCount=2, totalRecordCount=total)


def _file(**fields: Any) -> Change:
    return lambda record: record["_FILE"].update(fields)


def _stats(low: bytes = b"", high: bytes = b"", nulls: list[int] | None = None) -> dict[str, Any]:
    return {"_MIN_VALUES": low, "_MAX_VALUES": high, "_NULL_COUNTS": nulls or []}


def _row(*slots: bytes, arity: int | None = None, kind: int = 0, tail: bytes = b"") -> bytes:
    return (len(slots) if arity is None else arity).to_bytes(4, "big") + bytes([kind]) + bytes(7) + b"".join(slots) + tail


ONE, EMPTY = bytes([1]) + bytes(7), _row()
BEYOND = (500).to_bytes(4, "little") + (24).to_bytes(4, "little")
WRONG: dict[str, Change] = {
    "a version": lambda record: record.update(_VERSION=99),
    "buckets": lambda record: record.update(_TOTAL_BUCKETS=-(2**31)),
    "more deleted rows than rows": _file(_DELETE_ROW_COUNT=3),
    "deleted rows below none": _file(_DELETE_ROW_COUNT=-1),
    "columns of some": _file(_WRITE_COLS=["id"]),
    "a column of nobody": _file(_VALUE_STATS_COLS=["zz"]),
    "a key that is no row": _file(_MIN_KEY=b"\xff\xff\xff"),
    "an empty key": _file(_MAX_KEY=b""),
    "a key's kind": _file(_MIN_KEY=b"\x00\x00\x00\x00\xff" + bytes(7)),
    "key statistics": _file(_KEY_STATS=_stats(b"\xff" * 40, b"\xff" * 40)),
    "statistics that are no rows": _file(_VALUE_STATS=_stats(), _VALUE_STATS_COLS=["id"]),
    "statistics of noise": _file(_VALUE_STATS=_stats(b"\xff" * 40, b"\xff" * 40, [0]), _VALUE_STATS_COLS=["id"]),
    "statistics of another arity": _file(_VALUE_STATS=_stats(_row(ONE), _row(ONE), [0]), _VALUE_STATS_COLS=["id", "name"]),
    "statistics of all columns that has one": _file(_VALUE_STATS=_stats(_row(ONE), _row(ONE), [0]), _VALUE_STATS_COLS=None),
    "a kind of row": _file(_VALUE_STATS=_stats(_row(ONE, kind=9), _row(ONE), [0]), _VALUE_STATS_COLS=["id"]),
    "a row that ends early": _file(_VALUE_STATS=_stats(_row(arity=1), _row(ONE), [0]), _VALUE_STATS_COLS=["id"]),
    "a text beyond the row": _file(_VALUE_STATS=_stats(_row(BEYOND), _row(BEYOND), [0]), _VALUE_STATS_COLS=["name"]),
    "NULLs below none": _file(_VALUE_STATS=_stats(_row(ONE), _row(ONE), [-5]), _VALUE_STATS_COLS=["id"]),
    "more NULLs than rows": _file(_VALUE_STATS=_stats(_row(ONE), _row(ONE), [2**62]), _VALUE_STATS_COLS=["id"]),
    "an index of noise": _file(_EMBEDDED_FILE_INDEX=b"\xff" * 40),
    "an empty index": _file(_EMBEDDED_FILE_INDEX=b""),
    "an index that ends early": _file(_EMBEDDED_FILE_INDEX=encode({"id": {"bitmap": bytes(9)}})[:-1]),
    "NULLs of more columns": _file(_VALUE_STATS=_stats(_row(ONE), _row(ONE), [0, 0]), _VALUE_STATS_COLS=["id"]),
}


@pytest.mark.parametrize("what", WRONG)
def test_an_entry_that_a_reader_cannot_decode_is_refused(writer: Writer, gateway: Gateway, what: str) -> None:
    before = writer.latest()
    with pytest.raises(InvalidCommit, match=r"Snapshot 2 of d\.t is not taken: "):
        holding(gateway.lake, Access.UPDATE).client_commit(T, client_commit(_body(writer, WRONG[what])))
    assert writer.latest() == before


def _laid_out(writer: Writer, layout: Change, codec: str = "zstandard", *, lists: bool = False) -> dict[str, Any]:
    """An APPEND of two rows whose manifest, or lists, are laid out in another way."""
    files, latest = writer._files, writer.latest()
    assert latest is not None
    (meta,) = files.new_manifests([writer.file(rows=2)], [], target=1 << 20)
    if not lists:
        meta = replace(meta, file_size=_rewritten(files, meta.file_name, layout=layout, codec=codec))
    name, size = files.new_manifest_list([meta])
    if lists:
        size = _rewritten(files, name, layout=layout, codec=codec)
    total = latest["totalRecordCount"] + 2
    return writer.body(latest, deltaManifestList=name, deltaManifestListSize=size, deltaRecordCount=2, totalRecordCount=total)


@pytest.mark.parametrize("lists", [True, False], ids=["list", "manifest"])
@pytest.mark.parametrize("how", LAYOUTS)
def test_a_file_that_other_readers_take_for_another_is_refused(writer: Writer, how: str, lists: bool) -> None:
    """We go by the names of fields, Java by their places and types."""
    before = writer.latest()
    layout, codec = LAYOUTS[how]
    body = _laid_out(writer, layout, codec, lists=lists)
    assert writer.rest.refused("POST", f"{writer.path}/commit", body)[0] == 400
    assert writer.latest() == before


@pytest.mark.parametrize("how", IN_A_FILE)
def test_so_is_one_whose_records_of_files_are(writer: Writer, how: str) -> None:
    assert writer.rest.refused("POST", f"{writer.path}/commit", _laid_out(writer, IN_A_FILE[how]))[0] == 400


@pytest.mark.parametrize("how", READABLE)
def test_what_each_version_and_client_writes_is_taken(writer: Writer, how: str) -> None:
    assert writer.post(_laid_out(writer, READABLE[how]))


def test_lines_of_a_list_are_of_a_version_that_readers_know(writer: Writer) -> None:
    files, latest = writer._files, writer.latest()
    assert latest is not None
    body = _laid_out(writer, lambda written: None)
    body["snapshot"]["deltaManifestListSize"] = _rewritten(
        files, body["snapshot"]["deltaManifestList"], lambda record: record.update(_VERSION=99)
    )
    assert writer.rest.refused("POST", f"{writer.path}/commit", body)[0] == 400


def test_what_readers_decode_is_taken(writer: Writer) -> None:
    text = b"ab" + bytes(5) + bytes([0x82])
    for change in (
        _file(),
        _file(_DELETE_ROW_COUNT=None),
        _file(_WRITE_COLS=["id", "name"]),
        _file(_VALUE_STATS=_stats(_row(ONE, text), _row(ONE, text), [0, 2]), _VALUE_STATS_COLS=None),
        _file(_VALUE_STATS=_stats(_row(text), _row(text), [1]), _VALUE_STATS_COLS=["name"]),
        _file(_VALUE_STATS=_stats(_row(ONE), _row(ONE), [-1]), _VALUE_STATS_COLS=["id"]),
        _file(_KEY_STATS=_stats(EMPTY, EMPTY), _MIN_KEY=EMPTY, _MAX_KEY=EMPTY),
    ):
        assert writer.post(_body(writer, change))


def test_statistics_of_the_columns_of_row_tracking_are_taken(rest: Rest, gateway: Gateway) -> None:
    """As Java's compaction up to 1.3 writes them: of all columns and of the two, and it names neither."""
    tracked = schema(("id", "BIGINT"), ("name", "STRING"), bucket="-1")
    tracked["options"]["row-tracking.enabled"] = "true"
    rest.post("databases/d/tables", new_table("t", tracked))
    writer = Writer(rest, gateway.lake)
    text, zero = b"ab" + bytes(5) + bytes([0x82]), bytes(8)
    files = writer._files
    for slots, columns, taken in (
        ((ONE, text, zero, zero), None, True),
        ((ONE, zero), ["id", "_ROW_ID"], True),
        ((ONE, text, zero), None, False),
    ):
        row = _row(*slots)
        change = _file(_VALUE_STATS=_stats(row, row, [0] * len(slots)), _VALUE_STATS_COLS=columns)
        (meta,) = files.new_manifests([writer.file(rows=2)], [], target=1 << 20)
        name, size = files.new_manifest_list([_mutated(files, meta, change)])
        latest = writer.latest()
        changed: dict[str, Any] = {"deltaManifestList": name, "deltaManifestListSize": size, "deltaRecordCount": 2}
        total, ids = ((latest or {}).get(key, 0) + 2 for key in ("totalRecordCount", "nextRowId"))
        body = writer.body(latest, totalRecordCount=total, nextRowId=ids, **changed)
        if taken:
            assert writer.post(body)
        else:
            assert writer.rest.refused("POST", f"{writer.path}/commit", body)[0] == 400


def _merged(writer: Writer, change: Change) -> dict[str, Any]:
    """An APPEND whose base list holds what is live in one manifest of the client's own, of which an entry is changed."""
    files, latest = writer._files, writer.latest()
    assert latest is not None
    (meta,) = files.new_manifests(live(files, latest), [], target=1 << 20)
    name, size = files.new_manifest_list([_mutated(files, meta, change)])
    return writer.body(latest, changes=[writer.file(rows=1)], baseManifestList=name, baseManifestListSize=size)


OF_RECORDS = [what for what in WRONG if what not in ("columns of some", "more NULLs than rows")]


@pytest.mark.parametrize("what", [*OF_RECORDS, "another time", "deleted rows"])
def test_a_merged_manifest_tells_of_others_files_what_is_told(writer: Writer, gateway: Gateway, what: str) -> None:
    more = {"another time": _file(_CREATION_TIME=5_007), "deleted rows": _file(_DELETE_ROW_COUNT=1)}
    before = writer.latest()
    with pytest.raises(InvalidCommit, match=r"Snapshot 2 of d\.t is not taken: "):
        holding(gateway.lake, Access.UPDATE).client_commit(T, client_commit(_merged(writer, (WRONG | more)[what])))
    assert writer.latest() == before


def test_a_merged_manifest_may_lose_a_millisecond_and_hold_what_was_taken_before(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    assert writer.post(_merged(writer, _file(_CREATION_TIME=6)))
    with monkeypatch.context() as before:
        before.setattr("lake.commit.clients.judgement.fault_of_records", lambda *_: None)
        assert writer.post(_body(writer, WRONG["a key's kind"]))
    latest, files = writer.latest(), writer._files
    assert latest is not None
    odd = next(meta for meta in files.manifests_of(Snapshot.from_json(latest)) if _has_odd_key(files, meta))
    others = [meta for meta in files.manifests_of(Snapshot.from_json(latest)) if meta is not odd]
    merged = _mutated(files, files.new_manifests(list(files.manifest(odd)), [], target=1 << 20)[0], WRONG["a key's kind"])
    name, size = files.new_manifest_list([*others, merged])
    assert writer.post(writer.body(latest, changes=[writer.file(rows=1)], baseManifestList=name, baseManifestListSize=size))


def _has_odd_key(files: TableFiles, meta: ManifestFile) -> bool:
    records = fastavro.reader(io.BytesIO(files.io.read(files.layout.manifest(meta.file_name))))
    return any(record["_FILE"]["_MIN_KEY"][4:5] == b"\xff" for record in records)  # type: ignore[index,call-overload]


def test_a_file_that_gets_another_index_is_as_it_was(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where an earlier version took what it tells."""
    odd = _named(writer.file(rows=2), delete_row_count=5)
    with monkeypatch.context() as before:
        before.setattr("lake.commit.clients.judgement.fault_of_records", lambda *_: None)
        writer.commit(changes=[odd])
    again = _named(odd, extra_files=(f"{odd.file.file_name}.index",))
    assert (
        writer.rest.refused(
            "POST",
            f"{writer.path}/commit",
            writer.body(writer.latest(), changes=[gone(odd), _named(again, delete_row_count=6)], commitKind="OVERWRITE"),
        )[0]
        == 400
    )
    writer.commit(changes=[gone(odd), again], commitKind="OVERWRITE")


def test_bounds_of_partitions_where_there_are_none_are_no_noise(writer: Writer) -> None:
    files, latest = writer._files, writer.latest()
    assert latest is not None
    (meta,) = files.new_manifests([writer.file(rows=2)], [], target=1 << 20)
    for low, nulls in ((b"\xff", [5]), (b"", []), (EMPTY, [-1])):
        stats = replace(meta.partition_stats, min_values=low, max_values=low, null_counts=nulls)
        name, size = files.new_manifest_list([replace(meta, partition_stats=stats)])
        changed: dict[str, Any] = {"deltaManifestList": name, "deltaManifestListSize": size, "deltaRecordCount": 2}
        body = writer.body(latest, totalRecordCount=latest["totalRecordCount"] + 2, **changed)
        assert writer.rest.refused("POST", f"{writer.path}/commit", body)[0] == 400


def _named(entry: ManifestEntry, **names: Any) -> ManifestEntry:
    return replace(entry, file=replace(entry.file, **names))


def test_a_file_of_a_time_far_ahead_is_refused(writer: Writer, gateway: Gateway) -> None:
    """Its partition, which holds others' rows, would never expire, and no stream by time would leave it out."""
    hour, now = 3_600_000, time.time_ns() // 1_000_000
    for ahead in (16, 24 * 365):
        far = writer.file(rows=1, created=now + ahead * hour)
        with pytest.raises(InvalidCommit, match=f"file {far.file.file_name} has the _CREATION_TIME {now + ahead * hour}, "):
            holding(gateway.lake, Access.UPDATE).client_commit(T, client_commit(writer.body(writer.latest(), changes=[far])))
    for made in (now + 14 * hour, now, 0, -62_000_000_000_000):  # a wall's clock may be hours ahead, and a file may be old
        writer.commit(changes=[writer.file(rows=1, created=made)])


def test_a_file_of_a_time_far_ahead_from_before_is_written_anew(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    far = writer.file(rows=1, created=time.time_ns() // 1_000_000 + 10**9)
    with monkeypatch.context() as before:
        before.setattr("lake.commit.clients.judgement.time_fault", lambda _: None)
        writer.commit(changes=[far])
    anew = writer.file(rows=1, created=far.file.creation_time_millis)
    writer.commit(changes=[gone(far), anew], commitKind="COMPACT")


def test_an_index_that_readers_take_apart_is_taken(writer: Writer) -> None:
    container = encode({"id": {"bitmap": bytes(9)}}, b"for later")
    writer.commit(changes=[_named(writer.file(rows=1), embedded_file_index=container)])


def test_a_file_that_is_taken_away_and_added_gets_no_index_that_is_none(writer: Writer, gateway: Gateway) -> None:
    """In the same words it was not looked at."""
    mine, noise = writer.file(rows=1), b"\xff" * 40
    writer.commit(changes=[mine])
    body = writer.body(writer.latest(), changes=[gone(mine), _named(mine, embedded_file_index=noise)], commitKind="COMPACT")
    with pytest.raises(InvalidCommit, match="_EMBEDDED_FILE_INDEX, which is none"):
        holding(gateway.lake, Access.UPDATE).client_commit(T, client_commit(body))


def test_what_lies_beside_a_file_is_called_as_it(writer: Writer) -> None:
    latest = writer.latest()
    assert latest is not None
    (there,) = live(writer._files, latest)
    indexed, mine = writer.file(rows=1), writer.file(rows=1)
    indexed = _named(indexed, extra_files=(f"{indexed.file.file_name}.index",))
    writer.commit(changes=[indexed])
    name = mine.file.file_name
    for extra in (
        there.file.file_name, indexed.file.file_name, *indexed.file.extra_files, f"{name}.data", name, f"{name}-1.index.parquet",
    ):  # fmt: skip
        body = writer.body(writer.latest(), changes=[_named(mine, extra_files=(extra,))])
        assert writer.rest.refused("POST", f"{writer.path}/commit", body)[0] == 400, extra
    files, beside = writer._files, indexed.file.extra_files
    for taken in (
        _named(mine, file_name=indexed.file.file_name[:9], extra_files=beside),
        _named(mine, file_name=indexed.file.file_name.removesuffix(".parquet"), extra_files=beside),
        _named(mine, file_name=beside[0]),
    ):
        files.io.add(files.layout.data_file(files.read_schema(0), (), 0, taken.file.file_name), bytes(9))
        body = writer.body(writer.latest(), changes=[taken])
        assert writer.rest.refused("POST", f"{writer.path}/commit", body)[0] == 400, taken.file.file_name
    for extra in (f"{name}.row", f"{name}.index", f"{name}-1.index", f"{name}-0f1e2d3c-aaaa-bbbb-cccc-0123456789ab.index"):
        writer.commit(changes=[_named(mine, extra_files=(extra,))])
        writer.commit(changes=[_named(gone(mine), extra_files=(extra,))], commitKind="OVERWRITE")


def test_files_of_the_format_row_are_data(writer: Writer) -> None:
    """They end as what data evolution keeps beside other files, which is no name of a data file."""
    files, mine = writer._files, writer.file(rows=1)
    names = (f"{mine.file.file_name}.row", "data-1.row.row", "data-1.row", "data-2.zstd.row")
    for name in names:
        files.io.add(files.layout.data_file(files.read_schema(0), (), 0, name), bytes(mine.file.file_size))
    for name in names[:2]:
        body = writer.body(writer.latest(), changes=[_named(mine, file_name=name)])
        assert writer.rest.refused("POST", f"{writer.path}/commit", body)[0] == 400, name
    for name in names[2:]:
        writer.commit(changes=[_named(mine, file_name=name)])
    files.io.add(files.layout.data_file(files.read_schema(0), (), 0, "data-2.zstd"), bytes(mine.file.file_size))
    body = writer.body(writer.latest(), changes=[_named(mine, file_name="data-2.zstd", extra_files=("data-2.zstd.row",))])
    assert writer.rest.refused("POST", f"{writer.path}/commit", body)[0] == 400


def test_expiry_keeps_a_live_file_that_an_entry_of_before_calls_its_own(
    writer: Writer, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As earlier versions took it."""
    latest = writer.latest()
    assert latest is not None
    (there,) = live(writer._files, latest)
    monkeypatch.setattr("lake.commit.clients.judgement.name_fault", lambda file: None)
    mine = _named(writer.file(rows=1), extra_files=(there.file.file_name,))
    writer.commit(changes=[mine])
    writer.commit(changes=[replace(mine, kind=EntryKind.DELETE)], commitKind="OVERWRITE")
    table = lake.open(T)
    path = table.files.data_path(table.schema, there)
    first, *rest = (table.files.read_snapshot(number) for number in (1, 2, 3))
    assert first is not None
    kept: list[Snapshot] = [snapshot for snapshot in rest if snapshot is not None]
    garbage = left_by_expiry(table.files, table.schema, [first, kept[0]], [], kept[1], lambda: ())
    assert path not in garbage.data
    assert table.files.data_path(table.schema, mine) in garbage.data


STATISTICS: dict[str, bytes] = {
    "noise": b"\xff\x00garbage",
    "no object": b"[1]",
    "a text for a number": b'{"snapshotId": "one", "schemaId": 0}',
    "a count below none": b'{"snapshotId": 1, "schemaId": 0, "mergedRecordCount": -2}',
    "columns of none": b'{"snapshotId": 1, "schemaId": 0, "colStats": {"zz": {"colId": 0}}}',
    "a column that is no object": b'{"snapshotId": 1, "schemaId": 0, "colStats": {"id": 3}}',
    "a bound of another type": b'{"snapshotId": 1, "schemaId": 0, "colStats": {"id": {"colId": 0, "min": "x"}}}',
}


@pytest.mark.parametrize("what", STATISTICS)
def test_statistics_that_no_reader_could_plan_by_are_refused(writer: Writer, gateway: Gateway, what: str) -> None:
    files = writer._files
    files.io.add(files.layout.statistics_file("stat-x"), STATISTICS[what])
    body = writer.body(writer.latest(), changes=[writer.file(rows=1)], statistics="stat-x")
    assert writer.rest.refused("POST", f"{writer.path}/commit", body)[0] == 400
    good = {
        "snapshotId": 1,
        "schemaId": 0,
        "mergedRecordCount": 2,
        "colStats": {"id": {"colId": 0, "min": "-1", "max": "7", "nullCount": 0}},
    }
    files.io.add(files.layout.statistics_file("stat-y"), json.dumps(good).encode())
    writer.commit(changes=[writer.file(rows=1)], statistics="stat-y")
    files.io.write(files.layout.statistics_file("stat-y"), STATISTICS[what])
    answer = writer.rest.client.post("/sql", data="SELECT * FROM d.t$statistics")
    assert answer.status_code in (200, 503), answer.text
    assert "InternalError" not in answer.text
