"""Compaction tasks as Spark tasks: the merging is the gateway's own, on the executors; rows never pass through the JVM."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lake import LakeTable
from lake.commit.write_context import Write
from lake.rewrite.compaction import Rewriter
from table.compaction.candidates import CompactionTask
from table.compaction.rewrite import rewrite
from table.format.manifests.entries import NewFile
from table.scan.going_on import Check

_ANSWER = pa.schema([("n", pa.int32()), ("files", pa.binary())])


def on_spark(session: SparkSession) -> Rewriter:
    """A rewriter whose tasks run where Spark puts them; jobs belong to whatever group the thread has set."""

    def run(table: LakeTable, write: Write, tasks: Sequence[CompactionTask], check: Check) -> list[list[NewFile]]:
        check()
        files, schema = table.files, table.schema

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for n, task in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                    written = rewrite(files, schema, pickle.loads(task))
                    yield pa.RecordBatch.from_pydict({"n": [n], "files": [pickle.dumps(written)]}, schema=_ANSWER)

        tasks_table = pa.table({"n": pa.array(range(len(tasks)), pa.int32()), "task": [pickle.dumps(task) for task in tasks]})
        frame = session.createDataFrame(tasks_table).repartitionById(len(tasks), F.col("n"))
        answers = frame.mapInArrow(work, "n int, files binary").collect()
        files_by_task = {row.n: pickle.loads(bytes(row.files)) for row in answers}
        return [write.add(files_by_task[n]) for n in range(len(tasks))]

    return run
