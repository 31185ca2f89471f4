"""Tags, branches, partitions, consumers, views and functions."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from gateway.gateway import Gateway
from lake.rewrite import replace as rewriting
from model.errors import InvalidName
from model.identifier import Identifier
from model.schema.schema import Schema
from model.wall_clock import epoch_of_wall
from table.format.layout import partition_texts
from tests.server.paimon.committing import Writer
from tests.server.paimon.speaking import Rest, new_table, schema

T = "databases/d/tables/t"


@pytest.fixture
def writer(rest: Rest, gateway: Gateway) -> Writer:
    rest.post("databases/d/tables", new_table())
    return Writer(rest, gateway.lake)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "warehouse" / "d.db" / "t"


def test_tags(rest: Rest, writer: Writer, place: Path) -> None:
    made = [writer.commit(), writer.commit()]
    rest.post(f"{T}/tags", {"tagName": "a", "snapshotId": 1, "timeRetained": "1d"})
    rest.post(f"{T}/tags", {"tagName": "b"})
    got = rest.get(f"{T}/tags/a")
    assert (got["tagName"], got["snapshot"]["uuid"], got["tagTimeRetained"]) == ("a", made[0]["uuid"], "1d")
    file = json.loads((place / "tag" / "tag-a").read_text())
    assert (file["tagTimeRetained"], len(file["tagCreateTime"]), file["uuid"]) == (86400.0, 7, made[0]["uuid"])
    (place / "tag" / "tag-theirs").write_text(json.dumps(file | {"tagTimeRetained": 60}))
    assert rest.get(f"{T}/tags", maxResults="2") == {"tags": ["a", "b"], "nextPageToken": "b"}
    assert rest.get(f"{T}/tags", tagNamePrefix="th")["tags"] == ["theirs"]
    assert rest.get(f"{T}/tags/theirs")["tagTimeRetained"] == "60000 ms"
    (place / "tag" / "tag-b").unlink()
    assert rest.get(f"{T}/tags")["tags"] == ["a", "theirs"], "whoever removed the file removed the tag"
    rest.delete(f"{T}/tags/theirs")
    assert not (place / "tag" / "tag-theirs").exists()
    assert rest.refused("POST", f"{T}/tags", {"tagName": "a"}) == (409, "TAG", "a")
    assert rest.refused("POST", f"{T}/tags", {"tagName": "x", "snapshotId": 9}) == (404, "SNAPSHOT", "9")
    assert rest.refused("POST", f"{T}/tags", {"tagName": "x", "timeRetained": "soon"})[0] == 400
    assert rest.refused("GET", f"{T}/tags/none") == (404, "TAG", "none")
    assert rest.refused("DELETE", f"{T}/tags/none") == (404, "TAG", "none")
    assert rest.refused("GET", "databases/d/tables/no/tags")[:2] == (404, "TABLE")


def test_branches(rest: Rest, writer: Writer, gateway: Gateway, place: Path) -> None:
    writer.commit()
    rest.post(f"{T}/tags", {"tagName": "v1"})
    rest.post(f"{T}/branches", {"branch": "b1", "fromTag": "v1"})
    rest.post(f"{T}/branches", {"branch": "e"})
    assert rest.get(f"{T}/branches") == {"branches": ["b1", "e"]}
    got = rest.get(f"{T}$branch_b1")
    assert (got["name"], got["id"]) == ("t$branch_b1", rest.get(T)["id"])
    assert rest.refused("GET", "databases/d/tables/t%24branch_e/snapshot")[:2] == (404, "SNAPSHOT")
    on_branch = Writer(rest, gateway.lake, "t$branch_b1")
    assert on_branch.commit()["id"] == 2
    assert (place / "branch" / "branch-b1" / "snapshot" / "snapshot-2").exists()
    assert (place / "branch" / "branch-b1" / "schema" / "schema-0").exists()
    assert rest.get(f"{T}/snapshot")["snapshot"]["snapshot"]["id"] == 1
    rest.post(f"{T}$branch_b1", {"changes": [{"action": "addColumn", "fieldNames": ["x"], "dataType": "INT"}]})
    assert (rest.get(f"{T}$branch_b1")["schemaId"], rest.get(T)["schemaId"]) == (1, 0)
    rest.post(f"{T}/branches/b1/rename", {"toBranch": "b2"})
    assert rest.get(f"{T}$branch_b2/snapshot")["snapshot"]["snapshot"]["id"] == 2
    assert (place / "branch" / "branch-b2" / "snapshot" / "snapshot-1").exists()
    on_main = writer.commit()
    rest.post(f"{T}/branches/b2/forward", {})
    latest = rest.get(f"{T}/snapshot")["snapshot"]["snapshot"]
    assert (latest["id"], latest["uuid"] != on_main["uuid"]) == (2, True)
    assert json.loads((place / "snapshot" / "snapshot-2").read_text())["uuid"] == latest["uuid"]
    assert rest.get(T)["schemaId"] == 1
    assert rest.get(f"{T}/tags")["tags"] == ["v1"]
    assert writer.commit(schemaId=1)["id"] == 3
    rest.delete(f"{T}/branches/b2")
    assert not (place / "branch" / "branch-b2").exists()
    rest.post(f"{T}/branches", {"branch": "b2"})


def test_errors_of_branches(rest: Rest, writer: Writer) -> None:
    rest.post(f"{T}/branches", {"branch": "b"})
    assert rest.refused("POST", f"{T}/branches", {"branch": "b"}) == (409, "BRANCH", "b")
    assert rest.refused("POST", f"{T}/branches", {"branch": "main"}) == (409, "BRANCH", "main")
    assert rest.refused("POST", f"{T}/branches", {"branch": "7"})[0] == 400
    assert rest.refused("POST", f"{T}/branches", {"branch": "x", "fromTag": "no"}) == (404, "TAG", "no")
    assert rest.refused("DELETE", f"{T}/branches/no") == (404, "BRANCH", "no")
    assert rest.refused("POST", f"{T}/branches/no/rename", {"toBranch": "x"}) == (404, "BRANCH", "no")
    assert rest.refused("POST", f"{T}/branches/no/forward", {}) == (404, "BRANCH", "no")
    assert rest.refused("POST", f"{T}/branches/b/forward", {})[0] == 400, "it has no snapshot"
    rest.post(f"{T}/branches", {"branch": "c"})
    assert rest.refused("POST", f"{T}/branches/b/rename", {"toBranch": "c"}) == (409, "BRANCH", "c")
    assert rest.refused("GET", "databases/d/tables/no/branches")[:2] == (404, "TABLE")


def test_sql_reads_and_writes_branches(rest: Rest, gateway: Gateway) -> None:
    rest.post("databases/d/tables", new_table("t", schema(("id", "BIGINT"), bucket="1", bucket_key="id")))
    gateway.run("INSERT INTO d.t VALUES (1)").collect()
    rest.post(f"{T}/tags", {"tagName": "v1"})
    rest.post(f"{T}/branches", {"branch": "b", "fromTag": "v1"})
    gateway.run("INSERT INTO d.`t$branch_b` VALUES (2)").collect()
    gateway.run("INSERT INTO d.t VALUES (3)").collect()
    assert gateway.run("SELECT * FROM d.`t$branch_b`").collect() == [(1,), (2,)]
    assert gateway.run("SELECT * FROM d.t").collect() == [(1,), (3,)]
    assert rest.get(f"{T}$branch_b/snapshot")["snapshot"]["recordCount"] == 2


def test_partitions(rest: Rest, gateway: Gateway) -> None:
    rest.post("databases/d/tables", new_table("t", schema(("id", "BIGINT"), ("dt", "DATE"), ("h", "INT"), partition=["dt", "h"])))
    gateway.run("INSERT INTO d.t VALUES (1, DATE '2024-01-01', 1), (2, DATE '2024-01-01', 2), (3, NULL, NULL)").collect()
    listed = rest.get(f"{T}/partitions")["partitions"]
    assert [one["spec"] for one in listed] == [
        {"dt": "19723", "h": "1"}, {"dt": "19723", "h": "2"}, {"dt": "__DEFAULT_PARTITION__", "h": "__DEFAULT_PARTITION__"},
    ]  # fmt: skip
    assert all((one["recordCount"], one["fileCount"], one["done"]) == (1, 1, False) for one in listed)
    assert {(one["createdBy"], one["updatedBy"]) for one in listed} == {("anonymous", "anonymous")}
    new, old = {"dt": "1", "h": "1"}, {"dt": "19723", "h": "1"}
    assert rest.refused("POST", f"{T}/partitions", {"partitionSpecs": [new, old], "ignoreIfExists": False})[:2] == (409, "PARTITION")
    assert len(rest.get(f"{T}/partitions")["partitions"]) == 3
    assert rest.post(f"{T}/partitions", {"partitionSpecs": [new, old, new]}) == {"created": [new], "existed": [old, new]}
    shown = [name for (name,) in gateway.run("SHOW PARTITIONS d.t").collect()]
    assert shown == ["dt=1970-01-02/h=1", "dt=2024-01-01/h=1", "dt=2024-01-01/h=2", "dt=__DEFAULT_PARTITION__/h=__DEFAULT_PARTITION__"]
    assert len(rest.get(f"{T}/partitions")["partitions"]) == len(shown), "also what was made by name, without files"
    rest.post(f"{T}/partitions/mark", {"specs": [old]})
    (got,) = rest.post(f"{T}/partitions/list-by-names", {"specs": [old, {"dt": "5", "h": "5"}]})["partitions"]
    assert got["done"] is True
    page = rest.get(f"{T}/partitions", maxResults="2", partitionNamePattern="dt=19723%")
    assert [one["spec"]["h"] for one in page["partitions"]] == ["1", "2"]
    filtered = rest.post(f"{T}/partitions/list-by-filter", {"filter": "{}", "maxResults": 3})
    assert (len(filtered["partitions"]), filtered["nextPageToken"]) == (3, "dt=19723/h=2")
    assert rest.refused("POST", f"{T}/partitions", {"partitionSpecs": [{"dt": "1"}]})[0] == 400
    assert rest.refused("POST", f"{T}/partitions/list-by-names", {"specs": [old] * 1001})[0] == 400
    missing = {"dt": "9", "h": "9"}
    assert rest.refused("POST", f"{T}/partitions/drop", {"partitionSpecs": [missing], "ignoreIfNotExists": False})[:2] == (404, "PARTITION")
    assert rest.post(f"{T}/partitions/drop", {"partitionSpecs": [old, missing, new]}) == {"dropped": [old, new], "missing": [missing]}
    assert gateway.run("SELECT id FROM d.t").collect() == [(2,), (3,)]
    assert len(rest.get(f"{T}/partitions")["partitions"]) == 2
    gateway.run("TRUNCATE TABLE d.t").collect()
    assert rest.get(f"{T}/partitions")["partitions"] == []


DEFAULT = "__DEFAULT_PARTITION__"
UNKNOWN = "\N{REPLACEMENT CHARACTER}"


@pytest.mark.parametrize(
    ("spec", "gone"),
    [(DEFAULT, {1, 6}), ("", {2, 5}), (" ", {4}), ("a", {3}), ("b", set()), ("\t", set())],
)
def test_a_partition_is_dropped_by_its_value_and_not_by_its_directory(rest: Rest, gateway: Gateway, spec: str, gone: set[int]) -> None:
    """NULL, blanks and a text that is called as NULL's directory share one; to Paimon's clients the default name is NULL alone."""
    rest.post("databases/d/tables", new_table("t", schema(("id", "BIGINT"), ("p", "STRING"), partition=["p"])))
    gateway.run(f"INSERT INTO d.t VALUES (1, NULL), (2, ''), (3, 'a'), (4, ' '), (5, ''), (6, NULL), (7, '{DEFAULT}')").collect()
    wanted = {"p": spec}
    assert rest.post(f"{T}/partitions/drop", {"partitionSpecs": [wanted]}) == (
        {"dropped": [wanted], "missing": []} if gone else {"dropped": [], "missing": [wanted]}
    )
    left = sorted(set(range(1, 8)) - gone)
    assert sorted(id_ for (id_,) in gateway.run("SELECT id FROM d.t").collect()) == left
    counts = {one["spec"]["p"]: one["recordCount"] for one in rest.get(f"{T}/partitions")["partitions"]}
    assert counts == {DEFAULT: len([id_ for id_ in left if id_ != 3])} | ({"a": 1} if 3 in left else {})
    refused = rest.refused("POST", f"{T}/partitions/drop", {"partitionSpecs": [wanted], "ignoreIfNotExists": False})
    assert refused[:2] == (404, "PARTITION"), "it is gone"


@pytest.mark.parametrize(("spec", "gone"), [(DEFAULT, {1, 6}), ("", {2, 5}), (" ", {4}), ("a", {3}), (UNKNOWN, {7, 8}), ("b", set())])
def test_bytes_are_dropped_by_the_text_they_are(rest: Rest, gateway: Gateway, spec: str, gone: set[int]) -> None:
    """The default name took NULL and blanks together, and blanks had no name of their own."""
    gateway.run("CREATE TABLE d.t (id INT, p BYTES) PARTITIONED BY (p)").collect()
    values = ("NULL", "x''", "x'61'", "x'20'", "x''", "NULL", "x'FF'", "x'EDA080'", f"x'{DEFAULT.encode().hex()}'")
    gateway.run("INSERT INTO d.t VALUES " + ", ".join(f"({id_}, {value})" for id_, value in enumerate(values, 1))).collect()
    wanted = {"p": spec}
    assert rest.post(f"{T}/partitions/drop", {"partitionSpecs": [wanted]}) == (
        {"dropped": [wanted], "missing": []} if gone else {"dropped": [], "missing": [wanted]}
    )
    assert {id_ for (id_,) in gateway.run("SELECT id FROM d.t").collect()} == set(range(1, 10)) - gone


def test_a_name_that_an_earlier_release_gave_bytes_is_none_that_is_dropped(rest: Rest, gateway: Gateway, dsn: str) -> None:
    """It was answered as dropped: the rows stayed, and no list had their partition any more."""
    gateway.run("CREATE TABLE d.t (id INT, p BYTES) PARTITIONED BY (p)").collect()
    gateway.run("INSERT INTO d.t VALUES (1, x'EDA080'), (2, x'61')").collect()
    assert {one["spec"]["p"] for one in rest.get(f"{T}/partitions")["partitions"]} == {UNKNOWN, "a"}
    with psycopg.connect(dsn, autocommit=True) as conn:  # as a server of it writes still
        before = {"was": f"p={UNKNOWN}", "name": f"p={UNKNOWN * 3}", "spec": Jsonb({"p": UNKNOWN * 3})}
        assert conn.execute("UPDATE table_partition SET name = %(name)s, spec = %(spec)s WHERE name = %(was)s", before).rowcount == 1
    wanted = {"p": UNKNOWN * 3}
    assert rest.post(f"{T}/partitions/drop", {"partitionSpecs": [wanted]}) == {"dropped": [], "missing": [wanted]}
    assert len(rest.get(f"{T}/partitions")["partitions"]) == 2
    wanted = {"p": UNKNOWN}
    assert rest.post(f"{T}/partitions/drop", {"partitionSpecs": [wanted]}) == {"dropped": [wanted], "missing": []}
    assert [one["spec"] for one in rest.get(f"{T}/partitions")["partitions"]] == [{"p": "a"}]
    assert gateway.run("SELECT id FROM d.t").collect() == [(2,)]


def test_a_number_that_is_called_as_null_is_not_dropped_with_it(rest: Rest, gateway: Gateway) -> None:
    gateway.run("CREATE TABLE d.t (id INT, p INT) PARTITIONED BY (p) WITH ('partition.default-name' = '0')").collect()
    gateway.run("INSERT INTO d.t VALUES (1, NULL), (2, 0), (3, 1)").collect()
    assert rest.post(f"{T}/partitions/drop", {"partitionSpecs": [{"p": "0"}]}) == {"dropped": [{"p": "0"}], "missing": []}
    assert sorted(gateway.run("SELECT id FROM d.t").collect()) == [(2,), (3,)]


def test_many_partitions_without_a_value_are_looked_for_in_one_go(rest: Rest, gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each partition was read again for each that was named."""
    gateway.run("CREATE TABLE d.t (id INT, p STRING, v INT) PARTITIONED BY (id, p)").collect()
    gateway.run("INSERT INTO d.t VALUES " + ", ".join(f"({id_}, NULL, 1)" for id_ in range(50))).collect()
    read: list[object] = []

    def noted(schema: Schema, values: Sequence[object]) -> object:
        read.append(values)
        return partition_texts(schema, values)

    monkeypatch.setattr(rewriting, "partition_texts", noted)
    wanted = [{"id": str(id_), "p": DEFAULT} for id_ in range(10, 60)]
    done = rest.post(f"{T}/partitions/drop", {"partitionSpecs": wanted})
    assert (len(done["dropped"]), len(done["missing"])) == (40, 10)
    assert 50 <= len(read) <= 250, "once to look, and by the commit"
    assert gateway.run("SELECT COUNT(*) FROM d.t").collect() == [(10,)]


def test_nulls_partition_that_was_made_by_name_is_dropped_with_its_name(rest: Rest, gateway: Gateway) -> None:
    rest.post("databases/d/tables", new_table("t", schema(("id", "BIGINT"), ("p", "STRING"), partition=["p"])))
    spec = {"p": DEFAULT}
    for rows in ([], ["(1, NULL)"]):
        rest.post(f"{T}/partitions", {"partitionSpecs": [spec]})
        for row in rows:
            gateway.run(f"INSERT INTO d.t VALUES {row}").collect()
        assert rest.post(f"{T}/partitions/drop", {"partitionSpecs": [spec]}) == {"dropped": [spec], "missing": []}
        assert rest.get(f"{T}/partitions")["partitions"] == []


def test_partitions_of_a_directory_are_not_told_as_none(rest: Rest) -> None:
    """Java's client looks for them itself after a 501; an empty list was an empty table to it."""
    rest.post("databases/d/tables", new_table("t", schema(("a", "INT"), ("p", "STRING"), partition=["p"], type="format-table")))
    assert rest.refused("GET", f"{T}/partitions")[0] == 501
    assert rest.refused("POST", f"{T}/partitions/list-by-names", {"specs": [{"p": "x"}]})[0] == 501
    assert rest.refused("POST", f"{T}/partitions/list-by-filter", {"filter": "{}"})[0] == 501


def test_partitions_of_other_engines_hold_what_is_reported(rest: Rest) -> None:
    made = schema(("a", "INT"), ("p", "STRING"), partition=["p"], type="format-table", **{"metastore.partitioned-table": "true"})
    rest.post("databases/d/tables", new_table("t", made))
    spec = {"p": "x"}
    one = {"spec": spec, "recordCount": 3, "fileSizeInBytes": -1, "fileCount": 1, "lastFileCreationTime": 4, "totalBuckets": 1}
    for replace, expected in ((False, 3), (False, 6), (True, 3)):
        rest.post(f"{T}/partitions", {"partitionSpecs": [spec], "partitionStatistics": [one], "replaceStatistics": replace})
        (got,) = rest.get(f"{T}/partitions")["partitions"]
        assert (got["recordCount"], got["fileSizeInBytes"], got["lastFileCreationTime"]) == (expected, 0, 4)
    assert rest.post(f"{T}/partitions/drop", {"partitionSpecs": [spec]}) == {"dropped": [spec], "missing": []}


def test_consumers(rest: Rest, writer: Writer, place: Path) -> None:
    (place / "consumer").mkdir()
    (place / "consumer" / "consumer-theirs").write_text('{"nextSnapshot": 4}')
    (place / "consumer" / "consumer-broken").write_text("{")
    rest.post(f"{T}/consumers/reset", {"consumerId": "mine", "nextSnapshotId": 2})
    listed = [{"consumerId": "mine", "nextSnapshot": 2}, {"consumerId": "theirs", "nextSnapshot": 4}]
    assert rest.get(f"{T}/consumers") == {"consumers": listed, "nextPageToken": None}
    assert rest.get(f"{T}/consumers", maxResults="1") == {"consumers": listed[:1], "nextPageToken": "mine"}
    rest.post(f"{T}/consumers/reset", {"consumerId": "mine"})
    assert rest.get(f"{T}/consumers", pageToken="a")["consumers"] == listed[1:]


def view(name: str = "v", **changed: Any) -> dict[str, Any]:
    body = {"fields": [{"id": 0, "name": "a", "type": "INT"}], "query": "SELECT 1 AS a", "dialects": {"spark": "SELECT 2 AS a"}}
    return {"identifier": {"database": "d", "object": name}, "schema": body | {"comment": "c", "options": {"k": "v"}} | changed}


def test_views(rest: Rest) -> None:
    rest.post("databases/d/views", view())
    rest.post("databases/d/views", view("w"))
    got = rest.get("databases/d/views/v")
    assert (got["name"], got["schema"]) == ("v", view()["schema"])
    assert rest.get("databases/d/views", maxResults="1") == {"views": ["v"], "nextPageToken": "v"}
    assert [one["name"] for one in rest.get("databases/d/view-details", viewNamePattern="w%")["viewDetails"]] == ["w"]
    assert rest.get("views", viewNamePattern="v") == {"views": [{"database": "d", "object": "v"}], "nextPageToken": None}

    def alter(*changes: dict[str, Any]) -> None:
        rest.post("databases/d/views/v", {"changes": list(changes)})

    alter({"action": "setOption", "key": "x", "value": "1"}, {"action": "removeOption", "key": "k"})
    alter({"action": "updateComment", "comment": None}, {"action": "addDialect", "dialect": "flink", "query": "SELECT 3"})
    alter({"action": "updateDialect", "dialect": "spark", "query": "SELECT 4"}, {"action": "dropDialect", "dialect": "flink"})
    changed = rest.get("databases/d/views/v")["schema"]
    assert (changed["options"], changed["comment"], changed["dialects"]) == ({"x": "1"}, None, {"spark": "SELECT 4"})
    for action, status in (("addDialect", 409), ("updateDialect", 404), ("dropDialect", 404)):
        dialect = "spark" if status == 409 else "none"
        change = {"action": action, "dialect": dialect, "query": "x"}
        assert rest.refused("POST", "databases/d/views/v", {"changes": [change]}) == (status, "DIALECT", dialect)
    assert rest.refused("POST", "databases/d/views", view()) == (409, "VIEW", "d.v")
    rest.post("databases/d/tables", new_table())
    assert rest.refused("POST", "databases/d/views", view("t")) == (409, "TABLE", "d.t")
    assert rest.refused("POST", "databases/d/tables", new_table("v"))[:2] == (409, "TABLE")
    rename = {"source": {"database": "d", "object": "v"}, "destination": {"database": "d", "object": "w"}}
    assert rest.refused("POST", "views/rename", rename) == (409, "VIEW", "d.w")
    rest.post("views/rename", rename | {"destination": {"database": "d", "object": "z"}})
    assert rest.refused("GET", "databases/d/views/v") == (404, "VIEW", "d.v")
    rest.delete("databases/d/views/z")
    assert rest.refused("DELETE", "databases/d/views/z") == (404, "VIEW", "d.z")
    assert rest.refused("POST", "databases/none/views", view()) == (404, "DATABASE", "none")
    assert rest.refused("POST", "databases/d/views", view("x", fields=[{}]))[0] == 400


def test_functions(rest: Rest) -> None:
    parameters = [{"id": 0, "name": "a", "type": "INT"}]
    definitions = {"spark": {"type": "lambda", "definition": "x", "language": "JAVA"}, "sql": {"type": "sql", "definition": "a + 1"}}
    body = {"name": "f.1", "inputParams": parameters, "returnParams": parameters, "deterministic": True, "definitions": definitions}
    rest.post("databases/d/functions", body | {"comment": "c", "options": {"k": "v"}})
    got = rest.get("databases/d/functions/f.1")
    assert {key: got[key] for key in body} == body
    assert got["uuid"]
    assert rest.get("databases/d/functions", functionNamePattern="f%") == {"functions": ["f.1"], "nextPageToken": None}
    assert [one["name"] for one in rest.get("databases/d/function-details")["functionDetails"]] == ["f.1"]
    assert rest.get("functions") == {"functions": [{"database": "d", "object": "f.1"}], "nextPageToken": None}
    changes = [
        {"action": "addDefinition", "name": "flink", "definition": {"type": "sql", "definition": "1"}},
        {"action": "updateDefinition", "name": "sql", "definition": {"type": "sql", "definition": "2"}},
        {"action": "dropDefinition", "name": "spark"},
        {"action": "setOption", "key": "x", "value": "1"},
        {"action": "removeOption", "key": "k"},
        {"action": "updateComment", "comment": "d"},
    ]
    rest.post("databases/d/functions/f.1", {"changes": changes})
    got = rest.get("databases/d/functions/f.1")
    assert (sorted(got["definitions"]), got["options"], got["comment"]) == (["flink", "sql"], {"x": "1"}, "d")
    for action, status in (("addDefinition", 409), ("updateDefinition", 404), ("dropDefinition", 404)):
        name = "sql" if status == 409 else "none"
        change = {"action": action, "name": name, "definition": {"type": "sql", "definition": "1"}}
        assert rest.refused("POST", "databases/d/functions/f.1", {"changes": [change]}) == (status, "DEFINITION", name)
    assert rest.refused("POST", "databases/d/functions", body) == (409, "FUNCTION", "d.f.1")
    rest.delete("databases/d/functions/f.1")
    assert rest.refused("GET", "databases/d/functions/f.1") == (404, "FUNCTION", "d.f.1")
    assert rest.refused("POST", "databases/d/functions", {"name": "g", "definitions": {"x": 3}})[0] == 400


def test_a_branch_is_no_table_to_drop_or_rename(rest: Rest, writer: Writer, gateway: Gateway) -> None:
    rest.post(f"{T}/branches", {"branch": "b"})
    assert rest.refused("DELETE", f"{T}%24branch_b")[0] == 400
    for method, path, sent in (
        ("POST", "branches", {"branch": "c"}),
        ("DELETE", "branches/b", None),
        ("POST", "branches/b/rename", {"toBranch": "c"}),
        ("POST", "branches/b/forward", {}),
    ):
        assert rest.refused(method, f"{T}%24branch_b/{path}", sent)[0] == 400
    assert rest.get(f"{T}%24branch_b/branches") == rest.get(f"{T}/branches") == {"branches": ["b"]}
    for refused in ("DROP TABLE d.`t$branch_b`", "ALTER TABLE d.`t$branch_b` RENAME TO d.u"):
        with pytest.raises(InvalidName, match="branch of table"):
            gateway.run(refused)
    assert rest.get("databases/d/tables")["tables"] == ["t"]


def test_a_branch_goes_with_its_table(rest: Rest, writer: Writer, gateway: Gateway) -> None:
    rest.post(f"{T}/branches", {"branch": "b"})
    rest.post("tables/rename", {"source": {"database": "d", "object": "t"}, "destination": {"database": "d", "object": "u"}})
    assert rest.get("databases/d/tables/u%24branch_b")["name"] == "u$branch_b"
    rest.delete("databases/d/tables/u")
    rest.post("databases/d/tables", new_table("u"))
    assert rest.get("databases/d/tables/u/branches") == {"branches": []}
    assert gateway.lake.open(Identifier("d", "u")).latest() is None


def test_sql_and_rest_tell_the_same_of_partitions(rest: Rest, gateway: Gateway) -> None:
    gateway.run("CREATE TABLE d.p (id INT, dt STRING) PARTITIONED BY (dt) WITH ('bucket' = '-1')").close()
    gateway.run("INSERT INTO d.p VALUES (1, 'a'), (2, 'b'), (3, 'b'), (4, NULL); INSERT INTO d.p VALUES (5, 'a')").close()
    rest.post("databases/d/tables/p/partitions/mark", {"specs": [{"dt": "b"}]})
    listed = {f"dt={one['spec']['dt']}": one for one in rest.get("databases/d/tables/p/partitions")["partitions"]}
    query = (
        "SELECT partition, record_count, file_size_in_bytes, file_count, created_at, created_by, updated_by, options, total_buckets, done"
    )
    rows = gateway.run(f"{query} FROM d.p$partitions").collect()
    assert len(rows) == len(listed) == 3
    for name, records, size, files, created, by, changed_by, options, buckets, done in rows:
        one = listed[name]
        assert (records, size, files) == (one["recordCount"], one["fileSizeInBytes"], one["fileCount"])
        assert epoch_of_wall(int(created.replace(tzinfo=dt.UTC).timestamp() * 1000)) == one["createdAt"]
        assert (by, changed_by, json.loads(options)) == (one["createdBy"], one["updatedBy"], one["options"])
        assert (buckets, done) == (one["totalBuckets"], one["done"])
