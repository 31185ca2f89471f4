"""``'connector' = 'filesystem'``: files of the import directories as a table, and what keeps them inside those."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping

from model.errors import Forbidden, InvalidOption, InvalidSchema
from model.location import Location
from model.options.option import Option, boolean, duration, one_of, optional, text
from model.schema.types import BigIntType, DataType, LocalZonedTimestampType, VarCharType
from sql.connectors.base import Bound, Connector, ConnectorScope, ConnectorTable, options_of

FILE_OPTIONS = options_of("filesystem", "Files below `SLUICE_IMPORT_DIRS` as a table: read once, or watched.")
PATH = FILE_OPTIONS.declare(
    Option("path", text(), "", "A file, a directory, or a pattern of files (`*`, `?`, `[…]`); below an import directory.")
)
FORMAT = FILE_OPTIONS.declare(Option("format", one_of("parquet", "csv", "json"), "parquet", "How the files are written."))
CSV_DELIMITER = FILE_OPTIONS.declare(Option("csv.field-delimiter", text(), ",", "What separates the fields of a line."))
CSV_HEADER = FILE_OPTIONS.declare(
    Option("csv.header", boolean(), False, "Whether the first line holds names; columns are matched by position.", per_query=True)
)
CSV_QUOTE = FILE_OPTIONS.declare(Option("csv.quote-character", text(), '"', "What encloses a field that holds the delimiter."))
CSV_ESCAPE = FILE_OPTIONS.declare(Option("csv.escape-character", optional(text()), None, "What escapes a quote inside a field."))
CSV_NULL = FILE_OPTIONS.declare(Option("csv.null-literal", text(), "", "The field text that means NULL."))
CSV_COMMENTS = FILE_OPTIONS.declare(
    Option("csv.allow-comments", boolean(), False, "Whether lines that begin with # are skipped.", per_query=True)
)
IGNORE_ERRORS = FILE_OPTIONS.declare(
    Option("csv.ignore-parse-errors", boolean(), False, "Whether a field that does not parse is NULL instead of an error.", per_query=True)
)
JSON_IGNORE_ERRORS = FILE_OPTIONS.declare(Option("json.ignore-parse-errors", boolean(), False, "The same for JSON lines.", per_query=True))
MONITOR_INTERVAL = FILE_OPTIONS.declare(
    Option(
        "source.monitor-interval",
        optional(duration()),
        None,
        "How often a stream looks for new files, forever; without it the files that are there are read once.",
        per_query=True,
    )
)

FILE_METADATA: Mapping[str, DataType] = {
    "file.path": VarCharType(),
    "file.name": VarCharType(),
    "file.size": BigIntType(),
    "file.modification-time": LocalZonedTimestampType(precision=3),
}
"""What METADATA columns may show: the keys and types of Flink's filesystem connector."""


class Filesystem(Connector):
    """Reads files; a stream of them takes each once, when it appears."""

    name = "filesystem"
    options = FILE_OPTIONS
    metadata = FILE_METADATA

    def check(self, table: ConnectorTable, scope: ConnectorScope) -> None:
        """Raise `Forbidden` for files outside the import directories, and for a table's."""
        if not table.columns and FORMAT.read(table.options) != "parquet":
            raise InvalidSchema("A table over CSV or JSON files needs its columns; Parquet files know their own.")
        path = PATH.read(table.options)
        if not path:
            raise InvalidOption("Option 'path' is missing: name the file or directory to read.")
        check_path(path, scope, may_be_empty=self.bound(table) is Bound.NEVER)

    def bound(self, table: ConnectorTable) -> Bound:
        """Without an interval the files are read once."""
        return Bound.NOW if MONITOR_INTERVAL.read(table.options) is None else Bound.NEVER


_NO_PATTERN = frozenset("{}\\")
"""Hadoop's patterns know more signs than ours: `{../a,b/c}` climbs out of a directory that was found to hold it."""

_MOST_MATCHES = 100_000


def check_path(path: str, scope: ConnectorScope, *, may_be_empty: bool = False) -> list[str]:
    """The files a path means, each really inside an import directory and none a table's; raises `Forbidden` or `InvalidOption`.

    ``may_be_empty``: that nothing is there yet is fine. Patterns are `*`, `?` and `[…]`, each within one name, and mean no hidden names.
    Those are looked at all the same: who follows files has Spark find them by the pattern, and Hadoop's means hidden names, too.
    """
    if bad := next((sign for sign in path if sign in _NO_PATTERN or ord(sign) < 32), None):
        raise InvalidOption(
            f"Option 'path' = {path!r} has {bad!r}, which no path and no pattern may have: `*`, `?` and `[…]` stand for parts of a name."
        )
    import_dirs = scope.import_dirs
    if in_store(path):
        roots = [root for root in import_dirs if "://" in root]
        if any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots) and ".." not in path.split("/"):
            scope.refuse_guarded([Location.parse(path)])
            return [path]
        raise _outside(path, import_dirs)
    plain = path.removeprefix("file://").removeprefix("file:")
    allowed = [os.path.realpath(root) for root in import_dirs if "://" not in root]
    if not os.path.isabs(plain) or not _inside(os.path.realpath(_fixed_part(plain)), allowed):
        raise _outside(path, import_dirs)
    paths = matches = [plain]
    if glob.has_magic(plain):
        paths, matches = _matches(plain), _matches(plain, hidden=True)
    wanted = [os.path.realpath(plain)] if may_be_empty else []  # a pattern of files to come
    for match in matches:
        wanted.append(top := os.path.realpath(match))
        for file in _every_file(match):
            real = os.path.realpath(file)
            if not _inside(real, allowed):
                raise _outside(path, import_dirs)
            wanted += [] if _inside(real, [top]) else [real]  # by a link
    scope.refuse_guarded([Location.parse(place) for place in wanted])
    if not may_be_empty and (not paths or not all(os.path.exists(match) for match in paths)):
        raise no_such_file(path)
    return paths


def in_store(path: str) -> bool:
    """Whether a path lies in an object store, whose patterns are not looked for here."""
    return "://" in path and not path.startswith("file://")


def no_such_file(path: str) -> InvalidOption:
    """The error for a path that means nothing."""
    return InvalidOption(f"Option 'path' = '{path}': there is no such file.")


def _matches(pattern: str, *, hidden: bool = False) -> list[str]:
    """What a pattern means, a name at a time; raises `InvalidOption` where it would climb, or mean more than is held at once.

    ``hidden``: names that begin with a dot, too, which its parts do not name.
    """
    names = [name.replace("[^", "[!") for name in pattern.split("/") if name]  # two spellings of one thing to Hadoop
    if bad := next((name for name in names if name in (".", "..") or "**" in name), None):
        raise InvalidOption(
            f"Option 'path' = '{pattern}' has '{bad}', which no pattern may have: each of `*`, `?` and `[…]` stands for a part of one name."
        )
    places = ["/"]
    for name in names:
        matches: list[str] = []
        for place in places:
            matches += (os.path.join(place, match) for match in glob.iglob(name, root_dir=place, include_hidden=hidden))
            if len(matches) > _MOST_MATCHES:  # through links, names multiply with each `*`
                raise InvalidOption(
                    f"Option 'path' = '{pattern}' means more than {_MOST_MATCHES} files or directories; name the directory that holds them."
                )
        places = matches
    return sorted(places)


def _fixed_part(path: str) -> str:
    """The path up to its first pattern."""
    while glob.has_magic(path):
        path = os.path.dirname(path)
    return path


def _every_file(path: str) -> Iterator[str]:
    """The path itself, and all below it where it is a directory: a link inside may lead out, also one in a directory that another leads to.

    What is given is to be looked at before the next is asked for: directories are gone into after that.
    """
    yield path
    gone_into: set[str] = set()
    for directory, names, files in os.walk(path, followlinks=True):
        if (place := os.path.realpath(directory)) in gone_into:
            names.clear()
            continue
        gone_into.add(place)
        for name in (*names, *files):
            yield os.path.join(directory, name)


def _inside(real: str, allowed: list[str]) -> bool:
    return any(real == root or real.startswith(root.rstrip("/") + "/") for root in allowed)


def _outside(path: str, import_dirs: tuple[str, ...]) -> Forbidden:
    where = f"below {', '.join(import_dirs)}" if import_dirs else "nowhere: SLUICE_IMPORT_DIRS is empty"
    return Forbidden(f"Option 'path' = '{path}' is not allowed: files are read {where}.")
