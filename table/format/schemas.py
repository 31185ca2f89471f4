"""The versions of a table's schema, by which its data files are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from model.schema.schema import Schema
from table.format.io.file_io import FileIO
from table.format.json_document import parse_json
from table.format.layout import TableLayout
from table.format.schema_file import schema_told

KnownSchemas = Callable[[], Mapping[int, Schema]]
"""All versions that a catalog has."""


class Files(Protocol):
    """What is asked of a table's files."""

    io: FileIO
    layout: TableLayout

    def missing(self, path: str) -> Exception: ...
    def damaged(self, path: str, problem: str) -> Exception: ...


class Schemas:
    """Versions read so far. Where a catalog is asked its own counts, and the file only for a version it does not have.

    Another version in the place of a file would give the columns of old data files other names, without a word.
    Not shared between tables: one that was dropped and made anew has other schemas under the same names.
    """

    def __init__(self, known: KnownSchemas | None) -> None:
        self._known = known
        self._read: dict[int, Schema] = {}

    def __getstate__(self) -> dict[str, object]:
        """Without the catalog: on another machine nobody is asked."""
        return {**self.__dict__, "_known": None}

    def read(self, schema_id: int, files: Files) -> Schema:
        """One version; raises `TableDamaged` where only its file could tell, and that is gone or is no schema."""
        if schema_id not in self._read and self._known is not None:
            self._read.update(self._known())
        if schema_id not in self._read:
            path = files.layout.schema_file(schema_id)
            try:
                self._read[schema_id] = schema_told(parse_json(files.io.read(path)), path)
            except FileNotFoundError:
                raise files.missing(path) from None
            except (ValueError, KeyError, TypeError, AttributeError) as problem:
                raise files.damaged(path, f"is no schema: {problem}") from problem
        return self._read[schema_id]
