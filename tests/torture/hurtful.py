"""Statements made to hurt a server, by what they are after, and probes that look meanwhile whether others are served."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import adbc_driver_flightsql.dbapi as dbapi
import httpx

from tests.running import RunningServer

A, TEXT = "'" + "a" * 40 + "'", "repeat('a', 30000)"
_DEEP = 3000
_LOOP = "id"
for _name in "xyz":
    _LOOP = f"aggregate(sequence(1, 8000), id, ({_name}, i) -> ({_name} + {_LOOP}) % 1000003)"

DEEP_PATTERNS = [
    "SELECT concat(repeat('ab', 50000), id) RLIKE '^(a|b)*$' FROM range(10)",
    "SELECT concat(repeat('ab', 50000), id) RLIKE '^(a|b)*+$' FROM range(10)",
    "SELECT concat(repeat('ab', 249), id % 1) RLIKE '^(a|b)*0$' FROM range(10)",
    "SELECT concat(repeat('abcd', 25000), id) RLIKE '(ab|cd)*$' FROM range(10)",
    "SELECT concat(repeat('ab', 50000), id) RLIKE '(ab?)*c' FROM range(10)",
    r"SELECT concat(repeat('a1', 50000), id) RLIKE '(\\w\\d?)*$' FROM range(10)",
    "SELECT concat(repeat('ab', 50000), id) RLIKE concat('^(a|b)*', '$') FROM range(10)",
    f"SELECT concat(repeat('ab', 50000), id) RLIKE '^{'a?' * 20_000}$' FROM range(10)",
    f"SELECT concat(repeat('ab', 50), id % 1) RLIKE '^({'(?:' * 8}a|b{')' * 8})*$' FROM range(10)",
    f"SELECT concat(repeat('a', 50000), id) RLIKE '^{'a?' * 2_900}' FROM range(10)",
    f"SELECT concat(repeat('a', 50000), id) RLIKE '^{'(a|b)' * 500}' FROM range(10)",
    f"SELECT concat(repeat('ab', 50000), id) LIKE '{'%a' * 10_000}' FROM range(10)",
    f"SELECT concat(repeat('ab', 50000), id) LIKE '{'%a' * 1_000}' FROM range(10)",
    f"SELECT concat(repeat('a', 1000), id % 1) LIKE '{'_' * 1_000}0' FROM range(10)",
]
"""Those that would go deeper than Java's stack, and their likes that are taken."""

HURTFUL: dict[str, list[str]] = {
    "patterns": [
        f"SELECT {TEXT} LIKE '%a%a%a%a%a%a%a%a%a%a%b' FROM range(100)",
        f"SELECT {TEXT} NOT LIKE '%a%a%a%a%a%a%b' FROM range(100)",
        f"SELECT {TEXT} ILIKE '%A%a%A%a%A%b%c' FROM range(100)",
        f"SELECT {TEXT} LIKE concat('%a%a%a%a', CAST(id AS STRING), '%b') FROM range(10)",
        f"SELECT {A} RLIKE '(a+)+$' FROM range(10)",
        f"SELECT {A} || id RLIKE '(a|aa)+$' FROM range(10)",
        f"SELECT {A} || id RLIKE concat('(a+)+', '$') FROM range(10)",
        f"SELECT regexp_replace({A} || id, '(.*)*x', '') FROM range(10)",
        f"SELECT split({A} || id, '(a+a+)+b') FROM range(10)",
        f"SELECT {TEXT} || id RLIKE '.*a.*a.*b' FROM range(10)",
        f"SELECT regexp_extract_all({TEXT} || id, '(a*)(a*)(a*)b', 1) FROM range(10)",
        f"SELECT str_to_map({A} || id, '(a+)+', ':') FROM range(10)",
        *DEEP_PATTERNS,
    ],
    "memory": [
        "SELECT repeat('x', 2000000000)",
        "SELECT repeat('x', CAST(2000000000 + id AS INT)) FROM range(4)",
        "SELECT lpad('x', CAST(2000000000 + id AS INT), 'y') FROM range(4)",
        "SELECT array_repeat(id, CAST(2000000000 + id AS INT)) FROM range(4)",
        "SELECT size(sequence(1, CAST(2000000000 + id AS INT))) FROM range(4)",
        "SELECT length(replace(repeat('a', 30000000), 'a', repeat('b', 1000))) FROM range(4)",
        "SELECT length(aggregate(sequence(1, 60), 'x', (s, i) -> concat(s, s))) FROM range(4)",
        "SELECT concat_ws(',', collect_list(repeat('x', 1000000))) FROM range(5000)",
        "SELECT collect_list(repeat('x', 100000)) FROM range(100000)",
        "SELECT collect_set(repeat(CAST(id AS STRING), 100000)) FROM range(20000)",
        "SELECT map_from_entries(collect_list(struct(id, repeat('x', 10000)))) FROM range(1000000)",
        "SELECT count_min_sketch(id, 0.00000001, 0.9, 1) FROM range(10)",
        "SELECT to_json(collect_list(named_struct('a', id, 'b', repeat('x', 1000)))) FROM range(1000000)",
        "SELECT transform(sequence(1, 1000000), x -> repeat('x', 60000)) FROM range(4)",
    ],
    "cross joins": [
        "SELECT count(*) FROM range(1000000) a CROSS JOIN range(1000000) b",
        "SELECT a.id FROM range(1000000) a CROSS JOIN range(1000000) b",
        "SELECT count(*) FROM range(1000000) a JOIN range(1000000) b ON a.id < b.id",
        "SELECT count(*) FROM range(100000) a JOIN range(100000) b ON a.id % 2 = b.id % 2",
        "SELECT max(a.id * b.id) FROM range(1000000) a, range(1000000) b WHERE a.id + b.id > 7",
        "SELECT count(*) FROM range(100000) a LEFT JOIN range(100000) b ON levenshtein(CAST(a.id AS STRING), CAST(b.id AS STRING)) < 2",
        "SELECT count(*) FROM range(100000) WHERE id NOT IN (SELECT id + 0.5 FROM range(100000))",
        f"SELECT {_LOOP} FROM range(0, 2, 1, 2)",
    ],
    "deep nesting": [
        "SELECT " + "(" * _DEEP + "1" + ")" * _DEEP,
        "SELECT " + "-" * 1 + " -".join("1" for _ in range(_DEEP)),
        "SELECT " + "NOT " * _DEEP + "true",
        "SELECT " + " + ".join("id" for _ in range(_DEEP)) + " FROM range(10)",
        "SELECT " + "abs(" * 1000 + "id" + ")" * 1000 + " FROM range(10)",
        "SELECT * FROM " + "(SELECT * FROM " * 300 + "range(10)" + ")" * 300,
        "SELECT CASE " + " ".join(f"WHEN id = {n} THEN {n}" for n in range(2000)) + " END FROM range(10)",
        "WITH c0 AS (SELECT id AS a FROM range(2)) "
        + "".join(f", c{n} AS (SELECT x.a FROM c{n - 1} x JOIN c{n - 1} y ON x.a = y.a)" for n in range(1, 14))
        + " SELECT count(*) FROM c13",
    ],
    "huge texts": [
        f"SELECT 1 WHERE 1 IN ({','.join('1' for _ in range(400_000))})",
        f"SELECT {','.join('1' for _ in range(400_000))}",
        f"SELECT '{'x' * 1_000_000}' || id FROM range(10)",
        " UNION ALL ".join("SELECT 1" for _ in range(20_000)),
        "SELECT " + ",".join(f"id AS c{n}" for n in range(5000)) + " FROM range(10)",
        "SELECT 1;" * 20_000,
        "/*" * 200_000 + " SELECT 1",
        "SELECT 1 " + "-- \n" * 200_000,
    ],
    "huge results": [
        "SELECT id, repeat('x', 1000) FROM range(100000000)",
        "SELECT repeat('x', 30000000) FROM range(1000)",
        "SELECT repeat('x', 30000000) FROM range(100) LIMIT 100",
        "SELECT explode(sequence(1, 1000000)) FROM range(1000)",
        "SELECT stack(3, id, id, id) FROM range(1000000000)",
    ],
    "sorts": [
        "SELECT id FROM range(1000000000) ORDER BY rand()",
        "SELECT repeat(CAST(id AS STRING), 500000) AS s FROM range(2000) ORDER BY s DESC",
        "SELECT sum(id) OVER (ORDER BY id) FROM range(100000000)",
        "SELECT DISTINCT repeat(CAST(id AS STRING), 1000) FROM range(10000000)",
        "SELECT count(*) FROM (SELECT id % 1000000 AS k, collect_list(id) FROM range(100000000) GROUP BY 1)",
    ],
}
AT_ONCE = [
    f"SELECT a FROM probe WHERE a IN ({','.join('1' for _ in range(24_900))})",
    f"SELECT {','.join('id' for _ in range(24_900))} FROM nowhere",
    f"INSERT INTO nowhere VALUES {','.join('(1)' for _ in range(249_000))}",
]
"""Texts just short enough to be read, which are sent many at once."""
CALLERS = 24
ALL = [text for texts in HURTFUL.values() for text in texts]
SHORT = [texts[at] for kind, texts in HURTFUL.items() for at in ((0, 1) if kind == "memory" else (0,))]


@dataclass
class Probe:
    """Something an innocent user does every second."""

    act: Callable[[], object]
    longest: float = 0.0
    """The longest time between two successes, in seconds."""
    successes: int = 0
    refusals: list[str] = field(default_factory=list)
    beside: str = ""
    """What was sent when the longest gap ended."""

    def gap(self, seconds: float, beside: str) -> None:
        """So long nothing succeeded, the second between two probes left out."""
        if seconds > self.longest:
            self.longest, self.beside = seconds, beside


class Probes:
    """Run as long as the block does; each on a thread of its own, so that one that hangs hides no other."""

    def __init__(self, server: RunningServer) -> None:
        server.sql("CREATE TABLE probe (a BIGINT)")
        http = self._http = httpx.Client(base_url=server.url, timeout=60)
        session = http.post("/v1/sessions", json={}).raise_for_status().json()["sessionHandle"]
        flight = self._flight = dbapi.connect(server.flight_url, autocommit=True)

        def rows() -> None:
            http.post("/tables/default/probe/rows", content="a\n1\n", headers={"Content-Type": "text/csv"}).raise_for_status()

        def over_flight() -> None:
            with flight.cursor() as cursor:
                cursor.execute("SELECT 1")
                assert cursor.fetchall() == [(1,)]

        self.all = {
            "livez": Probe(lambda: http.get("/livez").raise_for_status()),
            "metadata": Probe(lambda: server.sql("SHOW TABLES", timeout=60)),
            "insert": Probe(lambda: server.sql("INSERT INTO probe VALUES (1)", timeout=60)),
            "scan": Probe(lambda: server.sql("SELECT count(*) FROM probe", timeout=60)),
            "rows": Probe(rows),
            "catalog": Probe(lambda: http.get("/v1/config", params={"warehouse": ""}).raise_for_status()),
            "flink": Probe(lambda: http.post(f"/v1/sessions/{session}/heartbeat").raise_for_status()),
            "flight": Probe(over_flight),
            "spark": Probe(lambda: server.sql("SELECT sum(id * 2) FROM range(10)", timeout=120)),
        }
        self.sent = ""
        """The statement sent last."""
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(probe,), daemon=True) for probe in self.all.values()]

    def __enter__(self) -> Probes:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(150)
        self._http.close()
        self._flight.close()

    def _run(self, probe: Probe) -> None:
        last = time.monotonic()
        while not self._stop.wait(1.0):
            try:
                probe.act()
                probe.successes += 1
                probe.gap(time.monotonic() - last - 1.0, self.sent)
                last = time.monotonic()
            except Exception as problem:  # a probe that fails has not succeeded; the gap tells
                probe.refusals.append(str(problem)[:300])
        probe.gap(time.monotonic() - last - 1.0, self.sent)

    def told(self) -> str:
        """What each probe saw, for a report."""
        lines = [
            f"{name}: {one.successes} times, longest gap {one.longest:.2f} s up to {one.beside[:50]!r}, {len(one.refusals)} failed"
            for name, one in self.all.items()
        ]
        for name, one in self.all.items():
            lines += [f"{name} failed {times} times: {words}" for words, times in Counter(one.refusals).most_common(9)]
        return "\n".join(lines)


def hurt_at_once(server: RunningServer, text: str, seconds: float) -> list[int]:
    """Keep `CALLERS` requests of a statement under way for so long; the statuses."""
    until = time.monotonic() + seconds

    def call() -> list[int]:
        statuses = []
        while time.monotonic() < until:
            statuses.append(hurt(server, text, seconds))
        return statuses

    with ThreadPoolExecutor(CALLERS) as callers:
        calls = [callers.submit(call) for _ in range(CALLERS)]
    return [status for one in calls for status in one.result()]


def hurt(server: RunningServer, text: str, seconds: float) -> int:
    """Send one statement with a time limit and read what comes; the status."""
    sent = {"statement": text, "timeout": seconds}
    headers = {"Accept": "application/x-ndjson"}
    until = time.monotonic() + seconds
    limit = seconds + 60
    try:
        with httpx.stream("POST", f"{server.url}/sql", json=sent, headers=headers, timeout=limit) as answer:
            for _ in answer.iter_bytes():
                if time.monotonic() > until:
                    break
            return answer.status_code
    except httpx.HTTPError:  # the server broke off, or did not answer in time: the probes tell what that means for others
        return 0
