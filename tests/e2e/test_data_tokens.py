"""Data tokens of a running server on S3: for whom, for which directory, to do what; asked of the token service that gave them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest

from tests.fix_memory import LastingPath
from tests.fix_s3 import Bucket
from tests.running import RunningServer
from tests.waiting import eventually

ROLE = "arn:aws:iam::123456789012:role/lake"
READ, WRITE, REMOVE = "s3:GetObject", "s3:PutObject", "s3:DeleteObject"
PRINCIPALS = ("reader", "loader", "writer", "changer", "filtered", "masked", "some_columns", "by_role", "by_database", "nobody", "owner")


class Asked:
    """The server, as its principals ask it."""

    def __init__(self, server: RunningServer, bucket: Bucket) -> None:
        self.server, self.bucket = server, bucket
        self.tokens = {"root": "root-secret"}
        for name in PRINCIPALS:
            answer = httpx.post(f"{server.url}/tokens", json={"name": name}, headers=self.as_("root"), timeout=60)
            self.tokens[name] = answer.json()["token"]

    def as_(self, principal: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[principal]}"}

    def sql(self, text: str, principal: str = "root") -> None:
        headers = {**self.as_(principal), "Content-Type": "application/sql"}
        answer = httpx.post(f"{self.server.url}/sql", content=text, headers=headers, timeout=120)
        assert answer.status_code == 200, answer.text

    def token(self, principal: str, table: str = "t", status: int = 200) -> dict[str, str]:
        """The options of a data token; the answer's status is as said."""
        answer = httpx.get(f"{self.server.url}/v1/sluice/databases/d/tables/{table}/token", headers=self.as_(principal), timeout=60)
        assert answer.status_code == status, (principal, answer.text)
        return dict(answer.json().get("token", {}))

    def policy(self, principal: str, table: str = "t") -> list[dict[str, Any]]:
        """What the token service was asked to bind a token to."""
        key = self.token(principal, table)["fs.s3.accessKeyId"]
        (policy,) = (role["policy"] for role in self._lent() if role["access_key_id"] == key)
        statements: list[dict[str, Any]] = json.loads(policy)["Statement"]
        return statements

    def _lent(self) -> list[dict[str, Any]]:
        """All roles that the token service has lent; its dump fails where something changes meanwhile."""
        answers: list[httpx.Response] = []

        def answered() -> bool:
            answers.append(httpx.get(f"{self.bucket.endpoint}/moto-api/data.json", timeout=60))
            return answers[-1].is_success

        assert eventually(answered), answers[-1].text
        roles: list[dict[str, Any]] = answers[-1].json()["sts"]["AssumedRole"]
        return roles

    def actions(self, principal: str, table: str = "t") -> set[str]:
        return {*self.policy(principal, table)[0]["Action"]} & {READ, WRITE, REMOVE}

    def place(self, principal: str, table: str = "t") -> str:
        place: str = self.policy(principal, table)[0]["Resource"]
        return place.removeprefix(f"arn:aws:s3:::{self.bucket.name}/lake/d.db/").removesuffix("/*")


@pytest.fixture(scope="module")
def token_server(lasting_path: LastingPath, s3_endpoint: str) -> Iterator[Asked]:
    bucket = Bucket(name=f"b-{uuid4().hex[:12]}", endpoint=s3_endpoint)
    assert httpx.put(f"{s3_endpoint}/{bucket.name}").status_code == 200
    settings = {"SLUICE_DATA_TOKEN_ROLE": ROLE, "SLUICE_TOKEN": "root-secret", "SLUICE_WAREHOUSE": f"s3://{bucket.name}/lake"}
    server = RunningServer(lasting_path("server"), **settings, **bucket.environment)
    try:
        server.start()
        yield Asked(server, bucket)
    finally:
        server.stop()


@pytest.fixture
def asked(token_server: Asked) -> Asked:
    token_server.sql("DROP DATABASE IF EXISTS d CASCADE PURGE; CREATE DATABASE d; GRANT CREATETABLE ON DATABASE d TO owner")
    token_server.sql("DROP ROLE IF EXISTS r; CREATE ROLE r; GRANT ROLE r TO by_role")
    token_server.sql("CREATE TABLE d.t (id INT, s STRING)", "owner")
    token_server.sql("INSERT INTO d.t VALUES (1, 'a'); CALL sys.create_branch('d.t', 'b')", "owner")
    token_server.sql("CREATE TABLE d.t2 (id INT); INSERT INTO d.t2 VALUES (1)")
    for grant in (
        "SELECT ON d.t TO reader", "INSERT ON d.t TO loader", "SELECT, UPDATE ON d.t TO writer", "SELECT, UPDATE, DELETE ON d.t TO changer",
        "SELECT, UPDATE, DELETE ON d.t TO filtered", "SELECT, UPDATE, DELETE ON d.t TO masked", "SELECT (id) ON d.t TO some_columns",
        "SELECT ON d.t TO r", "SELECT ON ALL IN DATABASE d TO by_database",
    ):  # fmt: skip
        token_server.sql(f"GRANT {grant}")
    token_server.sql("CREATE POLICY p ON d.t TO filtered USING (id > 5); CREATE MASKING POLICY m ON d.t (s) TO masked USING (NULL)")
    return token_server


def test_each_gets_what_its_rights_say_and_for_this_table_alone(asked: Asked) -> None:
    for principal in ("loader", "filtered", "masked", "some_columns", "nobody"):
        for table in ("t", "t$branch_b", "t2"):
            asked.token(principal, table, status=403)
    for principal, actions in {
        "reader": {READ}, "by_role": {READ}, "by_database": {READ}, "writer": {READ, WRITE}, "changer": {READ, WRITE, REMOVE},
        "owner": {READ, WRITE, REMOVE}, "root": {READ, WRITE, REMOVE},
    }.items():  # fmt: skip
        assert asked.actions(principal) == actions, principal
        assert asked.actions(principal, "t$branch_b") == actions, principal
    for principal in ("reader", "writer", "changer", "owner", "by_role"):
        asked.token(principal, "t2", status=403)
    for name in ("..%2Ft2", "..", "t%2F..%2Ft2", "%2e%2e%2ft2", "t2%00", "T"):
        for principal in ("reader", "owner"):
            url = f"{asked.server.url}/v1/sluice/databases/d/tables/{name}/token"
            assert httpx.get(url, headers=asked.as_(principal), timeout=60).status_code in (400, 403, 404, 501), name
    assert asked.place("root") != asked.place("root", "t2")


def test_what_is_taken_back_or_named_anew_is_asked_at_each_token(asked: Asked) -> None:
    assert asked.actions("changer") == {READ, WRITE, REMOVE}
    asked.sql("REVOKE DELETE ON d.t FROM changer")
    assert asked.actions("changer") == {READ, WRITE}
    asked.sql("CREATE POLICY q ON d.t TO writer USING (id > 5)")
    asked.token("writer", status=403)
    asked.sql("REVOKE SELECT ON d.t FROM reader; REVOKE ROLE r FROM by_role")
    asked.token("reader", status=403)
    asked.token("by_role", status=403)
    place = asked.place("owner")
    asked.sql("ALTER TABLE d.t RENAME TO renamed", "owner")
    assert asked.place("owner", "renamed") == place
    asked.token("changer", status=404)
    assert asked.actions("changer", "renamed") == {READ, WRITE}
    asked.sql("DROP TABLE d.renamed", "owner")
    asked.token("owner", "renamed", status=404)


def test_a_token_of_a_table_that_is_gone_opens_no_table_of_its_name(asked: Asked) -> None:
    """It lives on for an hour, with the right to write and remove."""
    before = asked.place("owner")
    for how in ("DROP TABLE d.t PURGE", "ALTER TABLE d.t RENAME TO elsewhere", "DROP TABLE d.t"):
        asked.sql(how)
        asked.sql("CREATE TABLE d.t (id INT); INSERT INTO d.t VALUES (2)")
        after = asked.place("root")
        assert after != before, how
        before = after
