"""What a commit writes: order in buckets, conflicts, merged manifests (`paimon-append.md` §4.7, 6)."""

from __future__ import annotations

from pathlib import Path

import pytest

from model.errors import RewriteConflict
from model.schema import Schema, column, new_schema
from model.snapshot import CommitKind, Snapshot
from table.commit import CommitRequest, build_snapshot, everything
from table.file_io import LocalFileIO
from table.manifest import EMPTY_ROW, DataFile, EntryKind, ManifestEntry, NewFile, SimpleStats
from table.manifest_codec import decode_manifest, decode_manifest_list, encode_manifest, encode_manifest_list
from table.store import Published, TableFiles

QUEUE = {"bucket": "1", "bucket-key": "id"}


@pytest.fixture
def files(tmp_path: Path) -> TableFiles:
    return TableFiles(LocalFileIO(), str(tmp_path / "t"))


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
    from table.sequences import TOPS

    first = commit(files, a_schema(), None, append("a"))
    TOPS._known.clear()
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


def test_thirty_small_manifests_become_one(files: TableFiles) -> None:
    schema = a_schema()
    snapshot = commit(files, schema, None, append("f0"))
    for number in range(1, 31):
        snapshot = commit(files, schema, snapshot, append(f"f{number}"))
    base = files.manifest_list(snapshot.base_manifest_list)
    assert [m.num_added_files for m in base] == [30]
    assert [name for name, _, _ in sequences(files, snapshot)] == [f"f{n}" for n in range(31)]


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
    assert decode_manifest(encode_manifest([entry])) == [entry]
    assert decode_manifest_list(encode_manifest_list([])) == []


def test_a_published_snapshot_is_never_replaced(files: TableFiles) -> None:
    first = commit(files, a_schema(), None, append("a"))
    other = commit(files, a_schema(), None, append("b"))
    assert files.publish_snapshot(first) is Published.WRITTEN
    assert files.publish_snapshot(first) is Published.THERE
    other = Snapshot.from_json(other.to_json() | {"uuid": "somebody else"})
    assert files.publish_snapshot(other) is Published.FOREIGN
    assert files.read_snapshot(1) == first


@pytest.mark.parametrize(("hint", "found"), [("2", 2), ("1", 2), ("7", 2), ("x", 2), (None, 2)])
def test_a_hint_is_not_believed_unchecked(files: TableFiles, hint: str | None, found: int) -> None:
    first = commit(files, a_schema(), None, append("a"))
    files.publish_snapshot(first)
    files.publish_snapshot(commit(files, a_schema(), first, append("b")))
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
