"""One flipped bit at a time: in pages and in blocks of manifests it is an error and never a wrong row."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from model.errors import TableDamaged
from model.schema import column, new_schema
from table.file_io import LocalFileIO
from table.scan import plan_scan
from table.store import TableFiles
from tests.lake.register.damage import forget_metadata
from tests.table.test_files import insert, select

ROWS = [{"id": n * 7_919, "s": f"text {n * n}"} for n in range(3_000)]


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def pages_of(path: Path) -> list[int]:
    """Bytes that surely are pages' and no headers': the later three quarters of each column chunk."""
    group = pq.read_metadata(path).row_group(0)
    found: list[int] = []
    for at in range(group.num_columns):
        chunk = group.column(at)
        start, size = chunk.dictionary_page_offset or chunk.data_page_offset, chunk.total_compressed_size
        found += range(start + size // 4, start + size)
    return found


@pytest.mark.parametrize("flips", [60, pytest.param(10_000, marks=pytest.mark.torture)])
@pytest.mark.parametrize("kind", ["pages", "manifest"])
def test_no_flip_gives_a_wrong_row(tmp_path: Path, kind: str, flips: int) -> None:
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    options = {"bucket": "-1", "parquet.enable.dictionary": "false"}
    schema = new_schema([column("id", "BIGINT"), column("s", "STRING")], options=options)
    snapshot = insert(files, schema, None, ROWS)
    (planned,) = plan_scan(files, schema, snapshot).files
    (meta,) = files.manifests_of(snapshot)
    path = Path(planned.path if kind == "pages" else files.layout.manifest(meta.file_name))
    kept, rng, told = path.read_bytes(), random.Random(23), 0
    places = pages_of(path) if kind == "pages" else range(len(kept))
    for _ in range(flips):
        path.write_bytes(flipped(kept, rng.choice(places) * 8 + rng.randrange(8)))
        forget_metadata()
        try:
            assert select(files, schema, snapshot) == ROWS  # what names or documents a field in a manifest's header changes nothing
        except TableDamaged:
            told += 1
    assert told == flips if kind == "pages" else told > flips // 4
