"""A pypaimon process with default options that appends rows to tables of any columns: a line asks, the answer says that they are in."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from answering import answer_lines
from pypaimon.schema.data_types import PyarrowFieldParser
from pypaimon_rest import connect, write


def main(url: str) -> None:
    """One request a line: the table, and its rows."""
    catalog = connect(url)

    def append(asked: Mapping[str, Any]) -> None:
        table = catalog.get_table(asked["table"])
        schema = PyarrowFieldParser.from_paimon_schema(table.fields)
        columns = [pa.array(values, field.type) for values, field in zip(zip(*asked["rows"], strict=True), schema, strict=True)]
        write(table, pa.Table.from_arrays(columns, schema=schema))

    answer_lines(append)


if __name__ == "__main__":
    main(*sys.argv[1:])
