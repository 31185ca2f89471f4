"""What pypaimon does of the client matrix; one request a line, in pypaimon's own environment."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pypaimon import Schema
from pypaimon.schema.data_types import AtomicType
from pypaimon.schema.schema_change import Move, SchemaChange
from pypaimon.table.instant import Instant
from pypaimon_rest import connect, write

COLUMNS = pa.schema([("id", pa.int32()), ("v", pa.string())])
Act = Callable[[Any, str], object]


def rows(*ids: int) -> pa.Table:
    return pa.table({"id": list(ids), "v": ["x"] * len(ids)}, schema=COLUMNS)


def altered(*changes: Any) -> Act:
    return lambda catalog, name: catalog.alter_table(name, list(changes), False)


def created(**options: str) -> Act:
    def act(catalog: Any, name: str) -> None:
        catalog.create_table(name, Schema.from_pyarrow_schema(COLUMNS, options=options), False)
        write(catalog.get_table(name), rows(1, 2))

    return act


def partitioned(catalog: Any, name: str) -> None:
    catalog.create_table(name, Schema.from_pyarrow_schema(COLUMNS, partition_keys=["v"], options={"bucket": "-1"}), False)
    write(catalog.get_table(name), rows(1, 2))


OPERATIONS: dict[str, Act] = {
    "create": created(bucket="-1"),
    "create a queue": created(bucket="1", **{"bucket-key": "id"}),
    "create partitioned": partitioned,
    "create in ORC": created(bucket="-1", **{"file.format": "orc"}),
    "insert": lambda catalog, name: write(catalog.get_table(name), rows(3)),
    "insert into a queue": lambda catalog, name: write(catalog.get_table(name), rows(3)),
    "insert into buckets": lambda catalog, name: write(catalog.get_table(name), rows(3)),
    "insert into a partition": lambda catalog, name: write(catalog.get_table(name), rows(3)),
    "leave a snapshot behind": lambda catalog, name: write(catalog.get_table(name), rows(3)),
    "insert overwrite": lambda catalog, name: write(catalog.get_table(name), rows(3), overwrite={}),
    "overwrite a partition": lambda catalog, name: write(catalog.get_table(name), rows(3), overwrite={"v": "x"}),
    "truncate": lambda catalog, name: catalog.get_table(name).new_batch_write_builder().new_commit().truncate_table(),
    "drop a partition": lambda catalog, name: catalog.drop_partitions(name, [{"v": "x"}]),
    "add a column": altered(SchemaChange.add_column("n", AtomicType("INT"))),
    "rename a column": altered(SchemaChange.rename_column("v", "w")),
    "drop a column": altered(SchemaChange.drop_column("v")),
    "widen a type": altered(SchemaChange.update_column_type("id", AtomicType("BIGINT"))),
    "cast a type": altered(SchemaChange.update_column_type("id", AtomicType("STRING"))),
    "move a column": altered(SchemaChange.update_column_position(Move.first("v"))),
    "comment a column": altered(SchemaChange.update_column_comment("v", "said")),
    "remove an option": altered(SchemaChange.remove_option("target-file-size")),
    "set an option": altered(SchemaChange.set_option("target-file-size", "1 mb")),
    "comment": altered(SchemaChange.update_comment("said")),
    "create a tag": lambda catalog, name: catalog.get_table(name).create_tag("one", 1),
    "delete a tag": lambda catalog, name: catalog.get_table(name).delete_tag("one"),
    "rename a tag": lambda catalog, name: catalog.get_table(name).rename_tag("old", "one"),
    "roll back to a snapshot": lambda catalog, name: catalog.rollback_to(name, Instant.snapshot(1)),
    "roll back to a tag": lambda catalog, name: catalog.rollback_to(name, Instant.tag("one")),
    "create a branch": lambda catalog, name: catalog.create_branch(name, "b", "one"),
    "delete a branch": lambda catalog, name: catalog.drop_branch(name, "b"),
    "write a branch": lambda catalog, name: write(catalog.get_table(f"{name}$branch_b"), rows(3)),
    "fast-forward": lambda catalog, name: catalog.fast_forward(name, "b"),
    "rename": lambda catalog, name: catalog.rename_table(name, f"{name}_new"),
}


def read(catalog: Any, name: str, options: dict[str, str]) -> list[list[Any]]:
    table = catalog.get_table(name)
    builder = (table.copy(options) if options else table).new_read_builder()
    found = builder.new_read().to_arrow(builder.new_scan().plan().splits())
    return sorted(list(row.values()) for row in found.to_pylist())


def main(url: str) -> None:
    """One request a line: an operation, or ``read`` with options."""
    out, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        asked = json.loads(line)
        try:
            catalog = connect(url)
            if asked["do"] == "read":
                answer: dict[str, Any] = {"rows": read(catalog, asked["table"], asked["options"])}
            elif asked["do"] in OPERATIONS:
                OPERATIONS[asked["do"]](catalog, asked["table"])
                answer = {"rows": []}
            else:
                answer = {"none": True}
        except Exception as problem:
            answer = {"error": f"{type(problem).__name__}: {problem}"[:1000]}
        print(json.dumps(answer, default=str), file=out, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
