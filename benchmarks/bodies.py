"""Bodies of rows, two after another and two at once: each is decoded and written in a process of its own."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness.page import Table
from benchmarks.harness.run import Run
from benchmarks.harness.timing import at_once, in_turns

ROUNDS = 5
COLUMNS = "id BIGINT, x DOUBLE, s STRING, ts TIMESTAMP(6)"
KINDS = {"Arrow": "application/vnd.apache.arrow.stream", "Parquet": "application/vnd.apache.parquet", "NDJSON": "application/x-ndjson"}


def measure(run: Run) -> list[Table]:
    """A million rows of four columns in each body, and a tenth of that as NDJSON."""
    count = run.size(1_000_000, 50_000)
    rows: list[tuple[str, ...]] = []
    with run.server() as server:
        for kind, content_type in KINDS.items():
            body = _body(kind, count // 10 if kind == "NDJSON" else count)
            for number in range(2):
                server.sql(f"CREATE TABLE {kind}{number} ({COLUMNS}) WITH ('bucket' = '-1', 'write-only' = 'true')")

            def send(number: int, kind: str = kind, body: bytes = body, content_type: str = content_type) -> None:
                path = f"/tables/default/{kind}{number}/rows"
                server.client.post(path, content=body, headers={"Content-Type": content_type}).raise_for_status()

            works = {
                "one": lambda send=send: send(0),
                "in turn": lambda send=send: (send(0), send(1)),
                "at once": lambda send=send: at_once(send, 2),
            }
            taken = in_turns(works, ROUNDS, most_seconds=6 * run.seconds)
            name = f"{kind}, {count // 10 if kind == 'NDJSON' else count:,} rows, {len(body) / 1e6:.0f} MB"
            speed = f"{taken['in turn'] / taken['at once']:.2f} ×"
            rows.append((name, f"{taken['one']:.2f} s", f"{taken['in turn']:.2f} s", f"{taken['at once']:.2f} s", speed))
    head = ("body", "one", "two, one after another", "two at once", "speed-up")
    note = f"Medians of {ROUNDS} rounds in turns, by one client with two threads on the same two cores, each body into a table of its own."
    return [Table(head=head, rows=rows, note=note)]


def _body(kind: str, count: int) -> bytes:
    """Rows that are the same in each run."""
    numbers = np.random.default_rng(7)
    batch = pa.RecordBatch.from_pydict(
        {
            "id": np.arange(count),
            "x": numbers.random(count),
            "s": pa.array([f"user-{number}" for number in numbers.integers(0, 100_000, count)]),
            "ts": pa.array(1_704_067_200_000_000 + np.arange(count) * 1000, pa.timestamp("us")),
        }
    )
    sink = io.BytesIO()
    if kind == "Arrow":
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
    elif kind == "Parquet":
        pq.write_table(pa.table(batch), sink)
    else:
        sink.write(pa.table(batch).to_pandas().to_json(orient="records", lines=True, date_format="iso", date_unit="us").encode())
    return sink.getvalue()
