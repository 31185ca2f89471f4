"""While catalog and warehouse do not belong together every statement and every route reads, or is refused and changes nothing."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import pytest
from flask.testing import FlaskClient

from gateway.gateway import Gateway
from model.identifier import Identifier
from model.schema.schema import column
from model.view import View
from server.paimon.routes import registered
from sql.statements.procedures.calls import PROCEDURES
from tests.server.paimon.speaking import PLAIN, Rest

_BEFORE = (
    "CREATE TABLE t (id INT, p STRING) PARTITIONED BY (p) WITH ('rows.erasable' = 'true', 'consumer.expiration-time' = '1 ms')",
    "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
    "INSERT INTO t VALUES (3, 'a')",
    "INSERT INTO t VALUES (4, 'a')",
    "CALL sys.create_tag('t', 'one', 1)",
    "CALL sys.create_branch('t', 'b', 'one')",
    "CALL sys.reset_consumer('t', 'c', 2)",
    "CREATE TABLE gone (id INT) WITH ('drop.retention' = '1 d')",
    "DROP TABLE gone",
    "CREATE TABLE old (id INT) WITH ('drop.retention' = '1 d')",
    "DROP TABLE old",
    "CREATE ROLE r",
    "CREATE DATABASE e",
    "CREATE DATABASE f",
)
STATEMENTS = (
    "INSERT INTO t VALUES (5, 'a')",
    "ALTER TABLE t ADD (x INT)",
    "ALTER TABLE t SET ('write-only' = 'true')",
    "ALTER TABLE t RENAME TO t2",
    "ALTER DATABASE e SET ('a' = 'b')",
    "ALTER VIEW v RENAME TO w",
    "CREATE DATABASE n",
    "CREATE TABLE n (id INT)",
    "CREATE ROLE n",
    "DROP DATABASE f",
    "DROP ROLE r",
    "DROP TABLE t",
    "DROP VIEW v",
    "GRANT SELECT ON TABLE t TO r",
    "TRUNCATE TABLE t",
    "UNDROP TABLE gone",
    "PURGE TABLE old",
    "ALTER TABLE t DROP PARTITION (p = 'a')",
)
CALLS: Mapping[str, str] = {
    "repair_table": "'t'",
    "alter_column_default_value": "'t', 'id', '1'",
    "compact_manifest": "'t'",
    "purge_files": "'t'",
    "expire_snapshots": "'t', retain_max => 1",
    "rollback_to": "'t', 1",
    "drop_partition": "'t', 'p=a'",
    "mark_partition_done": "'t', 'p=a'",
    "reset_consumer": "'t', 'c', 1",
    "clear_consumers": "'t'",
    "remove_orphan_files": "'t'",
    "create_tag": "'t', 'two'",
    "rename_tag": "'t', 'one', 'two'",
    "delete_tag": "'t', 'one'",
    "create_branch": "'t', 'x'",
    "delete_branch": "'t', 'b'",
    "rename_branch": "'t', 'b', 'x'",
    "fast_forward": "'t', 'b'",
    "compact": "'t'",
}
_ELSEWHERE = {
    "analyze_table", "erase", "rescale", "rewrite_file_index", "rewrite_files",
    "compact_database", "migrate_database", "migrate_file", "migrate_table", "register_table",
    "claim_warehouse", "confirm_clock",
    "replace_tag", "create_tag_from_timestamp", "create_tag_from_watermark", "trigger_tag_automatic_creation", "expire_tags",
    "rollback", "rollback_to_timestamp", "rollback_to_watermark", "remove_unexisting_files", "expire_partitions",
}  # fmt: skip
"""What goes through Spark or lies elsewhere and commits as the others do, as do those of many tables; of the catalog alone; the same as
another under a second name; what finds nothing to do in this table."""


def _files(warehouse: Path) -> dict[str, bytes]:
    """Every file and directory below the warehouse, with what it holds."""
    return {
        str(path.relative_to(warehouse)): path.read_bytes() if path.is_file() else b""
        for path in (Path(root) / name for root, directories, files in os.walk(warehouse) for name in (*directories, *files))
    }


@pytest.fixture
def elsewhere(client: FlaskClient, gateway: Gateway, tmp_path: Path) -> Path:
    """A warehouse that is another catalog's by now."""
    for text in _BEFORE:
        with client.post("/sql", data=text) as answer:
            assert answer.status_code == 200, (text, answer.get_data(as_text=True))
    gateway.lake.views.create(Identifier("default", "v"), View(fields=(column("id", "INT"),), query="SELECT id FROM t"))
    gateway.lake._publisher.close()
    gateway.lake.standing._mismatch = "The warehouse belongs to another catalog."
    return tmp_path / "warehouse"


def test_statements(client: FlaskClient, elsewhere: Path) -> None:
    assert {f"sys.{name}" for name in {*CALLS, *_ELSEWHERE}} == {name for name, one in PROCEDURES.items() if not one.only_looks}
    before, wrong = _files(elsewhere), []
    for text in (*STATEMENTS, *(f"CALL sys.{name}({arguments})" for name, arguments in CALLS.items())):
        with client.post("/sql", data=text) as answer:
            told = answer.get_data(as_text=True)
            if (answer.status_code, "WarehouseMismatch" in told) != (409, True):
                wrong.append((text, told))
        assert _files(elsewhere) == before, text
    assert not wrong, "; ".join(str(one[:2])[:120] for one in wrong)

    for text in ("SELECT id FROM t", "SELECT * FROM t$snapshots", "SELECT * FROM t$tags", "SHOW TABLES", "DESCRIBE t"):
        with client.post("/sql", data=text) as answer:
            assert answer.status_code == 200, (text, answer.get_data(as_text=True))
    assert _files(elsewhere) == before


_D, _T = "databases/default", "databases/default/tables/t"
_OTHER = {"source": {"database": "default", "object": "t"}, "destination": {"database": "default", "object": "t2"}}
_GRANTED = {"type": "TABLE", "database": "default", "table": "t"}
ROUTES: Mapping[tuple[str, str], object] = {
    ("POST", "databases"): {"name": "n", "options": {}},
    ("POST", "databases/e"): {"removals": [], "updates": {"a": "b"}},
    ("DELETE", "databases/f"): None,
    ("POST", f"{_D}/register"): {"identifier": {"database": "default", "object": "n"}, "path": "/nowhere/n"},
    ("POST", f"{_D}/tables"): {"identifier": {"database": "default", "object": "n"}, "schema": PLAIN},
    ("POST", "tables/rename"): _OTHER,
    ("POST", _T): {"changes": [{"action": "setOption", "key": "a", "value": "b"}]},
    ("DELETE", _T): None,
    ("POST", f"{_T}/replace"): {"schema": PLAIN},
    ("POST", f"{_T}/rollback"): {"instant": {"type": "snapshot", "snapshotId": 1}},
    ("POST", f"{_T}/rollback-schema"): {"schemaId": 0},
    ("POST", f"{_T}/consumers/reset"): {"consumerId": "c", "nextSnapshotId": 1},
    ("POST", f"{_T}/tags"): {"tagName": "two", "snapshotId": 1},
    ("DELETE", f"{_T}/tags/one"): None,
    ("POST", f"{_T}/branches"): {"branch": "x"},
    ("DELETE", f"{_T}/branches/b"): None,
    ("POST", f"{_T}/branches/b/rename"): {"toBranch": "x"},
    ("POST", f"{_T}/branches/b/forward"): {},
    ("POST", f"{_T}/partitions"): {"partitionSpecs": [{"p": "n"}]},
    ("POST", f"{_T}/partitions/drop"): {"partitionSpecs": [{"p": "a"}]},
    ("POST", f"{_T}/partitions/mark"): {"specs": [{"p": "a"}]},
    ("POST", f"{_D}/views"): {"identifier": {"database": "default", "object": "n"}, "schema": {"fields": [], "query": "SELECT 1"}},
    ("POST", "views/rename"): {"source": {"database": "default", "object": "v"}, "destination": {"database": "default", "object": "w"}},
    ("POST", f"{_D}/views/v"): {"changes": [{"action": "updateComment", "comment": "c"}]},
    ("DELETE", f"{_D}/views/v"): None,
    ("POST", f"{_D}/functions"): {"name": "n"},
    ("POST", f"{_D}/functions/n"): {"changes": []},
    ("DELETE", f"{_D}/functions/n"): None,
    ("POST", "permissions/grant"): {"resource": _GRANTED, "access": "SELECT", "principal": "ada"},
}
_BESIDE = {"permissions/revoke"} | {
    f"databases/{{}}/tables/{{}}/{end}" for end in ("auth", "partitions/list-by-filter", "partitions/list-by-names")
}
"""Rights can always be taken back; these read."""


def test_routes(client: FlaskClient, elsewhere: Path) -> None:
    rest = Rest(client)
    before, wrong = _files(elsewhere), []
    latest = rest.get(f"{_T}/snapshot")["snapshot"]["snapshot"]
    commit = {"snapshot": {**latest, "id": latest["id"] + 1, "uuid": str(uuid4())}, "statistics": []}
    routes = {**ROUTES, ("POST", f"{_T}/commit"): commit}
    named = re.compile(r"(databases|tables|views|functions|tags|branches)/(?!rename$)[a-z]+")
    changing = {(method, path) for method, path in registered() if method != "GET" and path not in _BESIDE}
    assert {(method, named.sub(r"\1/{}", path)) for method, path in routes} == changing
    for (method, path), body in routes.items():
        with rest.call(method, path, body) as answer:
            if answer.status_code != 500 or b"belongs to another catalog" not in answer.data:  # 409 is for what exists alone
                wrong.append((method, path, answer.data))
        assert _files(elsewhere) == before, (method, path)
    assert not wrong, "; ".join(str(one[:2])[:120] for one in wrong)

    for path in ("databases", f"{_D}/tables", _T, f"{_T}/snapshot", f"{_T}/snapshots", f"{_T}/tags", f"{_T}/branches", f"{_T}/partitions"):
        rest.get(path)
    assert _files(elsewhere) == before
