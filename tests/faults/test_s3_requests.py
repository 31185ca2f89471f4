"""The requests to an S3 store that each statement's answer waits for, as docs/scaling.md tells them."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import pytest

from tests.faults.world import World
from tests.fix_s3_proxy import Fate, Proxy

_DOC = Path(__file__).parents[2] / "docs" / "scaling.md"
_TEN = ", ".join(f"({number}, {number})" for number in range(10))


def told() -> dict[str, int]:
    """The table of the document: statement, and how many requests it takes."""
    table = _DOC.read_text().partition("## Requests to S3")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!statement|---)(.+?) \|(?: *\d* *\|)? *(\d+) \|.*\|$", table, re.MULTILINE)
    return {name: int(count) for name, count in rows}


def kind_of(request: str) -> str:
    """Method and name of a request below the table's directory."""
    method, path = request.split(" ", 1)
    return f"{method} {re.split(r'default[.]db/[a-z]+/', path)[-1]}"


def test_every_statement_takes_the_requests_that_the_document_tells(on_s3: World, s3_proxy: Proxy) -> None:
    asked: dict[str, list[str]] = {}

    def run(name: str, text: str) -> None:
        s3_proxy.reset()
        on_s3.must(text)
        asked[name] = list(s3_proxy.requests)

    run("`CREATE DATABASE`", "CREATE DATABASE d")
    run("`CREATE TABLE`", "CREATE TABLE d.u (id INT)")
    run("the first `INSERT`", "INSERT INTO d.u VALUES (1)")
    run("`INSERT INTO t VALUES (1)`", "INSERT INTO d.u VALUES (1)")
    run("another `CREATE TABLE`", "CREATE TABLE d.p (id INT, d INT) PARTITIONED BY (d)")
    run("the first into partitions", f"INSERT INTO d.p VALUES {_TEN}")
    run("`INSERT` into 10 partitions", f"INSERT INTO d.p VALUES {_TEN}")
    run("`SELECT` of a small file", "SELECT * FROM d.p WHERE d = 3")
    run("`SELECT … LIMIT 1`", "SELECT * FROM d.p LIMIT 1")
    run("`SELECT COUNT(*)`", "SELECT COUNT(*) FROM d.p")
    run("`ALTER TABLE … ADD COLUMN`", "ALTER TABLE d.u ADD COLUMN x INT")
    run("`ALTER TABLE … RENAME TO`", "ALTER TABLE d.u RENAME TO d.w")
    assert len(told()) > 9
    assert {name: len(asked[name]) for name in told()} == told(), asked


def test_a_look_at_a_table_takes_the_requests_that_the_document_tells(on_s3: World, s3_proxy: Proxy) -> None:
    counted = {}
    for name in ("the first one, and after `looks.list-interval`", "any other"):
        s3_proxy.reset()
        on_s3.lake.standing.look_around(tables=None)
        lists = sum("list-type=2" in request for request in s3_proxy.requests)
        counted[name] = (lists, len(s3_proxy.requests) - lists)
    section = _DOC.read_text().partition("## What looking at tables costs")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (\d+) \| (\d+) \|", section, re.MULTILINE)
    assert {name: (int(lists), int(others)) for name, lists, others in rows} == counted


class Rounds:
    """Holds requests until no other comes, lets those there are go on together, and counts how often: what is waited for in turn."""

    _QUIET_SECONDS = 1.0
    _IDLE_SECONDS, _MOST_BUSY = 0.05, 10
    """What the process may work in a quiet second, for one that works may yet ask: it takes 2 ms. So often it is given another one."""

    def __init__(self, proxy: Proxy) -> None:
        self._come = proxy.come
        self._moved = threading.Condition()
        self._held: list[str] = []
        self._ended = False
        self.rounds: list[list[str]] = []
        """The requests of each."""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def come(self, method: str, path: str) -> Fate:
        fate = self._come(method, path)
        with self._moved:
            number = len(self.rounds)
            self._held.append(kind_of(f"{method} {path}"))
            self._moved.notify_all()
            self._moved.wait_for(lambda: self._ended or len(self.rounds) > number, timeout=120)
        return fate

    def _run(self) -> None:
        busy = 0
        with self._moved:
            while not self._ended:
                held, worked = len(self._held), time.process_time()
                moved = self._moved.wait_for(lambda held=held: self._ended or len(self._held) > held, self._QUIET_SECONDS)  # type: ignore[misc]
                busy = busy + 1 if held and not moved else 0
                if not moved and held and (time.process_time() - worked < self._IDLE_SECONDS or busy > self._MOST_BUSY):
                    self.rounds.append(self._held)
                    self._held = []
                    self._moved.notify_all()

    def end(self) -> list[list[str]]:
        with self._moved:
            self._ended = True
            self._moved.notify_all()
        self._thread.join(60)
        return self.rounds


@pytest.mark.parametrize(("table", "rows", "files"), [("t", "(3)", 1), ("p", _TEN, 10)])
def test_what_an_insert_waits_for_is_four_steps_deep(
    on_s3: World, s3_proxy: Proxy, monkeypatch: pytest.MonkeyPatch, table: str, rows: str, files: int
) -> None:
    """The data files beside each other, the metadata and a look at the next name, and after the decision the snapshot and the hint."""
    on_s3.must("CREATE TABLE p (id INT, d INT) PARTITIONED BY (d)", f"INSERT INTO p VALUES {_TEN}", "INSERT INTO t VALUES (2)")
    s3_proxy.reset()
    rounds = Rounds(s3_proxy)
    monkeypatch.setattr(s3_proxy, "come", rounds.come)
    on_s3.must(f"INSERT INTO {table} VALUES {rows}")
    data, metadata, snapshot, hint = rounds.end()
    assert [request.partition(" ")[0] for request in data] == ["PUT"] * files
    assert all("bucket-0/data-" in request for request in data), data
    next_id = 4 if table == "t" else 2
    assert sorted(re.sub(r"-[0-9a-f]{8}-.*", "", request) for request in metadata) == [
        f"HEAD snapshot/snapshot-{next_id}",  # is one there that the catalog does not know?
        "PUT manifest/manifest",
        "PUT manifest/manifest-list",
        "PUT manifest/manifest-list",
    ]
    assert (snapshot, hint) == ([f"PUT snapshot/snapshot-{next_id}"], ["PUT snapshot/LATEST"])
    assert not [request for request in s3_proxy.requests if "uploads" in request or "uploadId" in request]


@pytest.mark.parametrize(
    ("text", "steps"),
    [
        (
            "CREATE TABLE new (id INT)",
            [
                ["HEAD schema", "PUT probe"],
                ["GET list", "HEAD probe"],
                ["DELETE probe", "HEAD schema/schema-0"],
                ["PUT directory", "PUT schema/schema-0"],
            ],
        ),
        (
            "ALTER TABLE t ADD COLUMN x INT",
            [
                ["GET list", "HEAD snapshot/LATEST", "HEAD snapshot/snapshot-3", "HEAD snapshot/snapshot-4", "PUT probe"],
                ["GET snapshot/LATEST", "GET snapshot/snapshot-3", "HEAD probe"],
                ["DELETE probe", "HEAD schema/schema-1"],
                ["PUT directory", "PUT schema/schema-1"],
            ],
        ),
    ],
)
def test_what_a_change_of_a_schema_waits_for_is_four_steps_deep(
    on_s3: World, s3_proxy: Proxy, monkeypatch: pytest.MonkeyPatch, text: str, steps: list[list[str]]
) -> None:
    """What depends on nothing is asked at once, and nothing twice; the probe of the store goes while the schema is published."""
    on_s3.must("INSERT INTO t VALUES (2)")
    s3_proxy.reset()
    rounds = Rounds(s3_proxy)
    monkeypatch.setattr(s3_proxy, "come", rounds.come)
    on_s3.must(text)
    kinds = ((".probe.", "probe"), ("list-type=2", "list"), ("/\n", "directory"))
    found = [
        sorted(next((f"{request.split(' ')[0]} {kind}" for word, kind in kinds if word in request + "\n"), request) for request in requests)
        for requests in rounds.end()
    ]
    assert {each for step in found for each in step} == {each for step in steps for each in step}
    assert len([each for step in found for each in step]) == len([each for step in steps for each in step]), "nothing is asked twice"
    assert len(found) == len(steps), found


def test_small_files_are_asked_for_all_at_once(on_s3: World, s3_proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    on_s3.must("CREATE TABLE many (id INT)", *(f"INSERT INTO many VALUES ({number})" for number in range(15)))
    assert on_s3.ids("many") == list(range(15))
    s3_proxy.reset()
    rounds = Rounds(s3_proxy)
    monkeypatch.setattr(s3_proxy, "come", rounds.come)
    assert len(on_s3.rows("SELECT * FROM many")) == 15
    assert [len(requests) for requests in rounds.end()] == [15, 15], rounds.rounds


class Together:
    """Holds each request that deletes a file until another such is there, for a minute."""

    def __init__(self, proxy: Proxy, names: str) -> None:
        self._come, self._names = proxy.come, names
        self._moved = threading.Condition()
        self._waiting = 0
        self.most = 0

    def come(self, method: str, path: str) -> Fate:
        fate = self._come(method, path)
        if method == "DELETE" and self._names in path:
            with self._moved:
                self._waiting += 1
                self.most = max(self.most, self._waiting)
                self._moved.notify_all()
                self._moved.wait_for(lambda: self.most > 1, timeout=60)
                self._waiting -= 1
        return fate


@pytest.mark.parametrize("names", ["/bucket-0/data-", "/manifest/manifest-", "/snapshot/snapshot-"])
def test_what_expires_is_deleted_many_at_once(on_s3: World, s3_proxy: Proxy, monkeypatch: pytest.MonkeyPatch, names: str) -> None:
    """One after another a table that is written to all the time gets files faster than it loses them."""
    on_s3.must("INSERT INTO t VALUES (3)", "TRUNCATE TABLE t", "INSERT INTO t VALUES (4)")
    s3_proxy.reset()
    together = Together(s3_proxy, names)
    monkeypatch.setattr(s3_proxy, "come", together.come)
    on_s3.must("CALL sys.expire_snapshots(`table` => 't', retain_max => 1)")
    assert together.most > 1
    deleted = [request for request in s3_proxy.requests if request.startswith("DELETE")]
    data = [at for at, request in enumerate(deleted) if "/bucket-0/data-" in request]
    metadata = [at for at, request in enumerate(deleted) if "/manifest/manifest-" in request]
    assert len(data) == 3
    assert max(data) < min(metadata), "what names them goes after the data"
    assert on_s3.ids("t") == [4]
