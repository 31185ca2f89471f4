"""One pypaimon process of `benchmarks.peers`; runs in pypaimon's own environment and speaks JSON.

``append catalog table seconds``: says it is ready, waits for a line, then appends one row at a time; after each it tells of all so far,
because a lost race may keep it for longer than anybody waits.
``plan catalog table number``: plans a scan of the rows whose ``a`` is that number.
``names catalog tables seconds``: makes up to that many tables in ``many`` and one of 500 columns, then times the list and the load.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

ROW = pa.table({"c0": [1], "c1": [2]})


def timed(work: Callable[[], object]) -> float:
    """Milliseconds."""
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) * 1000


def append(table: Any) -> None:
    """One commit of one row."""
    builder = table.new_batch_write_builder()
    writer, commit = builder.new_write(), builder.new_commit()
    writer.write_arrow(ROW)
    commit.commit(writer.prepare_commit())
    writer.close()
    commit.close()


def appends(catalog: Any, name: str, duration: float) -> dict[str, Any]:
    """How many were acknowledged and how many were refused."""
    table = catalog.get_table(name)
    append(table)
    print("ready", flush=True)
    sys.stdin.readline()
    done, refused, until = 0, 0, time.monotonic() + duration
    while time.monotonic() < until:
        print(json.dumps({"done": done, "refused": refused}), flush=True)
        try:
            append(table)
        except Exception:  # whatever pypaimon gives up with: it counts as one that did not come through
            refused += 1
        else:
            done += 1
    return {"done": done, "refused": refused}


def names(catalog: Any, count: int, most_seconds: float) -> dict[str, Any]:
    """Medians of the list and the load."""
    catalog.create_database("many", True)
    small = Schema.from_pyarrow_schema(pa.schema([("a", pa.int32())]))
    until, made = time.monotonic() + most_seconds, 0
    while made < count and time.monotonic() < until:
        catalog.create_table(f"many.t{made:06d}", small, False)
        made += 1
    wide = Schema.from_pyarrow_schema(pa.schema([(f"c{at}", pa.int64()) for at in range(500)]))
    catalog.create_database("broad", True)
    catalog.create_table("broad.wide", wide, False)
    return {
        "tables": made,
        "list": statistics.median(timed(lambda: catalog.list_tables("many")) for _ in range(3)),
        "load": statistics.median(timed(lambda: catalog.get_table("broad.wide")) for _ in range(20)),
    }


def plan(catalog: Any, name: str, wanted: int) -> dict[str, Any]:
    """Seconds to plan a scan with a filter that leaves one file, and the most memory in MiB."""
    import resource

    builder = catalog.get_table(name).new_read_builder()
    builder = builder.with_filter(builder.new_predicate_builder().equal("a", wanted))
    taken = timed(lambda: builder.new_scan().plan())
    return {"plan": taken / 1000, "most": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10}


def main() -> None:
    """Do what the arguments say."""
    catalog = CatalogFactory.create(json.loads(sys.argv[2]))
    if sys.argv[1] == "append":
        answer = appends(catalog, sys.argv[3], float(sys.argv[4]))
    elif sys.argv[1] == "make":
        catalog.create_database("default", True)
        catalog.create_table(sys.argv[3], Schema.from_pyarrow_schema(ROW.schema, options={"bucket": "-1"}), False)
        answer = {}
    elif sys.argv[1] == "plan":
        answer = plan(catalog, sys.argv[3], int(sys.argv[4]))
    else:
        answer = names(catalog, int(sys.argv[3]), float(sys.argv[4]))
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
