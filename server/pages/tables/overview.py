"""A table at a glance, its rows, its schema, and how to reach it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from flask import request

from lake import Lake
from lake.inspect.browse import FileSums, file_sums
from lake.inspect.table_details import files_of, schema_history, snapshot_page
from model.errors import Forbidden, LakeError
from model.schema.schema import bucket_count
from server.access.access import caller
from server.pages.actions import Answer, run
from server.pages.rendering.pictures import SHADES, growth, heat_map, histogram
from server.pages.rendering.statements import select
from server.pages.tables.sides import TableHead, number, tab
from server.process.services import services
from server.settings.options import FLIGHT_LISTEN

_SAMPLE_ROWS = 50
_SAMPLE_SECONDS = 20.0
_GROWTH_SNAPSHOTS = 500
_RECENT = 5
_MOST_FILES = 100


@tab("overview", "Overview", data=False)
def overview(lake: Lake, head: TableHead) -> Mapping[str, Any]:
    """Numbers, growth and layout."""
    if head.damage is not None:
        raise head.damage
    if head.kind is not None:
        return {"growth": None, "sums": None, "recent": [], "buckets": None}
    snapshots = lake.history.page(head.opened, below=None, limit=_GROWTH_SNAPSHOTS)[::-1] if head.tells_counts else []
    sums: FileSums | None = None
    with contextlib.suppress(Forbidden):
        sums = file_sums(lake, head.opened, head.snapshot)
    return {
        "growth": growth(snapshots),
        "sums": sums,
        "recent": snapshot_page(lake, head.opened, below=None, limit=_RECENT) if head.tells_counts else [],
        "buckets": bucket_count(head.opened.schema.options),
    }


@tab("data", "Data")
def data(lake: Lake, head: TableHead) -> Mapping[str, Any]:
    """The first rows, as the visitor may read them."""
    sql = select(head.table, limit=_SAMPLE_ROWS)
    answer: Answer | None = None
    problem = ""
    try:
        answer = run(sql, most=_SAMPLE_ROWS, timeout=_SAMPLE_SECONDS)
    except LakeError as refused:
        problem = refused.message
    return {"sql": sql, "answer": answer, "problem": problem}


@tab("schema", "Schema", data=False)
def schema(lake: Lake, head: TableHead) -> Mapping[str, Any]:
    """Columns, and what changed when."""
    keys = () if head.kind else head.opened.schema.bucket_keys
    return {"history": schema_history(lake, head.opened), "bucket_keys": keys}


@tab("files", "Files")
def files(lake: Lake, head: TableHead) -> Mapping[str, Any]:
    """Sizes and buckets of the latest snapshot's files."""
    sums = file_sums(lake, head.opened, head.snapshot)
    bucket, partition = number("bucket"), request.args.get("partition", "")
    by = request.args.get("by", "size")
    by = by if by in SHADES else "size"
    listed = None
    if bucket is not None:
        listed = files_of(lake, head.opened, head.snapshot, partition=partition, bucket=bucket, limit=_MOST_FILES)
    return {
        "sums": sums,
        "histogram": histogram(sums.steps, small_below=sums.small_below),
        "heat": heat_map(sums.buckets, by=by),
        "by": by,
        "shades": SHADES,
        "bucket": bucket,
        "partition": partition,
        "listed": listed,
        "most_files": _MOST_FILES,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """How one client reaches the table."""

    client: str
    text: str
    note: str = ""


@tab("connect", "Connect", data=False)
def connect(lake: Lake, head: TableHead) -> Mapping[str, Any]:
    """Snippets with this table's names."""
    return {"snippets": _snippets(head)}


def _snippets(head: TableHead) -> list[Snippet]:
    url = request.host_url.rstrip("/")
    name, needs_token = head.table.written(), caller().principal != "anonymous"
    token = "$SLUICE_TOKEN" if needs_token else "any"
    header = ' \\\n  -H "Authorization: Bearer $SLUICE_TOKEN"' if needs_token else ""
    in_sluice = select(head.table).replace(" FROM ", " FROM sluice.", 1)
    query = select(head.table, limit=10)
    shell = query.replace("'", "'\\''")
    rest = {"metastore": "rest", "uri": url, "warehouse": "sluice", "token.provider": "bear", "token": token}
    options = ",\n  ".join(f"'{key}' = '{value}'" for key, value in {"type": "paimon", **rest}.items())
    conf = " \\\n".join(
        ["  --conf spark.sql.catalog.sluice=org.apache.paimon.spark.SparkCatalog"]
        + [f"  --conf spark.sql.catalog.sluice.{key}={value}" for key, value in rest.items()]
    )
    pairs = "\n".join(f'    "{key}": "{value}",' for key, value in rest.items())
    snippets = [
        Snippet(client="curl", text=f"curl -s {url}/sql{header} \\\n  -d '{shell}'", note="Add -H 'Accept: text/csv' for CSV."),
        Snippet(
            client="pypaimon",
            text=(
                f"from pypaimon import CatalogFactory\n\ncatalog = CatalogFactory.create({{\n{pairs}\n}})\n"
                f"builder = catalog.get_table({name!r}).new_read_builder()\n"
                "table = builder.new_read().to_arrow(builder.new_scan().plan().splits())"
            ),
        ),
        Snippet(
            client="Spark",
            text=(f"spark-sql --packages org.apache.paimon:paimon-spark-3.5_2.12:1.4.2 \\\n{conf}\n\n{in_sluice} LIMIT 10;"),
        ),
        Snippet(client="Flink", text=f"CREATE CATALOG sluice WITH (\n  {options}\n);\n{in_sluice};"),
    ]
    if (flight := _flight_address()) is not None:
        key = '{"adbc.flight.sql.authorization_header": "Bearer $SLUICE_TOKEN"}' if needs_token else "{}"
        snippets.append(
            Snippet(
                client="ADBC (Arrow Flight SQL)",
                text=(
                    "from adbc_driver_flightsql import dbapi\n\n"
                    f'with dbapi.connect("{flight}", db_kwargs={key}) as connection:\n'
                    f"    cursor = connection.cursor()\n    cursor.execute({query!r})\n"
                    "    table = cursor.fetch_arrow_table()"
                ),
            )
        )
    return snippets


def _flight_address() -> str | None:
    """Where Arrow Flight SQL answers, where this server has it."""
    listen = services().settings[FLIGHT_LISTEN]
    return None if listen is None else f"grpc://{request.host.rpartition(':')[0] or request.host}:{listen[1]}"
