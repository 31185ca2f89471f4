"""The requests to an S3 store that each statement's answer waits for, as docs/scaling.md tells them."""

from __future__ import annotations

import re
import threading
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
    return f"{method} {path.partition('/t/')[2]}"


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


def test_what_an_insert_waits_for_is_four_steps_deep(on_s3: World, s3_proxy: Proxy) -> None:
    """The files of the commit beside each other, a look at the next name, and after the decision the snapshot and the hint."""
    s3_proxy.reset()
    on_s3.must("INSERT INTO t VALUES (3)")
    files, rest = s3_proxy.requests[:4], s3_proxy.requests[4:]
    assert all(re.search(r"^PUT .*/(bucket-0/data|manifest/manifest)-", request) for request in files), s3_proxy.requests
    assert [kind_of(request) for request in rest] == [
        "HEAD snapshot/snapshot-3",  # is one there that the catalog does not know?
        "PUT snapshot/snapshot-3",
        "PUT snapshot/LATEST",
    ]
    assert not [request for request in s3_proxy.requests if "uploads" in request or "uploadId" in request]


class Together:
    """Holds each request that deletes a file until another such is there, for some seconds."""

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
                self._moved.wait_for(lambda: self.most > 1, timeout=3)
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
