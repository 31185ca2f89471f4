"""The Spark source while its server is away, or has too much to do: a query waits as long as `PATIENCE_SECONDS`."""

from __future__ import annotations

import httpx
import pytest

from lake import Lake
from model.errors import BadRequest, TableNotExist, TagNotExist, Unavailable
from pyspark_sluice import catalog
from pyspark_sluice.source import DefaultSource
from tests.server.streams.between import Between, Loss
from tests.server.streams.between import between as between
from tests.server.streams.test_spark_source import T, append, reader_of, rows
from tests.server.streams.test_spark_source import lake as lake
from tests.server.streams.test_spark_source import queue as queue
from tests.server.streams.test_spark_source import stopped as stopped
from tests.short import one_in

ALL = [(id_, number) for number in range(3) for id_ in range(3)]
_WAYS: list[Loss] = [
    "before",
    "after",
    (503, "before"),
    (429, "before"),
    (502, "after"),
    (504, "after"),
    (404, "before"),
    (200, "before"),
]
LOSSES = {str(loss): loss for loss in _WAYS}


@pytest.mark.parametrize("lost", one_in(3, LOSSES))
def test_a_stream_with_a_consumer_goes_on(between: Between, queue: Lake, lost: str) -> None:
    """Every request but those that listen is lost twice before it is answered."""
    loss = LOSSES[lost]
    reader = reader_of(between.url, scan_mode="from-snapshot", **{"scan_snapshot-id": "1", "consumer-id": "c"})
    between.plan(lambda number, line: loss if number % 3 < 2 and not line.endswith("/snapshot") else None)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert rows(reader, start, end) == ALL
    reader.commit(end)
    between.plan(lambda number, line: None)
    table = catalog.RemoteTable(reader._options)
    assert table.consumers() == {"c": 4}
    table.close()


@pytest.mark.parametrize("lost", one_in(3, LOSSES))
def test_a_batch_read_goes_on(between: Between, queue: Lake, lost: str) -> None:
    loss = LOSSES[lost]
    source = DefaultSource({"uri": between.url, "path": str(T)})
    reader = source.reader(source.schema())
    between.plan(lambda number, line: loss if number % 3 < 2 else None)
    found = [tuple(row.values()) for split in reader.partitions() for batch in reader.read(split) for row in batch.to_pylist()]
    assert found == ALL


@pytest.mark.parametrize(
    "named", [{"scan.tag-name": "t3"}, {"scan.version": "t3"}, {"scan.version": "2"}, {"scan.watermark": "1"}], ids=str
)
def test_a_version_of_a_table_with_many_tags_is_found_by_few_requests(between: Between, queue: Lake, named: dict[str, str]) -> None:
    """One for each tag, none of them asked again, so that a server that had too much to do failed the load."""
    append(queue, 7, watermark=1)
    for number in range(8):
        queue.tags.create(queue.open(T), f"t{number}", snapshot_id=2)
    source = DefaultSource({"uri": between.url, "path": str(T)} | named)
    between.plan(lambda number, line: (429, "before") if number in (2, 3) else None)
    assert source.schema().fieldNames() == ["id", "n"]
    assert len(between.seen) <= 7, between.seen


def test_a_tag_that_is_not_there_is_told(between: Between, queue: Lake) -> None:
    for name in ("none", "a/b", "..", "ü +", ""):
        source = DefaultSource({"uri": between.url, "path": str(T), "scan.version": name})
        with pytest.raises(TagNotExist):
            source.schema()


def test_a_proxy_that_knows_no_way_to_the_server_is_no_rollback(between: Between, queue: Lake) -> None:
    """Its 404 was taken for that of a table without snapshots, and ended the query, or the job, for good."""
    reader = reader_of(between.url)
    start = reader.initialOffset()
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    again = reader_of(between.url)
    between.plan(lambda number, line: (404, "before") if number < 4 else None)
    assert again.latestOffset(end, again.getDefaultReadLimit()) == end
    assert len(between.seen) > 4


def test_what_the_server_itself_does_not_have_is_told_at_once(between: Between, queue: Lake) -> None:
    table = catalog.RemoteTable(DefaultSource({"uri": between.url, "path": str(T)})._options())
    assert table.version("77") is None
    queue.drop_table(T)
    between.plan(lambda number, line: None)
    with pytest.raises(TableNotExist):
        table.latest()
    assert len(between.seen) == 2, "by its name, and by its id, as it may have been renamed"
    table.close()


def test_who_names_a_wrong_server_is_told_at_once(between: Between, queue: Lake) -> None:
    between.plan(lambda number, line: "before")
    source = DefaultSource({"uri": between.url, "path": str(T)})
    with pytest.raises(Unavailable, match="does not answer"):
        source.schema()
    assert len(between.seen) == 1


def test_what_does_not_pass_is_told_at_once(between: Between, queue: Lake) -> None:
    source = DefaultSource({"uri": between.url, "path": str(T)})
    reader = source.reader(source.schema())
    for status, kind in ((400, BadRequest), (500, Unavailable)):
        between.plan(lambda number, line: (status, "before"))  # noqa: B023 - asked at once
        with pytest.raises(kind):
            reader.partitions()
        assert len(between.seen) == 1


def test_patience_has_an_end(between: Between, queue: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    source = DefaultSource({"uri": between.url, "path": str(T)})
    reader = source.reader(source.schema())
    monkeypatch.setattr(catalog, "PAUSE_SECONDS", 0.2)
    monkeypatch.setattr(catalog, "PATIENCE_SECONDS", 2.0)
    between.plan(lambda number, line: (429, "before"))
    with pytest.raises(Unavailable, match="429"):
        reader.partitions()
    assert 1 < len(between.seen) < 20


def test_a_server_is_asked_again_when_it_says() -> None:
    assert catalog._pause(httpx.Response(429, headers={"Retry-After": "7"})) == 7
    assert catalog._pause(httpx.Response(503, headers={"Retry-After": "86400"})) == catalog._MOST_PAUSE_SECONDS
    assert catalog._pause(httpx.Response(503, headers={"Retry-After": "Fri, 31 Dec 1999 23:59:59 GMT"})) == catalog.PAUSE_SECONDS
    assert catalog._pause(httpx.Response(500)) is None
