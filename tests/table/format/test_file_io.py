"""Where bytes lie: one winner of a name, no space, and the spellings of a local place."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem

from model.errors import InvalidOption, StorageFull, Unavailable
from model.schema.schema import Schema, column, new_schema
from table.format.io.directory import TooLarge
from table.format.io.file_io import LocalFileIO, file_io_for, local_path
from table.format.io.object_store import ArrowFileIO, StoreClients
from table.format.io.storage_errors import storage_error
from table.format.manifests.entries import NewFile
from table.format.rows.arrow import arrow_schema
from table.format.store import TableFiles
from table.scan.planning.entry_scan import plan_scan
from table.scan.read import read_batches
from table.write.snapshot_builder import CommitRequest
from table.write.writer import write_batches
from tests.fix_s3 import Bucket
from tests.table.write.test_snapshot_builder import append, commit

multiprocessing.get_context("forkserver").set_forkserver_preload([__name__])
CONTENDERS = 16
ROUNDS = 10


def contend(me: int, directory: str, gate: Any, wins: Any) -> None:
    """Try to create each of the files at the same moment as all others."""
    io = LocalFileIO()
    for number in range(ROUNDS):
        gate.wait(600)
        if io.create(f"{directory}/new/snapshot-{number}", f"{me},".encode() * 20_000):
            wins.put((number, me))


@pytest.mark.parametrize("kind", ["processes", "threads"])
def test_of_sixteen_who_create_one_file_exactly_one_wins(tmp_path: Path, kind: str) -> None:
    context = multiprocessing.get_context("forkserver")
    wins: Any = context.SimpleQueue()
    gate = threading.Barrier(CONTENDERS) if kind == "threads" else context.Barrier(CONTENDERS)
    make: Callable[..., Any] = threading.Thread if kind == "threads" else context.Process
    contenders = [make(target=contend, args=(me, str(tmp_path), gate, wins)) for me in range(CONTENDERS)]
    for one in contenders:
        one.start()
    for one in contenders:
        one.join(900)
    winners = []
    while not wins.empty():
        winners.append(wins.get())
    assert sorted(number for number, _ in winners) == list(range(ROUNDS))
    for number, winner in winners:
        assert (tmp_path / "new" / f"snapshot-{number}").read_bytes() == f"{winner},".encode() * 20_000
    assert len(list((tmp_path / "new").iterdir())) == ROUNDS, "nobody left a temporary file"


def in_a_process_without_space(work: Callable[[str], None], directory: str) -> str:
    """The work's failure in a process that may write files of 64 kB; that is refused as a full disk is, in the kernel."""
    context = multiprocessing.get_context("forkserver")
    told, tell = context.Pipe(duplex=False)
    process = context.Process(target=_limited, args=(work, directory, tell))
    process.start()
    try:
        assert told.poll(300), "the process gave no answer"
        return str(told.recv())
    finally:
        process.join(60)


def _limited(work: Callable[[str], None], directory: str, tell: Any) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (64 << 10, 64 << 10))
    try:
        work(directory)
        tell.send("it was written")
    except Exception as failure:
        tell.send(f"{type(failure).__name__}: {getattr(failure, 'whole', failure)}")


def write_metadata(directory: str) -> None:
    LocalFileIO().write(f"{directory}/manifest-1", bytes(200_000))


def create_metadata(directory: str) -> None:
    LocalFileIO().create(f"{directory}/snapshot-1", bytes(200_000))


def a_schema(format_: str) -> Schema:
    return new_schema([column("id", "BIGINT"), column("v", "BYTES")], options={"bucket": "-1", "file.format": format_})


def rows(schema: Schema, count: int) -> pa.RecordBatch:
    values = [(i * 2654435761 % 2**64).to_bytes(8, "little") for i in range(count)]
    return pa.RecordBatch.from_pydict({"id": range(count), "v": values}, schema=arrow_schema(schema.fields))


def write_parquet(directory: str) -> None:
    schema = a_schema("parquet")
    write_batches(TableFiles(LocalFileIO(), directory), schema, [rows(schema, 100_000)])


def write_orc(directory: str) -> None:
    schema = a_schema("orc")
    write_batches(TableFiles(LocalFileIO(), directory), schema, [rows(schema, 100_000)])


@pytest.mark.parametrize("work", [write_metadata, create_metadata, write_parquet, write_orc])
def test_no_room_is_told_as_such_and_nothing_stays(tmp_path: Path, work: Callable[[str], None]) -> None:
    told = in_a_process_without_space(work, str(tmp_path))
    assert told.startswith("StorageFull: No space left to write "), told
    assert str(tmp_path) in told
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_what_is_no_lack_of_room_is_not_told_as_one() -> None:
    assert isinstance(storage_error(OSError(errno.ENOSPC, "x"), "/p"), StorageFull)
    assert isinstance(storage_error(OSError(errno.EDQUOT, "x"), "/p"), StorageFull)
    assert type(storage_error(OSError(errno.EACCES, "x"), "/p")) is Unavailable


@pytest.mark.parametrize("scheme", ["", "file:", "file://", "file://localhost"])
def test_a_local_place_may_be_spelled_as_a_uri(tmp_path: Path, scheme: str) -> None:
    place = f"{scheme}{tmp_path}/a b%20c"
    files = TableFiles(file_io_for(place), place)
    schema = a_schema("parquet")
    files.write_schema(schema)
    snapshot = commit(files, schema, None, append())
    with files.snapshots() as directory:
        assert files.publish_snapshot(snapshot, directory)
        files.write_hints(1, directory)
    assert (files.latest_on_disk(), files.snapshot_ids()) == (1, [1])
    (new,) = write_batches(files, schema, [rows(schema, 3)])
    snapshot = commit(files, schema, snapshot, append_of(new))
    assert [b.num_rows for b in read_batches(files, schema, plan_scan(files, schema, snapshot).files)] == [3]
    assert (tmp_path / "a b%20c" / "bucket-0" / new.file.file_name).exists()
    files.io.rename(f"{place}/schema/schema-0", f"{place}/moved/schema-0")
    assert files.io.exists(f"{place}/moved/schema-0")
    files.io.delete_tree(place)
    assert list(tmp_path.iterdir()) == []


def append_of(new: NewFile) -> CommitRequest:
    return replace(append(), adds=(new,))


def test_a_uri_of_another_machine_is_refused() -> None:
    assert local_path("/x") == local_path("file:/x") == local_path("file:///x") == "/x"
    assert local_path("s3://b/x") == "s3://b/x"
    for location in ("file://elsewhere/x", "file://x"):
        with pytest.raises(InvalidOption, match=r"file:///path"):
            local_path(location)


def test_a_removal_that_is_held_up_leaves_what_has_the_name_by_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another server removes the same directory to its end, and makes the next table of the name in its place."""
    place = tmp_path / "t"
    for name in ("schema/schema-0", "snapshot/snapshot-1", "snapshot/snapshot-2"):
        LocalFileIO(sync=False).write(f"{place}/{name}", b"old")
    unlink, calls, removes = os.unlink, [], threading.current_thread()

    def held_up(*args: Any, **more: Any) -> None:
        unlink(*args, **more)
        if threading.current_thread() is not removes:  # somebody else's
            return
        calls.append(args)
        if len(calls) == 2:
            LocalFileIO(sync=False).delete_tree(str(place))
            LocalFileIO(sync=False).write(f"{place}/schema/schema-0", b"new")

    monkeypatch.setattr(os, "unlink", held_up)
    LocalFileIO(sync=False).delete_tree(str(place))
    assert len(calls) >= 2
    assert (place / "schema/schema-0").read_bytes() == b"new"


def test_an_object_that_would_fill_the_process_is_not_read_whole(tmp_path: Path) -> None:
    """As a file on a disk: whoever may write one of a table's files chooses how long it is."""
    (tmp_path / "large").touch()
    os.truncate(tmp_path / "large", 600 << 20)
    (tmp_path / "small").write_bytes(b"small")
    store = ArrowFileIO(StoreClients.all_one(LocalFileSystem()), "x")
    assert store.read(f"{tmp_path}/small") == b"small"
    with pytest.raises(TooLarge, match="629,145,600 bytes"):
        store.read(f"{tmp_path}/large")


def test_a_file_tells_by_itself_what_a_listing_tells_of_it(tmp_path: Path) -> None:
    (tmp_path / "small").write_bytes(b"small")
    os.utime(tmp_path / "small", (1_600_000_000.5, 1_600_000_000.5))
    for store, place in ((LocalFileIO(), f"{tmp_path}"), (ArrowFileIO(StoreClients.all_one(LocalFileSystem()), "x"), f"x://{tmp_path}")):
        assert [store.status(f"{place}/small")] == store.list(place)
        assert store.status(f"{place}/small").mtime_millis == 1_600_000_000_500
        for name in ("none", ""):
            with pytest.raises(FileNotFoundError):
                store.status(f"{place}/{name}".rstrip("/"))


def test_names_in_a_location_are_no_options_of_its_store(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever may make a table chooses them: the server's requests, signed with its key, would go to a host of theirs."""
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    for name in ("t?endpoint_override=127.0.0.1:9&scheme=http", "what?", "50%", "a#b", "a:b"):
        place = f"s3://{bucket.name}/lake/{name}"
        store = file_io_for(place)
        store.write(f"{place}/file", name.encode())
        assert store.read(f"{place}/file") == name.encode()
        (listed,) = store.list(place)
        assert (listed.path, listed.size) == (f"{place}/file", len(name))
        assert replace(store.status(listed.path), mtime_millis=listed.mtime_millis) == listed
        assert abs(store.status(listed.path).mtime_millis - listed.mtime_millis) < 1000, "the one tells whole seconds"
