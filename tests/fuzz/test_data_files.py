"""Hostile data files of the three formats: whoever reads them neither dies nor hangs nor fills its memory, and gives whole batches."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import pyarrow as pa
import pytest

from table.format.io.file_io import LocalFileIO
from table.format.manifests.avro import records_in
from table.format.orc import orc_parts
from table.format.parquet.batches import opened, untrusted_batches
from tests.fuzz.data_files import FORMATS, hostile
from tests.fuzz.inputs import most_held
from workers.orc import OrcProcesses
from workers.pool import WorkerLimits

SHORT, PART = 60, 2_000
_MOST_BYTES = 2 << 30
_MOST_SECONDS = 60.0
"""Of processor time for one file: the machine may be busy."""
_WORKER = WorkerLimits(count=1, memory_bytes=1 << 30)


def _read(format_: str, data: bytes, place: Path) -> int:
    """The rows of a file, read as those of tables are."""
    source = pa.BufferReader(data)
    if format_ == "avro":
        return sum(1 for _ in records_in(source, len(data)))
    if format_ == "parquet":
        batches = untrusted_batches(source, opened(source))
    else:
        place.write_bytes(data)
        batches = (batch for part in orc_parts(LocalFileIO(), str(place)) for batch in part.batches)
    rows = 0
    for batch in batches:
        batch.validate()
        rows += batch.num_rows
        if rows > 1_000_000:  # `table.scan.read` stops at what the manifest tells
            break
    return rows


def campaign(format_: str, first: int, last: int) -> None:
    """Read the files of some seeds in this process; prints each seed before it is read, and what came of all."""
    answered = {"read": 0, "refused": 0}
    with tempfile.TemporaryDirectory() as directory:
        processes = OrcProcesses(_WORKER, directory)
        if format_ == "orc":
            processes.begin()
        for seed in range(first, last):
            print(f"seed {seed}", flush=True)
            data = hostile(format_, seed)
            begun = time.process_time()
            try:
                _read(format_, data, Path(directory) / "data.orc")
                answered["read"] += 1
            except Exception:  # bytes that were changed make a decoder fail in any way, which `table.scan.read` calls damage
                answered["refused"] += 1
            took = time.process_time() - begun
            assert took < _MOST_SECONDS, f"{format_} {seed} took {took:.0f} s"
            peak = most_held()
            assert peak < _MOST_BYTES, f"{format_} {seed}: {peak:,} bytes"
        processes.close()
    print(f"done {answered}", flush=True)


def _run(format_: str, first: int, last: int, directory: Path) -> None:
    code = f"from tests.fuzz.test_data_files import campaign; campaign({format_!r}, {first}, {last})"
    told = directory / "told"
    with told.open("wb") as out:
        child = subprocess.Popen([sys.executable, "-c", code], stdout=out, stderr=out, env=os.environ, cwd=Path(__file__).parents[2])
        try:
            status = child.wait(timeout=60 + 5 * (last - first))
        finally:
            if child.poll() is None:
                for process in (*psutil.Process(child.pid).children(recursive=True), psutil.Process(child.pid)):
                    with contextlib.suppress(psutil.NoSuchProcess):
                        process.kill()
                child.wait()
    words = told.read_text(errors="replace")
    assert status == 0, words[-3_000:]
    assert "done" in words.splitlines()[-1]
    assert "'refused': 0" not in words, "no file was hostile"
    assert "'read': 0" not in words, "no file was almost right"


@pytest.mark.parametrize("format_", FORMATS)
def test_a_hostile_file_costs_its_read_alone(format_: str, tmp_path: Path) -> None:
    _run(format_, 0, SHORT, tmp_path)


@pytest.mark.torture
@pytest.mark.parametrize("format_", FORMATS)
def test_thousands_of_hostile_files(format_: str, tmp_path: Path) -> None:
    _run(format_, SHORT, SHORT + PART, tmp_path)
