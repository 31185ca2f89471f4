"""A pypaimon-rust process that appends rows (id, s): a line asks [first, count], the answer says that they are in."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from answering import answer_lines
from pypaimon_rust.datafusion import SQLContext
from rust_rest import options


def main(url: str) -> None:
    """One request a line: the table, the first id, and how many."""
    context = SQLContext()
    context.register_catalog("sluice", options(url))

    def append(asked: Mapping[str, Any]) -> None:
        first, count = asked["append"]
        database, table = asked["table"].split(".")
        values = ", ".join(f"({n}, 's{n}')" for n in range(first, first + count))
        context.sql(f"INSERT INTO sluice.`{database}`.{table} VALUES {values}")

    answer_lines(append)


if __name__ == "__main__":
    main(*sys.argv[1:])
