"""No option or argument whose value becomes a part of a path leads out of its table, by whichever protocol it comes."""

from __future__ import annotations

import json
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import pytest
from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from model.errors import InvalidOption
from model.options.option import Option
from model.options.table import TABLE_OPTIONS
from sql.statements.procedures.calls import PROCEDURES
from tests.fuzz.oracle import sql, tree_digest

_CANARY = "zzcanary"
_BAD = (f"../../other/{_CANARY}", "..", f"../{_CANARY}", f"{_CANARY}/../../../other", f"..\\{_CANARY}", f"{_CANARY}\x01", f"/tmp/{_CANARY}")
_PARTS = 5
"""Into so many tests the procedures are dealt: each makes a server of its own."""
_PATHS = sorted(TABLE_OPTIONS.paths(), key=lambda option: option.key)
_TEXTS = [option for option in (*TABLE_OPTIONS, *TABLE_OPTIONS.families()) if option.parser.kind == "text"]


def test_options_that_are_parts_of_paths_are_declared_so() -> None:
    """Which they are is seen by `test_no_option_reaches_a_path_undeclared`; this tells when one is no more."""
    assert {option.key for option in _PATHS} == {
        "branch", "changelog-file.prefix", "commit.user-prefix", "consumer-id", "data-file.path-directory", "data-file.prefix",
        "scan.fallback-branch",
        "scan.primary-branch", "scan.tag-name", "tag.batch.customized-name",
    }  # fmt: skip


@pytest.mark.parametrize("value", _BAD)
@pytest.mark.parametrize("option", _PATHS, ids=lambda option: option.key)
def test_each_refuses_what_is_no_name(option: Option[Any], value: str) -> None:
    if option.key.endswith("prefix") and value == "..":
        value = "../"  # a name may begin with two dots
    if option.key == "data-file.path-directory" and value.startswith("/tmp/"):
        value += "/.."  # a slash at the begin is one of the table's
    with pytest.raises(InvalidOption, match=option.key):
        option.parse(value)
    with pytest.raises(InvalidOption, match=option.key):
        TABLE_OPTIONS.check_values({option.key: value}, {})  # what the REST catalog holds options to that it keeps for others


class Place:
    """A table beside another one, and what must not happen to that."""

    def __init__(self, client: FlaskClient, tmp_path: Path) -> None:
        self.client, self._root = client, tmp_path
        sql(client, "CREATE TABLE other (id INT, s STRING); INSERT INTO other VALUES (1, 'a')")
        sql(client, "CREATE TABLE t (id INT, s STRING); INSERT INTO t VALUES (1, 'a'); CALL sys.create_tag('t', 'kept')")
        self._other = tree_digest(tmp_path / "warehouse" / "default.db" / "other")

    def ask(self, text: str) -> TestResponse:
        return self.check(self.client.post("/sql", data=text.encode(), headers={"Content-Type": "application/sql"}, buffered=True), text)

    def rest(self, method: str, path: str, body: object) -> TestResponse:
        answer = self.client.open(
            f"/v1/sluice/databases/default/{path}", method=method, data=json.dumps(body), content_type="application/json"
        )
        return self.check(answer, f"{method} {path} {body}")

    def check(self, answer: TestResponse, what: str) -> TestResponse:
        assert answer.status_code < 500 or answer.status_code in (501, 503), (what, answer.text)
        assert "TableDamaged" not in answer.text, (what, answer.text)  # a path was made of it, which its table refused
        return answer

    def untouched(self) -> None:
        """Raise where a file has the name somewhere outside the table, or the other table is not as it was."""
        own = self._root / "warehouse" / "default.db" / "t"
        outside = [path for path in self._root.rglob(f"*{_CANARY}*") if own not in path.parents]
        assert not outside
        assert not Path("/tmp", _CANARY).exists()
        assert tree_digest(self._root / "warehouse" / "default.db" / "other") == self._other


@pytest.fixture
def place(client: FlaskClient, tmp_path: Path) -> Place:
    return Place(client, tmp_path)


@pytest.mark.parametrize("each", [pytest.param(1, id="short"), pytest.param(4, id="whole", marks=pytest.mark.torture)])
def test_no_option_reaches_a_path_undeclared(place: Place, each: int) -> None:
    """Every option of text, with so many bad values, in a hint, by ALTER, and by REST; then the table is written, read and looked after."""
    for number, option in enumerate({option.key: option for option in (*_TEXTS, *_PATHS)}.values()):
        key = option.key.replace("<column>", "s")
        for value in _BAD[:4] if option.parser.in_path else islice(cycle(_BAD[:4]), number, number + each):
            quoted = value.replace("'", "''")
            place.ask(f"SELECT * FROM t /*+ OPTIONS('{key}'='{quoted}') */")
            place.ask(f"INSERT INTO t /*+ OPTIONS('{key}'='{quoted}') */ VALUES (2, 'b')")
            changed = place.rest("POST", "tables/t", {"changes": [{"action": "setOption", "key": key, "value": value}]})
            place.ask(f"ALTER TABLE t SET ('{key}' = '{quoted}')")
            if option.parser.in_path and not (value == ".." and key.endswith("prefix")):
                assert changed.status_code == 400, (key, value)
            if changed.status_code == 200:
                for text in (
                    "INSERT INTO t VALUES (3, 'c')",
                    "SELECT * FROM t",
                    "CALL sys.create_tag('t', 'x')",
                    "CALL sys.delete_tag('t', 'x')",
                ):
                    place.ask(text)
                place.ask(f"ALTER TABLE t RESET ('{key}')")
                place.rest("POST", "tables/t", {"changes": [{"action": "removeOption", "key": key}]})
    place.untouched()


@pytest.mark.parametrize("part", range(_PARTS))
def test_no_argument_leads_out_of_a_table(place: Place, part: int) -> None:
    """The table and its tag are made anew where a procedure before took them away."""
    for name in sorted(PROCEDURES)[part::_PARTS]:
        place.ask("CREATE TABLE IF NOT EXISTS t (id INT, s STRING)")
        place.ask("INSERT INTO t VALUES (1, 'a')")
        place.ask("CALL sys.create_tag('t', 'kept')")
        _ask_all(place, name)
    place.untouched()


def _ask_all(place: Place, name: str) -> None:
    procedure = PROCEDURES[name]
    texts = [parameter for parameter, kind in procedure.parameters.items() if kind is str and parameter not in ("table", "target")]
    needed = [parameter for parameter in list(procedure.parameters)[: procedure.required] if parameter not in ("table", *texts)]
    for parameter in texts:
        for value in _BAD[:4]:
            arguments = {"table": "'t'"} if "table" in procedure.parameters else {}
            arguments |= {other: "'kept'" for other in texts if list(procedure.parameters).index(other) < procedure.required}
            arguments |= dict.fromkeys(needed, "1") | {parameter: f"'{value}'"}
            place.ask(f"CALL {name}({', '.join(f'`{key}` => {text}' for key, text in arguments.items())})")


def test_no_name_in_a_request_of_the_catalog_does(place: Place) -> None:
    for value in _BAD:
        place.rest("POST", "tables/t/branches", {"branch": value, "fromTag": None})
        place.rest("POST", "tables/t/branches", {"branch": "b", "fromTag": value})
        place.rest("POST", "tables/t/tags", {"tagName": value, "snapshotId": 1, "timeRetained": None})
        place.rest("POST", "tables/t/consumers/reset", {"consumerId": value, "nextSnapshot": 1})
        place.rest("POST", "tables/t/rollback", {"instant": {"type": "tag", "tagName": value}})
        place.rest("POST", "tables", {"identifier": {"database": "default", "object": value}, "schema": {"fields": [], "options": {}}})
        for option in _PATHS:
            fields = [{"id": 0, "name": "a", "type": "INT"}]
            schema = {"fields": fields, "partitionKeys": [], "primaryKeys": [], "options": {option.key: value}, "comment": ""}
            made = place.rest("POST", "tables", {"identifier": {"database": "default", "object": f"made_{_CANARY[:2]}"}, "schema": schema})
            if made.status_code == 200:
                place.ask("INSERT INTO made_zz VALUES (1)")
                place.ask("DROP TABLE made_zz")
    place.untouched()
