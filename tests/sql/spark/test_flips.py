"""One flipped bit at a time in a data file that Spark reads: an error, or the rows as they were written, and never others."""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import orc
from pyspark.sql import Column

from gateway.gateway import Gateway
from lake import Lake
from model.errors import LakeError, TableDamaged
from model.identifier import Identifier
from sql.spark.read.reads import dataframe, nothing
from sql.spark.session.damage import Reading
from sql.spark.session.errors import translating
from sql.spark.session.pool import SparkPool
from table.scan.checks import verify as sound
from table.scan.planning.entry_scan import PlannedFile, plan_scan
from tests.lake.register.damage import data_files
from tests.table.test_flips import SEED, flipped, places_in

T = Identifier("default", "t")
ROWS = 3_000
QUERY = f"INSERT INTO t SELECT id * 7919, concat('text ', id * id), id / 7.0D FROM range({ROWS})"
CONDITIONS = (None, "id > 15000000 AND d IS NOT NULL")
WORST = ("wrong", "told otherwise", "told", "same")
FILE = "__file"
BATCH = 200
"""Copies that one query reads."""
READ_ALONE = 0.02
"""Of the copies of which a query gives no row so many are read by themselves."""


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


def _file(metadata: Column) -> Mapping[str, Column]:
    return {FILE: metadata.getField("file_name")}


class Reads:
    """Reads files that stand in the place of the table's one, through Spark as a statement does."""

    def __init__(self, lake: Lake, pool: SparkPool, kind: str) -> None:
        self._kind = kind
        self._table = lake.open(T)
        self._session = pool.root().newSession()
        self._plan = plan_scan(self._table.files, self._table.schema, self._table.latest())
        (self.planned,) = self._plan.files

    def rows(self, condition: str | None, planned: Sequence[PlannedFile] | None = None) -> pa.Table:
        """The rows, each with the name of its file."""
        plan = replace(self._plan, files=tuple(planned or self._plan.files))
        with translating("", {}, lambda: None, Reading(self._table, plan.files)):
            frame = dataframe(self._session, self._table, plan, beside=nothing if self.planned.path.endswith(".orc") else _file)
            return (frame if condition is None else frame.where(condition)).toArrow()

    def outcome(self, condition: str | None, kept: pa.Table, planned: PlannedFile | None = None) -> str:
        """Of one file."""
        try:
            rows = self.rows(condition, None if planned is None else [planned])
            return "same" if without_file(rows).equals(kept) else "wrong"
        except TableDamaged:
            return "told"
        except LakeError as error:
            print(f"told otherwise: {error.status} {type(error).__name__}: {error.message[:400]}")
            return "told otherwise"

    def passed(self, planned: Sequence[PlannedFile]) -> list[PlannedFile]:
        """The files that the look before Spark finds no fault with."""
        found = []
        for one in planned:
            with contextlib.suppress(TableDamaged):
                sound.sound(self._table.files, [one], self._table.schema_at)
                found.append(one)
        return found

    def outcomes(self, condition: str | None, kept: pa.Table, planned: Sequence[PlannedFile], rng: random.Random) -> dict[str, str]:
        """Of many files in one query, in which Spark leaves out the rest of a file whose reader fails.

        Who has all rows, right or wrong, was read without an error, and none of those that lack rows may lack them without one: each that
        has some, and a few of those that have none, are read by themselves.
        """
        self._session.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
        try:
            rows = self.rows(condition, planned)
        except LakeError:  # an error that Spark does not pass over
            rows = None
        finally:
            self._session.conf.set("spark.sql.files.ignoreCorruptFiles", "false")
        found = dict[str, str]()
        parts = (
            {}
            if rows is None
            else {name: without_file(rows.filter(pc.equal(rows[FILE], name))) for name in pc.unique(rows[FILE]).to_pylist()}
        )
        for one in planned:
            part = parts.get(one.file.file_name)
            if part is not None and part.num_rows == kept.num_rows:
                found[one.path] = "same" if part.equals(kept) else "wrong"
            elif rows is not None and part is None and self._kind == "pages" and rng.random() > READ_ALONE:
                found[one.path] = "told"
            else:
                found[one.path] = self.outcome(condition, kept, one)
        return found


def without_file(rows: pa.Table) -> pa.Table:
    return rows.drop_columns([FILE]) if FILE in rows.column_names else rows


@pytest.mark.spark
@pytest.mark.parametrize(("kind", "writer", "flips"), [("heads", "spark", 5), ("heads", "here", 5), ("orc", "here", 3)])
def test_flips_are_told_or_change_nothing(
    on_spark: Gateway, lake: Lake, pool: SparkPool, warehouse: Path, kind: str, writer: str, flips: int
) -> None:
    path = made(on_spark, warehouse, writer, "orc" if kind.startswith("orc") else "parquet")
    kept, rng = path.read_bytes(), random.Random(SEED)
    reads, places, found = Reads(lake, pool, kind), places_in(path, kind), Counter[str]()
    whole = {condition: without_file(reads.rows(condition)) for condition in CONDITIONS}
    assert whole[None].num_rows == ROWS
    for _ in range(flips):
        path.write_bytes(flipped(kept, rng.choice(places) * 8 + rng.randrange(8)))
        outcomes = {reads.outcome(condition, whole[condition]) for condition in CONDITIONS}
        found[min(outcomes, key=WORST.index)] += 1
    print(f"{kind} of {writer}: {dict(found)} of {flips} flips in {len(kept)} bytes")
    assert found["wrong"] == found["told otherwise"] == 0
    assert not kind.startswith("orc") or found["told"] == flips


@pytest.mark.spark
@pytest.mark.parametrize(
    ("kind", "writer", "flips"),
    [("pages", "spark", 8), ("heads", "here", 8)]
    + [
        pytest.param(
            kind, writer, int(os.environ.get("SLUICE_TEST_FLIPS", "10000")), marks=[pytest.mark.torture, pytest.mark.timeout(14_400)]
        )
        for kind in ("pages", "heads", "orc", "orc footers")
        for writer in ("spark", "here")
    ],
)
def test_flips_of_many_files_are_told_or_change_nothing(
    on_spark: Gateway, lake: Lake, pool: SparkPool, warehouse: Path, kind: str, writer: str, flips: int
) -> None:
    """Each flip in a copy of the file, hundreds of copies read by one query of Spark."""
    path = made(on_spark, warehouse, writer, "orc" if kind.startswith("orc") else "parquet")
    kept, rng = path.read_bytes(), random.Random(SEED)
    reads, places, found, looked = Reads(lake, pool, kind), places_in(path, kind), Counter[str](), 0
    whole = {condition: without_file(reads.rows(condition)) for condition in CONDITIONS}
    for start in range(0, flips, BATCH):
        copies = []
        for number in range(start, min(start + BATCH, flips)):
            copy = path.with_name(f"data-{number}{path.suffix}")
            copy.write_bytes(flipped(kept, rng.choice(places) * 8 + rng.randrange(8)))
            copies.append(replace(reads.planned, path=str(copy), file=replace(reads.planned.file, file_name=copy.name)))
        left = reads.passed(copies)
        looked += len(copies) - len(left)
        outcomes = [reads.outcomes(condition, whole[condition], left, rng) for condition in CONDITIONS] if left else []
        found["told"] += len(copies) - len(left)
        for one in left:
            found[min((of[one.path] for of in outcomes), key=WORST.index)] += 1
        for one in copies:
            Path(one.path).unlink()
        print(f"{kind} of {writer}: {dict(found)}, {looked} of them by the look, in {len(kept)} bytes", flush=True)
    assert sum(found.values()) == flips
    assert found["wrong"] == found["told otherwise"] == 0
    assert kind != "pages" or found["told"] == flips
    assert not kind.startswith("orc") or looked == flips


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
    monkeypatch.setattr(sound, "MOST_SUMMED_BYTES", 0)
    sound.forget()
    assert on_spark.run(question).collect() == whole
    table = lake.open(T)
    (planned,) = plan_scan(table.files, table.schema, table.latest()).files
    rows = orc.ORCFile(path).read()
    orc.write_table(rows.set_column(0, "id", pc.add(rows.column(0), 1_000_000_000)), path, compression="zstd")
    grown = replace(planned, file=replace(planned.file, file_size=path.stat().st_size))
    assert sound.sound(table.files, [grown], table.schema_at) == [False]
    monkeypatch.setattr(sound, "MOST_SUMMED_BYTES", 1 << 30)
    with pytest.raises(TableDamaged, match="its checksum differs"):
        sound.sound(table.files, [grown], table.schema_at)
    grown = replace(grown, file=replace(grown.file, embedded_file_index=None))  # as another writer's
    assert sound.sound(table.files, [grown], table.schema_at) == [False]
    monkeypatch.setattr(sound, "MOST_ORC_BYTES", 32 << 20)
    with pytest.raises(TableDamaged, match="outside of what its manifest tells"):
        sound.sound(table.files, [grown], table.schema_at)


@pytest.mark.spark
def test_a_file_that_spark_alone_cannot_read_is_damage_once_and_then_read_here(on_spark: Gateway, warehouse: Path) -> None:
    """A changed bit in a page's head of which Arrow makes nothing was 400, which blamed the statement."""
    path = made(on_spark, warehouse, "here", "parquet")
    question = "SELECT SUM(id), MAX(length(upper(s))), SUM(d) FROM t"
    whole, kept, told = on_spark.run(question).collect(), path.read_bytes(), 0
    for bit in sorted(range(8 * 4, 8 * 28), key=lambda bit: abs(bit - 169)):  # where one was found
        path.write_bytes(flipped(kept, bit))
        for _ in range(2):
            try:
                assert on_spark.run(question).collect() == whole
            except TableDamaged as damaged:
                if "cannot be read by Spark" not in damaged.problem:
                    break
                told += 1
                assert on_spark.run(question).collect() == whole
                break
        if told:
            return
    raise AssertionError("no bit of the first page's head is one that only Spark minds")
