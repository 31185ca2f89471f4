"""JSON bodies are bounded before they are parsed, and large ones are read only of who may write the table they are about."""

from __future__ import annotations

import gzip
import json
from typing import Any

import orjson
import pytest
from flask.testing import FlaskClient

from tests.server.paimon.speaking import Rest, new_table, schema
from tests.server.paimon.test_access import As, ada, admin

__all__ = ["ada", "admin"]
T = "databases/d/tables/t"


@pytest.fixture
def partitioned(rest: Rest) -> Rest:
    rest.post("databases/d/tables", new_table("t", schema(("id", "BIGINT"), ("p", "STRING"), partition=["p"])))
    return rest


def sent(client: FlaskClient, path: str, body: bytes, **headers: str) -> tuple[int, str]:
    answer = client.post(f"/v1/sluice/{path}", data=body, headers=headers)
    return answer.status_code, orjson.loads(answer.data)["message"] if answer.data else ""


def specs(count: int) -> list[dict[str, str]]:
    return [{"p": f"{number:05d}"} for number in range(count)]


def test_a_body_past_a_megabyte_is_refused_with_its_bound(client: FlaskClient, rest: Rest) -> None:
    body = json.dumps({"name": "e", "options": {"a": "x" * (1 << 20)}}).encode()
    for status, message in (
        sent(client, "databases", body),
        sent(client, "databases", gzip.compress(body), **{"Content-Encoding": "gzip"}),
    ):
        assert (status, "1048576 bytes" in message) == (413, True)


@pytest.mark.parametrize("path", ["databases", f"{T}/commit", f"{T}/partitions"])
def test_values_are_counted_before_they_are_made(client: FlaskClient, partitioned: Rest, path: str) -> None:
    status, message = sent(client, path, b'{"a":[' + b"[]," * 300_000 + b"1]}")
    assert (status, "500,000 values" in message) == (413, True)


def test_signs_in_a_text_are_no_values(client: FlaskClient, rest: Rest) -> None:
    comment = '\\",{[' * 110_000
    status, message = sent(client, "databases", json.dumps({"name": "e", "options": {"comment": comment}}).encode())
    assert (status, "values" in message) != (413, True)


def test_a_megabyte_about_partitions_is_read_of_who_may_write_the_table(client: FlaskClient, ada: As, admin: As) -> None:
    large = json.dumps({"partitionSpecs": [{"p": "x" * 200}] * 9000}).encode()
    for path in (f"{T}/partitions", f"{T}/partitions/drop", f"{T}/commit"):
        assert sent(client, path, large, **ada.headers)[0] == 403
        assert sent(client, path, large, **admin.headers)[0] == 400, "it was read: the table has no partitions, and the body no snapshot"


def test_many_partitions_are_changed_at_once_and_ten_thousand_at_most(partitioned: Rest) -> None:
    all_of_them = specs(2000)
    assert partitioned.post(f"{T}/partitions", {"partitionSpecs": all_of_them}) == {"created": all_of_them, "existed": []}
    partitioned.post(f"{T}/partitions/mark", {"specs": all_of_them})
    assert partitioned.refused("POST", f"{T}/partitions", {"partitionSpecs": specs(2001)[-2:], "ignoreIfExists": False})[0] == 409
    twice: dict[str, Any] = {"partitionSpecs": [{"p": "new"}, {"p": "new"}], "ignoreIfExists": False}
    assert partitioned.refused("POST", f"{T}/partitions", twice) == (409, "PARTITION", "p=new")
    assert partitioned.post(f"{T}/partitions/drop", {"partitionSpecs": all_of_them})["missing"] == []
    for path, member in (("partitions", "partitionSpecs"), ("partitions/drop", "partitionSpecs"), ("partitions/mark", "specs")):
        assert partitioned.refused("POST", f"{T}/{path}", {member: specs(10_001)})[0] == 413
