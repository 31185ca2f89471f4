"""Tables: created, listed, changed in every way, renamed, replaced, dropped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import InvalidOption, UnsupportedType
from model.identifier import Identifier
from model.options.masking import MASK
from model.schema.change import RemoveOption
from model.schema.schema import every_field
from tests.server.paimon.speaking import PLAIN, Rest, new_table, schema

T = "databases/d/tables/t"


@pytest.fixture
def table(rest: Rest) -> Rest:
    rest.post("databases/d/tables", new_table())
    return rest


def fields(rest: Rest, path: str = T) -> list[tuple[int, str, Any]]:
    return [(field["id"], field["name"], field["type"]) for field in rest.get(path)["schema"]["fields"]]


def test_a_table_is_what_was_sent(rest: Rest, tmp_path: Path) -> None:
    sent = schema(
        ("id", "BIGINT NOT NULL"),
        ("tags", {"type": "ARRAY", "element": "STRING", "nullable": True}),
        ("attr", {"type": "MAP NOT NULL", "key": "STRING NOT NULL", "value": "BIGINT"}),
        ("day", "STRING"),
        partition=["day"],
        bucket="4",
        bucket_key="id",
        what_is_this="kept",
    )
    sent["fields"].append({"id": 9, "name": "pos", "type": {"type": "ROW", "fields": [{"id": 10, "name": "x", "type": "INT"}]}})
    sent["fields"][0] |= {"description": "item", "defaultValue": "0"}
    sent["comment"] = "orders"
    rest.post("databases/d/tables", {"identifier": {"database": "d", "object": "t"}, "schema": sent})
    got = rest.get(T)
    assert (got["name"], got["database"], got["isExternal"], got["schemaId"]) == ("t", "d", False, 0)
    sent["fields"][1]["type"].pop("nullable")
    assert got["schema"] == sent
    path = Path(got["path"].removeprefix("file://"))
    assert path == tmp_path / "warehouse" / "d.db" / "t"
    written = json.loads((path / "schema" / "schema-0").read_text())
    assert (written["highestFieldId"], written["version"], written["partitionKeys"]) == (10, 3, ["day"])
    assert rest.get(f"tables/id/{got['id']}")["database"] == "d"
    assert rest.refused("GET", f"tables/id/{uuid4()}")[:2] == (404, "TABLE")
    assert rest.refused("GET", "tables/id/none")[:2] == (404, "TABLE")


def test_secrets_are_told_by_stars_and_outlive_them(table: Rest, lake: Lake) -> None:
    def stored() -> dict[str, str]:
        return dict(lake.open_any(Identifier("d", "t")).schema.options)

    table.post(T, {"changes": [{"action": "setOption", "key": "my.password", "value": "hush"}]})
    for got in (table.get(T), table.get("databases/d/table-details")["tableDetails"][0]):
        assert got["schema"]["options"]["my.password"] == MASK
    changes = [{"action": "setOption", "key": key, "value": value} for key, value in (("my.password", MASK), ("other", "x"))]
    table.post(T, {"changes": changes})
    assert (stored()["my.password"], stored()["other"]) == ("hush", "x")
    again = schema(("id", "BIGINT NOT NULL"))
    again["options"]["my.password"] = MASK
    table.post(f"{T}/replace", {"schema": again})
    assert stored()["my.password"] == "hush"
    assert table.refused("POST", "databases/d/tables", new_table("u", again))[0] == 400
    assert table.refused("POST", T, {"changes": [{"action": "setOption", "key": "other.token", "value": MASK}]})[0] == 400


def test_secrets_of_databases_views_and_functions_are_told_by_stars(rest: Rest, lake: Lake) -> None:
    secret = {"a.token": "hush", "b": "1"}
    shown = {"a.token": MASK, "b": "1"}
    rest.post("databases", {"name": "e", "options": secret})
    assert rest.get("databases/e")["options"] == shown
    rest.post("databases/e", {"removals": [], "updates": {"a.token": MASK, "b": "2"}})
    assert lake.database("e").options == {"a.token": "hush", "b": "2"}
    view = {"fields": [{"id": 0, "name": "a", "type": "INT"}], "query": "SELECT 1", "dialects": {}, "options": secret}
    rest.post("databases/e/views", {"identifier": {"database": "e", "object": "v"}, "schema": view})
    rest.post("databases/e/views/v", {"changes": [{"action": "setOption", "key": "a.token", "value": MASK}]})
    assert rest.get("databases/e/views/v")["schema"]["options"] == shown
    assert lake.views.get(Identifier("e", "v")).body["options"] == secret
    rest.post("databases/e/functions", {"name": "f", "options": secret})
    rest.post("databases/e/functions/f", {"changes": [{"action": "setOption", "key": "a.token", "value": MASK}]})
    assert rest.get("databases/e/functions/f")["options"] == shown
    assert lake.functions.get(Identifier("e", "f")).body["options"] == secret
    for path, body in (("views", {"identifier": {"database": "e", "object": "w"}, "schema": view | {"options": shown}}),):
        assert rest.refused("POST", f"databases/e/{path}", body)[0] == 400
    assert rest.refused("POST", "databases/e/functions", {"name": "g", "options": shown})[0] == 400
    assert rest.refused("POST", "databases", {"name": "g", "options": shown})[0] == 400


DANGEROUS = (
    "catalog-impl", "kms.client.class", "commit.callbacks", "commit.callback.evil.Callback.param", "tag.callbacks", "metastore",
    "partition.mark-done-action.custom.class", "partition.mark-done-action.http.url", "uri", "fs.s3.endpoint", "FS.S3.Endpoint",
    "hadoop.fs.defaultFS", "hive-conf-dir", "jdbc.url", "security.kerberos.login.keytab", "kafka.bootstrap.servers", "driverClass",
    "token.provider",
    "spark.driver.extraJavaOptions", "parquet.crypto.factory.class", "global-index.external-path", "dlf.token-ecs-metadata-url",
    "lock.type", "fs.s3a.storage.class", "s3.storage-class.impl", "fs.docs.url", "docs.url.class",
    "object-location", "local-cache.dir", "commit.custom-listeners",
)  # fmt: skip


@pytest.mark.parametrize("key", DANGEROUS)
def test_what_would_make_readers_run_or_reach_something_is_kept_by_nobody(table: Rest, key: str) -> None:
    before = table.get(T)["schema"]["options"]
    assert table.refused("POST", T, {"changes": [{"action": "setOption", "key": key, "value": "evil"}]})[0] == 400
    assert table.get(T)["schema"]["options"] == before
    for kind in ("table", "format-table", "object-table"):
        made = schema(("a", "INT"), type=kind)
        made["options"][key] = "evil"
        assert table.refused("POST", "databases/d/tables", new_table("u", made))[0] == 400


K = "databases/d/tables/k"
JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="hush";'


@pytest.fixture
def topic(rest: Rest, gateway: Gateway) -> Rest:
    gateway.run(
        "CREATE TABLE d.k (a INT, p INT METADATA FROM 'partition' VIRTUAL) WITH ('connector' = 'kafka', 'topic' = 'x', 'format' = 'json', "
        f"'properties.bootstrap.servers' = 'h:1', 'properties.sasl.jaas.config' = '{JAAS}')"
    ).close()
    return rest


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("properties.ssl.truststore.location", "/etc/passwd"),
        ("properties.metric.reporters", "evil"),
        ("properties.security.providers", "evil"),
        ("properties.config.providers", "evil"),
        ("properties.sasl.jaas.config", "com.sun.security.auth.module.JndiLoginModule required;"),
        ("bucket", "4"),
        ("connector", "none"),
        ("sluice.connector-table", "{}"),
        ("type", "table"),
    ],
)
def test_options_of_a_connector_are_what_sql_lets_them_be(topic: Rest, lake: Lake, key: str, value: str) -> None:
    before = lake.open_any(Identifier("d", "k")).schema
    assert topic.refused("POST", K, {"changes": [{"action": "setOption", "key": key, "value": value}]})[0] == 400
    assert lake.open_any(Identifier("d", "k")).schema == before


@pytest.mark.parametrize("key", ["connector", "sluice.connector-table", "type", "topic"])
def test_a_table_with_a_connector_keeps_what_says_what_it_is(topic: Rest, gateway: Gateway, key: str) -> None:
    assert topic.refused("POST", K, {"changes": [{"action": "removeOption", "key": key}]})[0] == 400
    with pytest.raises(InvalidOption):
        gateway.run(f"ALTER TABLE d.k RESET ('{key}')")
    assert "'connector' = 'kafka'" in gateway.run("SHOW CREATE TABLE d.k").collect()[0][0]


def test_a_table_with_a_connector_is_changed_within_its_rules(topic: Rest, lake: Lake, gateway: Gateway) -> None:
    changes = [("properties.sasl.jaas.config", MASK), ("properties.sasl.mechanism", "PLAIN"), ("topic", "y")]
    topic.post(K, {"changes": [{"action": "setOption", "key": key, "value": value} for key, value in changes]})
    options = lake.open_any(Identifier("d", "k")).schema.options
    assert (options["properties.sasl.jaas.config"], options["topic"]) == (JAAS, "y")
    gateway.run("ALTER TABLE d.k ADD b INT").close()


def test_clients_meet_no_table_with_a_connector(topic: Rest, gateway: Gateway) -> None:
    """Java's clients know no such type: one table ended `sys.tables` and every list of tables. pypaimon wrote rows into it."""
    topic.post("databases/d/tables", new_table("t"))
    assert topic.get("databases/d/tables")["tables"] == ["t"]
    assert topic.get("databases/d/tables", tableType="connector-table")["tables"] == []
    assert [one["name"] for one in topic.get("databases/d/table-details")["tableDetails"]] == ["t"]
    assert topic.get("tables")["tables"] == [{"database": "d", "object": "t"}]
    assert topic.refused("GET", K) == (400, "TABLE", "d.k")
    assert gateway.run("SHOW TABLES FROM d").collect() == [("k",), ("t",)]


def test_one_that_an_earlier_version_let_lose_its_connector_says_so(topic: Rest, lake: Lake, gateway: Gateway) -> None:
    lake.alter_table(Identifier("d", "k"), [RemoveOption(key="connector")])
    for statement in ("SHOW CREATE TABLE d.k", "DESCRIBE d.k"):
        with pytest.raises(InvalidOption, match="DROP TABLE it"):
            gateway.run(statement)
    gateway.run("DROP TABLE d.k").close()


def test_what_other_clients_note_is_kept(table: Rest) -> None:
    for key in ("owner", "custom.note", "classification", "hosted-by", "team-1.first", "s3.storage-class", "data-class", "docs.url"):
        assert table.post(T, {"changes": [{"action": "setOption", "key": key, "value": "kept"}]}) is None
        assert table.get(T)["schema"]["options"][key] == "kept"


def test_a_format_that_no_client_knows_is_refused(table: Rest) -> None:
    """Spark could neither load such a table nor drop it, and it stood in every listing."""
    made = schema(("a", "INT"))
    made["options"] = {"file.format": "word"}
    assert table.refused("POST", "databases/d/tables", new_table("u", made))[0] == 400
    assert table.get("databases/d/tables")["tables"] == ["t"]
    assert table.refused("POST", T, {"changes": [{"action": "setOption", "key": "file.format", "value": "word"}]})[0] == 400
    made["options"] = {"file.format": "AVRO"}
    table.post("databases/d/tables", new_table("u", made))


def test_lists(rest: Rest) -> None:
    for name in ("t1", "t2", "t_2", "u"):
        rest.post("databases/d/tables", new_table(name))
    rest.post("databases/d/tables", new_table("f", schema(("a", "INT"), type="format-table")))
    rest.post("databases/default/tables", {"identifier": {"database": "default", "object": "x"}, "schema": PLAIN})
    assert rest.get("databases/d/tables", maxResults="2") == {"tables": ["f", "t1"], "nextPageToken": "t1"}
    assert rest.get("databases/d/tables", tableNamePattern="t%")["tables"] == ["t1", "t2", "t_2"]
    assert rest.get("databases/d/tables", tableNamePattern="%_2")["tables"] == ["t_2"]
    assert rest.get("databases/d/tables", tableType="format-table")["tables"] == ["f"]
    assert rest.get("databases/d/tables", tableType="table")["tables"] == ["t1", "t2", "t_2", "u"]
    details = rest.get("databases/d/table-details", maxResults="2", tableNamePattern="t%")
    assert [one["name"] for one in details["tableDetails"]] == ["t1", "t2"]
    assert details["nextPageToken"] == "t2"
    first = rest.get("tables", maxResults="3", tableNamePattern="%", databaseNamePattern="d%")
    rest_ = rest.get("tables", maxResults="3", pageToken=first["nextPageToken"])
    names = [f"{one['database']}.{one['object']}" for one in first["tables"] + rest_["tables"]]
    assert names == ["d.f", "d.t1", "d.t2", "d.t_2", "d.u", "default.x"]
    assert rest.refused("GET", "tables", pageToken="nodot")[0] == 400
    assert rest.refused("GET", "databases/none/tables") == (404, "DATABASE", "none")
    assert rest.refused("GET", "databases/none/table-details") == (404, "DATABASE", "none")


def test_every_change_of_a_schema(table: Rest) -> None:
    def alter(*changes: dict[str, Any]) -> None:
        assert table.post(T, {"changes": list(changes)}) is None

    row = {"type": "ROW", "fields": [{"id": 0, "name": "x", "type": "INT"}]}
    first = {"fieldName": "a", "referenceFieldName": None, "type": "FIRST"}
    alter(
        {"action": "addColumn", "fieldNames": ["a"], "dataType": "INT", "comment": "c", "move": first},
        {"action": "addColumn", "fieldNames": ["r"], "dataType": row, "comment": None, "move": None},
        {"action": "addColumn", "fieldNames": ["l"], "dataType": {"type": "ARRAY", "element": "INT"}},
    )
    assert table.get(T)["schemaId"] == 1
    assert [name for _, name, _ in fields(table)] == ["a", "id", "name", "r", "l"]
    alter({"action": "addColumn", "fieldNames": ["r", "y"], "dataType": "STRING"})
    alter({"action": "renameColumn", "fieldNames": ["r", "x"], "newName": "z"})
    alter({"action": "updateColumnType", "fieldNames": ["r", "z"], "newDataType": "BIGINT", "keepNullability": True})
    alter({"action": "updateColumnType", "fieldNames": ["l", "element"], "newDataType": "BIGINT", "keepNullability": False})
    nested = {name: type_ for _, name, type_ in fields(table)}
    assert [(f["name"], f["type"]) for f in nested["r"]["fields"]] == [("z", "BIGINT"), ("y", "STRING")]
    assert nested["l"] == {"type": "ARRAY", "element": "BIGINT"}
    alter({"action": "dropColumn", "fieldNames": ["r", "y"]})
    alter({"action": "updateColumnNullability", "fieldNames": ["id"], "newNullability": True})
    alter({"action": "updateColumnComment", "fieldNames": ["id"], "newComment": "key"})
    alter({"action": "updateColumnDefaultValue", "fieldNames": ["name"], "newDefaultValue": "n/a"})
    alter({"action": "updateColumnPosition", "move": {"fieldName": "a", "referenceFieldName": "id", "type": "AFTER"}})
    alter({"action": "updateColumnPosition", "move": {"fieldName": "l", "referenceFieldName": "id", "type": "BEFORE"}})
    alter({"action": "updateColumnPosition", "move": {"fieldName": "l", "type": "LAST"}})
    alter({"action": "dropColumn", "fieldNames": ["r"]}, {"action": "setOption", "key": "k.unknown", "value": "v"})
    alter({"action": "updateComment", "comment": "said"}, {"action": "setOption", "key": "gone", "value": "v"})
    alter({"action": "removeOption", "key": "gone"})
    got = table.get(T)["schema"]
    assert [(f["name"], f["type"]) for f in got["fields"]] == [
        ("id", "BIGINT"), ("a", "INT"), ("name", "STRING"), ("l", {"type": "ARRAY", "element": "BIGINT"}),
    ]  # fmt: skip
    assert (got["fields"][0]["description"], got["fields"][2]["defaultValue"]) == ("key", "n/a")
    assert (got["options"], got["comment"]) == ({"k.unknown": "v"}, "said")


@pytest.mark.parametrize("said", ["", None])
def test_a_default_is_dropped_as_spark_says_it(table: Rest, said: str | None) -> None:
    """By an empty text, which was refused as no value of the column's type; for a text it is one."""

    def alter(column: str, default: str | None) -> dict[str, Any]:
        assert (
            table.post(T, {"changes": [{"action": "updateColumnDefaultValue", "fieldNames": [column], "newDefaultValue": default}]}) is None
        )
        return {field["name"]: field.get("defaultValue") for field in table.get(T)["schema"]["fields"]}

    assert alter("id", "7") == {"id": "7", "name": None}
    assert alter("id", said) == {"id": None, "name": None}
    alter("name", "n/a")
    assert alter("name", said) == {"id": None, "name": said}


@pytest.mark.parametrize(
    ("change", "status", "kind"),
    [
        ({"action": "addColumn", "fieldNames": ["id"], "dataType": "INT"}, 409, "COLUMN"),
        ({"action": "dropColumn", "fieldNames": ["none"]}, 404, "COLUMN"),
        ({"action": "renameColumn", "fieldNames": ["none"], "newName": "x"}, 404, "COLUMN"),
        ({"action": "updateColumnType", "fieldNames": ["name"], "newDataType": {"type": "ARRAY", "element": "INT"}}, 400, None),
        ({"action": "updateColumnType", "fieldNames": ["name"], "newDataType": "NOSUCH"}, 400, None),
        ({"action": "updateColumnType", "fieldNames": ["name", "x"], "newDataType": "INT"}, 400, None),
        ({"action": "addColumn", "fieldNames": ["n"], "dataType": "INT NOT NULL"}, 400, None),
        ({"action": "dropPrimaryKey"}, 400, None),
        ({"action": "setOption", "key": "merge-engine", "value": "deduplicate"}, 400, None),
        ({"action": "setOption", "key": "bucket", "value": "many"}, 400, None),
        ({"action": "setOption", "key": "path", "value": "/x"}, 400, None),
        ({"action": "addColum"}, 400, None),
        ({"action": "setOption"}, 400, None),
        ({"action": "addColumn", "fieldNames": []}, 400, None),
        ({"action": "addColumn", "fieldNames": ["b"]}, 400, None),
        ({}, 400, None),
    ],
)
def test_changes_refused_change_nothing(table: Rest, change: dict[str, Any], status: int, kind: str | None) -> None:
    before = table.get(T)["schema"]
    good = {"action": "updateComment", "comment": "x"}
    assert table.refused("POST", T, {"changes": [good, change]})[:2] == (status, kind)
    assert table.get(T)["schema"] == before


def test_options_of_flinks_lookup_joins_are_kept(rest: Rest) -> None:
    """They join append tables, too; what finds rows by a primary key is refused."""
    given = {"lookup.async": "true", "lookup.dynamic-partition": "max_pt()"}
    rest.post("databases/d/tables", new_table("t", PLAIN | {"options": PLAIN["options"] | given}))
    rest.post(T, {"changes": [{"action": "setOption", "key": "lookup.cache", "value": "FULL"}]})
    assert (given | {"lookup.cache": "FULL"}).items() <= rest.get(T)["schema"]["options"].items()
    for key in ("lookup-wait", "lookup.remote-file.enabled"):
        assert rest.refused("POST", T, {"changes": [{"action": "setOption", "key": key, "value": "true"}]})[0] == 400


_ROW = {"type": "ROW", "fields": [{"id": 0, "name": "x", "type": "INT"}, {"id": 1, "name": "y", "type": "STRING"}], "nullable": True}
_PYPAIMONS = {
    "MAP": {"type": "MAP<STRING, INT>", "key": "STRING", "value": "INT", "nullable": True},
    "MAP NOT NULL": {"type": "MAP<STRING NOT NULL, INT> NOT NULL", "key": "STRING NOT NULL", "value": "INT"},
    "ARRAY": {"type": "ARRAY<STRING NOT NULL>", "element": "STRING NOT NULL"},
    "ROW": _ROW,
    "ARRAY of ROW": {"type": "ARRAY<ROW<x INT, y STRING>>", "element": {**_ROW, "type": "ROW<x INT, y STRING>"}},
}


@pytest.mark.parametrize("name", _PYPAIMONS)
def test_a_nested_type_is_told_by_its_first_word_and_its_members(rest: Rest, gateway: Gateway, name: str) -> None:
    """As pypaimon 1.4 spells it, which numbers the fields of every ROW from 0; Java reads it alike."""
    rest.post("databases/d/tables", new_table("t", schema(("id", "BIGINT"), ("n", _PYPAIMONS[name]), ("m", _PYPAIMONS[name]), bucket="-1")))
    made = gateway.lake.open(Identifier("d", "t")).schema
    ids = [field.id for field in every_field(made.fields)]
    assert (len(set(ids)), made.highest_field_id) == (len(ids), max(ids))
    assert [made.field(column).type.nullable for column in "nm"] == [not name.endswith("NOT NULL")] * 2
    kept = rest.get(T)["schema"]["fields"][1]["type"]
    assert kept["type"] == {"ARRAY of ROW": "ARRAY"}.get(name, name)


@pytest.mark.parametrize(
    "body",
    [
        PLAIN | {"primaryKeys": ["id"]},
        schema(("id", "BIGINT"), merge_engine="deduplicate"),
        schema(("id", "BIGINT"), bucket="2"),
        schema(("id", "BIGINT"), bucket="x"),
        schema(("id", "BIGINT"), primary_key="id"),
        schema(),
        schema(("id", "BIGINT"), ("id", "INT")),
        schema(("id", "NOSUCH")),
        schema(("id", "BIGINT"), partition=["none"]),
        PLAIN | {"fields": [{"id": 1, "name": "a", "type": "INT"}, {"id": 1, "name": "b", "type": "INT"}]},
        PLAIN | {"fields": None},
        PLAIN | {"fields": [3]},
        PLAIN | {"options": {"path": "/etc/x"}},
        PLAIN | {"partitionKeys": [3]},
    ],
)
def test_what_no_append_table_can_have_is_refused_at_creation(rest: Rest, body: dict[str, Any]) -> None:
    assert rest.refused("POST", "databases/d/tables", new_table("t", body))[0] == 400
    assert rest.get("databases/d/tables")["tables"] == []


def test_errors_of_tables(table: Rest) -> None:
    assert table.refused("POST", "databases/d/tables", new_table()) == (409, "TABLE", "d.t")
    assert table.refused("POST", "databases/none/tables", new_table()) == (404, "DATABASE", "none")
    for method, path in (("GET", "none"), ("POST", "none"), ("DELETE", "none"), ("GET", "t$branch_b"), ("GET", "t$snapshots")):
        body: dict[str, Any] | None = {"changes": []} if method == "POST" else None
        assert table.refused(method, f"databases/d/tables/{path}", body)[:2] == (404, "TABLE"), path
    assert table.refused("POST", "databases/d/tables", new_table("a$b"))[0] == 400


def test_rename_keeps_the_table(table: Rest) -> None:
    before = table.get(T)
    table.post("databases", {"name": "e"})
    table.post("tables/rename", {"source": {"database": "d", "object": "t"}, "destination": {"database": "e", "object": "u"}})
    after = table.get("databases/e/tables/u")
    assert after["id"] == before["id"]
    assert Path(after["path"].removeprefix("file://"), "schema", "schema-0").exists()
    assert table.refused("GET", T)[0] == 404
    table.post("databases/d/tables", new_table())
    rename = {"source": {"database": "d", "object": "t"}, "destination": {"database": "e", "object": "u"}}
    assert table.refused("POST", "tables/rename", rename) == (409, "TABLE", "e.u")
    assert (
        table.refused("POST", "tables/rename", {"source": {"database": "d", "object": "x"}} | {"destination": rename["source"]})[0] == 404
    )


def test_drop_and_create_is_another_table(table: Rest) -> None:
    before = table.get(T)
    path = Path(before["path"].removeprefix("file://"))
    table.delete(T)
    assert not path.exists()
    table.post("databases/d/tables", new_table())
    assert table.get(T)["id"] != before["id"]


def test_replace_keeps_id_and_past(table: Rest, gateway: Gateway) -> None:
    gateway.run("INSERT INTO d.t VALUES (1, 'a')").collect()
    before = table.get(T)
    table.post(f"{T}/replace", {"schema": schema(("x", "STRING"))})
    after = table.get(T)
    assert (after["id"], after["schemaId"], [f["name"] for f in after["schema"]["fields"]]) == (before["id"], 1, ["x"])
    latest = table.get(f"{T}/snapshot")["snapshot"]
    assert (latest["snapshot"]["id"], latest["snapshot"]["schemaId"], latest["recordCount"]) == (2, 1, 0)
    assert gateway.run("SELECT * FROM d.t").collect() == []
    gateway.run("INSERT INTO d.t VALUES ('b')").collect()
    assert gateway.run("SELECT * FROM d.t").collect() == [("b",)]
    assert table.refused("POST", f"{T}/replace", {"schema": schema(("x", "INT"), ("p", "INT"), partition=["p"])})[0] == 400
    assert table.refused("POST", "databases/d/tables/no/replace", {"schema": PLAIN})[:2] == (404, "TABLE")


def test_external_tables_lie_where_they_are_told_and_stay(rest: Rest, tmp_path: Path) -> None:
    place = tmp_path / "warehouse" / "elsewhere" / "x"
    rest.post("databases/d/tables", new_table("t", PLAIN | {"options": {"path": f"file://{place}"}}))
    got = rest.get(T)
    assert (got["isExternal"], got["path"], got["schema"]["options"]) == (True, f"file://{place}", {})
    rest.delete(T)
    assert (place / "schema" / "schema-0").exists()


def test_tables_of_shapes_are_kept_for_paimons_clients(rest: Rest, gateway: Gateway) -> None:
    rest.post("databases/d/tables", new_table("t", schema(("a", "INT"), ("g", "GEOGRAPHY(srid:4326)"), partition=None)))
    rest.post(T, {"changes": [{"action": "addColumn", "fieldNames": ["h"], "dataType": "GEOMETRY"}]})
    assert [field["type"] for field in rest.get(T)["schema"]["fields"]] == ["INT", "GEOGRAPHY(srid:4326, spherical)", "GEOMETRY(OGC:CRS84)"]
    for text in ("SELECT * FROM d.t", "INSERT INTO d.t (a) VALUES (1)", "CREATE TABLE d.u (g GEOMETRY)"):
        with pytest.raises(UnsupportedType, match="GEO"):
            gateway.run(text).collect()
    keyed = schema(("a", "INT"), ("g", "GEOMETRY"), partition=["g"])
    assert rest.refused("POST", "databases/d/tables", new_table("p", keyed))[0] == 400


def test_tables_of_other_kinds_are_kept_and_not_run(rest: Rest, gateway: Gateway) -> None:
    rest.post("databases/d/tables", new_table("t", schema(("a", "INT"), ("p", "STRING"), partition=["p"], type="format-table")))
    rest.post("databases/d/tables", new_table("o", schema(("path", "STRING"), type="object-table")))
    assert Path(rest.get("databases/d/tables/o")["path"].removeprefix("file://")).is_dir()
    rest.post(T, {"changes": [{"action": "addColumn", "fieldNames": ["b"], "dataType": "INT"}]})
    assert len(fields(rest)) == 3
    with pytest.raises(Exception, match="is a format-table"):
        gateway.run("SELECT * FROM d.t").collect()


def test_tables_whose_rows_have_ids_are_appended_to_and_those_of_several_files_a_row_are_not(rest: Rest, gateway: Gateway) -> None:
    for name, option in (("r", "row-tracking.enabled"), ("e", "data-evolution.enabled")):
        switches = {"row-tracking.enabled": "true", option: "true"}
        body = new_table(name, schema(("a", "INT"), partition=None, **switches, **{"file.format": "avro"}))
        rest.post("databases/d/tables", body)
        assert rest.get(f"databases/d/tables/{name}")["schema"]["options"][option] == "true", "others know what to do with it"
        gateway.lake.alter_table(Identifier("d", name), [RemoveOption(key="file.format")])
    with pytest.raises(UnsupportedType, match=r"data-evolution\.enabled"):
        gateway.run("INSERT INTO d.e VALUES (1)")
    for n in range(2):
        gateway.run(f"INSERT INTO d.r VALUES ({n})")
    assert gateway.run("SELECT * FROM d.r").collect() == [(0,), (1,)]
    assert gateway.run("SELECT first_row_id FROM d.r$files").collect() == [(0,), (1,)]
    with pytest.raises(UnsupportedType, match=r"data-evolution\.enabled"):
        gateway.run("SELECT * FROM d.e")


def test_sql_and_rest_see_each_other(rest: Rest, gateway: Gateway) -> None:
    gateway.run("CREATE TABLE d.t (id BIGINT COMMENT 'c', n STRING) COMMENT 'x' PARTITIONED BY (n) WITH ('bucket'='-1')").collect()
    got = rest.get(T)["schema"]
    assert (got["comment"], got["partitionKeys"], got["options"]) == ("x", ["n"], {"bucket": "-1"})
    rest.post(T, {"changes": [{"action": "setOption", "key": "made.up", "value": "1"}]})
    assert "'made.up' = '1'" in gateway.run("SHOW CREATE TABLE d.t").collect()[0][0]
    gateway.run("ALTER TABLE d.t ADD (m INT)").collect()
    assert [name for _, name, _ in fields(rest)] == ["id", "n", "m"]


CONTRADICTIONS = (
    {"snapshot.num-retained.min": "20", "snapshot.num-retained.max": "10"},
    {"snapshot.num-retained.max": "5"},
    {"changelog.num-retained.min": "9", "changelog.num-retained.max": "8"},
    {"scan.mode": "from-snapshot"},
    {"scan.snapshot-id": "1", "scan.tag-name": "x"},
    {"scan.mode": "latest", "scan.timestamp-millis": "1"},
    {"scan.timestamp": "2026-01-31T12:00:00Z"},
    {"file.format": "orc", "file.compression": "gzip"},
    {"tag.creation-period": "hourly", "tag.creation-delay": "2 h"},
)
"""Options beside each other that keep Java's clients from loading a table, or from writing to it."""
OTHERS = (
    {"partition.expiration-time": "7 d"},
    {"partition.time-interval": "1 d"},
    {"commit.min-retry-wait": "20 s"},
    {"compaction.small-file-ratio": "2"},
    {"file.format": "AVRO", "file.compression": "deflate"},
    {"file.compression": "brotli"},
)
"""What does nothing, or is other clients' alone: they may have it for all their tables."""


@pytest.mark.parametrize("options", CONTRADICTIONS, ids=str)
def test_options_that_contradict_each_other_are_refused(table: Rest, options: dict[str, str]) -> None:
    made = schema(("id", "BIGINT NOT NULL"), ("name", "STRING"))
    made["options"] = options
    status, *_ = table.refused("POST", "databases/d/tables", new_table("u", made))
    assert status == 400
    assert table.refused("POST", f"{T}/replace", {"schema": made})[0] == 400
    before = table.get(T)["schema"]["options"]
    changes = [{"action": "setOption", "key": key, "value": value} for key, value in options.items()]
    assert table.refused("POST", T, {"changes": changes})[0] == 400
    assert table.get(T)["schema"]["options"] == before


def test_an_option_that_others_need_is_not_taken_away(table: Rest) -> None:
    for key, value in (("scan.snapshot-id", "1"), ("scan.mode", "from-snapshot")):
        table.post(T, {"changes": [{"action": "setOption", "key": key, "value": value}]})
    assert table.refused("POST", T, {"changes": [{"action": "removeOption", "key": "scan.snapshot-id"}]})[0] == 400
    table.post(T, {"changes": [{"action": "removeOption", "key": key} for key in ("scan.snapshot-id", "scan.mode")]})


@pytest.mark.parametrize("options", OTHERS, ids=str)
def test_options_that_only_do_nothing_are_kept(table: Rest, options: dict[str, str]) -> None:
    made = schema(("id", "BIGINT NOT NULL"), ("name", "STRING"))
    made["options"] = options
    table.post("databases/d/tables", new_table("u", made))
    assert table.get("databases/d/tables/u")["schema"]["options"].items() >= options.items()
