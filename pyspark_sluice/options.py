"""What a user of the source says: where the server is, which table, how much at once; everything else is the table's own options."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from uuid import UUID

from model.errors import InvalidOption
from model.identifier import MAIN_BRANCH, Identifier
from model.options.option import Option, boolean, integer, memory_size, optional, text
from model.options.table import TABLE_OPTIONS

if TYPE_CHECKING:
    from typing import Any

_BRANCH = "$branch_"
_SOURCE_OPTIONS: dict[str, Option[Any]] = {
    one.key.lower(): one
    for one in (
        Option("uri", optional(text()), None, "The server's address, such as `http://127.0.0.1:8083`."),
        Option("token", optional(text()), None, "The token to call it with."),
        Option("path", optional(text()), None, "The table, `database.table` or `database.table$branch_name`; `load` and `start` set it."),
        Option("maxRowsPerTrigger", optional(integer(at_least=1)), None, "Rows a micro-batch takes at most."),
        Option("maxBytesPerTrigger", optional(memory_size()), None, "Bytes of data files a micro-batch takes at most (at least one row)."),
        Option("maxFilesPerTrigger", optional(integer(at_least=1)), None, "Data files a micro-batch takes at most."),
        Option("parallelism", optional(integer(at_least=1)), None, "Tasks that can run at once, by which a table without order is parted."),
        Option("columns", optional(text()), None, "A JSON list of the columns to read; all without it."),
        Option("filter", optional(text()), None, "A condition by which partitions, buckets and files are left out, as JSON."),
        Option("startingOffset", optional(text()), None, "Where a query without a checkpoint begins: an offset as a checkpoint holds it."),
        Option(
            "endOfTime", optional(text()), None, "A column of event time: where the stream ends, one more row has the last time there is."
        ),
        Option(
            "drain",
            boolean(),
            False,
            "Whether the stream ends for good with what is there, as at its bound; with `trigger(availableNow=True)`.",
        ),
        Option("timeZone", text(), "UTC", "The zone of times written without one, as `scan.timestamp`."),
        Option("commitUser", optional(text()), None, "Who writes, for recognizing a repeated micro-batch; from the checkpoint without it."),
        Option("tableId", optional(text()), None, "The table's id: a query of SQL's goes on with it whatever else has its name by now."),
        Option("queryName", optional(text()), None, "Spark's own."),
        Option("checkpointLocation", optional(text()), None, "Spark's own; the sink takes the query's id from there."),
    )
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """The options of one read or write."""

    uri: str
    token: str | None
    table: Identifier
    table_id: UUID | None = None
    """None where whatever has the name is meant."""
    max_rows: int | None = None
    max_bytes: int | None = None
    max_files: int | None = None
    parallelism: int
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    start: str | None = None
    end_of_time: str | None = None
    drain: bool = False
    zone: str = "UTC"
    commit_user: str | None = None
    checkpoint: str | None = None
    scan: Mapping[str, str] = field(default_factory=dict)
    """The table's scan options as given."""

    @classmethod
    def read(cls, given: Mapping[str, str]) -> SourceOptions:
        """Read them; raises `InvalidOption` for a missing or unknown one."""
        own = {key.lower(): value for key, value in given.items() if key.lower() in _SOURCE_OPTIONS}
        scan = {key: value for key, value in given.items() if key.lower() not in own}
        TABLE_OPTIONS.check(scan)

        def value(key: str) -> Any:
            option = _SOURCE_OPTIONS[key.lower()]
            return option.read({option.key: own[key.lower()]} if key.lower() in own else {})

        uri = value("uri")
        if uri is None:
            raise InvalidOption("Option 'uri' is missing: the address of the Sluice server, such as 'http://127.0.0.1:8083'.")
        return cls(
            uri=uri.rstrip("/"),
            token=value("token"),
            table=_table(value("path")),
            table_id=None if (table_id := value("tableId")) is None else UUID(table_id),
            max_rows=value("maxRowsPerTrigger"),
            max_bytes=value("maxBytesPerTrigger"),
            max_files=value("maxFilesPerTrigger"),
            parallelism=value("parallelism") or os.cpu_count() or 1,
            columns=_columns(value("columns")),
            filter=value("filter"),
            start=value("startingOffset"),
            end_of_time=value("endOfTime"),
            drain=value("drain"),
            zone=value("timeZone"),
            commit_user=value("commitUser"),
            checkpoint=value("checkpointLocation"),
            scan=scan,
        )


def _columns(text_: str | None) -> tuple[str, ...] | None:
    if text_ is None:
        return None
    try:
        names = json.loads(text_)
    except ValueError:
        names = None
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise InvalidOption(f"Option 'columns' = '{text_}': a JSON list of column names is expected.")
    return tuple(names)


def _table(path: str | None) -> Identifier:
    database, dot, rest = (path or "").partition(".")
    name, of_branch, branch = rest.partition(_BRANCH)
    if not (database and dot and name) or "$" in name or (of_branch and not branch):
        raise InvalidOption(f'\'{path or ""}\' is no table: load("database.table") names one, "database.table$branch_name" a branch of it.')
    return Identifier(database, name, branch or MAIN_BRANCH)
