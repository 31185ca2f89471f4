"""SQL over HTTP as a endpoint."""

from __future__ import annotations

from typing import Any

import orjson
from flask.testing import FlaskClient

from lake import Lake
from model.view import View
from tests.server.protocols.common import Columns, Refused, Told, fields_of, identifier


class SqlDoor:
    """Statements over HTTP."""

    def __init__(self, lake: Lake, client: FlaskClient) -> None:
        self._lake = lake
        self._client = client

    def _run(self, text: str) -> list[list[Any]]:
        response = self._client.post("/sql", data=text, headers={"Accept": "application/json"})
        answer = orjson.loads(response.data)
        if response.status_code != 200:
            raise Refused(Told(status=response.status_code, error_class=answer["errorClass"]))
        return [list(row) for row in answer["rows"]]

    def _first(self, text: str) -> list[Any]:
        return [row[0] for row in self._run(text)]

    @staticmethod
    def _quoted(name: str, suffix: str = "") -> str:
        database, _, table = name.partition(".")
        return f"`{database}`.`{table}{suffix}`"

    def create_database(self, name: str, options: dict[str, str]) -> None:
        self._run(f"CREATE DATABASE `{name}` WITH ({_pairs(options)})")

    def alter_database(self, name: str, options: dict[str, str]) -> None:
        self._run(f"ALTER DATABASE `{name}` SET ({_pairs(options)})")

    def drop_database(self, name: str) -> None:
        self._run(f"DROP DATABASE `{name}`")

    def databases(self) -> list[str]:
        return self._first("SHOW DATABASES")

    def database_options(self, name: str) -> dict[str, str]:
        return {key: value for key, value in self._run(f"DESCRIBE DATABASE `{name}`") if key not in ("name", "comment")}

    def create_table(self, name: str, columns: Columns, *, options: dict[str, str], comment: str, partition: str | None = None) -> None:
        spelled = ", ".join(f"`{one}` {type_}" for one, type_ in columns)
        by = f" PARTITIONED BY (`{partition}`)" if partition else ""
        self._run(f"CREATE TABLE {self._quoted(name)} ({spelled}) COMMENT '{comment}'{by} WITH ({_pairs(options)})")

    def drop_table(self, name: str) -> None:
        self._run(f"DROP TABLE {self._quoted(name)}")

    def rename_table(self, name: str, to: str) -> None:
        self._run(f"ALTER TABLE {self._quoted(name)} RENAME TO {self._quoted(to)}")

    def tables(self, database: str) -> list[str]:
        return self._first(f"SHOW TABLES FROM `{database}`")

    def columns(self, name: str) -> Columns:
        return [(row[0], row[1] + ("" if row[2] else " NOT NULL")) for row in self._run(f"DESCRIBE {self._quoted(name)}")]

    def options(self, name: str) -> dict[str, str]:
        return dict(self._run(f"SELECT * FROM {self._quoted(name, '$options')}"))

    def add_column(self, name: str, column: str, type_: str) -> None:
        self._run(f"ALTER TABLE {self._quoted(name)} ADD (`{column}` {type_})")

    def rename_column(self, name: str, column: str, to: str) -> None:
        self._run(f"ALTER TABLE {self._quoted(name)} RENAME `{column}` TO `{to}`")

    def drop_column(self, name: str, column: str) -> None:
        self._run(f"ALTER TABLE {self._quoted(name)} DROP `{column}`")

    def set_option(self, name: str, key: str, value: str) -> None:
        self._run(f"ALTER TABLE {self._quoted(name)} SET ('{key}' = '{value}')")

    def reset_option(self, name: str, key: str) -> None:
        self._run(f"ALTER TABLE {self._quoted(name)} RESET ('{key}')")

    def append(self, name: str) -> None:
        self._run(f"INSERT INTO {self._quoted(name)} VALUES (1, 'x'), (2, 'x')")

    def records(self, name: str) -> int:
        return int(self._first(f"SELECT count(*) FROM {self._quoted(name)}")[0])

    def snapshots(self, name: str) -> list[int]:
        return sorted(self._first(f"SELECT snapshot_id FROM {self._quoted(name, '$snapshots')}"))

    def partitions(self, name: str) -> list[str]:
        return self._first(f"SHOW PARTITIONS {self._quoted(name)}")

    def create_tag(self, name: str, tag: str, snapshot: int) -> None:
        self._run(f"CALL sys.create_tag('{name}', '{tag}', {snapshot})")

    def delete_tag(self, name: str, tag: str) -> None:
        self._run(f"CALL sys.delete_tag('{name}', '{tag}')")

    def tags(self, name: str) -> list[str]:
        return sorted(self._first(f"SELECT tag_name FROM {self._quoted(name, '$tags')}"))

    def rollback(self, name: str, snapshot: int) -> None:
        self._run(f"CALL sys.rollback_to(`table` => '{name}', snapshot_id => {snapshot})")

    def create_branch(self, name: str, branch: str, tag: str) -> None:
        self._run(f"CALL sys.create_branch('{name}', '{branch}', '{tag}')")

    def rename_branch(self, name: str, branch: str, to: str) -> None:
        self._run(f"CALL sys.rename_branch('{name}', '{branch}', '{to}')")

    def fast_forward(self, name: str, branch: str) -> None:
        self._run(f"CALL sys.fast_forward('{name}', '{branch}')")

    def drop_branch(self, name: str, branch: str) -> None:
        self._run(f"CALL sys.delete_branch('{name}', '{branch}')")

    def branches(self, name: str) -> list[str]:
        return sorted(self._first(f"SELECT branch_name FROM {self._quoted(name, '$branches')}"))

    def create_view(self, name: str, query: str) -> None:
        """Not by CREATE VIEW: it asks Spark for the types of its columns (`tests/sql/spark/test_views.py`)."""
        self._lake.views.create(identifier(name), View(fields=fields_of(query), query=query))

    def rename_view(self, name: str, to: str) -> None:
        self._run(f"ALTER VIEW {self._quoted(name)} RENAME TO {self._quoted(to)}")

    def drop_view(self, name: str) -> None:
        self._run(f"DROP VIEW {self._quoted(name)}")

    def views(self, database: str) -> list[str]:
        return self._first(f"SHOW VIEWS FROM `{database}`")


def _pairs(options: dict[str, str]) -> str:
    return ", ".join(f"'{key}' = '{value}'" for key, value in options.items())
