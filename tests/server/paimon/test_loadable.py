"""What Java's clients would not load is refused on every way by which a schema comes: made, replaced, altered, by SQL."""

from __future__ import annotations

import pytest

from gateway.gateway import Gateway
from model.errors import InvalidOption, InvalidSchema
from tests.model.loadable_cases import UNLOADED
from tests.server.paimon.speaking import PLAIN, Rest, new_table

T = "databases/d/tables/t"
OVERWRITES = {"action": "setOption", "key": "streaming-read-overwrite", "value": "true"}


def test_no_table_is_made_or_replaced_so(rest: Rest) -> None:
    rest.post("databases/d/tables", new_table())
    for number, case in enumerate(UNLOADED):
        made = rest.call("POST", "databases/d/tables", new_table(f"u{number}", case.body()))
        replaced = rest.call("POST", f"{T}/replace", {"schema": case.body()})
        assert (made.status_code, replaced.status_code) == (400, 400), case
    assert rest.get("databases/d/tables")["tables"] == ["t"]
    assert rest.get(T)["schemaId"] == 0


@pytest.mark.parametrize("has_data", [False, True])
def test_none_is_altered_so(rest: Rest, gateway: Gateway, has_data: bool) -> None:
    gateway.run("CREATE TABLE d.t (id INT, v STRING)").close()
    if has_data:
        gateway.run("INSERT INTO d.t VALUES (1, 'a')").close()
    answer = rest.call("POST", T, {"changes": [OVERWRITES]})
    assert (answer.status_code, "Java clients" in answer.text) == (400, True)
    ids = {"action": "setOption", "key": "row-tracking.enabled", "value": "true"}
    assert rest.call("POST", T, {"changes": [ids]}).status_code == 400
    with pytest.raises(InvalidOption, match="which is a ROW"):
        gateway.run("CREATE TABLE d.u (id INT, r ROW<x INT>) WITH ('fields.r.x.stats-mode'='none')").close()


def test_options_follow_the_columns(rest: Rest) -> None:
    vector = {"type": "VECTOR", "element": "FLOAT", "length": 4}
    fields = [{"id": 0, "name": "id", "type": "INT"}, {"id": 1, "name": "emb", "type": vector}, {"id": 2, "name": "pic", "type": "BLOB"}]
    options = {
        "vector-field": "emb", "blob-descriptor-field": "pic", "row-tracking.enabled": "true", "data-evolution.enabled": "true",
        "file-index.bsi.columns": "id",
    }  # fmt: skip
    rest.post("databases/d/tables", new_table(body={**PLAIN, "fields": fields, "options": options}))
    renamed = [{"action": "renameColumn", "fieldNames": [old], "newName": new} for old, new in (("emb", "e2"), ("id", "i2"))]
    rest.post(T, {"changes": renamed})
    now = rest.get(T)["schema"]["options"]
    assert (now["vector-field"], now["file-index.bsi.columns"]) == ("e2", "i2")
    blob = {"action": "renameColumn", "fieldNames": ["pic"], "newName": "p2"}
    assert rest.call("POST", T, {"changes": [blob]}).status_code == 400
    rest.post(T, {"changes": [{"action": "dropColumn", "fieldNames": [name]} for name in ("e2", "pic")]})
    assert {"vector-field", "blob-descriptor-field"}.isdisjoint(rest.get(T)["schema"]["options"])


@pytest.mark.parametrize(
    ("type_", "comment"),
    [("BYTES", "__BLOB_FIELD"), ("BYTES", " __BLOB_VIEW_FIELD; mine"), ({"type": "ARRAY", "element": "FLOAT"}, "__VECTOR_FIELD;128")],
)
def test_no_column_has_a_comment_that_asks_for_another_type(rest: Rest, gateway: Gateway, type_: object, comment: str) -> None:
    """Paimon's own catalogs make BLOBs and vectors of such columns; here gigabytes would lie in the table's files."""
    rest.post("databases/d/tables", new_table())
    column = {"action": "addColumn", "fieldNames": ["c"], "dataType": type_, "comment": comment}
    field = {"id": 5, "name": "c", "type": type_, "description": comment}
    body = {**PLAIN, "fields": [*PLAIN["fields"], field]}
    answers = [
        rest.call("POST", T, {"changes": [column]}),
        rest.call("POST", f"{T}/replace", {"schema": body}),
        rest.call("POST", "databases/d/tables", new_table("u", body)),
    ]
    assert [(answer.status_code, "comment of column c" in answer.text) for answer in answers] == [(400, True)] * 3
    with pytest.raises(InvalidSchema, match="comment of column c"):
        gateway.run(f"CREATE TABLE d.v (id INT, c BYTES COMMENT '{comment}')").close()


@pytest.mark.parametrize(
    ("type_", "comment", "options"),
    [
        ("BLOB", "__BLOB_FIELD; the photo", {"row-tracking.enabled": "true", "data-evolution.enabled": "true"}),
        ({"type": "VECTOR", "element": "FLOAT", "length": 4}, "__VECTOR_FIELD;4", {}),
        ("BYTES", "__BLOB_FIELD", {"type": "format-table", "file.format": "parquet"}),
    ],
)
def test_a_column_of_the_type_that_its_comment_asks_for_is_taken(rest: Rest, type_: object, comment: str, options: dict[str, str]) -> None:
    fields = [*PLAIN["fields"], {"id": 5, "name": "c", "type": type_, "description": comment}]
    rest.post("databases/d/tables", new_table(body={**PLAIN, "fields": fields, "options": options}))
    assert rest.get(T)["schema"]["fields"][-1]["description"] == comment


def test_a_replacement_keeps_the_comments_that_the_table_has(rest: Rest) -> None:
    rest.post("databases/d/tables", new_table())
    field = {"id": 5, "name": "c", "type": "BYTES"}
    rest.post(f"{T}/replace", {"schema": {**PLAIN, "fields": [*PLAIN["fields"], field]}})
    said = {"action": "updateColumnComment", "fieldNames": ["c"], "newComment": "__BLOB_FIELD"}
    rest.post(T, {"changes": [said]})
    rest.post(f"{T}/replace", {"schema": {**PLAIN, "fields": [{**field, "description": "__BLOB_FIELD"}]}})
    assert [one["name"] for one in rest.get(T)["schema"]["fields"]] == ["c"]
