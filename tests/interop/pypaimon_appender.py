"""A pypaimon process with default options that appends rows (id, s): a line asks [first, count], the answer says that they are in."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
from pypaimon_rest import connect, write

COLUMNS = pa.schema([("id", pa.int64()), ("s", pa.string())])


def main(url: str) -> None:
    """One request a line: the table, the first id, and how many."""
    catalog = connect(url)
    for line in sys.stdin:
        asked = json.loads(line)
        first, count = asked["append"]
        ids = list(range(first, first + count))
        try:
            write(catalog.get_table(asked["table"]), pa.table({"id": ids, "s": [f"s{n}" for n in ids]}, schema=COLUMNS))
            answer: dict[str, int | str] = {"messages": 1}
        except Exception as problem:  # whatever it is, the test tells it
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
