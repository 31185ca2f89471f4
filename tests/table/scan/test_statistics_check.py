"""Rows that are not what a file's manifest tells of them are damage where the format has no checksums."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest

from model.errors import TableDamaged
from model.schema.schema import column, new_schema
from table.format.io.file_io import LocalFileIO
from table.format.manifests.entries import SimpleStats
from table.format.rows.stats import ColumnStats, StatsModes
from table.format.store import TableFiles
from table.scan.planning.entry_scan import plan_scan
from table.scan.read import Selection, read_batches
from tests.table.scan.test_files import insert

ROWS = [{"i": 1, "s": "b", "d": 1.5, "n": Decimal("0.10"), "t": None}, {"i": 9, "s": "k" * 40, "d": -2.0, "n": None, "t": None}]
TRUE = {
    "i": ColumnStats(min=1, max=9, null_count=0),
    "s": ColumnStats(min="b", max="k" * 40, null_count=0),
    "d": ColumnStats(min=-2.0, max=1.5, null_count=0),
    "n": ColumnStats(min=Decimal("0.10"), max=Decimal("0.10"), null_count=1),
}
WRONG = {
    "below": ({"i": ColumnStats(min=2, max=9, null_count=0)}, "column i that are outside"),
    "above": ({"i": ColumnStats(min=1, max=8, null_count=0)}, "column i that are outside"),
    "not reached": ({"i": ColumnStats(min=0, max=9, null_count=0)}, "other smallest and largest values in column i"),
    "text": ({"s": ColumnStats(min="c", max="z", null_count=0)}, "column s that are outside"),
    "double": ({"d": ColumnStats(min=-1.0, max=1.5, null_count=0)}, "column d that are outside"),
    "decimal": ({"n": ColumnStats(min=Decimal("0.10"), max=Decimal("0.11"), null_count=1)}, "values in column n than"),
    "fewer NULLs": ({"n": ColumnStats(null_count=2)}, "1 NULLs in column n where its manifest tells 2"),
    "more NULLs": ({"n": ColumnStats(null_count=0)}, "more NULLs in column n than the 0"),
}
RIGHT = {
    "as written": {},
    "no bounds": {"i": ColumnStats(null_count=0)},
    "nothing": {"i": ColumnStats(), "s": ColumnStats(), "d": ColumnStats(), "n": ColumnStats()},
    "wide text": {"s": ColumnStats(min="a", max="z", null_count=0)},
    "wide double": {"d": ColumnStats(min=-3.0, max=7.0, null_count=0)},
}


def read(tmp_path: Path, told: dict[str, ColumnStats], *, format_: str = "orc", limit: int | None = None) -> list[object]:
    columns = [column("i", "INT"), column("s", "STRING"), column("d", "DOUBLE"), column("n", "DECIMAL(5, 2)"), column("t", "TIMESTAMP(3)")]
    schema = new_schema(columns, options={"bucket": "-1", "file.format": format_})
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    (planned,) = plan_scan(files, schema, insert(files, schema, None, ROWS)).files
    stats, names = StatsModes(schema).store({**TRUE, **told})
    planned = replace(planned, file=replace(planned.file, value_stats=stats, value_stats_cols=names))
    return [row for batch in read_batches(files, schema, [planned], Selection(limit=limit)) for row in batch.to_pylist()]


@pytest.mark.parametrize("case", WRONG)
def test_what_the_manifest_tells_otherwise_is_damage(tmp_path: Path, case: str) -> None:
    told, problem = WRONG[case]
    with pytest.raises(TableDamaged) as damage:
        read(tmp_path, told)
    assert problem in damage.value.message


@pytest.mark.parametrize("case", RIGHT)
def test_what_holds_is_read(tmp_path: Path, case: str) -> None:
    assert read(tmp_path, RIGHT[case]) == ROWS


def test_a_limit_and_pages_with_checksums_are_not_held_against_all_rows(tmp_path: Path) -> None:
    assert read(tmp_path / "limit", WRONG["fewer NULLs"][0], limit=1) == ROWS[:1]
    assert read(tmp_path / "parquet", WRONG["below"][0], format_="parquet") == ROWS


@pytest.mark.parametrize("names", [None, ()])
def test_a_file_without_statistics_is_read(tmp_path: Path, names: tuple[str, ...] | None) -> None:
    """As the pieces of a read on Spark's executors are, which are sent without, and as other clients may write them."""
    schema = new_schema([column("i", "INT"), column("s", "STRING")], options={"bucket": "-1", "file.format": "orc"})
    files = TableFiles(LocalFileIO(), str(tmp_path / "t"))
    (planned,) = plan_scan(files, schema, insert(files, schema, None, [{"i": 1, "s": "a"}])).files
    planned = replace(planned, file=replace(planned.file, value_stats=SimpleStats(), value_stats_cols=names))
    assert [row for batch in read_batches(files, schema, [planned]) for row in batch.to_pylist()] == [{"i": 1, "s": "a"}]
