"""Data files of clients' commits on an object store, looked at side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest

from lake.commit.clients import added_files
from lake.commit.clients.added_files import fault_of_added
from model.schema.schema import column, new_schema
from table.format.io.file_io import file_io_for
from table.format.manifests.entries import EMPTY_ROW, DataFile, EntryKind, ManifestEntry, SimpleStats
from table.format.store import TableFiles
from tests.fix_s3 import Bucket
from tests.server.paimon.committing import rows_of_nulls

Added = tuple[ManifestEntry, str]


@pytest.fixture
def files(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> TableFiles:
    for name, value in bucket.environment.items():
        monkeypatch.setenv(name, value)
    location = f"s3://{bucket.name}/lake/d.db/t"
    files = TableFiles(file_io_for(location), location)
    files.write_schema(new_schema([column("id", "BIGINT")]))
    return files


def added(files: TableFiles, rows: int) -> Added:
    """A file of so many rows that lies in the store, and where."""
    data, path = rows_of_nulls(pa.schema([("id", pa.int64())]), rows), f"{files.location}/bucket-0/data-{uuid4()}-0.parquet"
    files.io.write(path, data)
    file = DataFile(
        file_name=path.rpartition("/")[2], file_size=len(data), row_count=rows, value_stats=SimpleStats(), value_stats_cols=(),
        min_sequence_number=0, max_sequence_number=rows - 1, schema_id=0, creation_time_millis=7,
    )  # fmt: skip
    return ManifestEntry(kind=EntryKind.ADD, partition=EMPTY_ROW, bucket=0, total_buckets=-1, file=file), path


def told(one: Added, **changed: Any) -> Added:
    entry, path = one
    return replace(entry, file=replace(entry.file, **changed)), path


def test_the_first_that_is_not_what_its_entry_tells_is_named(files: TableFiles) -> None:
    sound = [added(files, rows) for rows in (1, 2, 3)]
    assert fault_of_added(files, sound) is None
    assert fault_of_added(files, sound[:1]) is None
    wrong, other = told(sound[1], row_count=5), told(sound[2], file_size=7)
    fault = f"it adds {sound[1][1]}, which holds 2 rows where its manifest tells 5."
    assert fault_of_added(files, [sound[0], wrong, other]) == fault
    assert fault_of_added(files, [wrong]) == fault
    files.io.delete(sound[0][1])
    assert fault_of_added(files, sound) == f"it adds {sound[0][1]}, which does not exist."


def test_of_many_files_the_others_are_asked_for_their_size(files: TableFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(added_files, "MOST_LOOKED_AT", 1)
    sound = [added(files, rows) for rows in (1, 2)]
    assert fault_of_added(files, [sound[0], told(sound[1], row_count=9)]) is None
    size = sound[1][0].file.file_size
    fault = f"it adds {sound[1][1]}, which has {size:,} bytes where its manifest tells {size + 1:,}."
    assert fault_of_added(files, [sound[0], told(sound[1], file_size=size + 1)]) == fault
    files.io.delete(sound[1][1])
    assert fault_of_added(files, sound) == f"it adds {sound[1][1]}, which does not exist."
