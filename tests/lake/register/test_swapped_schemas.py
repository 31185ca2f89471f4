"""A schema's file in the place of another: data files are read by the catalog's schemas, as by another's ids their columns change names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gateway.gateway import Gateway
from tests.fix_gateway import gateway as gateway
from tests.fix_gateway import spark_stub as spark_stub


@pytest.mark.parametrize("branch", ["", "$branch_b"])
def test_old_files_are_read_by_the_catalogs_schema(gateway: Gateway, warehouse: Path, branch: str) -> None:
    gateway.run("CREATE TABLE t (v INT, w INT)")
    gateway.run("INSERT INTO t VALUES (1, 2)")
    gateway.run("ALTER TABLE t ADD COLUMN x INT")
    gateway.run("INSERT INTO t VALUES (3, 4, 5)")
    gateway.run("CALL sys.create_tag('t', 'now')")
    gateway.run("CALL sys.create_branch('t', 'b', 'now')")

    def rows() -> list[tuple[object, ...]]:
        return sorted(gateway.run(f"SELECT * FROM t{branch}").collect())

    assert rows() == [(1, 2, None), (3, 4, 5)], "whoever opens a branch first writes its files"
    place = warehouse / "default.db/t" / ("branch/branch-b" if branch else "") / "schema/schema-0"
    schema = json.loads(place.read_text())
    first, second = schema["fields"]
    first["id"], second["id"] = second["id"], first["id"]
    written = place.read_text()
    place.write_text(json.dumps(schema))

    assert rows() == [(1, 2, None), (3, 4, 5)]
    assert gateway.run(f"SELECT v FROM t{branch} WHERE w = 2").collect() == [(1,)]
    (told,) = gateway.run("CALL sys.check_table('t')").collect()
    assert "is not the catalog's schema" in str(told[5])
    place.unlink()
    assert rows() == [(1, 2, None), (3, 4, 5)]
    gateway.run(f"CALL sys.repair_table('t{branch}')")
    assert json.loads(place.read_text()) == json.loads(written)


def test_a_schema_of_types_that_there_are_not_is_told_and_written_again(gateway: Gateway, warehouse: Path) -> None:
    """One changed bit in a type's name was an error of the statement's (400, `UnsupportedType`), for a check and for a repair."""
    gateway.run("CREATE TABLE t (v INT, w STRING)")
    gateway.run("INSERT INTO t VALUES (1, 'a')")
    place = warehouse / "default.db/t/schema/schema-0"
    written = place.read_text()
    place.write_text(written.replace("STRING", "STRINO"))
    (told,) = gateway.run("CALL sys.check_table('t')").collect()
    assert "is not the catalog's schema" in str(told[5])
    gateway.run("CALL sys.repair_table('t')")
    assert json.loads(place.read_text()) == json.loads(written)
    assert gateway.run("CALL sys.check_table('t')").collect() == []
