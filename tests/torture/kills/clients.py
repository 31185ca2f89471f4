"""Clients that send statements of every kind about rows of their own, and keep book of what they were told."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

from tests.running import Refused, RunningServer
from tests.torture.kills import model
from tests.torture.kills.model import Known, Statement

_LATER = (409, 429, 503)
"""What may be sent again: another statement was first, or a part is away."""
_DOUBTFUL = "OutcomeUnknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of the campaign; with two names it is renamed meanwhile."""

    names: tuple[str, ...]
    partitioned: bool

    @property
    def kinds(self) -> list[str]:
        """What is done to it, as often as it stands here."""
        few = ["insert", "insert", "insert", "body", "body", "select", "update", "update", "delete", "merge", "merge"]
        return [*few, "overwrite", "overwrite by Spark"] if self.partitioned else few


_MAKE = {
    "insert": model.inserted,
    "select": model.selected,
    "update": model.updated,
    "delete": model.deleted,
    "merge": model.merged,
    "overwrite": model.overwritten,
    "overwrite by Spark": model.overwritten_by_spark,
}


@dataclass(slots=True)
class Counts:
    """What came of the statements, by kind."""

    acknowledged: Counter[str] = field(default_factory=Counter)
    doubtful: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    repeated: int = 0
    """Statements sent again under their keys."""


class Client:
    """One thread's statements, one after another."""

    def __init__(self, number: int, servers: Sequence[RunningServer], tables: Sequence[Table], *, seed: int, counts: Counts) -> None:
        self.number = number
        self.known = {table: Known() for table in tables}
        self.problems: list[str] = []
        self._servers = list(servers)
        self._name = {table: table.names[0] for table in tables}
        """What each was called when it was last heard of."""
        self._rng = random.Random(seed * 1000 + number)
        self._counts = counts
        self._sent = 0

    def run(self, stop: threading.Event) -> None:
        """Send statements until told to stop, or until an answer is lost."""
        while not stop.is_set():
            table = self._rng.choice(list(self.known))
            kind = self._rng.choice(table.kinds)
            known = self.known[table]
            statement = self._made(table, kind, known)
            try:
                self.send(statement)
            except httpx.TransportError:
                self._counts.doubtful[kind] += 1
                known.may_have_happened(statement)
                self._servers.append(self._servers.pop(0))
                return
            except Refused as refused:
                if refused.document.get("errorClass") == _DOUBTFUL:
                    self._counts.doubtful[kind] += 1
                    known.may_have_happened(statement)
                    return
                self._counts.refused[kind] += 1
                if len(table.names) > 1 and refused.status == 404:
                    self._name[table] = next(name for name in table.names if name != statement.name)
                elif refused.status not in _LATER:
                    self.problems.append(f"client {self.number}, {statement.text}: {refused}")
                stop.wait(0.1)
            else:
                self._counts.acknowledged[kind] += 1
                known.happened(statement)

    def _made(self, table: Table, kind: str, known: Known) -> Statement:
        self._sent += 1
        name, key = self._name[table], f"{self.number}-{self._sent}"
        if kind != "body":
            text, effect = _MAKE[kind](self.number, known, self._rng)
            return Statement(text=text.format(t=name), key=key, name=name, effect=effect)
        new = model.new_rows(known, self._rng)
        lines = "".join(json.dumps({"client": self.number, "n": n, "v": v}) + "\n" for n, v in new.items())
        return Statement(text=lines, key=key, name=name, effect=lambda rows: {**rows, **new}, body=True)

    def send(self, statement: Statement) -> None:
        """Raises `Refused`, and what httpx raises for an answer that did not come."""
        server = self._servers[0]
        if statement.body:
            body = statement.text.encode()
            server.append(f"default.{statement.name}", body, "application/x-ndjson", Idempotency_Key=statement.key)
        else:
            server.sql(statement.text, Idempotency_Key=statement.key)

    def send_until_known(self, statement: Statement, *, seconds: float = 120) -> bool:
        """Whether it has happened now: repeated under its key; a name that is not there any more is a no."""
        self._counts.repeated += 1
        end = time.monotonic() + seconds
        while True:
            try:
                self.send(statement)
                return True
            except Refused as refused:
                if refused.status == 404:
                    return False
                if refused.status not in _LATER or time.monotonic() > end:
                    raise
            time.sleep(0.3)
