"""Rows with their ids: told by the manifest and a row's place, or by the file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from model.errors import TableDamaged
from model.schema.schema import Schema, column, new_schema
from model.snapshot import CommitKind
from table.format.deletions import deletions_of, key_of
from table.format.io.file_io import LocalFileIO
from table.format.rows.cast import fit
from table.format.store import TableFiles
from table.scan.planning.entry_scan import PlannedFile, plan_scan
from table.scan.row_ids import read_with_row_ids, with_row_ids
from table.write.snapshot_builder import CommitRequest, build_snapshot
from table.write.writer import write_batches
from tests.table.vectors import with_deleted


@pytest.fixture
def files(tmp_path: Path) -> TableFiles:
    return TableFiles(LocalFileIO(), str(tmp_path / "t"))


@pytest.fixture(params=["parquet", "orc"])
def schema(files: TableFiles, request: pytest.FixtureRequest) -> Schema:
    options = {"bucket": "-1", "row-tracking.enabled": "true", "file.format": request.param}
    made = new_schema([column("s", "STRING"), column("n", "INT")], options=options)
    files.write_schema(made)
    return made


def planned(files: TableFiles, schema: Schema, deleted: list[int]) -> list[PlannedFile]:
    """Two commits of three rows; of the first some are deleted."""
    latest = None
    for first in (1, 4):
        rows = pa.RecordBatch.from_pydict({"s": ["a", None, "c"], "n": pa.array(range(first, first + 3), pa.int32())})
        adds = tuple(write_batches(files, schema, [fit(rows, schema)]))
        request = CommitRequest(kind=CommitKind.APPEND, adds=adds, commit_user="u")
        latest = build_snapshot(files, schema, latest, [request], uuid=f"u{first}", time_millis=5)
    assert latest is not None
    name = next(files.live_entries(latest)).file.file_name
    latest = with_deleted(files, latest, {name: deleted})
    known = deletions_of(files, schema, latest)
    assert len(known) == 1
    assert key_of(next(files.live_entries(latest))) in known
    return list(plan_scan(files, schema, latest).files)


def rows(files: TableFiles, schema: Schema, found: list[PlannedFile], *columns: str) -> list[tuple[object, ...]]:
    batches = read_with_row_ids(files, with_row_ids(schema), found, columns or None)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def test_a_row_is_numbered_by_its_place_whichever_rows_before_it_are_deleted(files: TableFiles, schema: Schema) -> None:
    found = planned(files, schema, [0])
    assert rows(files, schema, found) == [(None, 2, 1, 1), ("c", 3, 2, 1), ("a", 4, 3, 2), (None, 5, 4, 2), ("c", 6, 5, 2)]
    assert rows(files, schema, found, "_ROW_ID") == [(1,), (2,), (3,), (4,), (5,)]
    assert rows(files, schema, found, "_SEQUENCE_NUMBER", "s")[:2] == [(1, None), (1, "c")]


def test_a_row_that_was_changed_keeps_the_id_its_file_tells(files: TableFiles, schema: Schema) -> None:
    """As an UPDATE leaves it: ids in the file, the sequence number only of rows that stayed as they were."""
    found = planned(files, schema, [1])
    moved = {"_ROW_ID": pa.array([9, 7, 8], pa.int64()), "_SEQUENCE_NUMBER": pa.array([1, None, None], pa.int64())}
    module: Any = orc if found[1].path.endswith("orc") else pq
    table = module.read_table(found[1].path)
    module.write_table(pa.table({**{name: table.column(name) for name in table.column_names}, **moved}), found[1].path)
    columns = ("s", "n", "_ROW_ID", "_SEQUENCE_NUMBER")
    size = Path(found[1].path).stat().st_size
    file = replace(found[1].file, first_row_id=None, write_cols=columns, max_sequence_number=3, file_size=size, embedded_file_index=None)
    assert rows(files, schema, [replace(found[1], file=file)], "n", "_ROW_ID", "_SEQUENCE_NUMBER") == [(4, 9, 1), (5, 7, 3), (6, 8, 3)]


def test_rows_without_any_id_are_damage(files: TableFiles, schema: Schema) -> None:
    found = planned(files, schema, [1])
    with pytest.raises(TableDamaged, match="rows without ids"):
        rows(files, schema, [replace(found[1], file=replace(found[1].file, first_row_id=None))])
