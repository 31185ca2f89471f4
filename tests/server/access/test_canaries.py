"""Values, counts, sizes and names of rows that are kept from a caller come out nowhere, whichever way it asks.

Each place masks what it shows by itself; here everything that can be asked is searched for what none may show.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient

import sql.system.names  # noqa: F401 - system tables register themselves
from gateway.gateway import Gateway
from model.errors import LakeError
from server.pages.tables.maintenance import _PREVIEWS
from server.pages.tables.sides import TABS
from sql.statements.procedures.calls import PROCEDURES
from sql.system.base import REGISTRY
from sql.system.data import DATA_TABLES
from sql.system.overall import OVERALL
from tests.lake.access.test_access import user
from tests.server.pages.conftest import Visitor

_HIDDEN_ROWS, _ROWS = 7919, 7922
_TEXTS = ("kestrel", "osprey", "merlin")
"""A partition of hidden rows, what they hold, and a column's values."""
_BY_CHANCE = re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b|\b(?=\d*[a-f])[0-9a-f]{8,}\b")
"""Identifiers and digests: one of some thousand has any number of four digits in it."""
_ARGUMENTS = {
    "table": "'d.t'", "tag": "'kept'", "target_tag": "'kept2'", "branch": "'b'", "from_branch": "'b'", "to_branch": "'c'",
    "where": "'id > 0'",
    "including_databases": "'d'", "database": "'d'", "bucket_num": "2", "timestamp": "'2099-01-01 00:00:00'", "watermark": "1",
    "partitions": "'p=kestrel'", "consumer_id": "'me'", "expiration_time": "'1 d'", "timestamp_formatter": "'yyyy'",
    "source_table": "'d.t'", "target_table": "'d.u'", "path": "'/nowhere'", "snapshot_id": "1", "older_than": "'2099-01-01 00:00:00'",
}  # fmt: skip


class World:
    """A table of which two callers see three rows of one partition, and what they must not be told."""

    def __init__(self, gateway: Gateway, client: FlaskClient) -> None:
        lake = gateway.lake
        self.gateway, self.client = gateway, client
        self.secrets = {name: user(lake, name) for name in ("reader", "owner")}
        hidden = "".join(f'{{"id":{1000 + n},"s":"osprey","c":"merlin","p":"kestrel"}}\n' for n in range(_HIDDEN_ROWS))
        self.run("CREATE DATABASE d; CREATE TABLE d.t (id INT, s STRING, c STRING, p STRING) PARTITIONED BY (p)")
        self.run("INSERT INTO d.t VALUES (1, 'a', 'merlin', 'x'), (2, 'b', 'merlin', 'x'), (3, 'c', 'merlin', 'x')")
        headers = {"Authorization": f"Bearer {self.root()}", "Content-Type": "application/x-ndjson", "Idempotency-Key": "hidden"}
        done = client.post("/tables/d/t/rows", data=hidden, headers=headers)
        assert done.status_code == 200, done.text
        self.run("CALL sys.create_tag('d.t', 'kept'); CALL sys.create_branch('d.t', 'b', 'kept')")
        self.run("GRANT ALL ON d.t TO owner; GRANT SELECT ON d.t TO reader; CREATE POLICY few ON d.t TO reader, owner USING (id < 10)")
        self.run("CREATE MASKING POLICY no_c ON d.t (c) TO reader, owner USING (NULL)")
        files = self.rows("SELECT file_path, file_size_in_bytes FROM d.t$files")
        sizes = {size for _, size in files if size > 10_000}  # smaller ones stand in any answer by chance
        assert sizes
        self.numbers = {_HIDDEN_ROWS, _ROWS, *sizes, sum(size for _, size in files)}
        self.texts = {*_TEXTS, *(path.rpartition("/")[2] for path, _ in files)}

    def root(self) -> str:
        return self.gateway.lake.permissions.create_token(f"root{len(self.gateway.lake.permissions.tokens())}", administrator=True)[1]

    def run(self, text: str) -> None:
        self.gateway.run(text).close()

    def rows(self, text: str) -> list[tuple[Any, ...]]:
        with self.gateway.run(text) as result:
            return result.collect()

    def told(self, text: str, asked: str = "") -> list[str]:
        """What of the secrets stands in an answer, but for what the question itself says."""
        named = _BY_CHANCE.sub("", text)
        plain = re.sub(r"(?<=\d)[,\u202f\u00a0 ](?=\d{3}\b)", "", named)
        numbers = {int(found) for found in re.findall(r"\d+", plain) if len(found) < 19}
        return sorted(str(found) for found in (self.numbers & numbers) | {t for t in self.texts if t in text and t not in asked})


@pytest.fixture
def world(gateway: Gateway, client: FlaskClient) -> World:
    return World(gateway, client)


def _statements() -> Iterator[str]:
    for kind in sorted({*REGISTRY, *DATA_TABLES}):
        yield f"SELECT * FROM d.t${kind}"
        yield f"SELECT * FROM d.`t$branch_b${kind}`"
    for name in sorted(OVERALL):
        yield f"SELECT * FROM sys.{name}"
    for shown in (
        "TABLES IN d", "DATABASES", "PARTITIONS d.t", "CREATE TABLE d.t", "COLUMNS FROM d.t", "GRANTS", "GRANTS ON d.t", "POLICIES ON d.t",
        "DROPPED TABLES", "DROPPED DATABASES", "JOBS", "QUOTAS", "VIEWS IN d", "FUNCTIONS",
    ):  # fmt: skip
        yield f"SHOW {shown}"
    for query in (
        "SELECT * FROM d.t",
        "SELECT c, COUNT(*) FROM d.t GROUP BY c",
        "SELECT * FROM d.t WHERE p = 'x'",
        "SELECT MAX(id) FROM d.t",
    ):
        yield query
        yield f"EXPLAIN {query}"
        yield f"EXPLAIN JSON {query}"
    yield from ("DESCRIBE d.t", "DESCRIBE EXTENDED d.t", "DESCRIBE DATABASE d", "DESCRIBE DATABASE EXTENDED d")
    yield from ("SELECT * FROM information_schema.tables", "SELECT * FROM information_schema.columns")
    yield from (
        "EXPLAIN DELETE FROM d.t WHERE id > 0",
        "EXPLAIN UPDATE d.t SET s = 'x'",
        "DELETE FROM d.t WHERE id > 5",
        "UPDATE d.t SET s = 'x' WHERE id > 5",
    )
    yield from (
        "INSERT OVERWRITE d.t PARTITION (p = 'y') VALUES (1, 'a', 'b')",
        "TRUNCATE TABLE d.t",
        "ALTER TABLE d.t DROP PARTITION (p = 'y')",
    )
    for name, procedure in sorted(PROCEDURES.items()):
        given = [(key, _ARGUMENTS[key]) for key in procedure.parameters if key in _ARGUMENTS]
        needed = list(procedure.parameters)[: procedure.required]
        for chosen in ([pair for pair in given if pair[0] in needed], given):
            for dry in ("true", "false"):
                more = [("dry_run", dry)] if "dry_run" in procedure.parameters else []
                yield f"CALL {name}({', '.join(f'`{key}` => {value}' for key, value in [*chosen, *more])})"


def _every_outcome(world: World, who: str, statements: Iterator[str]) -> dict[str, list[str]]:
    told: dict[str, list[str]] = {}
    for text in statements:
        caller = world.gateway.lake.access.caller(world.secrets[who])
        try:
            with world.gateway.run(text, caller=caller) as result:
                shown = repr([[column.name for column in result.columns], result.collect()])
        except LakeError as problem:
            shown = problem.message
        if found := world.told(shown, text):
            told[text] = found
    return told


@pytest.mark.parametrize("who", ["reader", "owner"])
def test_no_statement_tells(world: World, who: str) -> None:
    assert _every_outcome(world, who, _statements()) == {}
    assert ("p=kestrel", _HIDDEN_ROWS) in world.rows("SELECT partition, record_count FROM d.t$partitions"), (
        "who does not see rows takes none away"
    )


@pytest.mark.parametrize("who", ["reader", "owner"])
def test_nor_does_what_is_dropped(world: World, who: str) -> None:
    world.gateway.lake.drop_retention = timedelta(days=7)
    world.run("DROP TABLE d.t")
    assert _every_outcome(world, who, iter(("SHOW DROPPED TABLES", "SELECT * FROM sys.dropped_tables", "SELECT * FROM sys.tables"))) == {}


_PATHS = (
    "", "/snapshot", "/snapshots", "/snapshots/1", "/snapshots/2", "/snapshots/LATEST", "/snapshots/EARLIEST", "/partitions", "/tags",
    "/tags/kept", "/branches", "/token",
)  # fmt: skip


def test_no_path_of_the_rest_catalog_tells(world: World) -> None:
    """A reader: who may commit is told what a commit has to name."""
    headers = {"Authorization": f"Bearer {world.secrets['reader']}"}
    told: dict[str, list[str]] = {}
    paths = [f"/databases/d/tables/{quote(name)}{path}" for name in ("t", "t$branch_b") for path in _PATHS]
    paths += ["/tables", "/databases/d/tables", "/databases/d/table-details", "/databases/d", "/table-details", "/partitions"]
    for path in paths:
        answer = world.client.get(f"/v1/sluice{path}", headers=headers)
        if found := world.told(answer.text, path):
            told[path] = found
    for path in ("/auth", "/rollback", "/commit", "/partitions/mark", "/partitions/list-by-names"):
        answer = world.client.post(
            f"/v1/sluice/databases/d/tables/t{path}", headers=headers, json={"select": ["id"], "specs": [{"p": "x"}]}
        )
        if found := world.told(answer.text):
            told[path] = found
    assert told == {}


_OF_TABLE = [f"/ui/tables/d/t/{tab}" for tab in TABS]


def test_an_administrator_is_told_by_many(world: World) -> None:
    """That the search finds what it searches for."""
    world.secrets["root"] = world.root()
    told = _every_outcome(world, "root", (text for text in _statements() if text.startswith(("SELECT", "SHOW", "DESCRIBE"))))
    assert len(told) > 15, told
    visitor = Visitor(world.client)
    visitor.send("/ui/login", token=world.secrets["root"])
    assert any(world.told(world.client.get(path).text) for path in _OF_TABLE)
    headers = {"Authorization": f"Bearer {world.secrets['root']}"}
    pages = (world.client.get(f"/v1/sluice/databases/d/tables/t{path}", headers=headers).text for path in _PATHS)
    assert sum(bool(world.told(text)) for text in pages) > 5


@pytest.mark.parametrize("who", ["reader", "owner"])
def test_no_page_tells(world: World, who: str) -> None:
    visitor = Visitor(world.client)
    visitor.send("/ui/login", token=world.secrets[who])
    told: dict[str, list[str]] = {}
    paths = [*_OF_TABLE, *(f"/ui/tables/d/t/preview/{action}" for action in _PREVIEWS)]
    paths += [
        f"/ui/{page}"
        for page in ("", "catalog", "catalog?database=d", "compactions", "dropped", "jobs", "quotas", "settings", "statements", "sql")
    ]
    paths += ["/metrics", "/readyz", "/jobs", "/ui/sql/complete?text=SELECT+*+FROM+d.t+WHERE+p+%3D+%27"]
    for path in paths:
        answer = world.client.get(path)
        if found := world.told(answer.text, path):
            told[path] = found
    world.gateway.lake.drop_retention = timedelta(days=7)
    world.run("DROP TABLE d.t")
    for path in ("/ui/dropped", "/ui/", "/metrics"):
        if found := world.told(world.client.get(path).text):
            told[f"{path} after the drop"] = found
    assert told == {}
