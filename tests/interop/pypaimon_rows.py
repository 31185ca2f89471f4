"""A pypaimon process with default options that appends rows to tables of any columns: a line asks, the answer says that they are in."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
from pypaimon.schema.data_types import PyarrowFieldParser
from pypaimon_rest import connect, write


def main(url: str) -> None:
    """One request a line: the table, and its rows."""
    catalog = connect(url)
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            table = catalog.get_table(asked["table"])
            schema = PyarrowFieldParser.from_paimon_schema(table.fields)
            columns = [pa.array(values, field.type) for values, field in zip(zip(*asked["rows"], strict=True), schema, strict=True)]
            write(table, pa.Table.from_arrays(columns, schema=schema))
            answer: dict[str, int | str] = {"messages": 1}
        except Exception as problem:  # whatever it is, the test tells it
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
