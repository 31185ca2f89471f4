"""Streams that look through much and find nothing leave their threads to others meanwhile."""

from __future__ import annotations

from contextlib import ExitStack

import httpx
import pyarrow as pa

from gateway.gateway import Gateway
from sql.execution.writing import append_batches
from tests.sql.tables import make_table

NDJSON = {"Accept": "application/x-ndjson"}
TAIL = "SELECT s FROM {table} /*+ OPTIONS('scan.mode' = 'latest') */ WHERE s NOT LIKE '%abc%'"


def test_tails_that_find_nothing_hold_up_nobodys_stream(url: str, gateway: Gateway) -> None:
    """More of them than there are threads for streams, each of which needs seconds for the commit."""
    big = make_table(gateway.lake, "big", options={"bucket": "-1"}, s="STRING")
    other = make_table(gateway.lake, "other", options={"bucket": "-1"}, s="STRING")
    with ExitStack() as opened:
        clients = [opened.enter_context(httpx.Client(base_url=url, timeout=120)) for _ in range(11)]
        for client in clients[:10]:
            opened.enter_context(client.stream("POST", "/sql?mode=streaming", content=TAIL.format(table="big"), headers=NDJSON))
        row = opened.enter_context(clients[10].stream("POST", "/sql?mode=streaming", content=TAIL.format(table="other"), headers=NDJSON))
        lines = (line for line in row.iter_lines() if line.strip())
        tails = gateway.lake.open_streams.of(big.table_id)
        assert len(tails) == 10
        append_batches(gateway.lake, big, [pa.RecordBatch.from_arrays([pa.array(["abcdefgh" * 40] * 100_000)], ["s"])] * 25)
        append_batches(gateway.lake, other, [pa.RecordBatch.from_arrays([pa.array(["found"])], ["s"])])
        assert next(lines) == '{"s":"found"}'
        assert [tail.cursor.next_snapshot_id for tail in tails] == [1] * 10
