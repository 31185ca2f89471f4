"""Reads tables with pypaimon, in its own environment; same requests and answers as java/PaimonReader.java."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import traceback
from pathlib import Path
from typing import Any

import canonical
from pypaimon import CatalogFactory
from pypaimon.write.row_key_extractor import FixedBucketRowKeyExtractor


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Plan and read as a user of pypaimon does."""
    location = Path(request["table"])
    catalog = CatalogFactory.create({"warehouse": str(location.parent.parent)})
    table = catalog.get_table(f"{location.parent.name.removesuffix('.db')}.{location.name}")
    builder = table.new_read_builder()
    if conditions := request.get("where"):
        builder = builder.with_filter(where(builder.new_predicate_builder(), conditions))
    splits = builder.new_scan().plan().splits()
    extractor = FixedBucketRowKeyExtractor(table.table_schema) if int(table.table_schema.options.get("bucket", -1)) > 0 else None
    result: dict[str, Any] = {"count": 0, "misplaced": 0, "files": sum(len(split.files) for split in splits), "rows": [], "buckets": []}
    for split in splits:
        found = builder.new_read().to_arrow([split])
        result["count"] += found.num_rows
        if extractor is not None:
            result["misplaced"] += sum(
                bucket != split.bucket for batch in found.to_batches() for bucket in extractor.extract_partition_bucket_batch(batch)[1]
            )
        if request.get("rows"):
            result["rows"] += canonical.rows(found)
            result["buckets"] += [split.bucket] * found.num_rows
    return result


def where(builder: Any, conditions: list[list[Any]]) -> Any:
    """All the conditions together."""
    makers = {"=": builder.equal, "<": builder.less_than, ">": builder.greater_than}
    parts = []
    for name, comparison, literal in conditions:
        if comparison == "is null":
            parts.append(builder.is_null(name))
        elif comparison == "is not null":
            parts.append(builder.is_not_null(name))
        else:
            parts.append(makers[comparison](name, literal))
    return builder.and_predicates(parts)


def main() -> None:
    """Answer one request a line."""
    logging.disable(logging.CRITICAL)
    out = sys.stdout
    for line in sys.stdin:
        with contextlib.redirect_stdout(sys.stderr):
            try:
                found = answer(json.loads(line))
            except Exception as problem:  # told to the test, which knows what to make of it
                traceback.print_exc()
                found = {"error": f"{type(problem).__name__}: {problem}"}
        print(json.dumps(found), file=out, flush=True)


if __name__ == "__main__":
    main()
