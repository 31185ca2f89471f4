"""A pypaimon process with default options that appends rows (id, s): a line asks [first, count], the answer says that they are in."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
from answering import answer_lines
from pypaimon_rest import connect, write

COLUMNS = pa.schema([("id", pa.int64()), ("s", pa.string())])


def main(url: str) -> None:
    """One request a line: the table, the first id, and how many."""
    catalog = connect(url)

    def append(asked: Mapping[str, Any]) -> None:
        first, count = asked["append"]
        ids = list(range(first, first + count))
        write(catalog.get_table(asked["table"]), pa.table({"id": ids, "s": [f"s{n}" for n in ids]}, schema=COLUMNS))

    answer_lines(append)


if __name__ == "__main__":
    main(*sys.argv[1:])
