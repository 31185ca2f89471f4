"""One flipped bit at a time, anywhere in a table's files: what a checksum covers is an error and never a wrong row, the rest is counted."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
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

ROWS = [{"id": n * 7_919, "s": f"text {n * n}", "d": n / 7} for n in range(3_000)]
SEED = 23
CHECKED = ("pages", "manifest", "list")
"""Where no flip may give a wrong row. Heads and footers of Parquet and all of an ORC file have no checksums: there some may."""


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


def heads_of(path: Path) -> list[int]:
    """The first bytes of each column chunk, where its pages' header lies, and the footer."""
    group = pq.read_metadata(path).row_group(0)
    heads = [chunk.dictionary_page_offset or chunk.data_page_offset for chunk in map(group.column, range(group.num_columns))]
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    return [at for head in heads for at in range(head, head + 24)] + [*range(4), *range(footer, len(data))]


def places_in(path: Path, kind: str) -> Sequence[int]:
    if kind == "pages":
        return pages_of(path)
    return heads_of(path) if kind == "heads" else range(path.stat().st_size)


@pytest.mark.parametrize("flips", [60, pytest.param(10_000, marks=[pytest.mark.torture, pytest.mark.timeout(3600)])])
@pytest.mark.parametrize("kind", [*CHECKED, "heads", "orc"])
def test_flips_are_told_or_change_nothing(tmp_path: Path, kind: str, flips: int) -> None:
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    options = {"bucket": "-1", "parquet.enable.dictionary": "false", "file.format": "orc" if kind == "orc" else "parquet"}
    schema = new_schema([column("id", "BIGINT"), column("s", "STRING"), column("d", "DOUBLE")], options=options)
    snapshot = insert(files, schema, None, ROWS)
    (planned,) = plan_scan(files, schema, snapshot).files
    (meta,) = files.manifests_of(snapshot)
    named = {"manifest": meta.file_name, "list": snapshot.delta_manifest_list}.get(kind)
    path = Path(planned.path if named is None else files.layout.manifest(named))
    kept, rng = path.read_bytes(), random.Random(SEED)
    places, found = places_in(path, kind), Counter[str]()
    for _ in range(flips):
        path.write_bytes(flipped(kept, rng.choice(places) * 8 + rng.randrange(8)))
        forget_metadata()
        try:
            found["same" if select(files, schema, snapshot) == ROWS else "wrong"] += 1
        except TableDamaged:
            found["told"] += 1
    print(f"{kind}: {dict(found)} of {flips} flips in {len(kept)} bytes")
    assert kind not in CHECKED or found["wrong"] == 0
    assert found["told"] == flips if kind == "pages" else found["told"] > flips // 10
