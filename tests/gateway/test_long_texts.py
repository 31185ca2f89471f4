"""Long texts are read one at a time for each principal, and whoever waits for its turn can be told to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

import sql.dialect
from gateway.gateway import Gateway
from lake import Caller
from model.errors import LakeError, StatementCanceled, StatementTimeout, StatementTooLarge
from sql.parameters.parameters import Parameters
from sql.parsing.turns import LONG, TURNS, read_for
from tests.gateway.held import in_background
from tests.waiting import eventually

ADA, BOB, EVE = (Caller(principal=name, administrator=True) for name in ("ada", "bob", "eve"))
LONG_QUERY = f"SELECT 1 AS a, '{'x' * LONG}' AS b"


@dataclass
class _Parser:
    """The parser, which holds texts with an x in them until they are let go."""

    inside: int = 0
    most: int = 0
    begun: int = 0
    let_go: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, text: str, *arguments: Any, **named: Any) -> Any:
        if "xxxx" not in text:
            return _TREE_OF(text, *arguments, **named)
        with self.lock:
            self.inside += 1
            self.begun += 1
            self.most = max(self.most, self.inside)
        try:
            assert self.let_go.wait(60)
            return _TREE_OF(text, *arguments, **named)
        finally:
            with self.lock:
                self.inside -= 1


_TREE_OF = sql.dialect._tree_of


@pytest.fixture
def parser(monkeypatch: pytest.MonkeyPatch) -> Iterator[_Parser]:
    made = _Parser()
    monkeypatch.setattr(sql.dialect, "_tree_of", made)
    yield made
    made.let_go.set()


def _rows(gateway: Gateway, text: str, caller: Caller, **options: Any) -> int:
    with gateway.run(text, caller=caller, **options) as result:
        return sum(batch.num_rows for batch in result.batches())


def test_one_long_text_of_a_principal_is_read_at_a_time(gateway: Gateway, parser: _Parser) -> None:
    of_ada = [in_background(lambda: _rows(gateway, LONG_QUERY, ADA)) for _ in range(6)]
    assert eventually(lambda: TURNS.waiting() == 5, pause=0.01)
    assert _rows(gateway, "SELECT 1", BOB) == 1  # short ones wait for nobody, ada's neither
    assert _rows(gateway, "SELECT 1", ADA) == 1
    of_bob = in_background(lambda: _rows(gateway, LONG_QUERY, BOB))
    assert eventually(lambda: parser.begun == 2, pause=0.01)  # bob's own turn comes beside ada's
    of_eve = in_background(lambda: _rows(gateway, LONG_QUERY, EVE))
    assert eventually(lambda: TURNS.waiting() == 6, pause=0.01)
    parser.let_go.set()
    assert [join() for join in (*of_ada, of_bob, of_eve)] == [1] * 8
    assert parser.most == 2
    assert TURNS.waiting() == 0


def test_who_has_begun_to_read_a_text_goes_before_the_others_of_its_principal(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else all of many would end with the last: each text is looked at several times."""
    order: list[str] = []

    def noted(text: str, *arguments: Any, **named: Any) -> Any:
        order.append(text.partition("AS ")[2][:2])
        return _TREE_OF(text, *arguments, **named)

    monkeypatch.setattr(sql.dialect, "_tree_of", noted)
    with TURNS.reading(LONG + 1):  # the server's own: one more turn is left
        held = threading.Event()
        own = in_background(lambda: _hold(held))
        assert eventually(lambda: TURNS.waiting() == 0 and bool(TURNS._queues[0].running().get("ada")), pause=0.01)
        joins = []
        for n in range(6):
            joins.append(in_background(partial(_rows, gateway, LONG_QUERY.replace("AS a", f"AS a{n}"), ADA)))
            assert eventually(partial(_so_many_wait, n + 1), pause=0.01)
        held.set()
        own()
        assert [join() for join in joins] == [1] * 6
    assert [sorted(order[at : at + 2]) for at in (0, 2, 4)] == [["a0", "a1"], ["a2", "a3"], ["a4", "a5"]]


def _so_many_wait(count: int) -> bool:
    return TURNS.waiting() == count


def _hold(held: threading.Event) -> None:
    with read_for("ada"), TURNS.reading(LONG + 1):
        assert held.wait(60)


def test_no_text_waits_behind_much_longer_ones(gateway: Gateway, parser: _Parser) -> None:
    """A query of a dashboard waited behind all the megabytes of VALUES that its principal was sending."""
    of_ada = [in_background(lambda: _rows(gateway, LONG_QUERY.replace("x' AS b", "x" * 20_000 + "' AS b"), ADA)) for _ in range(3)]
    assert eventually(lambda: TURNS.waiting() == 2, pause=0.01)
    assert _rows(gateway, f"SELECT 1 AS a, '{'y' * LONG}' AS b", ADA) == 1
    parser.let_go.set()
    assert [join() for join in of_ada] == [1] * 3


def test_a_statement_that_has_what_others_wait_for_waits_for_no_turn() -> None:
    with read_for("ada"), TURNS.reading(LONG + 1):
        held = in_background(_read_in_a_transaction)
        assert held() == 1
    assert TURNS.waiting() == 0


def _read_in_a_transaction() -> int:
    with read_for("ada"), TURNS.at_once(), TURNS.reading(LONG + 1):
        return 1


def test_who_waits_for_its_turn_is_canceled_at_once(gateway: Gateway, parser: _Parser) -> None:
    first = in_background(lambda: _rows(gateway, LONG_QUERY, ADA))
    assert eventually(lambda: parser.begun == 1, pause=0.01)
    second = in_background(lambda: _rows(gateway, LONG_QUERY, ADA, name="second"))
    assert eventually(lambda: TURNS.waiting() == 1, pause=0.01)
    gateway.running_statement("second", caller=ADA).cancel()
    assert isinstance(second(), StatementCanceled)
    assert eventually(lambda: TURNS.waiting() == 0, pause=0.01)
    parser.let_go.set()
    assert first() == 1
    assert parser.begun == 1


def test_waiting_for_a_turn_counts_against_the_time_limit(gateway: Gateway, parser: _Parser) -> None:
    first = in_background(lambda: _rows(gateway, LONG_QUERY, ADA))
    assert eventually(lambda: parser.begun == 1, pause=0.01)
    with pytest.raises(StatementTimeout):
        _rows(gateway, LONG_QUERY, ADA, timeout=0.2)
    assert eventually(lambda: TURNS.waiting() == 0, pause=0.01)
    parser.let_go.set()
    assert first() == 1


@pytest.mark.parametrize("what", ["describe", "values", "insert", "type"])
def test_whatever_reads_what_a_client_sent_waits(gateway: Gateway, parser: _Parser, what: str) -> None:
    """Also a description, values of parameters, rows of literals, and the type of a parameter."""
    gateway.run("CREATE TABLE t (a INT)", caller=ADA).close()
    first = in_background(lambda: _rows(gateway, LONG_QUERY, ADA))
    assert eventually(lambda: parser.begun == 1, pause=0.01)
    many = Parameters.from_json([{"type": "ARRAY<INT>", "value": [1] * LONG}])
    typed = Parameters.from_json([{"type": "ROW<" + ", ".join(f"f{n} INT" for n in range(LONG // 2)) + ">", "value": None}])

    def second() -> int:
        match what:
            case "describe":
                return _rows(gateway, f"DESCRIBE t -- {'-' * LONG}", ADA, describe=True)
            case "values":
                return _rows(gateway, "SELECT 1 WHERE size(?) > 0", ADA, parameters=many, dry_run=True)
            case "insert":
                return _rows(gateway, f"INSERT INTO t VALUES {', '.join('(1)' for _ in range(LONG))}", ADA)
        return _rows(gateway, "SELECT 1 WHERE ? IS NULL", ADA, parameters=typed, dry_run=True)

    waits = in_background(second)
    assert eventually(lambda: TURNS.waiting() == 1, pause=0.01)
    time.sleep(0.05)
    assert parser.begun == 1
    parser.let_go.set()
    assert not isinstance(waits(), LakeError) or what in ("values", "type")  # what Spark is needed for
    assert first() == 1


def test_a_condition_in_a_text_has_no_more_words_than_a_statement(gateway: Gateway) -> None:
    """Of the CALL around it all of it is one word."""
    gateway.run("CREATE TABLE p (a INT, d STRING) PARTITIONED BY (d) WITH ('rows.erasable' = 'true')", caller=ADA).close()
    gateway.run("INSERT INTO p VALUES (1, 'x')", caller=ADA).close()
    condition = f"d IN ({', '.join('1' for _ in range(30_000))})"
    for call in (f"CALL sys.erase(table => 'p', where => '{condition}')", f"CALL sys.compact(table => 'p', where => '{condition}')"):
        with pytest.raises(StatementTooLarge):
            gateway.run(call, caller=ADA).close()
