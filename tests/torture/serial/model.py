"""Statements that change rows, what each does to a table, and whether a table's snapshots are what they did one after another."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

Row = tuple[int, int, int, str]
"""id, p, v, log: the statements that changed the row, in order."""
Effect = Callable[[Sequence[Row]], tuple[list[Row], list[Row]]]
"""Of a table's rows: what they are afterwards, and the rows that are new."""
KEYS = 12
"""Ids below it are those that MERGE adds and DELETE takes away, on all servers."""
VALUES = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """One statement, and what it does."""

    text: str
    """SQL with ``{t}`` for the table."""
    kind: str
    effect: Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One snapshot of a table."""

    id: int
    kind: str
    rows: tuple[Row, ...]


class Author:
    """Makes statements; ``number`` tells its ids and marks from those of others."""

    def __init__(self, number: int, seed: int) -> None:
        self._number = number
        self._rng = random.Random(seed * 100 + number)
        self._next = number * 1_000_000
        self._made = 0

    def new_rows(self) -> list[Row]:
        """Rows under ids that nobody else has."""
        first, self._next = self._next, self._next + 3
        return [(n, self._rng.randrange(3), self._rng.randrange(VALUES), "i") for n in range(first, first + 3)]

    def made(self, kinds: Sequence[str]) -> Statement:
        """A statement of one of the kinds."""
        self._made += 1
        kind = self._rng.choice(kinds)
        make: Mapping[str, Callable[[], tuple[str, Effect]]] = {
            "insert": self._insert, "delete": self._delete, "delete the greatest": self._delete_greatest, "set": self._set,
            "move": self._move, "log": self._log, "merge": self._merge,
        }  # fmt: skip
        text, effect = make[kind]()
        return Statement(text=text, kind=kind, effect=effect)

    def _insert(self) -> tuple[str, Effect]:
        new = self.new_rows()
        return f"INSERT INTO {{t}} VALUES {', '.join(map(str, new))}", lambda rows: (list(rows), new)

    def _delete(self) -> tuple[str, Effect]:
        low = self._rng.randrange(VALUES)
        text = f"DELETE FROM {{t}} WHERE v >= {low} AND v < {low + 3}"
        return text, lambda rows: ([row for row in rows if not low <= row[2] < low + 3], [])

    def _delete_greatest(self) -> tuple[str, Effect]:
        def effect(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
            greatest = max((row[2] for row in rows), default=0)
            return [row for row in rows if row[2] != greatest], []

        return "DELETE FROM {t} WHERE v = (SELECT max(v) FROM {t})", effect

    def _set(self) -> tuple[str, Effect]:
        """Two of these over disjoint files exchange values where neither sees the other."""
        old, new = self._rng.randrange(VALUES), self._rng.randrange(VALUES)
        text = f"UPDATE {{t}} SET v = {new} WHERE v >= {old} AND v < {old + 4}"
        return text, lambda rows: ([(n, p, new if old <= v < old + 4 else v, log) for n, p, v, log in rows], [])

    def _move(self) -> tuple[str, Effect]:
        """Rows of one partition may go to another."""
        low, place = self._rng.randrange(VALUES), self._rng.randrange(3)
        text = f"UPDATE {{t}} SET p = {place} WHERE v >= {low} AND v < {low + 4}"
        return text, lambda rows: ([(n, place if low <= v < low + 4 else p, v, log) for n, p, v, log in rows], [])

    def _log(self) -> tuple[str, Effect]:
        mark, which, more = f",{self._number}.{self._made}", self._rng.randrange(3), self._rng.randrange(VALUES)
        text = f"UPDATE {{t}} SET log = concat(log, '{mark}'), v = (v * 7 + {more}) % {VALUES} WHERE id % 3 = {which}"

        def effect(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
            return [(n, p, (v * 7 + more) % VALUES, log + mark) if n % 3 == which else (n, p, v, log) for n, p, v, log in rows], []

        return text, effect

    def _merge(self) -> tuple[str, Effect]:
        """Rows under few ids, which several servers add, change and take away."""
        source = {n: self._rng.randrange(VALUES) for n in self._rng.sample(range(KEYS), 4)}
        inline = " UNION ALL ".join(f"SELECT CAST({n} AS BIGINT) AS id, {v} AS v" for n, v in source.items())
        mark = f",m{self._number}.{self._made}"
        text = (
            f"MERGE INTO {{t}} AS t USING ({inline}) AS s ON t.id = s.id WHEN MATCHED AND t.v % 4 = 0 THEN DELETE "
            f"WHEN MATCHED THEN UPDATE SET v = s.v, log = concat(t.log, '{mark}') "
            "WHEN NOT MATCHED THEN INSERT (id, p, v, log) VALUES (s.id, s.id % 3, s.v, 'm')"
        )

        def effect(rows: Sequence[Row]) -> tuple[list[Row], list[Row]]:
            kept = [row for row in rows if row[0] not in source or row[2] % 4]
            changed = [(n, p, source[n], log + mark) if n in source else (n, p, v, log) for n, p, v, log in kept]
            there = {row[0] for row in rows}
            return changed, [(n, n % 3, v, "m") for n, v in source.items() if n not in there]

        return text, effect


def differing(
    versions: Sequence[Version], done: Mapping[int, Statement], appended: Sequence[Row], *, ordered: bool, foreign: Collection[Row] = ()
) -> str | None:
    """What is wrong with a table's history; None where each snapshot is the one before and what one statement does.

    ``done``: by snapshot, the statement that was told it made it. Other snapshots are compactions, or appends of rows that ``appended``
    has. An append may come between the look of a statement at the table and its commit: it counts as one that came after it. Those of
    ``foreign``'s, of a writer that does not count rows, stand where its base ended: perhaps before rows that came since.
    """
    awaited = set(appended)
    before = Version(id=0, kind="", rows=())
    blind: list[Version] = []
    """What each append since the last change of rows found."""
    base = before
    for version in versions:
        statement = done.get(version.id)
        wrong: str | None = None
        if version.kind == "APPEND" and (statement is None or statement.kind == "insert"):
            new = added_rows(before, version)
            here = list(version.rows).index(new[0]) if ordered and new and set(new) <= set(foreign) else len(before.rows)
            wanted = [*before.rows[:here], *new, *before.rows[here:]]
            if _same(wanted, version.rows, ordered=ordered) and set(new) <= awaited and len(set(new)) == len(new):
                awaited -= set(new)
                blind.append(before)
            else:
                wrong = f"appends other rows than were sent: {new[:9]}; {_told(version.rows, wanted)}"
        elif version.kind == "COMPACT":
            wrong = None if _same(before.rows, version.rows, ordered=ordered) else "is a compaction that changes rows"
        elif statement is None:
            wrong = "is nobody's"
        else:
            bases = [*blind, before]
            results = [_after(statement, seen.rows, before.rows) for seen in bases]
            if not any(_same(result, version.rows, ordered=ordered) for result in results):
                nearest = min(results, key=lambda result: len(set(result) ^ set(version.rows)))
                wrong = f"is {statement.text}, and has {_told(version.rows, nearest)}"
            blind = []
        if wrong is not None:
            return f"snapshot {version.id} ({version.kind}) {wrong}; before it: snapshot {before.id}, last change at {base.id}"
        if version.kind not in ("APPEND", "COMPACT"):
            base = version
        before = version
    return f"lost {sorted(awaited)[:5]}" if awaited else None


def added_rows(before: Version, after: Version) -> list[Row]:
    """The rows that an append brought, in their order."""
    there = Counter(before.rows)
    new = []
    for row in after.rows:
        if there[row]:
            there[row] -= 1
        else:
            new.append(row)
    return new


def _told(rows: Sequence[Row], wanted: Sequence[Row]) -> str:
    """How rows differ from those that should be there."""
    more, less = sorted(set(rows) - set(wanted)), sorted(set(wanted) - set(rows))
    if more or less or len(rows) != len(wanted):
        return f"{more[:5]} in place of {less[:5]}"
    at = next(at for at, (row, other) in enumerate(zip(rows, wanted, strict=True)) if row != other)
    return f"another order from row {at} on: {list(rows)[at : at + 8]} in place of {list(wanted)[at : at + 8]}"


def _after(statement: Statement, seen: Sequence[Row], now: Sequence[Row]) -> list[Row]:
    """What a statement that looked at some rows makes of those there are now: the others stay, each where it stands."""
    stay, new = statement.effect(seen)
    changed, known = {row[0]: row for row in stay}, {row[0] for row in seen}
    return [changed.get(row[0], row) for row in now if row[0] in changed or row[0] not in known] + new


def _same(left: Sequence[Row], right: Sequence[Row], *, ordered: bool) -> bool:
    return list(left) == list(right) if ordered else sorted(left) == sorted(right)
