"""A manifest or list whose place another one took, as an operator who mixes up copies does: damage, and never other rows."""

from __future__ import annotations

import datetime as dt
import shutil
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from model.errors import TableDamaged
from model.schema.schema import Schema, column, new_schema
from model.snapshot import Snapshot
from table.format.io.file_io import LocalFileIO
from table.format.manifests.entries import ManifestFile, partition_stats
from table.format.manifests.typed import wrong_entries
from table.format.rows import binary_row
from table.format.store import TableFiles
from tests.lake.register.damage import forget_metadata
from tests.table.scan.test_files import insert, select

Two = tuple[TableFiles, list[Snapshot]]
ROWS = [[{"id": n, "s": "x" * length}] for n, length in enumerate((3, 3, 3000, 3))]


@pytest.fixture
def two(tmp_path: Path) -> Two:
    """Snapshots of a row each, of which the third's manifest has another size."""
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    snapshots: list[Snapshot] = []
    for rows in ROWS:
        snapshots.append(insert(files, SCHEMA, snapshots[-1] if snapshots else None, rows))
    return files, snapshots


@pytest.fixture
def nameless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Manifests and lists do not tell their own names, as those of other writers."""
    monkeypatch.setattr("table.format.manifests.codec.named", lambda name: {})


SCHEMA = new_schema([column("id", "BIGINT"), column("s", "STRING")], options={"bucket": "-1"})


def alike(files: TableFiles, schema: Schema, rows: Iterable[dict[str, Any]]) -> tuple[Snapshot, Snapshot, Snapshot]:
    """Two snapshots whose manifests happen to be of one size, and the one after all: commits are made until it is so."""
    snapshots: list[Snapshot] = []
    by_size: dict[int, Snapshot] = {}
    for row in rows:
        snapshots.append(insert(files, schema, snapshots[-1] if snapshots else None, [row]))
        (meta,) = files.delta_manifests(snapshots[-1])
        if (first := by_size.setdefault(meta.file_size, snapshots[-1])) is not snapshots[-1]:
            return first, snapshots[-1], insert(files, schema, snapshots[-1], [row])
    raise AssertionError("no two manifests of one size")


def manifest_of(files: TableFiles, snapshot: Snapshot) -> str:
    (meta,) = files.delta_manifests(snapshot)
    return files.layout.manifest(meta.file_name)


def read(files: TableFiles, snapshot: Snapshot) -> list[dict[str, Any]]:
    forget_metadata()
    return select(files, SCHEMA, snapshot)


def test_a_manifest_of_another_size_is_told(two: Two) -> None:
    """It was read without a word: the rows of one commit twice, those of the other not at all."""
    files, snapshots = two
    first, *others = (Path(manifest_of(files, snapshot)) for snapshot in snapshots)
    shutil.copyfile(first, next(other for other in others if other.stat().st_size != first.stat().st_size))
    with pytest.raises(TableDamaged, match="bytes where what names it tells"):
        read(files, snapshots[3])


@pytest.mark.usefixtures("nameless")
@pytest.mark.parametrize("many", [4096, 1], ids=["by entries", "by columns"])
def test_a_manifest_of_the_same_size_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int) -> None:
    monkeypatch.setattr("table.format.manifests.columns._MANY_ENTRIES", many)
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    one, other, last = alike(files, SCHEMA, ({"id": n, "s": "x"} for n in range(40)))
    shutil.copyfile(manifest_of(files, one), manifest_of(files, other))
    with pytest.raises(TableDamaged, match="is added twice"):
        read(files, last)
    forget_metadata()
    with pytest.raises(TableDamaged, match="is added twice"):
        list(files.live_among(last, lambda meta: True).entries())


@pytest.mark.usefixtures("nameless")
@pytest.mark.parametrize("which", ["base", "delta"])
def test_a_list_in_the_place_of_another_is_told(two: Two, which: str) -> None:
    files, snapshots = two
    names: Callable[[Snapshot], str] = lambda s: s.base_manifest_list if which == "base" else s.delta_manifest_list  # noqa: E731
    shutil.copyfile(files.layout.manifest(names(snapshots[1])), files.layout.manifest(names(snapshots[3])))
    with pytest.raises(TableDamaged):
        read(files, snapshots[3])


@pytest.mark.usefixtures("nameless")
def test_a_manifest_that_holds_others_than_its_list_tells_is_told(tmp_path: Path) -> None:
    """Of the same size: by which partitions and buckets are in it readers leave manifests out."""
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    schema = new_schema([column("p", "BIGINT"), column("id", "BIGINT")], partition_keys=["p"], options={"bucket": "-1"})
    files.partition_types = [f.type for f in schema.partition_fields]
    one, other, _ = alike(files, schema, ({"p": n, "id": 1} for n in range(40)))
    shutil.copyfile(manifest_of(files, one), manifest_of(files, other))
    (meta,) = files.delta_manifests(other)
    forget_metadata()
    with pytest.raises(TableDamaged, match="other partitions"):
        files.manifest(meta)
    with pytest.raises(TableDamaged, match="other partitions"):
        files.columns(meta)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"num_added_files": 2}, "adds 1 files and removes 0 where its list tells 2 and 0"),
        ({"num_deleted_files": 1}, "removes 0"),
        ({"min_bucket": 1}, "other buckets"),
        ({"max_bucket": -1}, "other buckets"),
    ],
)
def test_what_a_list_tells_is_held_against_the_entries(two: Two, change: dict[str, int], told: str) -> None:
    files, snapshots = two
    (meta,) = files.delta_manifests(snapshots[0])
    entries, other = files.manifest(meta), ManifestFile(**{name: getattr(meta, name) for name in ManifestFile.__slots__} | change)
    assert wrong_entries(meta, entries, []) is None
    assert wrong_entries(meta, files.columns(meta), []) is None
    assert told in (wrong_entries(other, entries, []) or "")
    assert told in (wrong_entries(other, files.columns(meta), []) or "")


def test_a_link_in_a_circle_is_told(two: Two) -> None:
    """It was the store's failure: try again later."""
    files, snapshots = two
    path = Path(manifest_of(files, snapshots[1]))
    path.unlink()
    path.symlink_to(path.name)
    with pytest.raises(TableDamaged, match="leads in a circle"):
        read(files, snapshots[3])


NAN = float("nan")
VALUES: dict[str, list[Any]] = {
    "DOUBLE": [NAN, 1.0, None, -0.0, 0.0, float("inf"), -1.5],
    "FLOAT": [2.5, NAN, -2.5],
    "STRING": ["", "é", "\U0001f600", "\uffff", None, "z"],
    "BYTES": [b"\xff", b"", b"\x7f", b"\x80a"],
    "BOOLEAN": [True, None, False],
    "TINYINT": [-128, 127, 0],
    "DECIMAL(38, 2)": [Decimal("-9.99"), Decimal("123456789012345678901234567890.12"), None],
    "DATE": [dt.date(1, 1, 1), dt.date(9999, 12, 31)],
    "TIMESTAMP(6)": [dt.datetime(1969, 12, 31, 23, 59, 59, 1), dt.datetime(2024, 1, 1), None],
}


@pytest.mark.parametrize("many", [4096, 1], ids=["by entries", "by columns"])
@pytest.mark.parametrize("kind", VALUES)
def test_partitions_of_every_type_lie_where_their_list_tells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, many: int) -> None:
    """NaN compares with nothing: it lay outside the bounds of its own manifest, and its table was damaged."""
    monkeypatch.setattr("table.format.manifests.columns._MANY_ENTRIES", many)
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    schema = new_schema([column("p", kind), column("id", "BIGINT")], partition_keys=["p"], options={"bucket": "-1"})
    files.partition_types = [f.type for f in schema.partition_fields]
    snapshot = insert(files, schema, None, [{"p": value, "id": n} for n, value in enumerate(VALUES[kind])])
    snapshot = insert(files, schema, snapshot, [{"p": value, "id": n} for n, value in enumerate(VALUES[kind][:1], 100)])
    forget_metadata()
    assert len(select(files, schema, snapshot)) == len(VALUES[kind]) + 1
    for meta in files.manifests_of(snapshot):
        assert wrong_entries(meta, files.manifest(meta), files.partition_types) is None
        assert wrong_entries(meta, files.columns(meta), files.partition_types) is None


@pytest.mark.parametrize("values", [[NAN, 1.0], [1.0, NAN], [NAN], [1.0, NAN, 2.0]])
def test_bounds_are_those_of_java_s_order(values: list[float]) -> None:
    """Java's readers leave a manifest out by them: NaN is the largest number there, and 0.0 is larger than -0.0."""
    types = [f.type for f in new_schema([column("p", "DOUBLE")], options={"bucket": "-1"}).fields]
    stats = partition_stats([binary_row.encode_prefixed(types, [value]) for value in values], types)
    assert str(binary_row.decode(types, stats.max_values)) == "(nan,)"
    zeros = partition_stats([binary_row.encode_prefixed(types, [value]) for value in (0.0, -0.0)], types)
    assert str((*binary_row.decode(types, zeros.min_values), *binary_row.decode(types, zeros.max_values))) == "(-0.0, 0.0)"
