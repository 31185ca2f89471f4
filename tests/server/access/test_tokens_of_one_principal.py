"""What one token of a principal made is not there for another token of it that has fewer rights, whichever way it is asked for."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import adbc_driver_flightsql.dbapi as dbapi
import adbc_driver_manager
import pytest
from adbc_driver_flightsql import DatabaseOptions
from werkzeug.test import TestResponse

from lake import Owner
from lake.access.callers import Identity
from model.errors import OperationNotExist, SessionNotExist
from sql.execution.answers import answer_of, replayed
from sql.execution.results import ResultKind, ResultSet, strings
from tests import fix_postgres
from tests.fix_memory import LastingPath
from tests.server.flight.conftest import Endpoint
from tests.waiting import eventually

SECRET = "4711-0815"
_HANDLE = re.compile(r"[0-9a-f]{8}-[0-9a-f-]{27}|req-\w+|[0-9a-f]{32}")


class Server:
    """One server, asked with several tokens."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._client = endpoint.app.test_client()
        self.url = endpoint.url
        self.tokens: dict[str, str] = {}
        for name, principal, administrator in (
            ("root", "root", True), ("strong", "ada", True), ("weak", "ada", False), ("equal", "ada", True), ("stranger", "bob", False),
        ):  # fmt: skip
            self.add(name, principal, administrator=administrator)
        self.ask("root", "POST", "/sql", json={"statement": f"CREATE TABLE pay (s STRING); INSERT INTO pay VALUES ('{SECRET}')"})

    def add(self, name: str, principal: str, *, administrator: bool) -> None:
        body = {"name": name, "principal": principal, "administrator": administrator}
        made = self._client.post("/tokens", json=body, headers=self._as("root") if self.tokens else {})
        self.tokens[name] = str(made.get_json()["token"])

    def _as(self, who: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.tokens[who]}"}

    def ask(self, who: str, method: str, path: str, **more: Any) -> TestResponse:
        return self._client.open(path, method=method, headers=self._as(who), buffered=True, **more)

    def told(self, who: str, method: str, path: str) -> tuple[int, str]:
        """An answer without what is another one each time."""
        answer = self.ask(who, method, path)
        text = "a page, with its reader's name" if path.startswith("/ui/") and SECRET not in answer.text else answer.text
        return answer.status_code, _HANDLE.sub("…", text)


@pytest.fixture(scope="module")
def server(server_dsn: str, template: str, lasting_path: LastingPath) -> Iterator[Server]:
    with fix_postgres.database(server_dsn, template) as dsn:
        endpoint = Endpoint(dsn, lasting_path("tokens"))
        yield Server(endpoint)
        endpoint.close()


@dataclass
class Made:
    """What an administrator's token of ada has made."""

    statement: str
    session: str
    operation: str


@pytest.fixture
def made(server: Server) -> Made:
    text = {"statement": "SELECT s FROM pay"}
    kept = server.ask("strong", "POST", "/sql", json={**text, "async": True}).get_json()["statementId"]
    assert SECRET in server.ask("strong", "GET", f"/statements/{kept}/result?wait=30").text
    session = server.ask("strong", "POST", "/v2/sessions", json={"properties": {"a.password": SECRET}}).get_json()["sessionHandle"]
    operation = server.ask("strong", "POST", f"/v2/sessions/{session}/statements", json=text).get_json()["operationHandle"]
    server.ask("strong", "GET", f"/v2/sessions/{session}/operations/{operation}/result/0")
    return Made(kept, session, operation)


READS = (
    "/statements/{0.statement}", "/statements/{0.statement}/result", "/statements/{0.statement}/result?page=0",
    "/v2/sessions/{0.session}",
    "/v2/sessions/{0.session}/operations/{0.operation}/status", "/v2/sessions/{0.session}/operations/{0.operation}/result/0",
    "/ui/statements/{0.statement}",
)  # fmt: skip
CHANGES = (
    ("POST", "/v2/sessions/{0.session}/operations/{0.operation}/cancel"), ("POST", "/v2/sessions/{0.session}/heartbeat"),
    ("GET", "/v2/sessions/{0.session}/complete-statement"), ("POST", "/v2/sessions/{0.session}/statements"),
    ("DELETE", "/v2/sessions/{0.session}/operations/{0.operation}/close"), ("DELETE", "/v2/sessions/{0.session}"),
    ("DELETE", "/statements/{0.statement}"),
)  # fmt: skip


def test_who_has_fewer_rights_is_told_what_a_stranger_is(server: Server, made: Made) -> None:
    for method, path in (*(("GET", path) for path in READS), *CHANGES):
        weak, stranger = (server.told(who, method, path.format(made)) for who in ("weak", "stranger"))
        assert weak == stranger, (method, path)
        assert weak[0] >= 400, (method, path)
        assert SECRET not in weak[1]
    for path in READS:
        assert server.ask("equal", "GET", path.format(made)).status_code < 400, path
        assert server.ask("strong", "GET", path.format(made)).status_code < 400, path


def test_no_page_lists_it(server: Server, made: Made) -> None:
    server.ask("strong", "POST", "/sql", json={"statement": "SELECT s FROM pay WHERE s = 'only in this text'"})
    for page in ("/ui/statements", "/ui/sessions", "/ui/", "/ui/sql/history", "/ui/sql"):
        weak = server.ask("weak", "GET", page).text
        assert not any(handle in weak for handle in (made.statement, made.session, made.operation)), page
    assert made.session in server.ask("equal", "GET", "/ui/sessions").text
    assert made.statement in server.ask("equal", "GET", "/ui/statements").text


def test_what_the_weaker_one_makes_is_the_stronger_ones_too(server: Server) -> None:
    kept = server.ask("weak", "POST", "/sql", json={"statement": "SELECT 1", "async": True}).get_json()["statementId"]
    assert server.ask("weak", "GET", f"/statements/{kept}/result?wait=30").status_code == 200
    assert server.ask("strong", "GET", f"/statements/{kept}/result").status_code == 200
    assert server.ask("stranger", "GET", f"/statements/{kept}/result").status_code == 404


def _connect(server: Server, who: str) -> Any:
    return dbapi.connect(
        server.url, db_kwargs={DatabaseOptions.AUTHORIZATION_HEADER.value: f"Bearer {server.tokens[who]}"}, autocommit=True
    )


def read(cursor: Any, partition: bytes) -> list[tuple[Any, ...]]:
    cursor.adbc_read_partition(partition)
    return [*cursor.fetchall()]


def test_tickets_are_read_with_no_fewer_rights(server: Server) -> None:
    with _connect(server, "strong") as strong, strong.cursor() as cursor:
        for who, admitted in (("weak", False), ("stranger", False), ("equal", True)):
            partitions, _ = cursor.adbc_execute_partitions("SELECT s FROM pay")
            refused = nullcontext() if admitted else pytest.raises(adbc_driver_manager.Error, match="no result under this ticket")
            with _connect(server, who) as other, other.cursor() as reader, refused:
                assert read(reader, partitions[0]) == [(SECRET,)]


def test_a_connection_whose_token_has_other_rights_now_is_told_that_its_session_is_over(server: Server) -> None:
    server.add("eve", "eve", administrator=False)
    begin = (
        "CREATE DATABASE sales; CREATE TABLE t (id INT); CREATE TABLE sales.t (id INT); "
        "GRANT ALL ON TABLE t TO eve; GRANT ALL ON TABLE sales.t TO eve; GRANT ROLE admin TO eve"
    )
    assert server.ask("root", "POST", "/sql", json={"statement": begin}).status_code == 200
    gateway = server.endpoint.gateway
    with _connect(server, "eve") as connection, connection.cursor() as cursor:
        cursor.execute("USE sales")
        assert server.ask("root", "POST", "/sql", json={"statement": "REVOKE ROLE admin FROM eve"}).status_code == 200
        with pytest.raises(adbc_driver_manager.Error, match="session has ended"):
            cursor.execute("INSERT INTO t VALUES (1)")
        cursor.execute("SELECT id FROM t")
        assert cursor.fetchall() == []
        cursor.execute("USE sales")
        cursor.execute("INSERT INTO t VALUES (2)")
        root = gateway.lake.access.caller(server.tokens["root"])
        assert [session.owner.administrator for session in gateway.sessions(root) if session.owner.principal == "eve"] == [True, False]
    with gateway.run("SELECT COUNT(*) FROM t") as elsewhere, gateway.run("SELECT id FROM sales.t") as here:
        assert (elsewhere.collect(), here.collect()) == ([(0,)], [(2,)])
    assert eventually(lambda: not any(session.owner.principal == "eve" for session in gateway.sessions(root)))


RIGHTS = [
    Owner(principal=principal, administrator=administrator, claimed=frozenset(roles))
    for principal in ("ada", "bob")
    for administrator in (False, True)
    for roles in ((), ("a",), ("b",), ("a", "b"))
]


def test_who_is_admitted_is_an_administrator_or_has_the_owners_rights() -> None:
    """An order: whoever is admitted where another is admitted has what that one has, and no role of an issuer's that might bind it."""
    for mine in RIGHTS:
        assert mine.admits(mine)
        for other in RIGHTS:
            assert mine.admits(other) <= (mine.principal == other.principal)
            assert mine.admits(other) <= (other.administrator or (mine.claimed == other.claimed and not mine.administrator))
            for third in RIGHTS:
                assert (mine.admits(other) and other.admits(third)) <= mine.admits(third)


def test_what_a_policy_of_an_issuers_role_hides_is_not_read_by_way_of_a_token_without_it(server: Server) -> None:
    server.add("gil", "gil", administrator=False)
    begin = (
        f"CREATE TABLE wages (s STRING); INSERT INTO wages VALUES ('{SECRET}'); GRANT SELECT ON TABLE wages TO gil; "
        "CREATE ROLE contractor; CREATE MASKING POLICY m ON wages (s) TO contractor USING (NULL)"
    )
    assert server.ask("root", "POST", "/sql", json={"statement": begin}).status_code == 200
    gateway, access = server.endpoint.gateway, server.endpoint.lake.access
    free = access.caller(server.tokens["gil"])
    bound, same = (
        access.identified(Identity(principal="gil", roles=frozenset({"contractor"}), expires_at=time.time() + seconds))
        for seconds in (600, 700)
    )
    for maker, readers, stranger, text, row in (
        (free, [free], bound, "SELECT s FROM wages", (SECRET,)),
        (bound, [bound, same], free, "SELECT 'of its own' AS s", ("of its own",)),
    ):
        kept = gateway.keep(text, caller=maker)
        assert kept.operation.wait(120)
        session = gateway.open_session("mine", caller=maker)
        for reader in readers:
            with gateway.kept.get(kept.operation.handle, reader).result() as result:
                assert result.collect() == [row]
            gateway.check_owner(session, reader)
        with pytest.raises(OperationNotExist):
            gateway.kept.get(kept.operation.handle, stranger)
        with pytest.raises(SessionNotExist):
            gateway.check_owner(session, stranger)
        answer = answer_of(ResultSet.of_rows(strings("s"), [row]), maker.owner)
        assert replayed(answer, readers[-1].owner).collect() == [row]
        assert replayed(answer, stranger.owner).kind is ResultKind.SUCCESS


def test_what_was_made_stays_its_makers_where_a_role_comes_and_goes(server: Server) -> None:
    """What is granted here is every token's of a principal."""
    server.add("hal", "hal", administrator=False)
    server.ask("root", "POST", "/sql", json={"statement": "CREATE ROLE passing; GRANT ROLE passing TO hal"})
    kept = server.ask("hal", "POST", "/sql", json={"statement": "SELECT 1", "async": True}).get_json()["statementId"]
    for change in ("REVOKE ROLE passing FROM hal", "GRANT ROLE passing TO hal", "DROP ROLE passing"):
        assert server.ask("root", "POST", "/sql", json={"statement": change}).status_code == 200
        assert server.ask("hal", "GET", f"/statements/{kept}/result?wait=30").status_code == 200, change
