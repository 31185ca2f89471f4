"""What a client's rows may be, by what it was told of its statements: each of them happened once, or not at all, or may have."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

Rows = Mapping[int, int]
"""The client's rows of a table: v by n."""
MOST_ROWS = 60
"""Rows of a client, so that statements stay short however long a campaign is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A statement about one client's rows of one table."""

    text: str
    """SQL, or the rows of a body."""
    key: str
    name: str
    """The table's name when it was sent."""
    effect: Callable[[Rows], Rows]
    body: bool = False


@dataclass(slots=True, kw_only=True)
class Known:
    """What the client knows of its rows of a table."""

    states: list[Rows] = field(default_factory=lambda: [{}])
    """One of these they are."""
    next: int = 0
    """A number that no row has."""
    doubtful: Statement | None = None
    """The last one, where no answer came."""
    applied: Statement | None = None
    """The last that certainly happened: a repeat under its key changes nothing."""

    def happened(self, statement: Statement) -> None:
        """It was answered as done."""
        self.states = [statement.effect(state) for state in self.states]
        self.applied, self.doubtful = statement, None

    def may_have_happened(self, statement: Statement) -> None:
        """Its answer was lost."""
        self.states += [after for state in self.states if (after := statement.effect(state)) not in self.states]
        self.doubtful = statement


def settle(known: Known, rows: Rows, where: str) -> None:
    """Hold the rows that are there against what they may be; from here on they are known."""
    assert rows in known.states, f"{where}: {dict(rows)} is none of {[dict(state) for state in known.states]}; doubtful: {known.doubtful}"
    if (doubtful := known.doubtful) is not None and len(known.states) > 1 and rows != known.states[0]:
        known.applied, known.doubtful = doubtful, None
    known.states = [rows]


Made = tuple[str, Callable[[Rows], Rows]]
"""SQL with ``{t}`` for the table, and what it does."""


def inserted(client: int, known: Known, rng: random.Random) -> Made:
    """A short INSERT."""
    new = new_rows(known, rng)
    return f"INSERT INTO {{t}} VALUES {_values(client, new)}", lambda rows: {**rows, **new}


def selected(client: int, known: Known, rng: random.Random) -> Made:
    """INSERT … SELECT by Spark: copies of the last rows under new numbers."""
    top = known.next
    low = max(0, top - rng.randrange(1, 20))
    shift = top - low
    known.next += shift
    text = (
        f"INSERT INTO {{t}} SELECT client, n + {shift}, CAST(abs(v) AS INT) FROM {{t}} WHERE client = {client} AND n >= {low} AND n < {top}"
    )
    return text, lambda rows: {**rows, **{n + shift: v for n, v in rows.items() if low <= n < top}}


def updated(client: int, known: Known, rng: random.Random) -> Made:
    """UPDATE; done twice it shows."""
    which = rng.randrange(3)
    text = f"UPDATE {{t}} SET v = v + 1 WHERE client = {client} AND n % 3 = {which}"
    return text, lambda rows: {n: v + (n % 3 == which) for n, v in rows.items()}


def deleted(client: int, known: Known, rng: random.Random) -> Made:
    """DELETE of some."""
    which = rng.randrange(4)
    return f"DELETE FROM {{t}} WHERE client = {client} AND n % 4 = {which}", lambda rows: {n: v for n, v in rows.items() if n % 4 != which}


def merged(client: int, known: Known, rng: random.Random) -> Made:
    """MERGE: some rows go, some change, some are new."""
    matched = set(range(max(0, known.next - MOST_ROWS), known.next, 3))
    gone, new = rng.randrange(5), new_rows(known, rng)
    source = " UNION ALL ".join(f"SELECT {n} AS n, {v} AS v" for n, v in {**new, **dict.fromkeys(matched, 1000)}.items())
    text = (
        f"MERGE INTO {{t}} AS t USING ({source}) s ON t.client = {client} AND t.n = s.n WHEN MATCHED AND t.n % 5 = {gone} THEN DELETE "
        f"WHEN MATCHED THEN UPDATE SET v = t.v + s.v WHEN NOT MATCHED AND s.v < 1000 THEN INSERT (client, n, v) VALUES ({client}, s.n, s.v)"
    )

    def effect(rows: Rows) -> Rows:
        return {**{n: v + 1000 * (n in matched) for n, v in rows.items() if n not in matched or n % 5 != gone}, **new}

    return text, effect


def overwritten(client: int, known: Known, rng: random.Random) -> Made:
    """INSERT OVERWRITE of the client's partition."""
    new = new_rows(known, rng)
    values = ", ".join(f"({n}, {v})" for n, v in new.items())
    return f"INSERT OVERWRITE {{t}} PARTITION (client = {client}) VALUES {values}", lambda rows: new


def overwritten_by_spark(client: int, known: Known, rng: random.Random) -> Made:
    """INSERT OVERWRITE with a SELECT of the same rows."""
    source = f"FROM {{t}} WHERE client = {client} AND n % 2 = 0"
    text = f"INSERT OVERWRITE {{t}} PARTITION (client = {client}) SELECT n, CAST(abs(v) + 7 AS INT) {source}"
    return text, lambda rows: {n: v + 7 for n, v in rows.items() if n % 2 == 0}


def new_rows(known: Known, rng: random.Random) -> dict[int, int]:
    """A few rows under numbers that none has."""
    first = known.next
    known.next += rng.randint(1, 5)
    return {n: rng.randrange(100) for n in range(first, known.next)}


def _values(client: int, rows: Rows) -> str:
    return ", ".join(f"({client}, {n}, {v})" for n, v in rows.items())
