"""Permissions, row rules, data tokens and registered tables, as the protocol spells them."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient

from server.app import create_app
from server.process.services import Services
from server.settings.options import DATA_TOKEN, DATA_TOKEN_SHARED
from tests.server.paimon.speaking import Rest, new_table, schema

TABLE = {"type": "TABLE", "database": "d", "table": "t"}


class As(Rest):
    """Requests with a token."""

    def __init__(self, client: FlaskClient, token: str) -> None:
        super().__init__(client)
        self.headers = {"Authorization": f"Bearer {token}"}

    def call(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        data = None if body is None else json.dumps(body).encode()
        return self.client.open(f"/v1/sluice/{path}", method=method, data=data, query_string=query or None, headers=self.headers)

    def sql(self, text: str) -> None:
        response = self.client.post("/sql", data=text, headers=self.headers)
        assert response.status_code == 200, response.data


@pytest.fixture
def admin(client: FlaskClient) -> As:
    made = json.loads(client.post("/tokens", json={"name": "root", "administrator": True}).data)
    caller = As(client, made["token"])
    caller.post("databases", {"name": "d", "options": None})
    caller.post("databases/d/tables", new_table("t", schema(("id", "BIGINT"), ("name", "STRING"))))
    caller.post("databases/d/tables", new_table("u", schema(("id", "BIGINT"))))
    return caller


@pytest.fixture
def ada(client: FlaskClient, admin: As) -> As:
    made = json.loads(client.post("/tokens", json={"name": "ada"}, headers=admin.headers).data)
    return As(client, made["token"])


def grant(admin: As, access: str, resource: dict[str, str], **more: Any) -> None:
    assert admin.post("permissions/grant", {"resource": resource, "access": access, "principal": "ada", **more}) is None


def test_the_catalog_asks_for_the_token_too(client: FlaskClient, admin: As) -> None:
    assert client.get("/v1/config?warehouse=sluice").status_code == 401
    assert Rest(client).refused("GET", "databases") == (401, None, None)


def test_lists_and_errors_of_who_may_nothing(ada: As) -> None:
    assert ada.get("databases")["databases"] == ["default"]
    assert ada.get("tables")["tables"] == []
    for method, path, body in (
        ("GET", "databases/d", None), ("GET", "databases/d/tables", None), ("GET", "databases/d/tables/t", None),
        ("POST", "databases/d/tables/t", {"changes": [{"action": "setOption", "key": "a", "value": "b"}]}),
        ("DELETE", "databases/d/tables/t", None), ("DELETE", "databases/d", None), ("POST", "databases", {"name": "e", "options": {}}),
        ("POST", "databases/d/tables", new_table("new")), ("GET", "databases/d/tables/t/snapshot", None),
        ("POST", "databases/d/tables/t/auth", {"select": None}), ("GET", "databases/d/tables/t/token", None),
        ("POST", "permissions/grant", {"resource": TABLE, "access": "SELECT", "principal": "ada"}),
        ("POST", "tables/rename", {"source": {"database": "d", "object": "t"}, "destination": {"database": "d", "object": "v"}}),
    ):  # fmt: skip
        assert ada.refused(method, path, body)[0] == 403, path


@pytest.mark.parametrize("granted", ["LIST ON DATABASE d", "SELECT ON d.t", "SELECT ON VIEW d.v", "DROP ON FUNCTION d.f"])
def test_lists_of_whole_objects_show_what_is_shown_by_name(admin: As, ada: As, granted: str) -> None:
    view = {"fields": [], "query": "SELECT 'secret'"}
    admin.post("databases/d/views", {"identifier": {"database": "d", "object": "v"}, "schema": view})
    admin.post("databases/d/functions", {"name": "f", "inputParams": [], "returnParams": [], "deterministic": True, "definitions": {}})
    admin.sql(f"GRANT {granted} TO ada")
    shown = {(each, name) for each, name in (("table", "t"), ("table", "u"), ("view", "v"), ("function", "f"))
             if ada.call("GET", f"databases/d/{each}s/{name}").status_code == 200}  # fmt: skip
    for each in ("table", "view", "function"):
        names = set(ada.get(f"databases/d/{each}s")[f"{each}s"])
        whole = {one["name"] for one in ada.get(f"databases/d/{each}-details")[f"{each}Details"]}
        assert whole == {name for what, name in shown if what == each}
        assert whole <= names
        assert whole == names or granted.startswith("LIST")


def test_who_may_alter_a_table_or_view_moves_it_to_no_other_database(admin: As, ada: As) -> None:
    admin.post("databases/d/views", {"identifier": {"database": "d", "object": "v"}, "schema": {"fields": [], "query": "SELECT 1"}})
    admin.sql("CREATE DATABASE e; GRANT ALL ON ALL IN DATABASE e TO ada; GRANT ALL ON DATABASE e TO ada")
    admin.sql("GRANT ALTER ON d.t TO ada; GRANT ALTER ON VIEW d.v TO ada")
    for kind, name in (("tables", "t"), ("views", "v")):
        move = {"source": {"database": "d", "object": name}, "destination": {"database": "e", "object": name}}
        assert ada.refused("POST", f"{kind}/rename", move)[0] == 403
        admin.sql(f"GRANT GRANT ON {'VIEW ' if kind == 'views' else ''}d.{name} TO ada")
        assert ada.post(f"{kind}/rename", move) is None


def test_grants_are_given_listed_and_taken(admin: As, ada: As) -> None:
    grant(admin, "select", TABLE)
    grant(admin, "UPDATE", TABLE, expireTime="2099-01-31T00:00:00.123Z")
    grant(admin, "SELECT", {**TABLE, "type": "COLUMN"}, columns={"excludedColumnNames": ["name"]})
    admin.post("permissions/grant", {"resource": TABLE, "access": "ALL", "principal": "bob"})
    assert ada.get("databases/d/tables")["tables"] == ["t"]
    assert ada.get("databases/d/tables/t")["name"] == "t"
    found = admin.get("permissions", resourceType="TABLE", database="d", table="t")
    assert found == {
        "permissions": [
            {"resource": TABLE, "access": "SELECT", "principal": "ada"},
            {"resource": TABLE, "access": "UPDATE", "principal": "ada", "expireTime": "2099-01-31T00:00:00.123Z"},
            {"resource": TABLE, "access": "ALL", "principal": "bob"},
        ],
        "nextPageToken": None,
    }
    assert admin.get("permissions", resourceType="COLUMN", database="d", table="t")["permissions"][0]["columns"] == {
        "excludedColumnNames": ["name"]
    }
    one = admin.get("permissions", resourceType="TABLE", database="d", table="t", maxResults="1")
    two = admin.get("permissions", resourceType="TABLE", database="d", table="t", maxResults="2", pageToken=one["nextPageToken"])
    assert [p["access"] for p in one["permissions"] + two["permissions"]] == ["SELECT", "UPDATE", "ALL"]
    assert two["nextPageToken"] is None
    assert [p["principal"] for p in ada.get("permissions", resourceType="TABLE", database="d", table="t")["permissions"]] == ["ada", "ada"]
    assert len(admin.get("permissions", resourceType="TABLE", database="d", table="t", principal="bob")["permissions"]) == 1
    assert len(admin.get("permissions", resourceType="TABLE", database="d", table="t", access="update")["permissions"]) == 1
    admin.post("permissions/revoke", {"resource": TABLE, "access": "SELECT", "principal": "ada"})
    assert admin.refused("POST", "permissions/revoke", {"resource": TABLE, "access": "SELECT", "principal": "ada"})[0] == 404


@pytest.mark.parametrize(
    "body",
    [
        {}, {"resource": {"type": "TABLE", "database": "d"}, "access": "SELECT", "principal": "a"},
        {"resource": {"type": "NOTHING"}, "access": "SELECT", "principal": "a"},
        {"resource": TABLE, "access": "READ", "principal": "a"}, {"resource": TABLE, "access": "CREATETABLE", "principal": "a"},
        {"resource": TABLE, "access": "SELECT", "principal": " "}, {"resource": TABLE, "access": "SELECT", "principal": "a", "columns": {}},
        {"resource": TABLE, "access": "SELECT", "principal": "a", "expireTime": "tomorrow"},
        {"resource": {**TABLE, "view": "v"}, "access": "SELECT", "principal": "a"},
        {"resource": {"type": "VIEW", "database": "d", "table": "t"}, "access": "SELECT", "principal": "a"},
        {"resource": {**TABLE, "table": {"a": 1}}, "access": "SELECT", "principal": "a"},
        {"resource": {**TABLE, "database": ["d"]}, "access": "SELECT", "principal": "a"},
        {"resource": {**TABLE, "type": ["TABLE"]}, "access": "SELECT", "principal": "a"},
    ],
)  # fmt: skip
def test_wrong_grants_are_told(admin: As, ada: As, body: dict[str, Any]) -> None:
    assert admin.refused("POST", "permissions/grant", body)[0] == 400
    for what in ("grant", "revoke"):  # who may not grant is told the same, or that
        assert ada.refused("POST", f"permissions/{what}", body)[0] in (400, 403)


def test_rules_are_answered_as_configured(admin: As, ada: As) -> None:
    grant(admin, "SELECT", TABLE)
    assert ada.post("databases/d/tables/t/auth", {"select": None}) == {"filter": None, "columnMasking": None}
    assert "query-auth.enabled" not in ada.get("databases/d/tables/t")["schema"]["options"]
    admin.sql("CREATE POLICY low ON d.t TO ada USING (id < 10 AND name LIKE 'a%')")
    admin.sql("CREATE MASKING POLICY m ON d.t (name) TO ada USING (substring(name, 1, 2))")
    answer = ada.post("databases/d/tables/t/auth", {"select": ["id"]})
    number = {"index": 0, "name": "id", "type": "BIGINT"}
    text = {"index": 1, "name": "name", "type": "STRING"}
    assert [json.loads(rule) for rule in answer["filter"]] == [
        {
            "kind": "COMPOUND",
            "function": "AND",
            "children": [
                {"kind": "LEAF", "transform": {"name": "FIELD_REF", "fieldRef": number}, "function": "LESS_THAN", "literals": [10]},
                {"kind": "LEAF", "transform": {"name": "FIELD_REF", "fieldRef": text}, "function": "STARTS_WITH", "literals": ["a"]},
            ],
        }
    ]
    assert {name: json.loads(rule) for name, rule in answer["columnMasking"].items()} == {
        "name": {"name": "SUBSTRING", "inputs": [text, "1", "2"]}
    }
    assert ada.get("databases/d/tables/t")["schema"]["options"]["query-auth.enabled"] == "true"
    assert ada.get("databases/d/table-details")["tableDetails"][0]["schema"]["options"]["query-auth.enabled"] == "true"
    assert "query-auth.enabled" not in admin.get("databases/d/tables/t")["schema"]["options"]
    assert admin.post("databases/d/tables/t/auth", {}) == {"filter": None, "columnMasking": None}


def test_columns_that_may_not_be_read_are_refused(admin: As, ada: As) -> None:
    grant(admin, "SELECT", {**TABLE, "type": "COLUMN"}, columns={"columnNames": ["id"]})
    assert ada.post("databases/d/tables/t/auth", {"select": ["id"]})["filter"] is None
    for select in (None, [], ["id", "name"], ["name"]):
        assert ada.refused("POST", "databases/d/tables/t/auth", {"select": select})[0] == 403


def test_a_column_that_a_rule_names_is_neither_renamed_nor_asked_for_under_another_name(admin: As, ada: As) -> None:
    grant(admin, "SELECT", TABLE)
    grant(admin, "ALTER", TABLE)
    admin.sql("ALTER TABLE d.t RENAME name TO called; ALTER TABLE d.t RENAME called TO name")
    assert ada.post("databases/d/tables/t/auth", {"select": ["called"]})["filter"] is None
    admin.sql("CREATE MASKING POLICY m ON d.t (name) TO ada USING (NULL)")
    change = {"action": "renameColumn", "fieldNames": ["name"], "newName": "called"}
    refused = ada.call("POST", "databases/d/tables/t", {"changes": [change]})
    assert (refused.status_code, "named by masking policy m" in refused.text) == (400, True)
    assert ada.refused("POST", "databases/d/tables/t/auth", {"select": ["called"]})[0] == 403


def test_readers_of_a_part_are_not_told_what_hidden_rows_tell(admin: As, ada: As) -> None:
    admin.sql("CREATE TABLE d.p (id BIGINT, day STRING) PARTITIONED BY (day) WITH ('bucket' = '-1')")
    admin.sql("INSERT INTO d.p VALUES (1, 'a'), (2, 'hidden')")
    table, at = {**TABLE, "table": "p"}, "databases/d/tables/p"
    sizes = {"baseManifestListSize", "deltaManifestListSize"}
    grant(admin, "SELECT", table)
    whole = ada.get(f"{at}/snapshot")["snapshot"]
    assert whole["lastFileCreationTime"] > 0
    assert sizes <= set(whole["snapshot"])
    admin.sql("CREATE POLICY low ON d.p TO ada USING (id < 2)")
    part = ada.get(f"{at}/snapshot")["snapshot"]
    assert part["lastFileCreationTime"] == 0
    for snapshot in (part["snapshot"], ada.get(f"{at}/snapshots")["snapshots"][0], ada.get(f"{at}/snapshots/LATEST")["snapshot"]):
        assert snapshot["deltaManifestList"] == whole["snapshot"]["deltaManifestList"]
        assert not sizes & set(snapshot)
    asked = {"partitionSpecs": [{"day": "hidden"}]}
    grant(admin, "UPDATE", table)
    for more in ({}, {"ignoreIfExists": False}):
        assert ada.refused("POST", f"{at}/partitions", {**asked, **more})[0] == 403
    assert admin.post(f"{at}/partitions", asked) == {"created": [], "existed": [{"day": "hidden"}]}
    admin.sql("DROP POLICY low ON d.p")
    assert ada.post(f"{at}/partitions", asked) == {"created": [], "existed": [{"day": "hidden"}]}
    admin.sql("REVOKE SELECT ON d.p FROM ada")
    assert ada.post(f"{at}/partitions", {"partitionSpecs": [{"day": "new"}]}) == {"created": [{"day": "new"}], "existed": []}


def _with_tokens(services: Services, admin: As, ada: As, *, shared: bool = False) -> None:
    settings = services.settings
    fixed = (("fs.s3.accessKey", "a"), ("fs.s3.secretKey", "b"))
    configured = replace(services, settings=settings.with_value(DATA_TOKEN, fixed).with_value(DATA_TOKEN_SHARED, shared))
    ada.client = admin.client = create_app(configured).test_client()


def test_a_fixed_data_token_is_an_administrators_where_nobody_says_that_all_may_have_it(admin: As, ada: As, services: Services) -> None:
    grant(admin, "SELECT", TABLE)
    assert ada.refused("GET", "databases/d/tables/t/token")[0] == 501
    assert json.loads(admin.client.get("/v1/config", headers=admin.headers).data)["overrides"] == {}
    _with_tokens(services, admin, ada)
    refused = ada.call("GET", "databases/d/tables/t/token")
    assert (refused.status_code, "SLUICE_DATA_TOKEN_SHARED" in refused.text) == (403, True)
    assert admin.get("databases/d/tables/t/token")["token"] == {"fs.s3.accessKey": "a", "fs.s3.secretKey": "b"}
    assert json.loads(admin.client.get("/v1/config", headers=ada.headers).data)["overrides"] == {"data-token.enabled": "true"}


def test_a_shared_data_token_is_for_who_may_read_the_table_whole(admin: As, ada: As, services: Services) -> None:
    _with_tokens(services, admin, ada, shared=True)
    grant(admin, "UPDATE", TABLE)
    assert ada.refused("GET", "databases/d/tables/t/token")[0] == 403, "who may not read gets no key to read"
    grant(admin, "SELECT", TABLE)
    token = ada.get("databases/d/tables/t/token")
    assert token["token"] == {"fs.s3.accessKey": "a", "fs.s3.secretKey": "b"}
    assert token["expiresAtMillis"] > 1_700_000_000_000
    assert ada.refused("GET", "databases/d/tables/u/token")[0] == 403
    admin.sql("CREATE POLICY p ON d.t TO ada USING (id = 1)")
    assert ada.refused("GET", "databases/d/tables/t/token")[0] == 403, "the files hold the rows that are kept from them"
    assert admin.get("databases/d/tables/t/token")["token"]


def test_a_table_is_registered(admin: As, ada: As, services: Services, caplog: pytest.LogCaptureFixture) -> None:
    admin.sql("INSERT INTO d.t VALUES (1, 'a')")
    warehouse = Path(services.gateway.lake.warehouse)
    shutil.copytree(warehouse / "d.db" / "t", warehouse / "elsewhere" / "t")
    body = {"identifier": {"database": "d", "object": "r"}, "path": f"file://{warehouse}/elsewhere/t"}
    assert ada.refused("POST", "databases/d/register", body)[0] == 403
    answer = admin.call("POST", "databases/d/register", body)
    assert answer.status_code == 200
    assert "row filters and masks are not in a table's files: none came along" in answer.headers["X-Notice"]
    assert "as table d.r. Grants, row filters and masks" in caplog.text
    assert admin.get("databases/d/tables/r")["isExternal"] is True
    assert admin.get("databases/d/tables/r/snapshot")["snapshot"]["recordCount"] == 1
    assert admin.refused("POST", "databases/d/register", body) == (409, "TABLE", "d.r")
    assert admin.refused("POST", "databases/d/register", {**body, "path": "/etc"})[0] in (400, 403)
