"""Kill servers, their Sparks and their Postgres at random moments of every kind of write, and compare all with the book each time."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import psutil

from tests.e2e.agreement import assert_agreement
from tests.running import Refused, RunningServer
from tests.torture.kills.appends import Writer
from tests.torture.kills.clients import Client, Counts, Table
from tests.torture.kills.history import NAME, History
from tests.torture.kills.model import settle
from tests.waiting import eventually

SERVER, SPARK, POSTGRES = "server", "Spark", "Postgres"
_OPTIONS = "'rows.erasable' = 'true', 'snapshot.time-retained' = '7 d', 'snapshot.num-retained.min' = '1000000'"


@dataclass(slots=True)
class Told:
    """What a campaign did."""

    kills: Counter[str] = field(default_factory=Counter)
    counts: Counts = field(default_factory=Counts)
    renamed: int = 0


class Campaign:
    """Servers of one catalog, clients, and the tables they write."""

    def __init__(self, servers: Sequence[RunningServer], *, dsn: Callable[[], str], seed: int, clients: int, renames: bool = False) -> None:
        self.told = Told()
        self._servers, self._dsn, self._seed = list(servers), dsn, seed
        self.postgres_pid: Callable[[], int | None] = servers[0].postgres_pid
        """The process of the Postgres of all servers."""
        self._rng = random.Random(seed)
        others = [(f"{name}_moved",) if renames else () for name in ("parts", "flat")]
        self._tables = [
            Table(names=("parts", *others[0]), partitioned=True),
            Table(names=("flat", *others[1]), partitioned=False),
        ]
        servers[0].sql(f"CREATE TABLE parts (client INT, n INT, v INT) PARTITIONED BY (client) WITH ({_OPTIONS})")
        servers[0].sql(f"CREATE TABLE flat (client INT, n INT, v INT) WITH ({_OPTIONS}, 'bucket' = '-1')")
        self._history = History(self._servers, seed=seed, counts=self.told.counts)
        servers[0].sql(f"CREATE TABLE {NAME} (client INT, n INT, v INT) WITH ({_OPTIONS})")
        self.others: list[Writer] = []
        """Who writes tables of its own beside them."""
        self._clients = [
            Client(
                number,
                self._servers[number % len(servers) :] + self._servers[: number % len(servers)],
                self._tables,
                seed=seed,
                counts=self.told.counts,
            )
            for number in range(clients)
        ]

    def round(self, number: int, victims: Sequence[str], *, longest: float) -> None:
        """Load, a kill at a random moment, a new start, and the comparison."""
        victim = self._rng.choice(victims)
        where = f"seed {self._seed}, kill {number} of {victim}"
        if self._clients and (self._rng.random() < 0.7 or victim == SPARK):
            for server in self._servers:
                server.wait_for_spark()
        stop = threading.Event()
        threads = [threading.Thread(target=_run, args=(writer, stop)) for writer in self._all]
        threads.append(threading.Thread(target=self._maintain, args=(stop, random.Random(f"{self._seed} {number}"))))
        for thread in threads:
            thread.start()
        time.sleep(self._rng.uniform(0.1, longest))
        struck = self._rng.choice(self._servers)
        self._kill(struck, victim)
        self.told.kills[victim] += 1
        if victim == SPARK:  # statements beside it go on
            time.sleep(0.5)
        stop.set()
        for thread in threads:
            thread.join(300)
            assert not thread.is_alive(), f"{where}: a client got no answer"
        if victim == SERVER:
            self._start(struck)
        if problems := [problem for writer in self._all for problem in writer.problems]:
            raise AssertionError(f"{where}: {problems[:3]}")
        self._compare(where)
        self._repeat(where)

    @property
    def _all(self) -> list[Client | Writer]:
        return [*self._clients, self._history, *self.others]

    def _start(self, server: RunningServer) -> None:
        """A new start, which now and then is killed in what it takes up again."""
        server.start()
        if self._rng.random() < 0.15:
            time.sleep(self._rng.uniform(0.0, 1.0))
            self._kill(server, SERVER)
            self.told.kills[SERVER] += 1
            server.start()

    def _kill(self, server: RunningServer, victim: str) -> None:
        if victim == SERVER:
            server.kill()
        elif victim == POSTGRES:
            pid = self.postgres_pid()
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        else:
            with contextlib.suppress(psutil.NoSuchProcess):
                for jvm in server.jvms():
                    jvm.kill()

    def _maintain(self, stop: threading.Event, rng: random.Random) -> None:
        """Compactions by hand, and renames of tables that have two names."""
        while not stop.wait(rng.uniform(0.1, 0.6)):
            table, server = rng.choice(self._tables), rng.choice(self._servers)
            here, there = rng.sample(table.names, 2) if len(table.names) > 1 else (table.names[0], "")
            with contextlib.suppress(Exception):  # whatever dies: what counts is what the tables hold
                if there and rng.random() < 0.7:
                    server.sql(f"ALTER TABLE {here} RENAME TO {there}")
                    self.told.renamed += 1
                else:
                    server.sql(f"CALL sys.compact('{here}', compact_strategy => 'full')")

    def _compare(self, where: str) -> None:
        for table in self._tables:
            self._compare_table(table, where)
        for writer in (self._history, *self.others):
            writer.compare(self._rng.choice(self._servers), where)

    def _compare_table(self, table: Table, where: str) -> None:
        for server in self._servers:
            assert eventually(lambda server=server: self._answers(server)), f"{where}: {server.words()}"  # type: ignore[misc]
        server = self._rng.choice(self._servers)
        names = [name for (name,) in server.sql("SHOW TABLES") if name in table.names]
        assert len(names) == 1, f"{where}: {table.names} are {names}"
        rows = server.arrow(f"SELECT client, n, v FROM {names[0]}").to_pylist()
        of_client: dict[int, dict[int, int]] = defaultdict(dict)
        for row in rows:
            mine = of_client[row["client"]]
            assert row["n"] not in mine, f"{where}: {names[0]} has a row twice: {row}"
            mine[row["n"]] = row["v"]
        for client in self._clients:
            settle(client.known[table], of_client[client.number], f"{where}: {names[0]}, client {client.number}")
        assert server.sql(f"CALL sys.check_table('{names[0]}')") == [], where
        if len(table.names) == 1 and rows:
            assert_agreement(self._dsn(), server, f"default.{names[0]}")

    def _answers(self, server: RunningServer) -> bool:
        with contextlib.suppress(Refused):
            server.sql("SHOW TABLES")
            return True
        return False

    def _repeat(self, where: str) -> None:
        """What happened is sent again and changes nothing; some of what did not happen is, and does."""
        also_what_did_not = self._rng.random() < 0.2  # a dead server's claim of a key runs out in 30 seconds
        for client in [*self._clients, self._history]:
            for known in client.known.values():
                if known.applied is not None and self._rng.random() < 0.3:
                    assert client.send_until_known(known.applied), f"{where}: {known.applied} was done and is not known"
                if (doubtful := known.doubtful) is not None:
                    known.doubtful = None
                    if also_what_did_not and client.send_until_known(doubtful):
                        known.happened(doubtful)
        self._compare(f"{where}, after repeats")


def _run(writer: Client | Writer, stop: threading.Event) -> None:
    """Let one write; who ends for another reason than a lost answer is a problem, and not silent."""
    try:
        writer.run(stop)
    except BaseException as problem:
        writer.problems.append(f"{type(writer).__name__} ended: {problem!r}")
        raise
