"""What a server holds after the same work again and again: memory, threads, files, connections, temporary files, log."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields
from pathlib import Path

import httpx
import psutil

from tests.running import RunningServer
from tests.waiting import eventually

MOST_AN_HOUR = 0.01
SLACK_BYTES = 8 << 20
SLACK_PIECES = 3
BYTES = ("own_memory", "postgres_memory", "log", "live", "outside")
"""What is told in bytes and judged; the memory of a process as a whole is not: files' pages and a heap that is to be filled are in it."""
_SQL = {"Content-Type": "application/sql", "Accept": "application/x-ndjson"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """Counts of one moment; memory and log in bytes."""

    memory: int
    own_memory: int
    """Without pages of files, which the system takes back and gives again as it likes."""
    postgres_memory: int
    """What its processes do not share."""
    threads: int
    files: int
    jvm_memory: int
    jvm_threads: int
    jvm_files: int
    connections: int
    """To Postgres, in use."""
    workers: int
    temporary_files: int
    log: int

    def beyond(self, earlier: Footprint, *, share: float, names: tuple[str, ...] = ()) -> dict[str, tuple[int, int]]:
        """The counts that are larger than the earlier ones by more than the share, and those."""
        pairs = {field.name: (getattr(earlier, field.name), getattr(self, field.name)) for field in fields(self)}
        return {name: pair for name, pair in pairs.items() if (not names or name in names) and pair[1] > pair[0] * (1 + share)}


def footprint(server: RunningServer) -> Footprint:
    """What the server and its children hold now."""
    process = server.process
    named = _names(process.children(recursive=True))
    jvm = next(child for child, name in named.items() if name == "java")
    # Directories that go while they are looked at are no error to os.walk.
    temporary = [Path(directory) / name for directory, _, names in os.walk(server.data) for name in names]
    temporary = [path for path in temporary if not any(map(path.is_relative_to, (server.warehouse, server.data / "postgres")))]
    postgres = server.postgres_pid()
    backends = psutil.Process(postgres).children() if postgres else []
    return Footprint(
        memory=process.memory_info().rss,
        own_memory=_own_memory(process.pid),
        postgres_memory=sum(map(_unshared, [psutil.Process(postgres), *backends])) if postgres else 0,
        threads=process.num_threads(),
        files=process.num_fds(),
        jvm_memory=jvm.memory_info().rss,
        jvm_threads=jvm.num_threads(),
        jvm_files=jvm.num_fds(),
        connections=sum(map(_is_of_a_client, backends)) - _free_connections(server),
        workers=sum("python" in name for name in named.values()),
        temporary_files=len(temporary),
        log=server.log.stat().st_size,
    )


def _own_memory(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))


def _unshared(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().uss)
    except psutil.NoSuchProcess:
        return 0


def _is_of_a_client(process: psutil.Process) -> bool:
    """Whether a process of Postgres serves a connection; those that vacuum come and go."""
    try:
        return bool(re.search(r"\[local\]|\(\d+\)", " ".join(process.cmdline())))
    except psutil.NoSuchProcess:
        return False


def growth(samples: Sequence[object], *, hours: float, names: Sequence[str]) -> dict[str, tuple[int, int]]:
    """What grew by more than `MOST_AN_HOUR` and a little, from the first third of the samples to the last: both floors.

    A floor is what nine of ten samples (of a third, ten minutes at the most) lie above: statements in flight come and go, what is left
    behind stays. The little is `SLACK_BYTES` or `SLACK_PIECES`. ``hours`` lie between the first sample and the last.
    """
    few = min(60, max(1, len(samples) // 3))
    found = {}
    for name in names:
        first, last = (_floor([int(getattr(one, name)) for one in part]) for part in (samples[:few], samples[-few:]))
        slack = SLACK_BYTES if name in BYTES else SLACK_PIECES
        if last > first * (1 + MOST_AN_HOUR * hours) + slack:
            found[name] = (first, last)
    return found


def _floor(values: list[int]) -> int:
    return sorted(values)[len(values) // 10]


@dataclass(frozen=True, slots=True, kw_only=True)
class JvmMemory:
    """What the server's JVM holds, in bytes: its memory alone says little, since a heap is filled before it is collected."""

    live: int
    """Objects that a full collection leaves."""
    outside: int
    """Memory in use outside of the heap: classes, compiled code, threads, buffers."""


def jvm_memory(server: RunningServer) -> JvmMemory:
    """Let the JVM collect, and look what it holds then; asks the JDK's `jcmd`."""
    jvm = server.jvms()[0]

    def ask(what: str) -> str:
        return subprocess.run(["jcmd", str(jvm.pid), what], check=True, capture_output=True, text=True, timeout=300).stdout

    live = int(ask("GC.class_histogram").splitlines()[-1].split()[2])
    places = [int(address, 16) for address in re.findall(r"0x[0-9a-f]+", ask("GC.heap_info"))]
    first, end = min(places), max(places)
    mapped = jvm.memory_maps(grouped=False)
    return JvmMemory(live=live, outside=sum(one.rss for one in mapped if not first <= int(one.addr.split("-")[0], 16) < end))


def files_of(server: RunningServer) -> dict[str, int]:
    """How many files each directory of the tables holds: tables that grow take more to plan, and memory beside them is theirs."""
    counts: dict[str, int] = {}
    for directory, _, names in os.walk(server.warehouse):
        path = Path(directory).relative_to(server.warehouse)
        if len(path.parts) >= 2:
            what = "/".join(path.parts[1:3]) if path.name in ("manifest", "snapshot") else path.parts[1]
            counts[what] = counts.get(what, 0) + len(names)
    return counts


def _names(processes: Iterable[psutil.Process]) -> dict[psutil.Process, str]:
    """Processes with their names, without those that have ended since."""
    named = {}
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            named[process] = process.name()
    return named


def _free_connections(server: RunningServer) -> int:
    """Connections that lie in the pools, of which there are as many as were once needed at a time."""
    found = re.findall(r'^sluice_catalog_pool{what="(?:turns_)?available"} (\d+)', httpx.get(f"{server.url}/metrics").text, re.MULTILINE)
    assert len(found) == 2
    return sum(map(int, found))


class Load:
    """Requests of every kind, each by a thread of its own, some on connections that are kept and some on new ones."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server
        self.failures: list[str] = []
        # Snapshots expire while it runs, so that the tables are as long as they are when the first figures are taken.
        expires = "'snapshot.time-retained' = '5 min'"
        server.sql(f"CREATE TABLE queue (id BIGINT, v STRING) WITH ('bucket' = '2', 'bucket-key' = 'id', {expires})")
        server.sql(f"CREATE TABLE plain (id BIGINT, v STRING) WITH ('bucket' = '-1', {expires})")
        self._kinds: list[Callable[[httpx.Client, int], None]] = [
            self._insert,
            self._read,
            self._group,
            self._insert_select,
            self._body,
            self._mistake,
            self._tail,
            self._look,
        ]

    def rounds(self, count: int, *, each: int = 10, pause: float = 0.0) -> None:
        """Let every kind of request run ``count`` × ``each`` times."""
        with ThreadPoolExecutor(len(self._kinds)) as pool:
            for done in [pool.submit(self._run, kind, count, each, pause) for kind in self._kinds]:
                done.result()

    @contextlib.contextmanager
    def running(self, pause: float) -> Iterator[None]:
        """Let requests of every kind run, with a pause in seconds after each."""
        stop = threading.Event()

        def run(kind: Callable[[httpx.Client, int], None]) -> None:
            while not stop.is_set():
                self._run(kind, 1, 10, pause)

        threads = [threading.Thread(target=run, args=(kind,)) for kind in self._kinds]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join(300)

    def _run(self, kind: Callable[[httpx.Client, int], None], count: int, each: int, pause: float) -> None:
        for number in range(count):
            with httpx.Client(timeout=120, base_url=self._server.url) as client:
                for n in range(each):
                    try:
                        kind(client, number * each + n)
                    except (httpx.HTTPError, AssertionError) as problem:
                        self.failures.append(f"{kind.__name__}: {problem!r}")
                    time.sleep(pause)

    def _sql(self, client: httpx.Client, text: str, expected: int = 200) -> None:
        answer = client.post("/sql", content=text, headers=_SQL)
        assert answer.status_code == expected, answer.text

    def _insert(self, client: httpx.Client, n: int) -> None:
        self._sql(client, f"INSERT INTO queue VALUES ({n}, 'x')")

    def _read(self, client: httpx.Client, n: int) -> None:
        self._sql(client, "SELECT * FROM queue LIMIT 10")

    def _group(self, client: httpx.Client, n: int) -> None:
        self._sql(client, "SELECT v, count(*), sum(id) FROM plain GROUP BY v")

    def _insert_select(self, client: httpx.Client, n: int) -> None:
        if n % 5 == 0:
            self._sql(client, "INSERT INTO plain SELECT id, upper(v) FROM queue WHERE id < 5")

    def _body(self, client: httpx.Client, n: int) -> None:
        answer = client.post(
            "/tables/default/plain/rows", content='{"id": 1, "v": "b"}\n', headers={"Content-Type": "application/x-ndjson"}
        )
        assert answer.status_code == 200, answer.text

    def _mistake(self, client: httpx.Client, n: int) -> None:
        self._sql(client, "SELECT nope FROM queue", 400)

    def _tail(self, client: httpx.Client, n: int) -> None:
        """A stream that a client reads three lines of and goes."""
        text = "SELECT * FROM queue /*+ OPTIONS('scan.mode' = 'latest-full') */"  # the first snapshots expire within the hour
        with client.stream("POST", "/sql", content=text, headers=_SQL) as answer:
            assert answer.status_code == 200
            for _, _ in zip(range(3), answer.iter_lines(), strict=False):
                pass

    def _look(self, client: httpx.Client, n: int) -> None:
        for path in ("/", "/metrics", "/readyz", "/v1/sluice/databases/default/tables/queue"):
            answer = client.get(path, follow_redirects=True)
            assert answer.status_code == 200, (path, answer.text)


def settled(server: RunningServer, most: Footprint, *, share: float, names: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """What stays larger than it was, once the idle server has let go of what it lets go by itself."""
    eventually(lambda: not footprint(server).beyond(most, share=share, names=names), seconds=60, pause=1)
    return footprint(server).beyond(most, share=share, names=names)
