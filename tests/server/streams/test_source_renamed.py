"""The Spark source and sink where a table gets another name, and its own another table."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.errors import TableNotExist
from model.identifier import Identifier
from tests.server.streams.test_sink_answers_lost import Write
from tests.server.streams.test_spark_sink import files_of, three
from tests.server.streams.test_spark_source import T, append, reader_of, rows
from tests.server.streams.test_spark_source import lake as lake
from tests.server.streams.test_spark_source import queue as queue
from tests.server.streams.test_spark_source import stopped as stopped
from tests.waiting import eventually

U = Identifier("default", "u")
ALL = [(id_, number) for number in range(3) for id_ in range(3)]
AFTERWARDS = {
    "nothing": (),
    "an empty table": ("CREATE TABLE t (id BIGINT, n INT)",),
    "a table with more snapshots": ("CREATE TABLE t (id BIGINT, n INT)", *(f"INSERT INTO t VALUES ({n}, 99)" for n in range(6))),
}
"""What has the name after the rename."""


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that is stopped ends with the answer it waits for."""
    monkeypatch.setattr("pyspark_sluice.history._MOST_WAIT_SECONDS", 1.0)


def rows_after(reader: Any, end: Any, count: int) -> tuple[list[tuple[int, int]], Any]:
    """What a reader gives behind an offset, once it is so many rows at least, and where it is then."""
    found: list[tuple[int, int]] = []

    def all_of_it() -> bool:
        nonlocal end
        before, end = end, reader.latestOffset(end, reader.getDefaultReadLimit())
        found.extend(rows(reader, before, end) if before != end else [])
        return len(found) >= count

    eventually(all_of_it)
    return found, end


@pytest.mark.parametrize("taken_by", AFTERWARDS)
@pytest.mark.parametrize("consumer", [{}, {"consumer-id": "c"}], ids=["", "with a consumer"])
def test_a_stream_follows_its_table_to_another_name(
    queue: Lake, gateway: Gateway, url: str, taken_by: str, consumer: dict[str, str]
) -> None:
    reader = reader_of(url, scan_mode="from-snapshot", **{"scan_snapshot-id": "1"}, **consumer)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert rows(reader, start, end) == ALL
    queue.rename_table(T, U)
    for text in AFTERWARDS[taken_by]:
        gateway.run(text).close()
    reader.commit(end)
    append(queue, 7, name=U)
    found, end = rows_after(reader, end, 3)
    assert found == [(0, 7), (1, 7), (2, 7)]
    reader.commit(end)
    if consumer:
        assert queue.consumers(queue.open(U)) == {"c": 5}


@pytest.mark.parametrize("taken_by", AFTERWARDS)
def test_a_stream_of_a_branch_follows_its_table_to_another_name(queue: Lake, gateway: Gateway, url: str, taken_by: str) -> None:
    """What has the name afterwards may have a branch of that name, too."""
    gateway.run("CALL sys.create_branch('t', 'b')").close()
    append(queue, 5, name=replace(T, branch="b"))
    reader = reader_of(url, path="default.t$branch_b", scan_mode="from-snapshot", **{"scan_snapshot-id": "1"})
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert rows(reader, start, end) == [(0, 5), (1, 5), (2, 5)]
    queue.rename_table(T, U)
    for text in (*AFTERWARDS[taken_by], *(("CALL sys.create_branch('t', 'b')",) if AFTERWARDS[taken_by] else ())):
        gateway.run(text).close()
    append(queue, 7, name=replace(U, branch="b"))
    found, end = rows_after(reader, end, 3)
    assert found == [(0, 7), (1, 7), (2, 7)]


@pytest.mark.parametrize(
    ("streaming", "written_first"), [(False, True), (False, False), (True, True)], ids=["batch, written", "batch, begun", "stream, written"]
)
@pytest.mark.parametrize("columns", ["n INT, id BIGINT", "id BIGINT, n INT"], ids=["other columns", "the same columns"])
def test_rows_written_to_a_table_are_not_committed_to_another_of_its_name(
    queue: Lake, gateway: Gateway, url: str, streaming: bool, written_first: bool, columns: str
) -> None:
    """The new one has the same directory, where the first is gone for good, and a schema of the same number."""
    write = Write(url, streaming=streaming)
    messages = [write.writer().write(three(7))] if written_first else []
    gateway.run("DROP TABLE t PURGE").close()
    gateway.run(f"CREATE TABLE t ({columns}) WITH ('bucket' = '1', 'bucket-key' = 'id')").close()
    messages = messages or [write.writer().write(three(7))]
    with pytest.raises(TableNotExist, match="to which the rows were written, does not exist"):
        write.writer().commit(messages, *((0,) if streaming else ()))
    assert gateway.run("SELECT * FROM t").collect() == []
    assert files_of(queue) == set()


def test_a_query_that_knows_its_tables_id_plans_nothing_of_another_of_the_name(queue: Lake, gateway: Gateway, url: str) -> None:
    """Also in a process that begins only then: what it planned lay in a job's checkpoint, which was of no use once the old one was back."""
    queue.drop_retention = timedelta(days=1)
    known = {"tableId": str(queue.open(T).table_id), "scan_mode": "from-snapshot", "scan_snapshot-id": "1"}
    analyzed = reader_of(url, **known)
    for text in ("DROP TABLE t", "CREATE TABLE t (id BIGINT, n INT)", "INSERT INTO t VALUES (9, 9)"):
        gateway.run(text).close()
    with pytest.raises(TableNotExist):
        analyzed.initialOffset()
    with pytest.raises(TableNotExist):
        reader_of(url, **known)
    for text in ("DROP TABLE t PURGE", "UNDROP TABLE t"):
        gateway.run(text).close()
    start = analyzed.initialOffset()
    assert rows(analyzed, start, analyzed.latestOffset(start, analyzed.getDefaultReadLimit())) == ALL
