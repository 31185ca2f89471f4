"""Breaking a table's files from outside, as a disk or an operator does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from lake import Lake, LakeTable
from table.format.deletions import _INDEX_FILES, _KNOWN
from table.format.store import _LISTS, _MANIFESTS
from table.index.build import FileIndexes
from table.index.owner import owned
from table.scan.planning.column_cache import COLUMNS
from tests.waiting import eventually


def wait_for_notes(lake: Lake) -> None:
    """Return once the catalog knows of each snapshot that its file is published: until then one that goes is written anew, and none misses.

    A thread of the lake's notes it, a moment after the commit.
    """

    def are_all_noted() -> bool:
        with lake.catalog.reading() as tx:
            return not list(tx.publications.tables_with_unpublished())

    assert eventually(are_all_noted)


def forget_metadata() -> None:
    """What a restart forgets."""
    _MANIFESTS.clear()
    _LISTS.clear()
    COLUMNS.forget()
    _KNOWN.clear()
    _INDEX_FILES.clear()


def remove(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def change(path: Path) -> None:
    """Turn the bits of a quarter of the file, where its first pages or blocks lie."""
    data = bytearray(path.read_bytes())
    for at in range(len(data) // 16, len(data) // 16 + len(data) // 4):
        data[at] ^= 0xFF
    path.write_bytes(data)


def index_of_other_rows(table: LakeTable, **values: list[str | None]) -> str:
    """Give the table's only file an index of other values, as whoever writes files of a table may; the data file's path."""
    (entry,) = table.files.live_entries(table.latest())
    (path,) = table.files.extra_paths(table.schema, entry)
    lying = FileIndexes.declared(table.schema)
    assert lying is not None
    lying.add(pa.record_batch({name: pa.array(column) for name, column in values.items()}))
    table.files.io.write(path, owned(lying.container(), path.rpartition("/")[2], entry.file))
    return table.files.data_path(table.schema, entry)


def leave_behind(directory: Path) -> None:
    """Write a snapshot past the catalog, which then is older than the table's files."""
    newest = max((directory / "snapshot").glob("snapshot-*"), key=lambda path: int(path.name.removeprefix("snapshot-")))
    body = json.loads(newest.read_bytes())
    body["id"] += 1
    newest.with_name(f"snapshot-{body['id']}").write_text(json.dumps(body))


BREAKS: dict[str, Callable[[Path], None]] = {"missing": remove, "cut": cut, "changed": change}


def data_files(directory: Path) -> list[Path]:
    return sorted(path for path in directory.rglob("bucket-*/*") if path.suffix in (".parquet", ".orc", ".avro"))


def metadata_files(directory: Path, kind: str) -> list[Path]:
    """Manifests, or manifest lists, the newest last; of those of one tick of the clock the one made later."""
    found = [path for path in (directory / "manifest").iterdir() if path.name.startswith("manifest-list-") == (kind == "list")]
    return sorted(found, key=lambda path: ((status := path.stat()).st_mtime_ns, status.st_ino))
