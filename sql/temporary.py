"""Temporary tables over files of the import directories, and what keeps them inside those."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping

from model.errors import AnalysisError, Forbidden, InvalidOption, InvalidSchema
from model.option import Option, OptionGroup, boolean, one_of, optional, text
from model.type_parts import unreadable_in_sql
from model.types import BigIntType, DataType, LocalZonedTimestampType, VarCharType
from sql.parsing.ddl import TableDefinition
from sql.session import TemporaryTable

FILE_OPTIONS = OptionGroup("File table option", "Given to `CREATE TEMPORARY TABLE … WITH (…)` over files below `SLUICE_IMPORT_DIRS`.")
CONNECTOR = FILE_OPTIONS.declare(Option("connector", one_of("filesystem"), "filesystem", "Where the rows are."))
PATH = FILE_OPTIONS.declare(Option("path", text(), "", "A file, a directory, or a pattern of files; below an import directory."))
FORMAT = FILE_OPTIONS.declare(Option("format", one_of("parquet", "csv", "json"), "parquet", "How the files are written."))
CSV_DELIMITER = FILE_OPTIONS.declare(Option("csv.field-delimiter", text(), ",", "What separates the fields of a line."))
CSV_HEADER = FILE_OPTIONS.declare(
    Option("csv.header", boolean(), False, "Whether the first line holds names; columns are matched by position.")
)
CSV_QUOTE = FILE_OPTIONS.declare(Option("csv.quote-character", text(), '"', "What encloses a field that holds the delimiter."))
CSV_ESCAPE = FILE_OPTIONS.declare(Option("csv.escape-character", optional(text()), None, "What escapes a quote inside a field."))
CSV_NULL = FILE_OPTIONS.declare(Option("csv.null-literal", text(), "", "The field text that means NULL."))
CSV_COMMENTS = FILE_OPTIONS.declare(Option("csv.allow-comments", boolean(), False, "Whether lines that begin with # are skipped."))
IGNORE_ERRORS = FILE_OPTIONS.declare(
    Option("csv.ignore-parse-errors", boolean(), False, "Whether a field that does not parse is NULL instead of an error.")
)
JSON_IGNORE_ERRORS = FILE_OPTIONS.declare(Option("json.ignore-parse-errors", boolean(), False, "The same for JSON lines."))

FILE_METADATA: Mapping[str, DataType] = {
    "file.path": VarCharType(),
    "file.name": VarCharType(),
    "file.size": BigIntType(),
    "file.modification-time": LocalZonedTimestampType(precision=3),
}
"""What METADATA columns may show: the keys and types of Flink's filesystem connector."""


def temporary_table(name: tuple[str, ...], definition: TableDefinition, import_dirs: tuple[str, ...]) -> TemporaryTable:
    """The temporary table a CREATE TEMPORARY TABLE means; raises `Forbidden` for files outside the import directories."""
    if len(name) != 1:
        raise AnalysisError("A temporary table belongs to the session, not to a database; give it a plain name.", fragment=".".join(name))
    if "connector" not in definition.options:
        raise InvalidOption("A temporary table needs WITH ('connector' = 'filesystem', 'path' = …, 'format' = …).")
    FILE_OPTIONS.check(definition.options)
    if definition.partition_keys or definition.watermarks:
        raise InvalidSchema("PARTITIONED BY and WATERMARK are not available for temporary tables over files.")
    _check_metadata(definition)
    if not definition.columns and FORMAT.read(definition.options) != "parquet":
        raise InvalidSchema("A temporary table over CSV or JSON files needs its columns; Parquet files know their own.")
    for column in definition.columns:
        if unreadable := unreadable_in_sql(column.type):
            raise InvalidSchema(f"Column {column.name}: the type {unreadable} cannot be read from files.")
    path = PATH.read(definition.options)
    if not path:
        raise InvalidOption("Option 'path' is missing: name the file or directory to read.")
    check_path(path, import_dirs)
    return TemporaryTable(
        name=name[0],
        columns=definition.columns,
        path=path,
        format=FORMAT.read(definition.options),
        options=dict(definition.options),
        metadata=dict(definition.metadata),
    )


def _check_metadata(definition: TableDefinition) -> None:
    for column in definition.columns:
        key = definition.metadata.get(column.name)
        if key is not None and key not in FILE_METADATA:
            raise InvalidSchema(f"Column {column.name}: files have no metadata '{key}'; they have {', '.join(FILE_METADATA)}.")
        if key is not None and column.type.with_nullable(True) != FILE_METADATA[key]:
            raise InvalidSchema(f"Column {column.name}: '{key}' is {FILE_METADATA[key].sql()}, not {column.type.sql()}.")
    if definition.columns and len(definition.metadata) == len(definition.columns):
        raise InvalidSchema("A temporary table needs a column of its files beside its METADATA columns.")


def check_path(path: str, import_dirs: tuple[str, ...]) -> list[str]:
    """The files a path means, each really inside an import directory; raises `Forbidden` or `InvalidOption`."""
    if "://" in path and not path.startswith("file://"):
        roots = [root for root in import_dirs if "://" in root]
        if any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots) and ".." not in path.split("/"):
            return [path]
        raise _outside(path, import_dirs)
    plain = path.removeprefix("file://").removeprefix("file:")
    allowed = [os.path.realpath(root) for root in import_dirs if "://" not in root]
    if not os.path.isabs(plain) or not _inside(os.path.realpath(_fixed_part(plain)), allowed):
        raise _outside(path, import_dirs)
    found = sorted(glob.glob(plain, recursive=True)) if glob.has_magic(plain) else [plain]
    for one in found:
        for real in _every_file(one):
            if not _inside(os.path.realpath(real), allowed):
                raise _outside(path, import_dirs)
    if not found or not all(os.path.exists(one) for one in found):
        raise InvalidOption(f"Option 'path' = '{path}': there is no such file.")
    return found


def _fixed_part(path: str) -> str:
    """The path up to its first pattern."""
    while glob.has_magic(path):
        path = os.path.dirname(path)
    return path


def _every_file(path: str) -> list[str]:
    """The path itself, and all below it where it is a directory: a link inside may lead out."""
    found = [path]
    for directory, names, files in os.walk(path):
        found += [os.path.join(directory, name) for name in (*names, *files)]
    return found


def _inside(real: str, allowed: list[str]) -> bool:
    return any(real == root or real.startswith(root.rstrip("/") + "/") for root in allowed)


def _outside(path: str, import_dirs: tuple[str, ...]) -> Forbidden:
    where = f"below {', '.join(import_dirs)}" if import_dirs else "nowhere: SLUICE_IMPORT_DIRS is empty"
    return Forbidden(f"Option 'path' = '{path}' is not allowed: files are read {where}.")
