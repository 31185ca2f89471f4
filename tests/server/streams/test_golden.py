"""Golden streams: every start, bound and layout of a table, through HTTP and Flink's protocol, as the model of Paimon's scan says."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from typing import Any
from uuid import uuid4

import httpx
import pyarrow as pa
import pytest

from gateway.gateway import Gateway
from lake import Lake
from lake.rewrite.compaction import compact, plan
from model.identifier import Identifier
from model.snapshot import CommitKind
from table.write.snapshot_builder import everything
from table.write.writer import write_batches
from tests.following import Follower, streamed
from tests.server.golden_model import Expected, History, Row, Step

T = Identifier("default", "golden")
LAYOUTS = {
    "a queue": "WITH ('bucket' = '1', 'bucket-key' = 'k')",
    "buckets": "WITH ('bucket' = '3', 'bucket-key' = 'k')",
    "no buckets": "WITH ('bucket' = '-1', 'compaction.min.file-num' = '2')",
    "queues of partitions": "PARTITIONED BY (p) WITH ('bucket' = '1', 'bucket-key' = 'k')",
    "buckets of partitions": "PARTITIONED BY (p) WITH ('bucket' = '3', 'bucket-key' = 'k')",
    "partitions without buckets": "PARTITIONED BY (p) WITH ('bucket' = '-1', 'compaction.min.file-num' = '2')",
}
SENTINEL = -1
MOST_OPEN = 40


class Made:
    """A table whose snapshots are made one by one, and what is known of each."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._next = 0
        self._since = 0
        self.steps: list[Step] = []

    def rows(self, count: int) -> tuple[Row, ...]:
        found = tuple((n, n % 4, n % 2) for n in range(self._next, self._next + count))
        self._next += count
        return found

    def put(self, rows: Sequence[Row], watermark: int | None, kind: CommitKind = CommitKind.APPEND) -> None:
        table = self._lake.open(T)
        more: dict[str, Any] = {"overwrite": everything} if kind is CommitKind.OVERWRITE else {}
        self._tick()
        before = _millis()
        with table.write() as write:
            schema = pa.schema([("id", pa.int64()), ("k", pa.int32()), ("p", pa.int32())])
            batch = pa.RecordBatch.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)
            write.add(write_batches(table.files, table.schema, [batch]))
            self._lake.commit(table, write.request(kind, commit_user=str(uuid4()), watermark=watermark, **more))
        held = (*self.steps[-1].held, *rows) if self.steps and kind is CommitKind.APPEND else tuple(rows)
        self._since = self._since if self.steps and kind is CommitKind.APPEND else before
        self._note(kind, tuple(rows), held)

    def merge(self) -> None:
        self._tick()
        done = compact(self._lake.commit, self._lake.open(T), plan(self._lake.open(T), full=True))
        assert len(done.snapshots) == 1
        self._note(CommitKind.COMPACT, (), self.steps[-1].held)

    def _note(self, kind: CommitKind, added: tuple[Row, ...], held: tuple[Row, ...]) -> None:
        latest = self._lake.open(T).latest()
        assert latest is not None
        assert latest.commit_kind is kind
        step = Step(
            id=latest.id, kind=kind.value, millis=latest.time_millis, watermark=latest.watermark or 0, added=added, held=held,
            newest_files_since=self._since,
        )  # fmt: skip
        self.steps.append(step)

    @staticmethod
    def _tick() -> None:
        """Snapshots are told apart by their milliseconds."""
        begin = _millis()
        while _millis() < begin + 2:
            time.sleep(0.001)


def _millis() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture
def lake(gateway: Gateway) -> Lake:
    return gateway.lake


def ask(url: str, text: str) -> None:
    answer = httpx.post(f"{url}/sql", content=text.encode(), timeout=60)
    assert answer.status_code == 200, answer.text


def history(lake: Lake, url: str, layout: str) -> Made:
    ask(url, f"CREATE TABLE golden (id BIGINT, k INT, p INT) {LAYOUTS[layout]}")
    made = Made(lake)
    made.put(made.rows(8), 1000)
    made.put(made.rows(8), 2000)
    made.put(made.rows(8), 2500)
    made.merge()
    made.put(made.rows(5), 3000)
    made.put(made.rows(6), 4000, CommitKind.OVERWRITE)
    made.put(made.rows(7), 5000)
    ask(url, "CALL sys.expire_snapshots('golden', retain_max => 6, retain_min => 1)")
    made.steps = made.steps[1:]
    return made


def starts(made: Made) -> list[dict[str, str]]:
    first, last = made.steps[0], made.steps[-1]
    found = [{"scan.mode": mode} for mode in ("latest-full", "full", "latest", "compacted-full")] + [{}]
    for id_ in range(1, last.id + 1):
        found += [{"scan.mode": mode, "scan.snapshot-id": str(id_)} for mode in ("from-snapshot", "from-snapshot-full")]
    times = [at for step in made.steps for at in (step.millis, step.millis + 1)]
    found += [{"scan.mode": "from-timestamp", "scan.timestamp-millis": str(at)} for at in (first.millis - 1, *times)]
    found += [{"scan.mode": "from-creation-timestamp", "scan.creation-time-millis": str(at)} for at in (first.millis, *times[1:])]
    for at in (first.millis, last.newest_files_since, last.millis + 1):
        found.append({"scan.mode": "from-file-creation-time", "scan.file-creation-time-millis": str(at)})
    return found


def hint(options: dict[str, str]) -> str:
    return f"/*+ OPTIONS({', '.join(f'{key!r} = {value!r}' for key, value in options.items())}) */" if options else ""


def agree(found: Sequence[Row], expected: Expected, layout: str, told: object) -> None:
    """The rows of each snapshot come together, and those of one key and partition as they were written, where there are buckets."""
    at = 0
    for part in expected.parts:
        rows = found[at : at + len(part)]
        assert Counter(rows) == Counter(part), (told, found, expected)
        if "no buckets" not in layout and "without" not in layout:
            for place in {row[1:] for row in part}:
                assert [row for row in rows if row[1:] == place] == [row for row in part if row[1:] == place], (told, place)
        at += len(part)
    assert at == len(found), (told, found, expected)


def of_http(rows: Iterable[dict[str, Any]]) -> list[Row]:
    return [(row["id"], row["k"], row["p"]) for row in rows]


def by_flink(url: str, statement: str) -> list[Row]:
    """A stream that ends, in the pages of Flink's protocol."""
    session = httpx.post(f"{url}/v2/sessions", json={"properties": {"execution.runtime-mode": "streaming"}}).json()["sessionHandle"]
    made = httpx.post(f"{url}/v2/sessions/{session}/statements", json={"statement": statement}, timeout=60).json()
    at: str | None = f"/v2/sessions/{session}/operations/{made['operationHandle']}/result/0?rowFormat=JSON"
    found: list[Row] = []
    until = time.monotonic() + 120
    while at is not None:
        assert time.monotonic() < until, found
        page = httpx.get(f"{url}{at}", timeout=60).json()
        assert page["resultType"] in ("PAYLOAD", "NOT_READY", "EOS"), page
        found += [(row["fields"][0], row["fields"][1], row["fields"][2]) for row in page.get("results", {"data": []})["data"]]
        at = page.get("nextResultUri") if page["resultType"] != "EOS" else None
    httpx.delete(f"{url}/v2/sessions/{session}")
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
def test_streams_are_the_models(lake: Lake, url: str, layout: str) -> None:
    """Some of them with each layout, others with the next."""
    agrees(lake, url, layout, one_in=len(LAYOUTS) * 3)


@pytest.mark.torture
@pytest.mark.parametrize("layout", LAYOUTS)
def test_all_streams_are_the_models(lake: Lake, url: str, layout: str) -> None:
    agrees(lake, url, layout, one_in=1)


def agrees(lake: Lake, url: str, layout: str, *, one_in: int) -> None:
    """Compare one in so many of the streams of a layout."""
    made = history(lake, url, layout)
    model = History(made.steps)
    modes: tuple[dict[str, str], ...] = ({}, {"streaming-read-append-overwrite": "true"})
    bounds: list[dict[str, str]] = [{}, *({"scan.bounded.watermark": str(at)} for at in (500, 2500, 3500, 4999))]
    every = [start | bound | mode for start in starts(made) for bound in bounds for mode in modes]
    chosen = every[list(LAYOUTS).index(layout) % one_in :: one_in]
    ending = [(options, expected) for options in chosen if (expected := model.stream(options)).ends]
    assert {bound.get("scan.bounded.watermark") for bound, _ in ending} >= {"500", "2500", "3500", "4999"}
    for number, (options, expected) in enumerate(ending):
        statement = f"SELECT id, k, p FROM golden {hint(options)}"
        agree(of_http(streamed(url, statement)), expected, layout, options)
        if number % 4 == 0:
            agree(by_flink(url, statement), expected, layout, options)
    endless = [(options, expected) for options in chosen if not (expected := model.stream(options)).ends]
    followed(lake, url, layout, made, endless[:MOST_OPEN])


def followed(lake: Lake, url: str, layout: str, made: Made, streams: Sequence[tuple[dict[str, str], Expected]]) -> None:
    """Streams without an end: what they give until a row that is committed last of all."""
    with ExitStack() as open_:
        opened = [
            (options, expected, open_.enter_context(Follower(url, f"SELECT id, k, p FROM golden {hint(options)}")))
            for options, expected in streams
        ]
        for options, _, stream in opened:
            assert stream.response.status_code == 200, (options, stream.response.text)
        made.put([(SENTINEL, 0, 0)], None)
        for options, expected, stream in opened:
            rows = of_http(stream.rows(sum(map(len, expected.parts)) + 1))
            assert rows[-1] == (SENTINEL, 0, 0), (options, rows)
            agree(rows[:-1], expected, layout, options)
