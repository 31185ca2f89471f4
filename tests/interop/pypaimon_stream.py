"""pypaimon as a stream's other end: ``follow`` prints each row of a table as it comes, ``write`` commits rows one by one."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
from pypaimon_rest import connect, write


def follow(url: str, name: str, count: int) -> None:
    """Print so many rows, in the order they come."""
    builder = connect(url).get_table(name).new_stream_read_builder().with_poll_interval_ms(100)
    read, seen = builder.new_read(), 0
    for plan in builder.new_streaming_scan().stream_sync():
        for row in read.to_arrow(plan.splits()).to_pylist() if plan.splits() else ():
            print(json.dumps(row), flush=True)
            seen += 1
        if seen >= count:
            return


def write_numbered(url: str, name: str, count: int) -> None:
    """So many commits of one row each."""
    table = connect(url).get_table(name)
    for number in range(count):
        write(table, pa.table({"id": pa.array([number], pa.int64()), "word": pa.array([f"w{number}"])}))


if __name__ == "__main__":
    {"follow": follow, "write": write_numbered}[sys.argv[1]](sys.argv[2], sys.argv[3], int(sys.argv[4]))
