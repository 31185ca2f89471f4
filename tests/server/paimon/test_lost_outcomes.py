"""Answers of Postgres that are lost: what Paimon's clients repeat by themselves has not been done, or is known when it comes again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from catalog import CatalogStore
from gateway.gateway import Gateway
from lake import Lake
from model.errors import OutcomeUnknown
from model.identifier import Identifier
from server.app import create_app
from server.process.services import Services
from tests.fix_postgres_proxy import Lost, PostgresProxy
from tests.server.conftest import NoSpark
from tests.server.paimon.committing import Writer
from tests.server.paimon.speaking import PLAIN, Rest, new_table
from tests.short import one_in
from tests.waiting import eventually

_REPEATED = (429, 503)
"""What Java's client sends again, whatever the method, and pypaimon where it is a DELETE."""
_MADE = (
    "CREATE TABLE d.{t} (id INT)",
    "INSERT INTO d.{t} VALUES (1)",
    "INSERT INTO d.{t} VALUES (2)",
    "CALL sys.create_tag('d.{t}', 'x', 1)",
)
_BRANCHED = (*_MADE, "CALL sys.create_branch('d.{t}', 'b', 'x')", "INSERT INTO d.{t}$branch_b VALUES (3)")
_PARTED = ("CREATE TABLE d.{t} (id INT, p STRING) PARTITIONED BY (p)", "INSERT INTO d.{t} VALUES (1, 'a'), (2, 'b')")
_SHOWN = ("", "/snapshots", "/tags", "/branches", "/consumers", "/partitions")


@dataclass(frozen=True, slots=True)
class Change:
    """A request about a table ``{t}``, and the statements before it."""

    request: str
    body: Any = None
    before: Sequence[str] = _MADE


T = "databases/d/tables/{t}"
CHANGES = {
    "create": Change("POST databases/d/tables", {"identifier": {"database": "d", "object": "{t}"}, "schema": PLAIN}, ()),
    "drop": Change(f"DELETE {T}"),
    "rename": Change(
        "POST tables/rename", {"source": {"database": "d", "object": "{t}"}, "destination": {"database": "d", "object": "{t}_new"}}
    ),
    "alter": Change(f"POST {T}", {"changes": [{"action": "addColumn", "fieldNames": ["w"], "dataType": "INT"}]}),
    "replace": Change(f"POST {T}/replace", {"schema": PLAIN}),
    "roll back": Change(f"POST {T}/rollback", {"instant": {"type": "snapshot", "snapshotId": 1}}),
    "roll back to a tag": Change(f"POST {T}/rollback", {"instant": {"type": "tag", "tagName": "x"}}),
    "make a tag": Change(f"POST {T}/tags", {"tagName": "y"}),
    "delete a tag": Change(f"DELETE {T}/tags/x"),
    "make a branch": Change(f"POST {T}/branches", {"branch": "c"}),
    "fast forward": Change(f"POST {T}/branches/b/forward", {}, _BRANCHED),
    "delete a branch": Change(f"DELETE {T}/branches/b", None, _BRANCHED),
    "drop a partition": Change(f"POST {T}/partitions/drop", {"partitionSpecs": [{"p": "a"}]}, _PARTED),
    "drop a database": Change("DELETE databases/{t}", None, ("CREATE DATABASE {t}", "CREATE TABLE {t}.u (id INT)")),
}


@pytest.fixture
def behind(postgres_proxy: PostgresProxy, services: Services, tmp_path: Path) -> Iterator[tuple[Rest, Gateway]]:
    """A server whose answers from Postgres may be lost."""
    catalog = CatalogStore(postgres_proxy.dsn)
    lake = Lake(catalog, str(tmp_path / "behind"), drop_retention=timedelta(days=1))
    gateway = Gateway(lake, NoSpark())
    rest = Rest(create_app(replace(services, gateway=gateway)).test_client())
    rest.post("databases", {"name": "d", "options": None})
    yield rest, gateway
    gateway.close()
    lake.close()
    catalog.close()


def _named(value: Any, table: str) -> Any:
    if isinstance(value, dict):
        return {key: _named(part, table) for key, part in value.items()}
    if isinstance(value, list):
        return [_named(part, table) for part in value]
    return value.replace("{t}", table) if isinstance(value, str) else value


def _state(rest: Rest, table: str) -> list[tuple[str, int, bytes]]:
    """All that a client sees of a table and beside it."""
    paths = ["databases", "databases/d/tables", f"databases/{table}/tables", *(f"databases/d/tables/{table}{below}" for below in _SHOWN)]
    answers = [(path, rest.call("GET", path)) for path in paths]
    return [(path, answer.status_code, answer.data) for path, answer in answers]


def _run(gateway: Gateway, texts: Sequence[str], table: str) -> None:
    for text in texts:
        gateway.run(text.format(t=table)).close()


@pytest.mark.parametrize("name", one_in(2, CHANGES))
def test_what_a_client_repeats_by_itself_has_not_been_done(behind: tuple[Rest, Gateway], postgres_proxy: PostgresProxy, name: str) -> None:
    """The answer to each COMMIT of the request is lost once; until it is repeated others commit, whose rows it would take away."""
    change, (rest, gateway) = CHANGES[name], behind
    method, path = change.request.split()
    for number in range(50):
        table = f"t{number}"
        for text in change.before:
            gateway.run(text.format(t=table)).close()
        before = _state(rest, table)
        postgres_proxy.lose("COMMIT", Lost.ANSWER, after=number)
        answer = rest.call(method, _named(path, table), _named(change.body, table))
        if not _was_lost(rest, postgres_proxy):
            assert (answer.status_code, number > 0) == (200, True), answer.text
            return
        if answer.status_code in _REPEATED:
            assert _state(rest, table) == before, f"COMMIT {number + 1}: {answer.text}"
        elif answer.status_code != 200:
            assert "Retry-After" not in answer.headers
    raise AssertionError("there was no end of COMMITs")


@pytest.mark.parametrize("lost", Lost)
def test_a_commit_is_repeated_and_lands_once(behind: tuple[Rest, Gateway], postgres_proxy: PostgresProxy, lost: Lost) -> None:
    rest, gateway = behind
    rest.post("databases/d/tables", new_table())
    writer = Writer(rest, gateway.lake)
    writer.commit()
    body = writer.body(writer.latest(), changes=[writer.file(rows=1)])
    postgres_proxy.lose("INSERT INTO table_snapshot", lost)
    answers = [rest.call("POST", f"{writer.path}/commit", body)]
    while answers[-1].status_code != 200 and len(answers) < 20:
        assert answers[-1].status_code in _REPEATED, answers[-1].text
        answers.append(rest.call("POST", f"{writer.path}/commit", body))
    assert _was_lost(rest, postgres_proxy)
    assert answers[-1].json == {"success": True}
    assert [one["id"] for one in rest.get(f"{writer.path}/snapshots")["snapshots"]] == [2, 1]


@pytest.mark.parametrize(
    ("path", "body", "status"), [("rollback", {"instant": {"type": "snapshot", "snapshotId": 1}}, 500), ("commit", None, 503)]
)
def test_only_a_commit_whose_outcome_is_unknown_is_to_be_repeated(
    behind: tuple[Rest, Gateway], monkeypatch: pytest.MonkeyPatch, path: str, body: Any, status: int
) -> None:
    rest, gateway = behind
    for text in _MADE:
        gateway.run(text.format(t="t")).close()
    writer = Writer(rest, gateway.lake)
    body = body or writer.body(writer.latest())

    def unknown(*_: object, **__: object) -> None:
        raise OutcomeUnknown("Postgres stays away.")

    monkeypatch.setattr(type(gateway.lake), "client_commit", unknown)
    monkeypatch.setattr(type(gateway.lake.history), "rollback_to_snapshot", unknown)
    answer = rest.call("POST", f"{writer.path}/{path}", body)
    assert (answer.status_code, answer.json["code"]) == (status, status)  # type: ignore[index]
    assert ("Retry-After" in answer.headers) == (status == 503)


def _was_lost(rest: Rest, proxy: PostgresProxy) -> bool:
    """Whether the loss has come by now; waits until no broken connection is left."""
    loss, proxy.loss = proxy.loss, None
    assert eventually(lambda: all(rest.call("GET", "databases").status_code == 200 for _ in range(5)))
    return loss is not None and loss.begun


def test_a_read_that_notes_something_down_may_be_repeated(behind: tuple[Rest, Gateway], postgres_proxy: PostgresProxy) -> None:
    """The list of tags takes in a tag that another client made: its COMMIT loses its answer, and the client asks again by itself."""
    rest, gateway = behind
    _run(gateway, _MADE, "t")
    rest.get("databases/d/tables/t/tags")
    layout = gateway.lake.open(Identifier("d", "t")).files.layout
    shutil.copy(layout.tag_file("x"), layout.tag_file("y"))
    postgres_proxy.lose("COMMIT", Lost.ANSWER)
    answer = rest.call("GET", "databases/d/tables/t/tags")
    assert _was_lost(rest, postgres_proxy)
    assert (answer.status_code, "Retry-After" in answer.headers) == (503, True), answer.text
    assert rest.get("databases/d/tables/t/tags")["tags"] == ["x", "y"]
