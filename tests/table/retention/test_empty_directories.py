"""Directories of partitions without files go, and no writer loses one that it needs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from model.schema.schema import Schema, column, new_schema
from table.format.io.file_io import LocalFileIO
from table.format.store import TableFiles
from table.retention.empty_directories import remove_emptied, remove_empty_directories
from table.write import writer
from table.write.data_file import OpenFile, open_file


def _schema(*keys: str) -> Schema:
    return new_schema([column("a", "STRING"), column("b", "STRING"), column("n", "INT")], partition_keys=keys)


def _swept(root: Path, schema: Schema, *kept: str, dry_run: bool = False) -> tuple[list[str], list[str]]:
    files = TableFiles(LocalFileIO(), str(root), "default.t")
    found = remove_empty_directories(files, schema, kept=kept, dry_run=dry_run, check=lambda: None)
    return sorted(found.gone), sorted(found.left)


def _places(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


@pytest.mark.parametrize("marker", ["_SUCCESS", "._SUCCESS.crc"])
def test_what_holds_no_file_but_a_marker_goes(tmp_path: Path, marker: str) -> None:
    for place in ("a=1/b=1/bucket-0", "a=1/b=2/bucket-0", "a=2/b=1/bucket-0", "a=2/b=1/bucket-1", "a=3", "manifest", "a=4/b=1"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "a=1/b=2/bucket-0/data-1").touch()
    (tmp_path / "a=2/b=1" / marker).touch()
    schema = _schema("a", "b")
    before = _places(tmp_path)
    gone = ["a=1/b=1", "a=2", "a=2/b=1", "a=3"]
    assert _swept(tmp_path, schema, "a=4/b=1", dry_run=True) == (gone, [])
    assert _places(tmp_path) == before
    assert _swept(tmp_path, schema, "a=4/b=1") == (gone, [])
    assert _places(tmp_path) == ["a=1", "a=1/b=2", "a=1/b=2/bucket-0", "a=1/b=2/bucket-0/data-1", "a=4", "a=4/b=1", "manifest"]


def test_what_somebody_else_put_there_stays(tmp_path: Path) -> None:
    (tmp_path / "a=1/bucket-0").mkdir(parents=True)
    (tmp_path / "a=1/notes.txt").touch()
    (tmp_path / "a=2/other").mkdir(parents=True)
    before = _places(tmp_path)
    assert _swept(tmp_path, _schema("a")) == ([], [])
    assert _places(tmp_path) == before


def test_a_store_that_cannot_remove_what_is_empty_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalFileIO, "remove_empty", lambda io, path: False)
    (tmp_path / "a=1/bucket-0").mkdir(parents=True)
    assert _swept(tmp_path, _schema("a")) == ([], ["a=1"])


def test_no_writer_fails_whose_directory_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sweep comes before the file is opened, and between the parent's making and the directory's own."""
    schema = _schema("a")
    files = TableFiles(LocalFileIO(), str(tmp_path), "default.t")
    batch = pa.RecordBatch.from_pylist([{"a": "x", "b": "y", "n": 1}], schema=pa.schema([("a", "string"), ("b", "string"), ("n", "int32")]))
    swept: list[str] = []

    def sweep() -> None:
        if len(swept) < 6:
            swept.extend(_swept(tmp_path, schema)[0])

    def opened(*arguments: Any) -> OpenFile:
        sweep()
        return open_file(*arguments)

    def made(path: str, *more: Any, **others: Any) -> None:
        if str(path).startswith(str(tmp_path)) and path.endswith("/bucket-0"):  # and not what else this process makes
            sweep()
        mkdir(path, *more, **others)

    mkdir = os.mkdir
    monkeypatch.setattr(writer, "open_file", opened)
    monkeypatch.setattr(os, "mkdir", made)
    (new,) = writer.write_batches(files, schema, iter([batch]))
    assert (tmp_path / "a=x/bucket-0" / new.file.file_name).exists()
    assert swept == ["a=x"] * 6
    swept.clear()
    files.io.add(f"{tmp_path}/a=y/bucket-0/index", b"1")
    assert swept == ["a=y"] * 6
    assert _swept(tmp_path, schema) == ([], [])


def test_only_the_directories_of_deleted_files_go(tmp_path: Path) -> None:
    for place in ("a=1/b=1/bucket-0", "a=1/b=2/bucket-0", "a=1/b=2/bucket-1", "a=2/b=1/bucket-0", "a=3/b=1/bucket-0", "a=4/b=1/bucket-0"):
        (tmp_path / place).mkdir(parents=True)
    (tmp_path / "a=1/b=2/bucket-1/data-1").touch()
    (tmp_path / "a=2/b=1/_SUCCESS").touch()
    gone = ["a=1/b=1/bucket-0/x", "a=1/b=2/bucket-0/x", "a=2/b=1/bucket-0/x", "a=3/b=1/bucket-0/x", "a=3/b=1/bucket-0/x.index"]
    paths = [*(f"{tmp_path}/{path}" for path in gone), f"{tmp_path.parent}/elsewhere/x"]
    remove_emptied(TableFiles(LocalFileIO(), str(tmp_path), "default.t"), _schema("a", "b"), paths)
    assert [path for path in _places(tmp_path) if path.count("/") == 1] == ["a=1/b=2", "a=2/b=1", "a=4/b=1"]
    assert _places(tmp_path)[:4] == ["a=1", "a=1/b=2", "a=1/b=2/bucket-1", "a=1/b=2/bucket-1/data-1"]
    assert tmp_path.exists()
