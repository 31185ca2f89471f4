"""A pypaimon-rust process that appends rows (id, s): a line asks [first, count], the answer says that they are in."""

from __future__ import annotations

import json
import sys

from pypaimon_rust.datafusion import SQLContext
from rust_rest import options


def main(url: str) -> None:
    """One request a line: the table, the first id, and how many."""
    context = SQLContext()
    context.register_catalog("sluice", options(url))
    for line in sys.stdin:
        asked = json.loads(line)
        first, count = asked["append"]
        database, table = asked["table"].split(".")
        values = ", ".join(f"({n}, 's{n}')" for n in range(first, first + count))
        try:
            context.sql(f"INSERT INTO sluice.`{database}`.{table} VALUES {values}")
            answer: dict[str, int | str] = {"messages": 1}
        except Exception as problem:  # whatever it is, the test tells it
            answer = {"error": f"{type(problem).__name__}: {problem}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
