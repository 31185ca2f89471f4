"""What a commit writes: order in buckets, conflicts, merged manifests (`paimon-append.md` §4.7, 6)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pytest

from model.errors import InvalidOption, RewriteConflict, TableDamaged
from model.schema.schema import Schema, column, new_schema
from model.schema.types import parse_type
from model.snapshot import CommitKind, Snapshot
from table.format import store
from table.format.io.file_io import LocalFileIO
from table.format.manifests import columns as manifest_columns
from table.format.manifests.codec import decode_manifest, decode_manifest_list, encode_manifest_list, encode_manifests
from table.format.manifests.entries import EMPTY_ROW, DataFile, EntryKind, ManifestEntry, NewFile, SimpleStats
from table.format.rows import binary_row
from table.format.store import Published, TableFiles
from table.write.sequences import BUCKETS
from table.write.snapshot_builder import CommitRequest, build_snapshot, everything

BIGINT = parse_type("BIGINT")
QUEUE = {"bucket": "1", "bucket-key": "id"}


@pytest.fixture(params=["few", "many"])
def files(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> TableFiles:
    """A table's files; what is done for tables of very many is done for the small ones here, too."""
    if request.param == "many":
        monkeypatch.setattr(manifest_columns, "_MANY_ENTRIES", 0)
        monkeypatch.setattr(store, "_KEPT_ENTRIES", 1)
    made = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    made.write_schema(a_schema())
    return made


def a_schema(**options: str) -> Schema:
    return new_schema([column("id", "BIGINT"), column("v", "STRING")], options=QUEUE | options)


def a_file(name: str, rows: int = 10) -> DataFile:
    return DataFile(
        file_name=name, file_size=100, row_count=rows, value_stats=SimpleStats(), value_stats_cols=(), min_sequence_number=0,
        max_sequence_number=rows - 1, schema_id=0, creation_time_millis=1,
    )  # fmt: skip


def append(*names: str, bucket: int = 0) -> CommitRequest:
    adds = tuple(NewFile(partition=EMPTY_ROW, bucket=bucket, file=a_file(name)) for name in names)
    return CommitRequest(kind=CommitKind.APPEND, adds=adds, commit_user="u")


def commit(files: TableFiles, schema: Schema, latest: Snapshot | None, *requests: CommitRequest) -> Snapshot:
    return build_snapshot(files, schema, latest, requests, uuid=f"u{latest.id if latest else 0}", time_millis=5)


def sequences(files: TableFiles, snapshot: Snapshot) -> list[tuple[str, int, int]]:
    return [(e.file.file_name, e.file.min_sequence_number, e.file.max_sequence_number) for e in files.live_entries(snapshot)]


def test_a_queues_rows_are_numbered_in_write_order(files: TableFiles) -> None:
    first = commit(files, a_schema(), None, append("a"))
    second = commit(files, a_schema(), first, append("b"), append("c"))
    assert sequences(files, second) == [("a", 0, 9), ("b", 10, 19), ("c", 20, 29)]
    assert (second.id, second.total_record_count, second.delta_record_count) == (2, 30, 20)


def test_numbers_are_found_again_without_memory(files: TableFiles) -> None:
    first = commit(files, a_schema(), None, append("a"))
    BUCKETS.forget()
    assert sequences(files, commit(files, a_schema(), first, append("b")))[-1] == ("b", 10, 19)


def test_files_without_buckets_keep_their_own_numbers(files: TableFiles) -> None:
    schema = new_schema([column("id", "BIGINT")], options={"bucket": "-1"})
    first = commit(files, schema, None, append("a"))
    assert sequences(files, commit(files, schema, first, append("b"))) == [("a", 0, 9), ("b", 0, 9)]
    assert {entry.total_buckets for entry in files.live_entries(first)} == {-1}


def test_an_overwrite_replaces_what_is_there_when_it_lands(files: TableFiles) -> None:
    first = commit(files, a_schema(), None, append("a"))
    second = commit(files, a_schema(), first, append("b"))
    request = CommitRequest(
        kind=CommitKind.OVERWRITE,
        adds=(NewFile(partition=EMPTY_ROW, bucket=0, file=a_file("n", 3)),),
        overwrite=everything,
        commit_user="u",
    )
    third = commit(files, a_schema(), second, request)
    assert sequences(files, third) == [("n", 0, 2)]
    assert (third.total_record_count, third.delta_record_count) == (3, -17)
    assert sequences(files, second) == [("a", 0, 9), ("b", 10, 19)]


def test_a_rewrite_of_a_file_that_is_gone_loses(files: TableFiles) -> None:
    first = commit(files, a_schema(), None, append("a"))
    entry = next(iter(files.live_entries(first)))
    emptied = commit(files, a_schema(), first, CommitRequest(kind=CommitKind.OVERWRITE, overwrite=everything, commit_user="u"))
    with pytest.raises(RewriteConflict, match="a is no longer part"):
        commit(files, a_schema(), emptied, CommitRequest(kind=CommitKind.COMPACT, deletes=(entry,), commit_user="u"))


def test_a_partition_has_one_number_of_buckets(files: TableFiles) -> None:
    first = commit(files, a_schema(), None, append("a"))
    wider = a_schema(bucket="4")
    live = tuple(files.live_entries(first))
    with pytest.raises(RewriteConflict, match="INSERT OVERWRITE"):
        commit(
            files, wider, first, CommitRequest(kind=CommitKind.OVERWRITE, adds=append("b").adds, overwrite=lambda _: False, commit_user="u")
        )
    assert commit(
        files, wider, first, CommitRequest(kind=CommitKind.OVERWRITE, adds=append("b").adds, overwrite=everything, commit_user="u")
    )
    assert live


@pytest.mark.parametrize("forgotten", [False, True])
def test_nothing_is_appended_to_a_partition_of_another_number_of_buckets(files: TableFiles, forgotten: bool) -> None:
    first = commit(files, a_schema(), None, append("a"))
    wider = a_schema(bucket="4")
    if forgotten:
        BUCKETS.forget()
    with pytest.raises(InvalidOption, match=r"written with 1 buckets and the table now has 4; rewrite it with CALL sys\.rescale"):
        commit(files, wider, first, append("b"))
    whole = CommitRequest(kind=CommitKind.OVERWRITE, adds=append("c").adds, overwrite=everything, commit_user="u")
    rewritten = commit(files, wider, first, whole)
    if forgotten:
        BUCKETS.forget()
    assert commit(files, wider, rewritten, append("d", bucket=3)).total_record_count
    with pytest.raises(InvalidOption, match="written with 4 buckets and the table now has 1"):
        commit(files, a_schema(), rewritten, append("e"))


def test_thirty_small_manifests_become_one(files: TableFiles) -> None:
    schema = a_schema()
    snapshot = commit(files, schema, None, append("f0"))
    for number in range(1, 31):
        snapshot = commit(files, schema, snapshot, append(f"f{number}"))
    base = files.manifest_list(snapshot.base_manifest_list)
    assert [m.num_added_files for m in base] == [30]
    assert [name for name, _, _ in sequences(files, snapshot)] == [f"f{n}" for n in range(31)]


def test_large_manifests_are_not_written_again(files: TableFiles) -> None:
    """Cut by their encoded size they reach the target and stay; only the small ones behind them are merged."""
    schema = a_schema(**{"manifest.target-file-size": "24 kb", "manifest.full-compaction-threshold-size": "48 kb"})
    snapshot: Snapshot | None = None
    written: set[str] = set()
    again = 0
    for number in range(60):
        snapshot = commit(files, schema, snapshot, append(*(f"data-{uuid4()}-{number}" for _ in range(40))))
        base = {m.file_name: m for m in files.manifest_list(snapshot.base_manifest_list)}
        large = [m for m in base.values() if m.file_size >= 24 << 10]
        again += len({m.file_name for m in large} - written)
        written |= {m.file_name for m in large}
    assert snapshot is not None
    assert len(large) >= 2
    assert again <= len(large) + 1, "a manifest of the target size is written once"
    assert sum(m.file_size for m in base.values() if m not in large) < 48 << 10
    assert len(sequences(files, snapshot)) == 2400
    assert [first for _, first, _ in sequences(files, snapshot)] == [10 * commits for commits in range(60) for _ in range(40)]


def test_a_large_commit_is_cut_at_the_target_size(files: TableFiles) -> None:
    snapshot = commit(files, a_schema(**{"manifest.target-file-size": "16 kb"}), None, append(*(str(uuid4()) for _ in range(3000))))
    sizes = [m.file_size for m in files.manifest_list(snapshot.delta_manifest_list)]
    assert len(sizes) > 2
    assert all(16 << 10 <= size < 32 << 10 for size in sizes[:-1]), sizes
    assert sizes == [files.io.size(files.layout.manifest(m.file_name)) for m in files.manifest_list(snapshot.delta_manifest_list)]


def partitioned(number: int, *names: str) -> CommitRequest:
    partition = binary_row.encode_prefixed([BIGINT], (number,))
    adds = tuple(NewFile(partition=partition, bucket=0, file=a_file(name)) for name in names)
    return CommitRequest(kind=CommitKind.APPEND, adds=adds, commit_user="u")


def test_a_deletion_rewrites_only_the_large_manifests_it_can_mean(files: TableFiles) -> None:
    options = {"bucket": "-1", "manifest.target-file-size": "16 kb", "manifest.full-compaction-threshold-size": "1 b"}
    schema = new_schema([column("id", "BIGINT"), column("p", "BIGINT")], partition_keys=["p"], options=options)
    snapshot: Snapshot | None = None
    for number in range(3):
        snapshot = commit(files, schema, snapshot, partitioned(number, *(str(uuid4()) for _ in range(1000))))
    assert snapshot is not None
    second = binary_row.encode_prefixed([BIGINT], (1,))
    large = [m for m in files.manifests_of(snapshot) if m.file_size >= 16 << 10]
    whole = CommitRequest(kind=CommitKind.OVERWRITE, overwrite=lambda partition: partition == second, commit_user="u")
    snapshot = commit(files, schema, snapshot, whole)
    snapshot = commit(files, schema, snapshot, partitioned(5, "last"))
    base = files.manifest_list(snapshot.base_manifest_list)
    assert not any(m.num_deleted_files for m in base)
    kept = [m for m in large if m in base]
    assert {e.partition for m in kept for e in files.manifest(m)} == {binary_row.encode_prefixed([BIGINT], (n,)) for n in (0, 2)}
    assert len(sequences(files, snapshot)) == 2001


def test_metadata_that_contradicts_itself_names_table_and_file(files: TableFiles) -> None:
    schema = new_schema([column("id", "BIGINT")], options={"bucket": "-1", "manifest.full-compaction-threshold-size": "1 b"})
    first = commit(files, schema, None, append("a", "b"))
    gone = next(iter(files.live_entries(first)))
    orphan = replace(gone, kind=EntryKind.DELETE, file=replace(gone.file, file_name="never-added"))
    name, _ = files.new_manifest_list(files.new_manifests([orphan], [], target=1 << 20))
    broken = replace(first, id=2, base_manifest_list=first.delta_manifest_list, delta_manifest_list=name)
    with pytest.raises(TableDamaged, match=rf"{files.location} is damaged: never-added \(named by snapshot 2\) is removed"):
        list(files.live_entries(broken))
    with pytest.raises(TableDamaged, match=f"{files.location} is damaged: never-added is removed"):
        commit(files, schema, broken, append("c"))


def test_a_rewrite_never_adds_a_file_the_table_has(files: TableFiles) -> None:
    first = commit(files, a_schema(), None, append("a", "b"))
    again = CommitRequest(kind=CommitKind.COMPACT, adds=append("a").adds, commit_user="u")
    with pytest.raises(RewriteConflict, match=f"File a is part of the table at {files.location} already"):
        commit(files, a_schema(), first, again)
    twice = CommitRequest(kind=CommitKind.OVERWRITE, adds=append("c", "c").adds, overwrite=everything, commit_user="u")
    with pytest.raises(RewriteConflict, match="File c "):
        commit(files, a_schema(), first, twice)
    replaced = CommitRequest(kind=CommitKind.OVERWRITE, adds=append("a").adds, overwrite=everything, commit_user="u")
    assert [name for name, _, _ in sequences(files, commit(files, a_schema(), first, replaced))] == ["a"]


def test_watermarks_never_go_back(files: TableFiles) -> None:
    snapshot: Snapshot | None = None
    seen = []
    for mark in (100, 50, None, 300, -(2**63), 400):
        request = CommitRequest(kind=CommitKind.APPEND, adds=append("f").adds, commit_user="u", watermark=mark)
        snapshot = commit(files, new_schema([column("id", "BIGINT")], options={"bucket": "-1"}), snapshot, request)
        seen.append(snapshot.watermark)
    assert seen == [100, 100, 100, 300, 300, 400]


def test_manifests_survive_their_bytes() -> None:
    entry = ManifestEntry(kind=EntryKind.DELETE, partition=b"\0\0\0\1" + bytes(16), bucket=3, total_buckets=8, file=a_file("x"))
    (_, part, data), *rest = encode_manifests([entry, entry], target=1, new_name=str)
    assert (part, decode_manifest(data), rest) == ([entry, entry], [entry, entry], [])
    assert decode_manifest_list(encode_manifest_list([], name="")) == []
    assert list(encode_manifests([], target=1, new_name=str)) == []


def test_a_published_snapshot_is_never_replaced(files: TableFiles) -> None:
    first = commit(files, a_schema(), None, append("a"))
    other = commit(files, a_schema(), None, append("b"))
    with files.snapshots() as place:
        assert files.publish_snapshot(first, place) is Published.WRITTEN
        assert files.publish_snapshot(first, place) is Published.THERE
        other = Snapshot.from_json(other.to_json() | {"uuid": "somebody else"})
        assert files.publish_snapshot(other, place) is Published.FOREIGN
    assert files.read_snapshot(1) == first


@pytest.mark.parametrize(("hint", "found"), [("2", 2), ("1", 2), ("7", 2), ("x", 2), (None, 2)])
def test_a_hint_is_not_believed_unchecked(files: TableFiles, hint: str | None, found: int) -> None:
    first = commit(files, a_schema(), None, append("a"))
    with files.snapshots() as place:
        files.publish_snapshot(first, place)
        files.publish_snapshot(commit(files, a_schema(), first, append("b")), place)
    if hint is not None:
        files.io.write(files.layout.latest_hint(), hint.encode())
    assert files.latest_on_disk() == found


def test_only_plain_appends_share_a_snapshot(files: TableFiles) -> None:
    with pytest.raises(ValueError, match="plain appends"):
        commit(files, a_schema(), None, append("a"), CommitRequest(kind=CommitKind.OVERWRITE, overwrite=everything, commit_user="u"))


def test_a_table_made_anew_is_not_read_under_the_old_ones_schemas(files: TableFiles) -> None:
    files.write_schema(a_schema())
    assert files.read_schema(0).field_names == ("id", "v")
    files.io.delete_tree(files.location)
    again = TableFiles(files.io, files.location)
    again.write_schema(new_schema([column("other", "INT")], options={"bucket": "-1"}))
    assert again.read_schema(0).field_names == ("other",)
