"""Golden streams: every start, bound and layout of a table, through HTTP and Flink's protocol, as the model of Paimon's scan says."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any, Self

import httpx
import pytest

from gateway.gateway import Gateway
from lake import Lake
from model.snapshot import CommitKind
from tests.following import Follower, streamed
from tests.server.golden_model import Expected, History, Row
from tests.server.streams.golden import (
    BOUNDS,
    EVERY_EMPTY,
    LAYOUTS,
    SENTINEL,
    Made,
    agree,
    delayed,
    empty,
    empty_starts,
    grown,
    hint,
    history,
    streams,
)
from tests.short import short

MOST_OPEN = 40
FOLLOWED_BY_FLINK = 4
"""Of so many streams without an end one is read by Flink's protocol, too."""


@pytest.fixture
def lake(gateway: Gateway) -> Lake:
    return gateway.lake


def of_http(rows: Iterable[dict[str, Any]]) -> list[Row]:
    return [(row["id"], row["k"], row["p"]) for row in rows]


class ByFlink:
    """A stream in the pages of Flink's protocol."""

    def __init__(self, url: str, statement: str) -> None:
        self._url = url
        properties = {"execution.runtime-mode": "streaming"}
        self._session = httpx.post(f"{url}/v2/sessions", json={"properties": properties}).json()["sessionHandle"]
        made = httpx.post(f"{url}/v2/sessions/{self._session}/statements", json={"statement": statement}, timeout=60).json()
        self._at: str | None = f"/v2/sessions/{self._session}/operations/{made['operationHandle']}/result/0?rowFormat=JSON"
        self._until = time.monotonic() + 300

    def begun(self) -> None:
        """Wait until its start is fixed: it has a result."""
        while (page := self._page())["resultType"] == "NOT_READY":
            time.sleep(0.02)
        assert page["resultType"] in ("PAYLOAD", "EOS"), page

    def rows(self, last: Row | None = None) -> list[Row]:
        """All rows, to the end or to a row that is the last one."""
        found: list[Row] = []
        while self._at is not None and (last is None or last not in found):
            page = self._page()
            assert page["resultType"] in ("PAYLOAD", "NOT_READY", "EOS"), page
            found += [(row["fields"][0], row["fields"][1], row["fields"][2]) for row in page.get("results", {"data": []})["data"]]
            self._at = page.get("nextResultUri") if page["resultType"] != "EOS" else None
        return found

    def _page(self) -> Any:
        assert time.monotonic() < self._until
        return httpx.get(f"{self._url}{self._at}", timeout=60).json()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        httpx.delete(f"{self._url}/v2/sessions/{self._session}", timeout=60)


def by_flink(url: str, statement: str) -> list[Row]:
    """The rows of a stream that ends."""
    with ByFlink(url, statement) as stream:
        return stream.rows()


@pytest.mark.parametrize("layout", short(LAYOUTS, ("a queue", "buckets of partitions")))
def test_streams_are_the_models(lake: Lake, url: str, layout: str) -> None:
    """Some of them with each layout, others with the next."""
    agrees(lake, url, layout, one_in=len(LAYOUTS) * 7)


@pytest.mark.torture
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_streams_are_the_models(lake: Lake, url: str, layout: str) -> None:
    agrees(lake, url, layout, one_in=1)


def agrees(lake: Lake, url: str, layout: str, *, one_in: int) -> None:
    """Compare one in so many of the streams of a layout."""
    made = history(lake, url, layout)
    chosen = streams(made, layout, one_in=one_in)
    ending = [(options, expected) for options, expected in chosen if expected.ends]
    assert {options.get("scan.bounded.watermark") for options, _ in ending} >= {str(at) for at in BOUNDS}
    for number, (options, expected) in enumerate(ending):
        statement = f"SELECT id, k, p FROM golden {hint(options)}"
        agree(of_http(streamed(url, statement)), expected, layout, options)
        if number % 4 == 0:
            agree(by_flink(url, statement), expected, layout, options)
    endless = [(options, expected) for options, expected in chosen if not expected.ends]
    for at in range(0, len(endless), MOST_OPEN):
        followed(url, layout, made, endless[at : at + MOST_OPEN])
    paged = endless[::FOLLOWED_BY_FLINK]
    for at in range(0, len(paged), MOST_OPEN // 4):
        followed_by_flink(url, layout, made, paged[at : at + MOST_OPEN // 4])


@pytest.mark.parametrize("layout", ["buckets", "no buckets"])
def test_a_delay_holds_back_what_follows_the_start(lake: Lake, url: str, layout: str) -> None:
    """The starting snapshot comes at once, and a bound ends the stream at once: neither waits for its snapshot to be old."""
    made = history(lake, url, layout)
    chosen = delayed(made, layout, one_in=len(LAYOUTS) * 4)
    assert {(bool(expected.parts), expected.ends) for _, expected in chosen} == {(a, b) for a in (True, False) for b in (True, False)}
    with ExitStack() as open_:
        opened = [
            (options, expected, open_.enter_context(Follower(url, f"SELECT id, k, p FROM golden {hint(options)}")))
            for options, expected in chosen
            if not expected.ends
        ]
        for options, expected in chosen:
            if expected.ends:
                agree(of_http(streamed(url, f"SELECT id, k, p FROM golden {hint(options)}")), expected, layout, options)
        for options, expected, stream in opened:
            agree(of_http(stream.rows(sum(map(len, expected.parts)))), expected, layout, options)
        for options, _, stream in opened:
            assert stream.silent(0.05), options
            assert not stream.ended.is_set(), options


@EVERY_EMPTY
@pytest.mark.parametrize("first", [CommitKind.OVERWRITE, CommitKind.APPEND])
def test_streams_that_begin_on_an_empty_table_are_the_models(lake: Lake, url: str, first: CommitKind, one_in: int) -> None:
    """They read the first snapshot whole, whatever made it, where a start of theirs on a table with snapshots would."""
    layout = "queues of partitions" if first is CommitKind.OVERWRITE else "no buckets"
    made = empty(lake, url, layout)
    with ExitStack() as open_:
        opened = [
            (options, open_.enter_context(Follower(url, f"SELECT id, k, p FROM golden {hint(options)}")))
            for options in empty_starts(layout, one_in)
        ]
        assert {stream.response.status_code for _, stream in opened} == {200}
        made.put(made.rows(8), 1000, first)
        grown(made, layout)
        model = History(made.steps, from_empty=True)
        made.put([SENTINEL], None)
        for options, stream in opened:
            expected = model.stream(options)
            rows = of_http(stream.rows(sum(map(len, expected.parts)) + (not expected.ends)))
            assert expected.ends or rows.pop() == SENTINEL, (options, rows)
            agree(rows, expected, layout, options)


def followed(url: str, layout: str, made: Made, streams: Sequence[tuple[dict[str, str], Expected]]) -> None:
    """Streams without an end: what they give until a row that is committed last of all; it stays, so the model is asked anew."""
    model = History(made.steps)
    with ExitStack() as open_:
        opened = [
            (options, model.stream(options), open_.enter_context(Follower(url, f"SELECT id, k, p FROM golden {hint(options)}")))
            for options, _ in streams
        ]
        for options, _, stream in opened:
            assert stream.response.status_code == 200, (options, stream.response.text)
        made.put([SENTINEL], None)
        for options, expected, stream in opened:
            rows = of_http(stream.rows(sum(map(len, expected.parts)) + 1))
            assert rows[-1] == SENTINEL, (options, rows)
            agree(rows[:-1], expected, layout, options)


def followed_by_flink(url: str, layout: str, made: Made, streams: Sequence[tuple[dict[str, str], Expected]]) -> None:
    """The same in pages; the row that tells the end is another one each time, as pages have no number of rows to wait for."""
    model = History(made.steps)
    last = (-1 - len(made.steps), 0, 0)
    with ExitStack() as open_:
        opened = [
            (options, model.stream(options), open_.enter_context(ByFlink(url, f"SELECT id, k, p FROM golden {hint(options)}")))
            for options, _ in streams
        ]
        for _, _, stream in opened:
            stream.begun()
        made.put([last], None)
        for options, expected, stream in opened:
            rows = stream.rows(last)
            assert rows.pop() == last, (options, rows)
            agree(rows, expected, layout, options)
