"""``POST /sql`` with values beside the text."""

from __future__ import annotations

from typing import Any

from flask.testing import FlaskClient


def ask(client: FlaskClient, statement: str, parameters: Any) -> Any:
    return client.post("/sql", json={"statement": statement, "parameters": parameters})


def test_values_are_sent_beside_the_text(client: FlaskClient) -> None:
    client.post("/sql", data="CREATE TABLE t (a BIGINT, s STRING)")
    answer = ask(
        client, "INSERT INTO t VALUES (?, ?), (?, ?)", [1, "x'; DROP TABLE t; --", {"type": "BIGINT", "value": "9007199254740993"}, None]
    )
    assert answer.json["rows"][0][0] == 2
    assert ask(client, "SELECT a FROM t WHERE s = :s", {"s": "x'; DROP TABLE t; --"}).json["rows"] == [[1]]
    assert ask(client, "SELECT a FROM t WHERE s IS NULL LIMIT ?", [1]).json["rows"] == [["9007199254740993"]]


def test_what_is_wrong_with_them_has_a_place(client: FlaskClient) -> None:
    answer = ask(client, "SELECT\n  ?", [{"type": "DATE", "value": "yesterday"}])
    assert (answer.status_code, answer.json["errorClass"], answer.json["line"], answer.json["column"]) == (400, "InvalidParameter", 2, 3)
    assert 'must be a text like "2024-02-29", not "yesterday" as DATE' in answer.json["detail"]
    assert ask(client, "SELECT 1", "x").json["detail"] == "'parameters' must be a list (for ?) or an object (for :name)."
    assert 'POST /sql takes values as "parameters"' in client.post("/sql", data="SELECT * FROM t WHERE a = ?").json["detail"]  # type: ignore[index]


def test_values_in_them_count_as_words_of_the_text_do(client: FlaskClient) -> None:
    body = '{"statement":"SELECT size(?)","parameters":[{"type":"ARRAY<INT>","value":[' + ",".join("0" * 50_000) + "]}]}"
    answer: Any = client.post("/sql", data=body, content_type="application/json")
    assert (answer.status_code, answer.json["errorClass"]) == (413, "StatementTooLarge")
    assert "The parameters hold more than 50000 values" in answer.json["detail"]
