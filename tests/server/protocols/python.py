"""Python as a endpoint."""

from __future__ import annotations

from flask.testing import FlaskClient

from lake import Lake
from lake.commit.write_context import paths_of
from model.schema.change import AddColumn, DropColumn, RemoveOption, RenameColumn, SetOption
from model.schema.schema import column, new_schema
from model.schema.types import parse_type
from model.snapshot import CommitKind
from model.view import View
from table.write.snapshot_builder import CommitRequest
from tests.server.protocols.common import Columns, day_of, fields_of, identifier, two_rows


class PythonDoor:
    """The lake itself."""

    def __init__(self, lake: Lake, client: FlaskClient) -> None:
        self._lake = lake

    def create_database(self, name: str, options: dict[str, str]) -> None:
        self._lake.create_database(name, options=options)

    def alter_database(self, name: str, options: dict[str, str]) -> None:
        self._lake.alter_database(name, set_options=options)

    def drop_database(self, name: str) -> None:
        self._lake.drop_database(name)

    def databases(self) -> list[str]:
        return self._lake.list_databases()

    def database_options(self, name: str) -> dict[str, str]:
        return dict(self._lake.database(name).options)

    def create_table(self, name: str, columns: Columns, *, options: dict[str, str], comment: str, partition: str | None = None) -> None:
        keys = (partition,) if partition else ()
        made = new_schema([column(*one) for one in columns], partition_keys=keys, options=options, comment=comment)
        self._lake.create_table(identifier(name), made)

    def drop_table(self, name: str) -> None:
        self._lake.drop_table(identifier(name))

    def rename_table(self, name: str, to: str) -> None:
        self._lake.rename_table(identifier(name), identifier(to))

    def tables(self, database: str) -> list[str]:
        return self._lake.list_tables(database)

    def columns(self, name: str) -> Columns:
        return [(one.name, str(one.type)) for one in self._lake.open(identifier(name)).schema.fields]

    def options(self, name: str) -> dict[str, str]:
        return dict(self._lake.open(identifier(name)).schema.options)

    def add_column(self, name: str, column: str, type_: str) -> None:
        self._lake.alter_table(identifier(name), [AddColumn(name=column, type=parse_type(type_))])

    def rename_column(self, name: str, column: str, to: str) -> None:
        self._lake.alter_table(identifier(name), [RenameColumn(name=column, to=to)])

    def drop_column(self, name: str, column: str) -> None:
        self._lake.alter_table(identifier(name), [DropColumn(name=column)])

    def set_option(self, name: str, key: str, value: str) -> None:
        self._lake.alter_table(identifier(name), [SetOption(key=key, value=value)])

    def reset_option(self, name: str, key: str) -> None:
        self._lake.alter_table(identifier(name), [RemoveOption(key=key)])

    def append(self, name: str) -> None:
        table = self._lake.open(identifier(name))
        new = two_rows(day_of(table))
        for path in paths_of(table.files, table.schema, new):
            table.files.io.add(path, b"x" * new.file.file_size)
        self._lake.commit(table, CommitRequest(kind=CommitKind.APPEND, adds=(new,), commit_user="u"))

    def records(self, name: str) -> int:
        found = self._lake.totals(self._lake.open(identifier(name)))
        return found[1].record_count if found else 0

    def snapshots(self, name: str) -> list[int]:
        return [one.id for one in self._lake.snapshots(self._lake.open(identifier(name)))]

    def partitions(self, name: str) -> list[str]:
        return [row.name for row in self._lake.partition_page(self._lake.open(identifier(name)))]

    def create_tag(self, name: str, tag: str, snapshot: int) -> None:
        self._lake.tags.create(self._lake.open(identifier(name)), tag, snapshot_id=snapshot)

    def delete_tag(self, name: str, tag: str) -> None:
        self._lake.tags.delete(self._lake.open(identifier(name)), tag)

    def tags(self, name: str) -> list[str]:
        return [row.name for row in self._lake.tags.all(self._lake.open(identifier(name)))]

    def rollback(self, name: str, snapshot: int) -> None:
        self._lake.history.rollback_to_snapshot(self._lake.open(identifier(name)), snapshot)

    def create_branch(self, name: str, branch: str, tag: str) -> None:
        self._lake.branches.create(self._lake.open(identifier(name)), branch, from_tag=tag)

    def rename_branch(self, name: str, branch: str, to: str) -> None:
        self._lake.branches.rename(self._lake.open(identifier(name)), branch, to)

    def fast_forward(self, name: str, branch: str) -> None:
        self._lake.branches.fast_forward(self._lake.open(identifier(name)), branch)

    def drop_branch(self, name: str, branch: str) -> None:
        self._lake.branches.drop(self._lake.open(identifier(name)), [branch])

    def branches(self, name: str) -> list[str]:
        return self._lake.branches.names(self._lake.open(identifier(name)))

    def create_view(self, name: str, query: str) -> None:
        self._lake.views.create(identifier(name), View(fields=fields_of(query), query=query))

    def rename_view(self, name: str, to: str) -> None:
        self._lake.views.rename(identifier(name), identifier(to))

    def drop_view(self, name: str) -> None:
        self._lake.views.drop(identifier(name))

    def views(self, database: str) -> list[str]:
        return self._lake.views.names(database)
