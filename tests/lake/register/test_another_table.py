"""A table that was dropped since the backup, with another of its name in its place: none becomes the other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.gateway import Gateway
from model.errors import TableDamaged
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
