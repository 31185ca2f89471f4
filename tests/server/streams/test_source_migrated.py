"""Files that were migrated lie where they were: the Spark source reads them there, and nowhere else."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gateway.gateway import Gateway
from model.errors import TableDamaged
from pyspark_sluice.pieces import Split
from pyspark_sluice.source import DefaultSource
from tests.server.streams.test_spark_source import reader_of, rows
from tests.server.streams.test_spark_source import stopped as stopped


@pytest.fixture
def import_dirs(tmp_path: Path) -> list[str]:
    return [str(tmp_path / "imports")]


@pytest.fixture
def file(gateway: Gateway, tmp_path: Path) -> Path:
    """The one of default.t."""
    path = tmp_path / "imports" / "hive" / "a.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int64()), "n": pa.array([3, 4], pa.int32())}), path)
    gateway.run(f"CALL sys.migrate_table(source_type => 'hive', table => '{path.parent}', target_table => 't')").close()
    assert path.exists()
    return path


def test_a_batch_and_a_stream_read_them(url: str, file: Path) -> None:
    source = DefaultSource({"uri": url, "path": "default.t"})
    reader = source.reader(source.schema())
    found = [row for split in reader.partitions() for batch in reader.read(pickle.loads(pickle.dumps(split))) for row in batch.to_pylist()]
    assert found == [{"id": 1, "n": 3}, {"id": 2, "n": 4}]
    stream = reader_of(url, scan_mode="latest-full")
    start = stream.initialOffset()
    assert rows(stream, start, stream.latestOffset(start, stream.getDefaultReadLimit())) == [(1, 3), (2, 4)]


def test_other_places_stay_closed(url: str, file: Path, tmp_path: Path) -> None:
    source = DefaultSource({"uri": url, "path": "default.t"})
    reader = source.reader(source.schema())
    (split,) = reader.partitions()
    assert isinstance(split, Split)
    elsewhere = tmp_path / "imports" / "another.parquet"
    file.rename(elsewhere)
    (piece,) = split.pieces
    planned = replace(piece.planned, path=str(elsewhere), file=replace(piece.planned.file, external_path=str(elsewhere)))
    split.pieces = [replace(piece, planned=planned)]
    with pytest.raises(TableDamaged, match="lies outside"):
        list(reader.read(split))
