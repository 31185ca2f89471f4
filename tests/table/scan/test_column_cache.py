"""What is kept of decoded manifests, in memory and on disk, is only a copy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pytest

from table.format.manifests.columns import ManifestColumns
from table.format.manifests.entries import ManifestEntry
from table.scan.planning.column_cache import ColumnCache
from tests.table.scan.test_column_plan import columns_of, entries_named

ROOT = Path(__file__).parents[3]


def kept(directory: Path) -> list[Path]:
    return sorted(directory.glob("*.manifest"), key=lambda path: path.stat().st_mtime)


def load_counted(cache: ColumnCache, path: str, entries: list[ManifestEntry]) -> int:
    """How often the manifest is decoded when it is asked for once; what is given is what it holds."""
    loads: list[int] = []

    def load() -> ManifestColumns:
        loads.append(1)
        return columns_of(entries)

    found = cache.columns(path, 1, load, persist=True)
    assert list(found.entries()) == entries
    return len(loads)


def test_a_restart_and_another_process_find_what_was_decoded(tmp_path: Path) -> None:
    one, other = ColumnCache(), ColumnCache()
    for cache in (one, other):
        cache.keep_in(tmp_path / "cache", 1 << 20)
    assert [load_counted(cache, "m", entries_named(3)) for cache in (one, other, one)] == [1, 0, 0]
    one.forget()
    assert load_counted(one, "m", entries_named(3)) == 0
    shutil.rmtree(tmp_path / "cache")
    one.forget()
    assert load_counted(one, "m", entries_named(3)) == 1
    assert (tmp_path / "cache").stat().st_mode & 0o777 == 0o700


def test_who_wants_what_is_being_decoded_waits_for_it(tmp_path: Path) -> None:
    cache = ColumnCache()
    loads: list[int] = []
    columns = columns_of(entries_named(2))

    def load() -> ManifestColumns:
        loads.append(1)
        time.sleep(0.05)
        return columns

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: cache.columns("m", 1, load, persist=True), range(4)))
    assert (len(loads), [one is columns for one in found]) == (1, [True] * 4)


def test_nothing_new_is_put_on_a_disk_that_is_nearly_full(tmp_path: Path) -> None:
    cache, space = ColumnCache(), [False]
    cache.keep_in(tmp_path, 1 << 20, space=lambda: space[0])
    load_counted(cache, "m", entries_named(3))
    assert kept(tmp_path) == []
    assert load_counted(cache, "m", entries_named(3)) == 0, "it is kept in memory"
    space[0] = True
    load_counted(cache, "n", entries_named(3))
    assert len(kept(tmp_path)) == 1


@pytest.mark.parametrize("damage", ["empty", "half", "zeros", "other", "foreign"])
def test_a_damaged_file_is_made_anew(tmp_path: Path, damage: str) -> None:
    cache = ColumnCache()
    cache.keep_in(tmp_path, 1 << 20)
    load_counted(cache, "m", entries_named(3))
    (file,) = kept(tmp_path)
    whole = file.read_bytes()
    table = pa.table({"x": [1]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    bad = {
        "empty": b"",
        "half": whole[: len(whole) // 2],
        "zeros": bytes(len(whole)),
        "other": b"x" * 99,
        "foreign": sink.getvalue().to_pybytes(),
    }
    file.unlink()
    file.write_bytes(bad[damage])
    cache.forget()
    assert load_counted(cache, "m", entries_named(3)) == 1
    assert kept(tmp_path)[0].read_bytes() == whole
    assert not list(tmp_path.glob("*.tmp"))


def test_no_flipped_bit_is_believed(tmp_path: Path) -> None:
    """Most bits of a file are values, with which it is as good an Arrow file as before."""
    cache = ColumnCache()
    cache.keep_in(tmp_path, 1 << 30)
    load_counted(cache, "m", entries_named(3))
    (file,) = kept(tmp_path)
    whole = file.read_bytes()
    for at in range(0, len(whole), len(whole) // 47):
        file.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        cache.forget()
        assert load_counted(cache, "m", entries_named(3)) == 1
        assert file.read_bytes() == whole


def test_a_file_of_another_manifest_is_not_taken_for_it(tmp_path: Path) -> None:
    cache = ColumnCache()
    cache.keep_in(tmp_path, 1 << 30)
    for name, count in (("m", 3), ("n", 4)):
        load_counted(cache, name, entries_named(count))
    one, other = kept(tmp_path)
    shutil.copy(one, other)
    cache.forget()
    assert [load_counted(cache, name, entries_named(count)) for name, count in (("m", 3), ("n", 4))] in ([0, 1], [1, 0])


def test_a_file_that_is_cut_off_while_it_is_used_kills_nobody(tmp_path: Path) -> None:
    """In a process of its own: a signal would end it, with which memory that is mapped answers."""
    code = f"""
import os, pathlib
from tests.table.scan.test_column_cache import ColumnCache, entries_named, kept, load_counted
directory = pathlib.Path({str(tmp_path)!r})
for wanted in (1, 0):
    cache = ColumnCache()
    cache.keep_in(directory, 1 << 30)
    assert load_counted(cache, "m", entries_named(500)) == wanted
os.truncate(kept(directory)[0], 0)
assert load_counted(cache, "m", entries_named(500)) == 0
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_was_used_longest_ago_goes_first(tmp_path: Path) -> None:
    cache = ColumnCache()
    cache.keep_in(tmp_path, 1 << 30)
    for number in range(4):
        load_counted(cache, f"m{number}", entries_named(50))
        os.utime(kept(tmp_path)[-1], (number, number))
    oldest, *_, newest = kept(tmp_path)
    cache.forget()
    assert load_counted(cache, "m0", entries_named(50)) == 0, "it was used just now"
    (tmp_path / "abandoned.tmp").write_bytes(b"x")
    os.utime(tmp_path / "abandoned.tmp", (0, 0))
    cache.keep_in(tmp_path, int(2.5 * oldest.stat().st_size))
    assert kept(tmp_path) == [newest, oldest]
    assert not list(tmp_path.glob("*.tmp"))


def test_a_directory_that_cannot_be_used_costs_only_memory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = ColumnCache()
    cache.keep_in(tmp_path / "file" / "cache", 1 << 20)
    assert [load_counted(cache, "m", entries_named(2)) for _ in range(2)] == [1, 0]
