"""A table that was dropped since the backup, with another of its name in its place: none becomes the other."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from gateway.gateway import Gateway
from model.errors import InvalidName, TableDamaged
from tests.fix_gateway import gateway as gateway
from tests.fix_gateway import spark_stub as spark_stub
from tests.lake.register.test_standing import older


def changed_since(gateway: Gateway, dsn: str, file: Path, *statements: str) -> None:
    """Run statements, and put the catalog of before them back."""
    older(dsn, file)
    for statement in statements:
        gateway.run(statement)
    gateway.lake._publisher._notifier.close()
    older(dsn, file, back=True)


@pytest.mark.parametrize("before", [(), ("INSERT INTO p VALUES (0)",), tuple(f"INSERT INTO p VALUES ({i})" for i in range(5))])
def test_another_tables_rows_are_not_taken_over(
    gateway: Gateway, warehouse: Path, dsn: str, tmp_path: Path, before: tuple[str, ...]
) -> None:
    gateway.run("CREATE TABLE p (a INT)")
    for statement in before:
        gateway.run(statement)
    place = warehouse / "default.db/p"
    inserts = [f"INSERT INTO p VALUES ({i}, 'y{i}')" for i in range(3)]
    changed_since(gateway, dsn, tmp_path / "old", "DROP TABLE p PURGE", "CREATE TABLE p (x INT, y STRING)", *inserts)
    theirs = (place / "schema/schema-0").read_text()
    assert "y" in theirs
    for dry_run in ("true", "false"):
        with pytest.raises(TableDamaged, match=r"another table's schema.*sys.register_table\('default.p_found'"):
            gateway.run(f"CALL sys.repair_table('p', {dry_run})")
    assert (place / "schema/schema-0").read_text() == theirs
    place.rename(warehouse / "default.db/p_found")
    gateway.run(f"CALL sys.register_table('default.p_found', '{warehouse}/default.db/p_found')")
    assert sorted(gateway.run("SELECT * FROM p_found").collect()) == [(i, f"y{i}") for i in range(3)]
    gateway.run("DROP TABLE p")


def test_a_schema_that_registered_snapshots_were_written_by_is_not_overwritten(
    gateway: Gateway, warehouse: Path, dsn: str, tmp_path: Path
) -> None:
    gateway.run("CREATE TABLE p (a INT)")
    gateway.run("INSERT INTO p VALUES (1)")
    gateway.run("ALTER TABLE p ADD COLUMN b INT")
    schema = warehouse / "default.db/p/schema/schema-1"
    changed_since(gateway, dsn, tmp_path / "old", "INSERT INTO p VALUES (2, 3)")
    body = json.loads(schema.read_text())
    other = body | {"fields": [*body["fields"][:1], body["fields"][1] | {"name": "c", "type": "STRING"}]}
    schema.write_text(json.dumps(other))
    with pytest.raises(TableDamaged, match="another schema than the catalog's, and snapshot 2"):
        gateway.run("CALL sys.repair_table('p')")
    assert json.loads(schema.read_text()) == other
    schema.unlink()
    gateway.run("CALL sys.repair_table('p')")
    assert json.loads(schema.read_text()) == body
    assert sorted(gateway.run("SELECT * FROM p").collect()) == [(1, None), (2, 3)]


@pytest.mark.parametrize("before", [(), ("INSERT INTO p VALUES (0)", "INSERT INTO p VALUES (1)")])
@pytest.mark.parametrize("drop", [("DROP TABLE d.p PURGE",), ("DROP DATABASE d CASCADE PURGE",), ("DROP TABLE d.p", "PURGE TABLE d.p")])
def test_what_ends_for_good_takes_no_other_table_along(
    gateway: Gateway,
    warehouse: Path,
    dsn: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    before: tuple[str, ...],
    drop: tuple[str, ...],
) -> None:
    """The catalog is older than its warehouse: what it knows was dropped, and another table made in its place."""
    gateway.lake.drop_retention = timedelta(days=7)
    for statement in ("CREATE DATABASE d", "CREATE TABLE d.p (a INT)", *before):
        gateway.run(statement.replace("INTO p", "INTO d.p"))
    inserts = [f"INSERT INTO d.p VALUES ({i})" for i in range(3)]
    changed_since(gateway, dsn, tmp_path / "old", "DROP TABLE d.p PURGE", "CREATE TABLE d.p (a INT)", *inserts)
    place = warehouse / "d.db/p"
    theirs = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    for statement in drop:
        gateway.run(statement)
    gateway.lake.sweep_drops()
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == theirs
    assert "d.db/p/schema/schema-0 is not of what was dropped" in caplog.text
    gateway.run("CREATE DATABASE IF NOT EXISTS d")
    with pytest.raises(InvalidName, match="already holds a table's files"):
        gateway.run("CREATE TABLE d.p (a INT)")
    gateway.run(f"CALL sys.register_table('d.p', '{place}')")
    assert sorted(gateway.run("SELECT * FROM d.p").collect()) == [(0,), (1,), (2,)]


def test_a_table_that_is_ones_own_goes_for_good(gateway: Gateway, warehouse: Path) -> None:
    gateway.lake.drop_retention = timedelta(days=7)
    place = warehouse / "default.db/p"
    for ways in (("DROP TABLE p PURGE",), ("DROP TABLE p", "PURGE TABLE p")):
        for lost in ((), ("schema/schema-0",), ("snapshot/snapshot-1",)):
            gateway.run("CREATE TABLE p (a INT)")
            gateway.run("INSERT INTO p VALUES (0)")
            for name in lost:
                (place / name).unlink()
            for statement in ways:
                gateway.run(statement)
            assert not place.exists()


@pytest.mark.parametrize("written", [(), ("INSERT INTO p VALUES (2, 'y')",)])
@pytest.mark.parametrize("drop", [("DROP TABLE p PURGE",), ("DROP TABLE p", "PURGE TABLE p")])
def test_a_table_of_types_that_are_unknown_here_is_another_all_the_same(
    gateway: Gateway, warehouse: Path, dsn: str, tmp_path: Path, written: tuple[str, ...], drop: tuple[str, ...]
) -> None:
    """As one of a newer version of Paimon, or of this server."""
    gateway.lake.drop_retention = timedelta(days=7)
    gateway.run("CREATE TABLE p (a INT)")
    gateway.run("INSERT INTO p VALUES (1)")
    changed_since(gateway, dsn, tmp_path / "old", "DROP TABLE p PURGE", "CREATE TABLE p (x INT, y STRING)", *written)
    place = warehouse / "default.db/p"
    schema = place / "schema/schema-0"
    schema.write_text(schema.read_text().replace('"STRING"', '"GEOHASH"'))
    theirs = {path: path.read_bytes() for path in place.rglob("*") if path.is_file()}
    if written:
        with pytest.raises(TableDamaged, match="another table's schema"):
            gateway.run("CALL sys.repair_table('p')")
        assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == theirs
    for statement in drop:
        gateway.run(statement)
    gateway.lake.sweep_drops()
    assert {path: path.read_bytes() for path in place.rglob("*") if path.is_file()} == theirs
