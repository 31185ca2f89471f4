"""One flipped bit at a time in a data file that Spark reads: an error, or the rows as they were written, and never others."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc

from gateway.gateway import Gateway
from lake import Lake
from model.errors import LakeError, TableDamaged
from model.identifier import Identifier
from sql.spark.read.reads import dataframe
from sql.spark.session.damage import Reading
from sql.spark.session.errors import translating
from sql.spark.session.pool import SparkPool
from table.scan import verify as sound
from table.scan.entry_scan import plan_scan
from tests.lake.register.damage import data_files
from tests.table.test_flips import SEED, flipped, places_in

T = Identifier("default", "t")
ROWS = 3_000
QUERY = f"INSERT INTO t SELECT id * 7919, concat('text ', id * id), id / 7.0D FROM range({ROWS})"
CONDITIONS = (None, "id > 15000000 AND d IS NOT NULL")
WORST = ("wrong", "told otherwise", "told", "same")


def made(gateway: Gateway, warehouse: Path, writer: str, format_: str, names: Sequence[str] = ("id", "s", "d")) -> Path:
    """The file of a table of one, which Spark wrote or this process."""
    columns = ", ".join(f"{name} {type_}" for name, type_ in zip(names, ("BIGINT", "STRING", "DOUBLE"), strict=True))
    options = f"'bucket' = '-1', 'parquet.enable.dictionary' = 'false', 'file.format' = '{format_}'"
    gateway.run(f"CREATE TABLE t ({columns}) WITH ({options})")
    if writer == "spark":
        gateway.run(QUERY + " DISTRIBUTE BY 1")
    else:
        gateway.run("INSERT INTO t VALUES " + ", ".join(f"({n * 7919}, 'text {n * n}', {n / 7!r}E0)" for n in range(ROWS)))
    (path,) = data_files(warehouse / "default.db/t")
    return path


class Reads:
    """Reads the table's rows through Spark."""

    def __init__(self, lake: Lake, pool: SparkPool) -> None:
        self._table = lake.open(T)
        self._session = pool.root().newSession()

    def rows(self, condition: str | None) -> pa.Table:
        plan = plan_scan(self._table.files, self._table.schema, self._table.latest())
        with translating("", {}, lambda: None, Reading(self._table, plan.files)):
            frame = dataframe(self._session, self._table, plan)
            return (frame if condition is None else frame.where(condition)).toArrow()

    def outcome(self, condition: str | None, kept: pa.Table) -> str:
        try:
            return "same" if self.rows(condition).equals(kept) else "wrong"
        except TableDamaged:
            return "told"
        except LakeError:
            return "told otherwise"


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "writer", "flips"),
    [("heads", "spark", 10), ("heads", "here", 10), ("orc", "here", 5)]
    + [
        pytest.param(kind, writer, 10_000, marks=[pytest.mark.torture, pytest.mark.timeout(14_400)])
        for kind in ("pages", "heads", "orc")
        for writer in ("spark", "here")
    ],
)
def test_flips_are_told_or_change_nothing(
    on_spark: Gateway, lake: Lake, pool: SparkPool, warehouse: Path, kind: str, writer: str, flips: int
) -> None:
    path = made(on_spark, warehouse, writer, "orc" if kind == "orc" else "parquet")
    kept, rng = path.read_bytes(), random.Random(SEED)
    reads, places, found = Reads(lake, pool), places_in(path, kind), Counter[str]()
    whole = {condition: reads.rows(condition) for condition in CONDITIONS}
    assert whole[None].num_rows == ROWS
    for _ in range(flips):
        path.write_bytes(flipped(kept, rng.choice(places) * 8 + rng.randrange(8)))
        outcomes = {reads.outcome(condition, whole[condition]) for condition in CONDITIONS}
        found[min(outcomes, key=WORST.index)] += 1
    print(f"{kind} of {writer}: {dict(found)} of {flips} flips in {len(kept)} bytes")
    assert kind == "orc" or found["wrong"] == 0


@pytest.mark.spark
@pytest.mark.parametrize("writer", ["spark", "here"])
def test_a_column_whose_name_in_the_footer_is_changed_is_told(on_spark: Gateway, warehouse: Path, writer: str) -> None:
    path = made(on_spark, warehouse, writer, "parquet", names=("id", "amount", "d"))
    kept, told = path.read_bytes(), list[str]()
    for at in (at for at in range(len(kept)) if kept.startswith(b"amount", at)):
        path.write_bytes(flipped(kept, at * 8))
        try:
            assert on_spark.run("SELECT COUNT(upper(amount)) FROM t").collect() == [(ROWS,)]
        except TableDamaged as damaged:
            told.append(damaged.problem)
    assert f"lacks column amount, of which its manifest tells {ROWS:,} values" in told
    assert "has a row group 0 with a column '`mount' that its schema does not have" in told


@pytest.mark.spark
def test_orc_that_cannot_be_what_was_written_is_told(
    on_spark: Gateway, lake: Lake, warehouse: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other values than the manifest tells; a file that is too large to be looked at first is read by who looks at what it reads."""
    path = made(on_spark, warehouse, "here", "orc")
    question = "SELECT SUM(id) + MAX(length(upper(s))) FROM t"
    whole = on_spark.run(question).collect()
    monkeypatch.setattr(sound, "MOST_ORC_BYTES", 0)
    sound.forget()
    assert on_spark.run(question).collect() == whole
    table = lake.open(T)
    (planned,) = plan_scan(table.files, table.schema, table.latest()).files
    rows = orc.ORCFile(path).read()
    orc.write_table(rows.set_column(0, "id", pc.add(rows.column(0), 1_000_000_000)), path, compression="zstd")
    grown = replace(planned, file=replace(planned.file, file_size=path.stat().st_size))
    assert sound.sound(table.files, [grown], table.schema_at) == [False]
    monkeypatch.setattr(sound, "MOST_ORC_BYTES", 32 << 20)
    with pytest.raises(TableDamaged, match="outside of what its manifest tells"):
        sound.sound(table.files, [grown], table.schema_at)
