"""A client that tags a table, takes it back, branches it, drops it and brings it back."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import httpx

from tests.running import Refused, RunningServer
from tests.torture.kills.clients import Client, Counts, Table
from tests.torture.kills.model import Known, Made, Rows, Statement, settle

NAME = "hist"
_LABEL = 1_000_000
"""The rows of tag k are numbered from k of these on, those of the branch made from it from `_BRANCH` + k on."""
_BRANCH = 500
_DROPPED = -1
"""A row that is there while the table is not."""


def _rows(rows: Rows, label: int) -> dict[int, int]:
    return {n % _LABEL: v for n, v in rows.items() if n != _DROPPED and n // _LABEL == label}


def _labels(rows: Rows) -> set[int]:
    return {n // _LABEL for n in rows if n >= _LABEL}


def _with(rows: Rows, label: int, new: Rows) -> dict[int, int]:
    """The same with other rows under a label."""
    return {n: v for n, v in rows.items() if n == _DROPPED or n // _LABEL != label} | {label * _LABEL + n: v for n, v in new.items()}


def _taken_back(rows: Rows, tag: int, new: Rows) -> Rows:
    """Main has other rows, and the tags of snapshots after that of a tag are gone."""
    target = _rows(rows, tag)
    for later in _labels(rows):
        if tag < later < _BRANCH and _rows(rows, later) != target:
            rows = _with(rows, later, {})
    return _with(rows, 0, new)


class History(Client):
    """One client on one table of its own."""

    def __init__(self, servers: Sequence[RunningServer], *, seed: int, counts: Counts) -> None:
        self.table = Table(names=(NAME,), partitioned=False)
        super().__init__(100, servers, [self.table], seed=seed, counts=counts)
        self._tags = 0

    def run(self, stop: threading.Event) -> None:
        """Send statements until told to stop, or until an answer is lost."""
        known = self.known[self.table]
        while not stop.is_set():
            kind, (text, effect) = self._next(known)
            self._sent += 1
            statement = Statement(text=text, key=f"h-{self._sent}", name=NAME, effect=effect)
            if not self.told(kind, known, statement):
                return

    def told(self, kind: str, known: Known, statement: Statement) -> bool:
        """Send it and note what came of it; False where nobody knows."""
        try:
            self.send(statement)
        except httpx.TransportError:
            self._servers.append(self._servers.pop(0))
        except Refused as refused:
            if refused.document.get("errorClass") != "OutcomeUnknown":
                self._counts.refused[kind] += 1
                if refused.status not in (429, 503):
                    self.problems.append(f"{statement.text}: {refused}; {known.states}")
                return True
        else:
            self._counts.acknowledged[kind] += 1
            known.happened(statement)
            return True
        self._counts.doubtful[kind] += 1
        known.may_have_happened(statement)
        return False

    def _next(self, known: Known) -> tuple[str, Made]:
        (rows,) = known.states
        rng = self._rng
        if _DROPPED in rows:
            return "undrop", (f"UNDROP TABLE {NAME}", lambda rows: {n: v for n, v in rows.items() if n != _DROPPED})
        tags = sorted(label for label in _labels(rows) if label < _BRANCH)
        branches = sorted(label for label in _labels(rows) if label >= _BRANCH)
        ready = [label for label in branches if label - _BRANCH in tags]
        kinds = ["insert", "insert"] + ["rollback", "delete tag"] * bool(tags) + ["delete branch"] * bool(branches)
        kinds += ["tag"] * (self._is_new(rows, tags) and len(tags) < 5) + ["branch"] * (bool(tags) and len(branches) < 2)
        kinds += ["fast forward", "insert into branch"] * bool(ready) + ["drop"] * (rng.random() < 0.3)
        kind = rng.choice(kinds)
        tag, branch = rng.choice(tags or [0]), rng.choice(ready or branches or [0])
        if kind == "branch" and tag + _BRANCH in branches:
            kind = "insert"
        return kind, self._made_of(kind, known, tag, branch)

    def _is_new(self, rows: Rows, tags: Sequence[int]) -> bool:
        """Whether main holds what no tag does: two tags of one snapshot would be taken back together."""
        return all(_rows(rows, tag) != _rows(rows, 0) for tag in tags) and bool(_rows(rows, 0))

    def _made_of(self, kind: str, known: Known, tag: int, branch: int) -> Made:
        known.next += 1
        n, source = known.next, branch - _BRANCH
        match kind:
            case "tag":
                self._tags += 1
                new = self._tags
                return f"CALL sys.create_tag('{NAME}', 't{new}')", lambda rows: _with(rows, new, _rows(rows, 0))
            case "rollback":
                return f"CALL sys.rollback_to('{NAME}', 't{tag}')", lambda rows: _taken_back(rows, tag, _rows(rows, tag))
            case "delete tag":
                return f"CALL sys.delete_tag('{NAME}', 't{tag}')", lambda rows: _with(rows, tag, {})
            case "branch":
                text = f"CALL sys.create_branch('{NAME}', 'b{tag}', 't{tag}')"
                return text, lambda rows: _with(rows, tag + _BRANCH, _rows(rows, tag))
            case "insert into branch":
                text = f"INSERT INTO {NAME}$branch_b{source} VALUES (100, {n}, 1)"
                return text, lambda rows: {**rows, branch * _LABEL + n: 1}
            case "fast forward":
                return f"CALL sys.fast_forward('{NAME}', 'b{source}')", lambda rows: _taken_back(rows, source, _rows(rows, branch))
            case "delete branch":
                return f"CALL sys.delete_branch('{NAME}', 'b{source}')", lambda rows: _with(rows, branch, {})
            case "drop":
                return f"DROP TABLE {NAME}", lambda rows: {**rows, _DROPPED: 1}
            case _:
                return f"INSERT INTO {NAME} VALUES (100, {n}, 0)", lambda rows: {**rows, n: 0}

    def compare(self, server: RunningServer, where: str) -> None:
        """Hold main, tags and branches against what they may be; a table that was dropped is brought back."""
        where, known = f"{where}: {NAME}", self.known[self.table]
        dropped = [NAME] not in server.sql("SHOW TABLES")
        if dropped:
            server.sql(f"UNDROP TABLE {NAME}")
        rows = _read(server, NAME, 0)
        for (tag,) in server.sql(f"SELECT tag_name FROM {NAME}$tags"):
            rows |= _read(server, f"{NAME} /*+ OPTIONS('scan.tag-name' = '{tag}') */", int(tag[1:]))
        for (branch,) in server.sql(f"SELECT branch_name FROM {NAME}$branches"):
            if branch != "main":
                rows |= _read(server, f"{NAME}$branch_{branch}", _BRANCH + int(branch[1:]))
        settle(known, rows | {_DROPPED: 1} if dropped else rows, where)
        if dropped:
            known.states, known.doubtful = [rows], None
        assert server.sql(f"CALL sys.check_table('{NAME}')") == [], where


def _read(server: RunningServer, name: str, label: int) -> dict[int, int]:
    found = server.arrow(f"SELECT n, v FROM {name}").to_pylist()
    rows = {label * _LABEL + row["n"]: row["v"] for row in found}
    assert len(rows) == len(found), f"{name} has a row twice: {found}"
    return rows
