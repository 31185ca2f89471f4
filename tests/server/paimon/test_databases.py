"""Config, databases and what is common to all answers."""

from __future__ import annotations

import itertools
from urllib.parse import quote, quote_plus
from uuid import uuid4

import httpx
import psycopg
import pytest
from flask.testing import FlaskClient

from catalog.backup.holds import holding
from gateway.gateway import Gateway
from lake.inspect.browse import databases
from tests.server.paimon.speaking import Rest, new_table


@pytest.mark.parametrize("query", ["?warehouse=sluice", "?warehouse=slu%2569ce", "", "?warehouse="])
def test_config_gives_the_prefix(client: FlaskClient, query: str) -> None:
    assert client.get(f"/v1/config{query}").get_json() == {"defaults": {"prefix": "sluice"}, "overrides": {}}


def test_another_warehouse_is_not_here(client: FlaskClient) -> None:
    answer = client.get("/v1/config?warehouse=other")
    assert (answer.status_code, answer.get_json()["resourceName"]) == (404, "other")


def test_a_database_lives(rest: Rest) -> None:
    rest.post("databases", {"name": "e f", "options": {"a": "1", "comment": "c"}})
    got = rest.get("databases/e+f")
    assert (got["name"], got["options"], got["location"][:8]) == ("e f", {"a": "1", "comment": "c"}, "file:///")
    assert {"id", "owner", "createdAt", "createdBy", "updatedAt", "updatedBy"} <= set(got)
    changed = rest.post("databases/e%20f", {"removals": ["a", "x"], "updates": {"b": "2"}})
    assert changed == {"removed": ["a"], "updated": ["b"], "missing": ["x"]}
    assert rest.get("databases/e+f")["options"] == {"b": "2", "comment": "c"}
    assert rest.get("databases") == {"databases": ["d", "default", "e f"], "nextPageToken": None}
    assert rest.delete("databases/e+f") is None
    assert rest.refused("GET", "databases/e+f") == (404, "DATABASE", "e f")


_MADE = ("CREATE DATABASE e", "CREATE DATABASE e COMMENT 'made'", "CREATE DATABASE e WITH ('comment' = 'made')", "by a client")
_CHANGES = ("set by a client", "removed by a client", "ALTER DATABASE e SET ('comment' = 'said')")


@pytest.mark.parametrize("made", _MADE)
@pytest.mark.parametrize("earlier", [False, True], ids=["", "an earlier version"])
def test_a_comment_is_one_whoever_sets_it(rest: Rest, gateway: Gateway, dsn: str, made: str, earlier: bool) -> None:
    if made == "by a client":
        rest.post("databases", {"name": "e", "options": {"comment": "made", "a": "1"}})
    else:
        gateway.run(made).close()
    if earlier:  # which kept what was changed later among the options
        with psycopg.connect(dsn, autocommit=True) as conn:
            conn.execute("""UPDATE sluice_database SET options = options || '{"comment": "earlier"}' WHERE name = 'e'""")
    wanted = "earlier" if earlier else None if made == "CREATE DATABASE e" else "made"
    for change in ("", *itertools.chain.from_iterable(itertools.product(_CHANGES, repeat=2))):
        match change:
            case "":
                pass
            case "set by a client":
                wanted = "sent"
                assert rest.post("databases/e", {"updates": {"comment": wanted}})["updated"] == ["comment"]
            case "removed by a client":
                answer = rest.post("databases/e", {"removals": ["comment"]})
                assert answer["removed" if wanted else "missing"] == ["comment"]
                wanted = None
            case _:
                wanted = "said"
                gateway.run(change).close()
        assert rest.get("databases/e")["options"].get("comment") == wanted
        assert dict(gateway.run("DESCRIBE DATABASE e").collect())["comment"] == wanted
        assert {row.name: row.comment for row in databases(gateway.lake)}["e"] == wanted


def test_a_database_goes_with_all_in_it(rest: Rest) -> None:
    rest.post("databases/d/tables", new_table())
    rest.post("databases/d/views", _VIEW)
    rest.post("databases/d/functions", {"name": "f"})
    rest.delete("databases/d")
    assert rest.refused("GET", "databases/d/tables") == (404, "DATABASE", "d")
    rest.post("databases", {"name": "d"})
    assert rest.get("databases/d/views")["views"] == []


_VIEW = {"identifier": {"database": "d", "object": "v"}, "schema": {"fields": [], "query": "SELECT 1"}}


@pytest.mark.parametrize("kind", ["table with a connector", "view", "function"])
def test_what_clients_do_not_look_at_does_not_go_with_a_database(rest: Rest, gateway: Gateway, kind: str) -> None:
    """Java's client drops a database without CASCADE where its list of tables shows none; on the wire that is the same."""
    match kind:
        case "view":
            rest.post("databases/d/views", _VIEW)
        case "function":
            rest.post("databases/d/functions", {"name": "k"})
        case _:
            gateway.run("CREATE TABLE d.k (a INT) WITH ('connector' = 'datagen')").close()
    assert rest.get("databases/d/tables")["tables"] == []
    answer = rest.call("DELETE", "databases/d")
    assert (answer.status_code, "holds 1" in answer.text) == (400, True), answer.text
    assert rest.get("databases/d")["name"] == "d"
    rest.post("databases/d/tables", new_table())
    rest.delete("databases/d")  # who saw the table means all of it
    assert rest.refused("GET", "databases/d") == (404, "DATABASE", "d")


def test_errors_of_databases(rest: Rest) -> None:
    assert rest.refused("POST", "databases", {"name": "d"}) == (409, "DATABASE", "d")
    assert rest.refused("DELETE", "databases/none") == (404, "DATABASE", "none")
    assert rest.refused("POST", "databases/none", {"updates": {}}) == (404, "DATABASE", "none")
    assert rest.refused("DELETE", "databases/default")[0] == 400
    for name in ("", " a", "a/b", "sys", "x" * 300, "a$b"):
        assert rest.refused("POST", "databases", {"name": name})[0] == 400, name


def test_only_what_exists_already_is_a_conflict(rest: Rest, gateway: Gateway, dsn: str) -> None:
    """Java's client and pypaimon take every 409 for "it exists", which is a success where they say IF NOT EXISTS."""
    rest.post("databases/d/tables", new_table())
    gateway.run("INSERT INTO d.t VALUES (1, 'a')").close()
    rest.post("databases/d/tables/t/tags", {"tagName": "kept"})
    with holding(dsn):
        assert rest.refused("DELETE", "databases/d/tables/t/tags/kept") == (500, None, None)
    gateway.lake.standing.compare()
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute("UPDATE catalog_state SET catalog_id = %s", (uuid4(),))
    gateway.lake.standing.compare()
    more = {"name": "more", "options": {}}
    for path, body in (("databases", more), ("databases/d/tables", new_table("u")), ("databases/d/tables/t/branches", {"branch": "b"})):
        assert rest.refused("POST", path, body)[0] == 500, path
    assert rest.refused("GET", "databases/more")[0] == 404


BAD_BODIES = (
    b"", b"{", b"[]", b"null", b"3", b'{"name": 3}', b'{"name": null}', b"\xff\xfe", b'{"name": "a", "options": []}',
    b'{"name": "a\\u0000b"}', b'{"name": "a", "options": {"k": {}}}', b'{"name": "a", "options": {"k\\u0000": "v"}}',
)  # fmt: skip


@pytest.mark.parametrize("body", BAD_BODIES)
def test_malformed_bodies_are_the_clients_fault(client: FlaskClient, body: bytes) -> None:
    answer = client.post("/v1/sluice/databases", data=body)
    assert (answer.status_code, answer.get_json()["code"]) == (400, 400)


def test_unknown_members_are_passed_over(rest: Rest) -> None:
    rest.post("databases", {"name": "x", "options": {}, "future": [1]})


def test_wrong_methods_and_paths(rest: Rest) -> None:
    assert rest.refused("PUT", "databases")[0] == 405
    assert rest.call("PATCH", "databases/d").headers["Allow"] == "DELETE, GET, HEAD, POST"
    assert rest.refused("GET", "nothing/at/all")[0] == 501
    assert rest.refused("GET", "")[0] == 501
    assert rest.refused("GET", "databases//tables")[0] == 501
    for query in ("pageToken=%00", "databaseNamePattern=%00", "maxResults=-1"):
        assert rest.refused("GET", f"databases?{query}")[0] == 400
    assert rest.refused("GET", "/databases")[0] == 404, "no page of HTML that sends the client elsewhere"
    assert rest.refused("DELETE", "databases")[0] == 405
    assert rest.get("databases/")["databases"] == ["d", "default"]
    head = rest.call("HEAD", "databases/d")
    assert (head.status_code, head.data) == (200, b"")
    assert rest.call("HEAD", "databases/none").status_code == 404
    assert rest.client.post("/v1/config").status_code == 405


def test_a_bug_is_told_by_its_id_alone(rest: Rest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr("lake.lake.Lake.list_databases", lambda *_: 1 / 0)
    answer = rest.call("GET", "databases")
    message = answer.get_json()["message"]
    assert answer.status_code == 500
    assert answer.headers["X-Request-Id"] in message
    assert "ZeroDivision" not in message
    assert "ZeroDivisionError" in caplog.text


def test_pages_and_patterns(rest: Rest) -> None:
    for name in ("db1", "db2", "db3", "db_name", "ert", "ghj"):
        rest.post("databases", {"name": name})
    seen: list[str] = []
    token: dict[str, str] = {}
    while True:
        page = rest.get("databases", maxResults="3", **token)
        seen += page["databases"]
        if page["nextPageToken"] is None:
            break
        token = {"pageToken": page["nextPageToken"]}
    assert seen == ["d", "db1", "db2", "db3", "db_name", "default", "ert", "ghj"]
    assert rest.get("databases", databaseNamePattern="db%")["databases"] == ["db1", "db2", "db3", "db_name"]
    assert rest.get("databases", databaseNamePattern="%_n%")["databases"] == ["db_name"]
    assert rest.get("databases", databaseNamePattern="db\\_%")["databases"] == ["db_name"]
    assert rest.refused("GET", "databases", databaseNamePattern="x\\")[0] == 400
    assert rest.refused("GET", "databases", maxResults="many")[0] == 400
    assert len(rest.get("databases", maxResults="0")["databases"]) == 8


def test_a_full_page_has_a_token_unless_it_is_all_there_is(rest: Rest) -> None:
    assert rest.get("databases", maxResults="2") == {"databases": ["d", "default"], "nextPageToken": None}
    rest.post("databases", {"name": "e"})
    rest.post("databases", {"name": "f"})
    assert rest.get("databases", maxResults="2")["nextPageToken"] == "default"
    assert rest.get("databases", maxResults="2", pageToken="default") == {"databases": ["e", "f"], "nextPageToken": "f"}
    assert rest.get("databases", maxResults="2", pageToken="f") == {"databases": [], "nextPageToken": None}


def test_pages_lose_nothing_under_inserts(rest: Rest) -> None:
    for at in range(10):
        rest.post("databases", {"name": f"m{at}"})
    first = rest.get("databases", maxResults="5", databaseNamePattern="m%")
    rest.post("databases", {"name": "m0a"})
    rest.post("databases", {"name": "m8a"})
    second = rest.get("databases", maxResults="50", pageToken=first["nextPageToken"], databaseNamePattern="m%")
    assert first["databases"] + second["databases"] == ["m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7", "m8", "m8a", "m9"]


NAMES = ("e f", "e+f", "e%2Bf", "ü ß", "a.b", "t*", "~x", "a&b=c?d#e", "100%")


@pytest.mark.parametrize("escape", ["form", "percent"])
def test_names_with_every_character_arrive(url: str, escape: str) -> None:
    """Over a socket: what a WSGI server makes of a path is part of the matter."""
    base = f"{url}/v1/sluice/databases"
    with httpx.Client() as http:
        for name in NAMES:
            http.post(base, json={"name": name}).raise_for_status()
            path = quote_plus(name, safe="*").replace("~", "%7E") if escape == "form" else quote(name, safe="")
            got = http.get(f"{base}/{path}")
            assert (got.status_code, got.json()["name"]) == (200, name)
            http.post(f"{base}/{path}/functions", json={"name": name}).raise_for_status()
            assert http.get(f"{base}/{path}/functions/{path}/").json()["name"] == name
        assert http.get(f"{base}/a%2Fb").json()["resourceName"] == "a/b"
