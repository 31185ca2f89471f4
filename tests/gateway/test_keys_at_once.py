"""Work under idempotency keys that several callers send to two servers at once, while Postgres goes away: done once, answered alike."""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
import traceback
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest

from catalog import CatalogStore
from gateway.gateway import Gateway
from lake import EVERYBODY, Lake
from model.errors import LakeError
from tests.fix_gateway import NoSpark
from tests.fix_postgres_proxy import PostgresProxy
from tests.interop.strict import check_warehouse

SEED = int(os.environ.get("SLUICE_TEST_SEED", "20261127"))
_LATER = (409, 429, 503)
"""What is sent again."""
_SECONDS = 120
Row = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Work:
    """A statement that, done twice, would fail or leave another number of rows, and what makes what it needs."""

    text: str
    before: str = ""
    adds: int = 0
    """Rows that table ``t`` has more."""


def _works(number: int) -> Sequence[Work]:
    n = f"{number:03}"
    return (
        Work(f"INSERT INTO t VALUES ({number}, 'a'), ({number}, 'b')", adds=2),
        Work(f"INSERT INTO p VALUES ({number}, '{n}'), ({number}, 'x')"),
        Work(f"DELETE FROM t WHERE id = {-number - 1}", f"INSERT INTO t VALUES ({-number - 1}, 'gone')", adds=-1),
        Work(f"UPDATE t SET v = '{n}' WHERE v = 'old {n}'", f"INSERT INTO t VALUES ({number}, 'old {n}')"),
        Work(f"CREATE TABLE made_{n} (id INT)"),
        Work(f"DROP TABLE dropped_{n}", f"CREATE TABLE dropped_{n} (id INT)"),
        Work(f"ALTER TABLE moved_{n} RENAME TO there_{n}", f"CREATE TABLE moved_{n} (id INT)"),
        Work(f"ALTER TABLE wide ADD c{n} INT"),
        Work(f"CREATE DATABASE d{n}"),
        Work(f"CALL sys.create_tag('t', 'tag_{n}')"),
        Work(f"CALL sys.delete_tag('q', 'tag_{n}')", f"CALL sys.create_tag('q', 'tag_{n}')"),
        Work(f"CALL sys.rename_tag('q', 'old_{n}', 'new_{n}')", f"CALL sys.create_tag('q', 'old_{n}')"),
        Work(f"CALL sys.create_branch('q', 'b{n}')"),
        Work(f"CALL sys.delete_branch('q', 'c{n}')", f"CALL sys.create_branch('q', 'c{n}')"),
        Work(f"CREATE ROLE r{n}"),
        Work(f"CREATE ROW POLICY y{n} ON q TO USER someone USING (id = {number})"),
        Work(f"CALL sys.reset_consumer('t', 'reader_{n}', 1)"),
    )


class Repeaters:
    """Callers that each send all of the work, in an order of their own, and each piece until it is answered as done."""

    def __init__(self, servers: Sequence[Gateway], works: Sequence[Work], seed: int) -> None:
        self._servers, self._works, self._seed = servers, works, seed
        self.answers: dict[str, list[list[Row]]] = defaultdict(list)
        self.problems: list[str] = []

    def run(self, callers: int) -> None:
        threads = [threading.Thread(target=self._caller, args=(number,)) for number in range(callers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _caller(self, number: int) -> None:
        rng = random.Random(f"{self._seed} {number}")
        # Nearly in one order, so that several work at the same.
        order = sorted(range(len(self._works)), key=lambda at: at + rng.uniform(0, 8))
        for at in order:
            work = self._works[at]
            try:
                self.answers[work.text].append(self._until_done(work, rng))
            except Exception:
                self.problems.append(f"caller {number}, {work.text}: {traceback.format_exc()}")

    def _until_done(self, work: Work, rng: random.Random) -> list[Row]:
        end = time.monotonic() + _SECONDS
        while True:
            server = rng.choice(self._servers)
            try:
                with server.run(work.text, idempotency_key=work.text[:255], caller=EVERYBODY) as result:
                    return result.collect()
            except LakeError as refused:
                if refused.status not in _LATER or time.monotonic() > end:
                    raise
            time.sleep(rng.uniform(0, 0.05))


@contextlib.contextmanager
def _shaken(proxy: PostgresProxy, rng: random.Random) -> Iterator[None]:
    """Let Postgres go away now and then, before any message."""
    stop = threading.Event()

    def shake() -> None:
        while not stop.wait(rng.uniform(0.2, 0.8)):
            proxy.away_after(rng.randrange(12))
            stop.wait(rng.uniform(0.05, 0.2))
            proxy.back()

    thread = threading.Thread(target=shake)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        proxy.back()


@pytest.fixture
def servers(postgres_proxy: PostgresProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Gateway]]:
    """Two gateways of one catalog, whose claims of keys run out soon."""
    for module in ("catalog.commits.idempotency", "lake.commit.idempotency"):
        monkeypatch.setattr(f"{module}.LEASE", timedelta(seconds=2))
    with contextlib.ExitStack() as stack:
        made = []
        for _ in range(2):
            catalog = CatalogStore(postgres_proxy.dsn)
            stack.callback(catalog.close)
            lake = Lake(catalog, str(tmp_path / "warehouse"), drop_retention=timedelta(days=1))
            stack.callback(lake.close)
            made.append(Gateway(lake, NoSpark()))
            stack.callback(made[-1].close)
        yield made
        postgres_proxy.back()


def crowd(servers: Sequence[Gateway], proxy: PostgresProxy, seed: int, *, each: int, callers: int, shaken: bool) -> None:
    first = servers[0]
    made = "CREATE TABLE {} (id INT, v STRING) WITH ('rows.erasable' = 'true')".format
    for text in (made("t"), made("q"), "CREATE TABLE p (id INT, v STRING) PARTITIONED BY (v)", "CREATE TABLE wide (id INT)"):
        first.run(text).close()
    first.run("INSERT INTO q VALUES (1, 'a')").close()
    first.run("INSERT INTO t VALUES (0, 'first')").close()
    works = [work for number in range(each) for work in _works(number)]
    random.Random(seed).shuffle(works)
    for work in works:
        if work.before:
            first.run(work.before).close()
    (before,) = first.run("SELECT COUNT(*) FROM t").collect()[0]
    many = Repeaters(servers, works, seed)
    with _shaken(proxy, random.Random(seed)) if shaken else contextlib.nullcontext():
        many.run(callers)
    assert not many.problems, "\n".join(many.problems)
    for text, answers in many.answers.items():
        assert len(answers) == callers
        told = {tuple(answer) for answer in answers} - {(("OK",),)}  # where the answer was not kept yet, or could not be
        assert len(told) <= 1, (text, told)
        assert shaken or told or not text.startswith("CALL"), text
    _done_once(first, works, each, before)


def _done_once(gateway: Gateway, works: Sequence[Work], each: int, before: object) -> None:
    def ask(text: str) -> list[Row]:
        with gateway.run(text) as result:
            return result.collect()

    assert isinstance(before, int)
    assert ask("SELECT COUNT(*) FROM t") == [(before + sum(work.adds for work in works),)]
    rows = ask("SELECT id, v FROM t")
    assert sorted(rows) == sorted(
        [(0, "first"), *((n, v) for n in range(each) for v in ("a", "b", f"{n:03}"))], key=lambda row: (row[0], row[1])
    )
    assert sorted(ask("SELECT id, v FROM p")) == sorted((n, v) for n in range(each) for v in (f"{n:03}", "x"))
    assert {name for (name,) in ask("SHOW TABLES")} == {
        "t", "q", "p", "wide", *(f"made_{n:03}" for n in range(each)), *(f"there_{n:03}" for n in range(each)),
    }  # fmt: skip
    for name, tag in (("t", "tag"), ("q", "new")):
        assert {row[0] for row in ask(f"SELECT tag_name FROM {name}$tags")} == {f"{tag}_{n:03}" for n in range(each)}
    assert {name for (name,) in ask("SELECT branch_name FROM q$branches")} - {"main"} == {f"b{n:03}" for n in range(each)}
    assert len(ask("SELECT * FROM t$consumers")) == each
    for name in ("t", "q", "p"):
        assert ask(f"CALL sys.check_table('{name}', deep => true)") == []


def test_each_is_done_once(servers: list[Gateway], postgres_proxy: PostgresProxy, tmp_path: Path) -> None:
    crowd(servers, postgres_proxy, SEED, each=2, callers=4, shaken=False)
    check_warehouse(tmp_path / "warehouse")


def test_each_is_done_once_though_postgres_goes_away(servers: list[Gateway], postgres_proxy: PostgresProxy, tmp_path: Path) -> None:
    crowd(servers, postgres_proxy, SEED, each=1, callers=4, shaken=True)
    check_warehouse(tmp_path / "warehouse")


@pytest.mark.torture
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("seed", range(20))
def test_each_is_done_once_each_time(servers: list[Gateway], postgres_proxy: PostgresProxy, tmp_path: Path, seed: int) -> None:
    crowd(servers, postgres_proxy, SEED + 1 + seed, each=3, callers=6, shaken=seed % 4 > 0)
    check_warehouse(tmp_path / "warehouse")
