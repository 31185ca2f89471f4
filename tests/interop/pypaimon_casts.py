"""What pypaimon makes of each column of a table by itself, as one line of JSON; runs in pypaimon's own environment."""

from __future__ import annotations

import json
import sys

from answering import shown
from pypaimon_rest import connect


def main(url: str, name: str) -> None:
    """Print the columns' values by their names, as texts; None for a column that cannot be read."""
    table = connect(url).get_table(name)
    found: dict[str, dict[str, str] | None] = {}
    for field in table.fields[1:]:
        try:
            builder = table.new_read_builder().with_projection(["id", field.name])
            rows = builder.new_read().to_arrow(builder.new_scan().plan().splits()).to_pylist()
            found[field.name] = {str(row["id"]): shown(row[field.name]) for row in rows}
        except Exception:  # whatever it is, there are no values
            found[field.name] = None
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
