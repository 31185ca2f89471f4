"""Errors name a file, and neither the server's directories nor the partition it lies in, which a policy may hide."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient

from model import catalog_errors
from model.errors import LakeError
from model.text.file_name import hide_places, without_places
from tests.fuzz.test_sql import statements
from tests.lake.register.damage import data_files, remove
from tests.server.access.test_access import As, ada, admin

__all__ = ["ada", "admin"]


@pytest.mark.parametrize("hurt", ["missing", "cut"])
def test_a_damaged_file_is_named_without_its_place(client: FlaskClient, admin: As, ada: As, tmp_path: Path, hurt: str) -> None:
    admin.sql("CREATE TABLE t (id INT, day STRING) PARTITIONED BY (day)")
    admin.sql("INSERT INTO t VALUES (1, 'hidden day')")
    admin.sql("GRANT SELECT ON t TO ada")
    (file,) = data_files(tmp_path / "warehouse/default.db/t")
    if hurt == "missing":
        remove(file)
    else:
        file.write_bytes(file.read_bytes()[:50])

    def told(who: As, path: str = "/sql") -> str:
        text = None if path == "/readyz" else json.dumps({"statement": "SELECT * FROM t"})
        headers = {**who._headers, "Content-Type": "application/json"}
        return client.open(path, method="POST" if text else "GET", data=text, headers=headers).text

    for who in (ada, admin):
        assert "TableDamaged" in told(who)
        assert file.name in told(who)
    assert str(file) in told(admin)
    assert not [word for word in (str(tmp_path), "hidden day", "bucket-") if word in told(ada)]
    status, rows = ada.sql("SELECT problem FROM sys.damaged_tables")
    assert status == 200
    assert file.name in rows[0][0]
    assert not [word for word in ("/", "hidden") if word in rows[0][0]]
    assert "hidden day" not in told(ada, "/readyz")


def test_whatever_is_refused_shows_no_directory_of_the_server(client: FlaskClient, admin: As, ada: As, tmp_path: Path) -> None:
    admin.sql("CREATE DATABASE own; GRANT ALL ON DATABASE own TO ada; CREATE TABLE t (id INT, s STRING); GRANT SELECT, INSERT ON t TO ada")
    headers = {**ada._headers, "Content-Type": "application/sql"}
    refused = 0
    for text in statements():
        answer = client.post("/sql", data=f"USE own; {text}".encode(), headers=headers, buffered=True)
        refused += answer.status_code >= 400
        assert answer.status_code < 400 or str(tmp_path) not in answer.text, f"{text}: {answer.text}"
    assert refused > 20


def _places(warehouse: Path) -> Iterator[str]:
    for path in (
        "default.db/t",
        "default.db/t/schema",
        "default.db",
        "",
        "default.db/none",
        "default.db/broken",
        "default.db/other",
    ):
        yield f"{warehouse}/{path}"
        yield f"file://{warehouse}/{path}"


def test_what_cannot_be_registered_is_not_described_by_its_path(client: FlaskClient, admin: As, ada: As, tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    admin.sql("CREATE TABLE t (id INT, s STRING); INSERT INTO t VALUES (1, 'a'); CREATE DATABASE own; GRANT ALL ON DATABASE own TO ada")
    for name, schema in (("broken", "{"), ("other", '{"id": 0, "fields": [{"id": 0, "name": "a", "type": "INT"}], "primaryKeys": ["a"]}')):
        (warehouse / "default.db" / name / "schema").mkdir(parents=True)
        (warehouse / "default.db" / name / "schema" / "schema-0").write_text(schema)
    for n, place in enumerate(_places(warehouse)):
        answers = [
            client.post("/sql", data=json.dumps({"statement": text}), headers={**ada._headers, "Content-Type": "application/json"})
            for text in (
                f"CALL sys.register_table('own.t{n}', '{place}')", f"CALL sys.migrate_table('own.m{n}', '{place}')",
                f"CREATE TABLE own.p{n} (a INT) WITH ('path' = '{place}')",
            )
        ]  # fmt: skip
        body = json.dumps({"identifier": {"database": "own", "object": f"r{n}"}, "path": place})
        answers.append(
            client.post("/v1/sluice/databases/own/register", data=body, headers={**ada._headers, "Content-Type": "application/json"})
        )
        for answer in answers:
            assert answer.status_code >= 400, (place, answer.text)
            assert str(tmp_path) not in answer.text, (place, answer.text)


def _kinds(kind: type[LakeError] = LakeError) -> Iterator[type[LakeError]]:
    for below in kind.__subclasses__():
        yield below
        yield from _kinds(below)


def test_every_class_of_error_says_it_without_the_place(tmp_path: Path) -> None:
    hide_places(str(tmp_path))
    words = f"Nothing is at {tmp_path}/a/data-1.parquet."
    checked = 0
    kinds: set[type[LakeError]] = {LakeError, *_kinds()}
    assert catalog_errors.__name__ in {kind.__module__ for kind in kinds}
    for kind in kinds:
        made = _made(kind, words)
        checked += made is not None
        assert made is None or str(tmp_path) not in made.message, kind
        if made is not None and words in str(made):
            assert str(tmp_path) in made.whole, kind
    assert checked > 30


def _made(kind: type[LakeError], words: str) -> LakeError | None:
    """An error of a class, whose texts all hold the words; None for one that takes more than texts."""
    parameters = list(inspect.signature(kind.__init__).parameters.values())[1:]
    needed = [parameter for parameter in parameters if parameter.default is parameter.empty and parameter.kind is not parameter.VAR_KEYWORD]
    positional = [words for parameter in needed if parameter.kind is not parameter.KEYWORD_ONLY]
    named = {parameter.name: words for parameter in needed if parameter.kind is parameter.KEYWORD_ONLY}
    try:
        return kind(*positional, **named)
    except (TypeError, ValueError, AttributeError):
        return None


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        ("at {0}/default.db/t/x.parquet: no space", "at x.parquet: no space"),
        ("'file:{0}/a/b.orc' is", "'b.orc' is"),
        ("file:///{0}/a/b.orc", "b.orc"),
        ("under {0}/t/day=secret.", "under …."),
        ("{0}", "{1}"),
        ("files are read below {0}.", "files are read below {1}."),
        ("{0}: not there", "{1}: not there"),
        ("{0}beside/x stays, and /v1/sluice too", "{0}beside/x stays, and /v1/sluice too"),
    ],
)
def test_paths_are_shortened_to_names(tmp_path: Path, said: str, shown: str) -> None:
    hide_places(str(tmp_path))
    assert without_places(said.format(tmp_path)) == shown.format(tmp_path, tmp_path.name)
