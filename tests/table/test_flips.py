"""One flipped bit at a time, anywhere in a table's files: what a checksum covers is an error and never a wrong row, the rest is counted."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from model.errors import TableDamaged
from model.schema.schema import Schema, column, new_schema
from model.schema.types import ArrayType, BigIntType, Field
from model.snapshot import Snapshot
from table.format.io.file_io import LocalFileIO
from table.format.store import TableFiles
from table.scan.checks.verify import sound
from table.scan.planning.entry_scan import plan_scan
from table.scan.read import read_batches
from tests.lake.register.damage import forget_metadata
from tests.table.scan.test_files import insert, select

ROWS = [{"id": n * 7_919, "s": f"text {n * n}", "d": n / 7} for n in range(3_000)]
SEED = int(os.environ.get("SLUICE_TEST_SEED", "23"))
CHECKED = ("pages", "manifest", "list", "heads", "orc")
"""Where no flip may give a wrong row. ORC of other writers has no checksums: a flip in a value stays unseen."""


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
    """The first bytes of each column chunk, where its pages' header lies, and all behind the last: indexes of pages and the footer."""
    group = pq.read_metadata(path).row_group(0)
    chunks = [group.column(at) for at in range(group.num_columns)]
    heads = [chunk.dictionary_page_offset or chunk.data_page_offset for chunk in chunks]
    behind = heads[-1] + chunks[-1].total_compressed_size
    return [at for head in heads for at in range(head, head + 24)] + [*range(4), *range(behind, path.stat().st_size)]


def places_in(path: Path, kind: str) -> Sequence[int]:
    if kind == "pages":
        return pages_of(path)
    if kind == "orc footers":
        return range(orc.ORCFile(path).content_length, path.stat().st_size)
    return heads_of(path) if kind == "heads" else range(path.stat().st_size)


def outcome(location: str, schema: Schema, snapshot: Snapshot, *, summed: bool = True) -> str:
    """What a reader makes of the table; not ``summed``: as if its files had been written without checksums."""
    forget_metadata()
    files = TableFiles(LocalFileIO(), location)
    try:
        planned = plan_scan(files, schema, snapshot).files
        if not summed:
            planned = [replace(one, file=replace(one.file, embedded_file_index=None)) for one in planned]
        return "same" if [row for batch in read_batches(files, schema, planned) for row in batch.to_pylist()] == ROWS else "wrong"
    except TableDamaged:
        return "told"


class Child:
    """Reads in a process of its own, which is started again after it has died."""

    def __init__(self, read: Callable[[], str]) -> None:
        self._read = read
        self._pool: ProcessPoolExecutor | None = None

    def __call__(self) -> str:
        self._pool = self._pool or ProcessPoolExecutor(1, mp_context=get_context("spawn"))
        try:
            return self._pool.submit(self._read).result()
        except BrokenProcessPool:
            self._pool = None
            return "died"

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()


@pytest.mark.parametrize("flips", [20, pytest.param(10_000, marks=[pytest.mark.torture, pytest.mark.timeout(3600)])])
@pytest.mark.parametrize("kind", [*CHECKED, "orc of others"])
def test_flips_are_told_or_change_nothing(tmp_path: Path, kind: str, flips: int) -> None:
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    options = {"bucket": "-1", "parquet.enable.dictionary": "false", "file.format": "orc" if kind.startswith("orc") else "parquet"}
    schema = new_schema([column("id", "BIGINT"), column("s", "STRING"), column("d", "DOUBLE")], options=options)
    snapshot = insert(files, schema, None, ROWS)
    (planned,) = plan_scan(files, schema, snapshot).files
    (meta,) = files.manifests_of(snapshot)
    named = {"manifest": meta.file_name, "list": snapshot.delta_manifest_list}.get(kind)
    path = Path(planned.path if named is None else files.layout.manifest(named))
    kept, rng = path.read_bytes(), random.Random(SEED)
    places, found = places_in(path, kind), Counter[str]()
    read: Callable[[], str] = partial(outcome, str(tmp_path / "t"), schema, snapshot, summed=kind != "orc of others")
    with ExitStack() as stack:
        if kind.startswith("orc"):  # some of its flips end the process that reads them
            read = stack.enter_context(Child(read))
        for _ in range(flips):
            path.write_bytes(flipped(kept, rng.choice(places) * 8 + rng.randrange(8)))
            found[read()] += 1
    print(f"{kind}: {dict(found)} of {flips} flips in {len(kept)} bytes")
    assert kind not in CHECKED or found["wrong"] == 0
    assert found["told"] == flips if kind in ("pages", "orc") else found["told"] > flips // 10


def test_a_column_whose_name_in_the_footer_is_changed_is_not_null(tmp_path: Path) -> None:
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    schema = new_schema([column("id", "BIGINT"), column("amount", "BIGINT")], options={"bucket": "-1"})
    rows = [{"id": n, "amount": n} for n in range(10)]
    snapshot = insert(files, schema, None, rows)
    (planned,) = plan_scan(files, schema, snapshot).files
    path = Path(planned.path)
    kept, told = path.read_bytes(), 0
    for at in (at for at in range(len(kept)) if kept.startswith(b"amount", at)):
        path.write_bytes(flipped(kept, at * 8))
        try:
            assert select(files, schema, snapshot) == rows
        except TableDamaged as damaged:
            told += "lacks column amount, of which its manifest tells 10 values" in damaged.message
    assert told == 1


@pytest.mark.parametrize(("name", "becomes"), [("tags", "uags"), ("c", "b")])
def test_a_nested_column_whose_name_in_the_footer_is_changed_is_not_null(tmp_path: Path, name: str, becomes: str) -> None:
    """A manifest tells nothing of its values; another column may have the name that it has then."""
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    nested = Field(id=-1, name=name, type=ArrayType(element=BigIntType()))
    schema = new_schema([column("b", "BIGINT"), nested], options={"bucket": "-1"})
    rows = [{"b": n, name: [n]} for n in range(10)]
    snapshot = insert(files, schema, None, rows)
    (planned,) = plan_scan(files, schema, snapshot).files
    path = Path(planned.path)
    kept, told = path.read_bytes(), 0
    written = bytes([len(name)]) + name.encode()
    for at in (at for at in range(len(kept)) if kept.startswith(written, at)):
        path.write_bytes(flipped(kept, (at + 1) * 8))
        try:
            assert select(files, schema, snapshot) == rows
        except TableDamaged as damaged:
            told += f"has a column {becomes!r} and none called {name}" in damaged.message
    assert told == 1


def test_a_writers_name_that_is_no_text_is_nobodys(tmp_path: Path) -> None:
    """The look before Spark's read ended in an error of the server's own."""
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    schema = new_schema([column("id", "BIGINT")], options={"bucket": "-1"})
    snapshot = insert(files, schema, None, [{"id": 1}])
    (planned,) = plan_scan(files, schema, snapshot).files
    path = Path(planned.path)
    kept = path.read_bytes()
    path.write_bytes(flipped(kept, kept.rindex(b"parquet-cpp") * 8 + 7))
    assert sound(files, [planned], lambda _: schema) == [True]


@pytest.mark.parametrize("every", [pytest.param(3, id="short"), pytest.param(1, id="whole", marks=pytest.mark.torture)])
def test_no_bit_of_a_parquet_schema_ends_the_process_that_reads(tmp_path: Path, every: int) -> None:
    """Arrow compares a column with its schema only where Python asks for it, and ends the process where they differ."""
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    schema = new_schema([column("id", "BIGINT"), column("s", "STRING"), column("d", "DOUBLE")], options={"bucket": "-1"})
    snapshot = insert(files, schema, None, ROWS)
    (planned,) = plan_scan(files, schema, snapshot).files
    path = Path(planned.path)
    kept = path.read_bytes()
    footer = len(kept) - 8 - int.from_bytes(kept[-8:-4], "little")
    outcomes = Counter[str]()
    with Child(partial(outcome, str(tmp_path / "t"), schema, snapshot)) as read:
        for bit in range(footer * 8, (footer + 80) * 8, every):
            path.write_bytes(flipped(kept, bit))
            outcomes[read()] += 1
    assert outcomes["died"] == outcomes["wrong"] == 0
    assert outcomes["told"] > 100 // every
