"""Bulk rows with columns of their own: two clients that make one table at the same time, and tables whose place they take."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NoReturn
from uuid import UUID

import pyarrow as pa
import pytest

from gateway import ingest as ingest_module
from gateway.gateway import Gateway
from gateway.ingest import IfExists
from lake import Lake
from lake.commit import built
from model.catalog_errors import TableChanged
from model.errors import InvalidData, OutcomeUnknown, StorageFull, TableAlreadyExist
from model.identifier import Identifier
from model.schema.schema import column, new_schema
from model.schema.types import Field, IntType
from model.view import View
from sql.execution import writing
from table.format.manifests.entries import NewFile
from tests.gateway.test_append import arrow

T = Identifier("default", "t")
ONE = pa.table({"a": [1]})
MISFIT = pa.table({"a": pa.array([1], pa.timestamp("ns"))})


def body(rows: pa.Table) -> IO[bytes]:
    made = tempfile.TemporaryFile()  # noqa: SIM115 - who reads it closes it
    made.write(arrow(rows))
    made.seek(0)
    return made


def ingest(gateway: Gateway, rows: pa.Table, if_exists: IfExists = IfExists.APPEND) -> int:
    return gateway.ingest(T, rows.schema, lambda: body(rows), create=True, if_exists=if_exists).rows


def test_rows_of_others_stay_where_those_a_table_was_made_for_do_not_fit(gateway: Gateway) -> None:
    def others_first() -> IO[bytes]:
        gateway.run("INSERT INTO t VALUES (TIMESTAMP '2024-01-01 00:00:00')").close()
        return body(MISFIT)

    with pytest.raises(InvalidData, match="does not fit"):
        gateway.ingest(T, MISFIT.schema, others_first, create=True, if_exists=IfExists.APPEND)
    assert gateway.run("SELECT COUNT(*) FROM t").collect() == [(1,)]
    assert gateway.run("SHOW DROPPED TABLES").collect() == []


@pytest.mark.parametrize(("if_exists", "rows"), [(IfExists.APPEND, 2), (IfExists.REPLACE, 1), (IfExists.FAIL, 1)])
def test_a_table_that_somebody_else_makes_meanwhile_is_one_that_exists(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, if_exists: IfExists, rows: int
) -> None:
    create = Lake.create_table

    def later(*args: object, **more: object) -> UUID | None:
        monkeypatch.undo()
        ingest(gateway, ONE)
        return create(*args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(Lake, "create_table", later)
    if if_exists is IfExists.FAIL:
        with pytest.raises(TableAlreadyExist):
            ingest(gateway, ONE, if_exists)
    else:
        assert ingest(gateway, ONE, if_exists) == 1
    assert gateway.run("SELECT COUNT(*) FROM t").collect() == [(rows,)]


def replaced_by(gateway: Gateway, rows: pa.Table, first: Callable[[], None] = lambda: None) -> int | None:
    """Put rows in the place of the table; something happens before they are written."""

    def later() -> IO[bytes]:
        first()
        return body(rows)

    done = gateway.ingest(T, rows.schema, later, create=True, if_exists=IfExists.REPLACE)
    assert done.rows == rows.num_rows
    return done.snapshot_id


def state(gateway: Gateway) -> tuple[object, ...]:
    """The columns, the rows, what the snapshots did, and the data files that lie there."""
    asked = ("DESCRIBE t", "SELECT * FROM t", "SELECT snapshot_id, commit_kind, operation, total_record_count FROM t$snapshots")
    files = sorted(path.name for path in Path(gateway.lake.open(T).location).rglob("*.parquet"))
    return (*(gateway.run(text).collect() for text in asked), files)


OTHER = pa.table({"b": ["x", "y"]})


def full(*args: object, **more: object) -> NoReturn:
    raise StorageFull("No space left on device.")


@pytest.mark.parametrize("written", [0, 2])
def test_rows_that_cannot_take_the_place_of_a_table_leave_it_as_it_was(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch, written: int
) -> None:
    gateway.run("CREATE TABLE t (a INT)").close()
    for number in range(written):
        gateway.run(f"INSERT INTO t VALUES ({number})").close()
    before = state(gateway)
    with pytest.raises(InvalidData, match="does not fit"):
        replaced_by(gateway, pa.table({"t": pa.array([1], pa.timestamp("ns"))}))
    assert state(gateway) == before
    for seam in ("gateway.ingest.written_by_worker", "table.format.store.TableFiles.new_manifests", "lake.commit.core.CommitCore.sync"):
        with monkeypatch.context() as failing:
            failing.setattr(seam, full)
            with pytest.raises(StorageFull):
                replaced_by(gateway, OTHER)
        assert state(gateway) == before, seam
    replaced_by(gateway, OTHER)
    assert state(gateway)[1] == [("x",), ("y",)]


def test_a_table_is_replaced_with_its_new_rows_in_one_snapshot(gateway: Gateway) -> None:
    gateway.run("CREATE TABLE t (a INT, id BIGINT) PARTITIONED BY (a)").close()
    assert replaced_by(gateway, pa.table({"a": pa.array([1], pa.int32()), "b": ["x"]})) == 1, "it was never written"
    none = pa.table({"a": pa.array([], pa.int32()), "c": pa.array([], pa.string())})
    assert replaced_by(gateway, none) == 2
    assert gateway.run("SELECT * FROM t").collect() == []
    assert replaced_by(gateway, pa.table({"d": ["z"], "a": pa.array([7], pa.int32())})) == 3
    assert gateway.run("SELECT * FROM t").collect() == [("z", 7)]
    assert gateway.run("SELECT partition, record_count FROM t$partitions").collect() == [("a=7", 1)]
    assert gateway.run("SELECT snapshot_id, commit_kind, operation, delta_record_count FROM t$snapshots").collect() == [
        (1, "OVERWRITE", "REPLACE TABLE", 1), (2, "OVERWRITE", "REPLACE TABLE", -1), (3, "OVERWRITE", "REPLACE TABLE", 1),
    ]  # fmt: skip
    gateway.run("CALL sys.rollback_to('t', 1)").close()
    assert gateway.run("SELECT * FROM t").collect() == [(1, "x")]
    assert gateway.run("CALL sys.check_table('t')").collect() == []


def test_a_table_is_replaced_whatever_options_others_have_stored(gateway: Gateway) -> None:
    """Of a table that Java made: without 'bucket', with an option that is only Java's, and with two that SQL would not take together."""
    options = {"made.by": "another client", "snapshot.num-retained.min": "9", "snapshot.num-retained.max": "3"}
    gateway.lake.create_table(T, new_schema([column("a", "INT")], options=options))
    assert replaced_by(gateway, OTHER) == 1
    assert gateway.run("SELECT * FROM t").collect() == [("x",), ("y",)]
    assert gateway.lake.open(T).schema.options == {**options, "bucket": "-1"}


def test_rows_that_come_while_a_table_is_replaced_go_with_it(gateway: Gateway) -> None:
    ingest(gateway, ONE)
    replaced_by(gateway, OTHER, lambda: gateway.run("INSERT INTO t VALUES (2)").close())
    assert gateway.run("SELECT * FROM t").collect() == [("x",), ("y",)]


@pytest.mark.parametrize("changed", ["ALTER TABLE t ADD n INT", "ALTER TABLE t RENAME TO u; CREATE TABLE t (a BIGINT)"])
def test_a_table_that_is_changed_while_it_is_replaced_is_not(gateway: Gateway, monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    """The rows were written by its next version, which is another one by then."""
    ingest(gateway, ONE)
    write, seen = writing.written_by_worker, []

    def changing(*args: Any, **named: Any) -> list[NewFile]:
        written = write(*args, **named)
        for text in changed.split(";"):
            gateway.run(text).close()
        seen.append(state(gateway))
        return written

    monkeypatch.setattr(ingest_module, "written_by_worker", changing)
    with pytest.raises(TableChanged):
        replaced_by(gateway, OTHER)
    assert state(gateway)[:3] == seen[0][:3]
    left = {path.name for path in Path(gateway.lake.open(T).location).parent.rglob("*.parquet")}
    assert len(left) == 1, "what nobody reads is gone"


def test_a_replacement_whose_answer_is_lost_keeps_its_files(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knows whether they are the table's."""
    ingest(gateway, ONE)
    decide = built.decide_built

    def lost(*args: Any, **more: Any) -> NoReturn:
        decide(*args, **more)
        raise OutcomeUnknown("Postgres went away.")

    monkeypatch.setattr("lake.rewrite.replace.decide_built", lost)
    with pytest.raises(OutcomeUnknown):
        replaced_by(gateway, OTHER)
    assert gateway.run("SELECT * FROM t").collect() == [("x",), ("y",)]


def test_a_view_of_that_name_is_told(gateway: Gateway) -> None:
    gateway.lake.views.create(T, View(fields=(Field(id=0, name="a", type=IntType()),), query="SELECT 1 AS a"))
    with pytest.raises(TableAlreadyExist):
        ingest(gateway, ONE)
