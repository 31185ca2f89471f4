"""What Spark's part does to the warehouse, in the server's process and in the JVM: its order, and each of its calls failing once."""

from __future__ import annotations

import contextlib
import errno
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.e2e.agreement import embedded_dsn
from tests.faults.below import EVERY, FIRST, each, told_by_the_disk
from tests.faults.disk import Disk, lines_of
from tests.faults.operation import Operation, made, verified
from tests.faults.shim import SHORT_WRITE, Shim, server_below
from tests.faults.spark_statements import ADDED, ANALYZE, BULK, COPY, DELETE, ERASE, MERGE, OVERWRITE, SELECT, SET, SORT, UPDATE, Statement
from tests.faults.test_order import checked
from tests.faults.world import STRUCK_SECONDS, Answer, World, world
from tests.running import RunningServer
from tests.torture.job_campaign import job, start_job, until
from tests.waiting import eventually

pytestmark = pytest.mark.spark
ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EROFS, SHORT_WRITE)
_JOB_SECONDS = 120.0


class SparkCampaign:
    """Tables made by a server without faults, changed by one whose calls fail in all of its processes, and looked at by a fresh one."""

    def __init__(self, server: RunningServer, shim: Shim) -> None:
        self.server, self.shim = server, shim
        self._dsn = embedded_dsn(server)
        self._tables = self._rows = 0
        self.readers: Counter[str] = Counter()
        self._maker = self._world()
        server.sql("CREATE TABLE t0 (id INT, s STRING)")
        server.wait_for_spark(600)
        server.sql(f"INSERT INTO t0 {ADDED}")  # and warm

    def _world(self) -> World:
        return World(self._dsn, self.server.directory, warehouse=str(self.server.warehouse))

    def run(self, statement: Statement, *, fail_at: int, error: int = 0, reads: bool = False) -> tuple[bool, bool]:
        """Let one call of a statement fail, and look; returns whether the call came, and whether it failed.

        With ``reads`` only what reads counts, and who is refused is told what the disk said.
        """
        self._tables += 1
        table = f"t{self._tables}"
        made(self._maker, table)
        self._maker.must(*(text.replace("{t}", table) for text in statement.before))
        self._maker.settle()
        with self._failing(fail_at, error, reads=reads):
            answer = self._asked(statement.text.replace("{t}", table))
            self._maker.settle(STRUCK_SECONDS)
        if reads:
            self._note_reader()
            told_by_the_disk([answer], error)
        if answer.ok and statement.rows is not None:
            assert sorted(map(tuple, answer.body["rows"])) == list(statement.rows), answer
        there = self.server.value(f"SELECT count(*) FROM {table}")
        with world(self._dsn, self.server.directory, warehouse=str(self.server.warehouse)) as fresh:
            assert there == len(fresh.ids(table)), "the server that met the fault sees the same"
            done = Operation(name=statement.name, run=lambda world, table: [], after=statement.after, check=statement.check)
            verified(fresh, done, table, [answer])
            fresh.must(f"DROP TABLE {table}")
        return self._struck(fail_at)

    def _asked(self, text: str) -> Answer:
        answer = self.server.post(text)
        body = answer.json()
        return Answer(status=body["error"]["status"] if answer.status_code == 200 and "error" in body else answer.status_code, body=body)

    @contextlib.contextmanager
    def _failing(self, fail_at: int, error: int, *, reads: bool = False) -> Iterator[None]:
        self.shim.load(fail_at=fail_at, error=error, reads=reads)
        self.shim.arm()
        try:
            yield
        finally:
            self.shim.disarm()

    def _struck(self, fail_at: int) -> tuple[bool, bool]:
        return self.shim["calls"] >= fail_at, self.shim["faults"] > 0

    def counted(self, statement: Statement, *, every: int = 1, begin: int = 1) -> tuple[int, int]:
        """Let call after call fail with one error after the other; returns how many came and how many failed."""
        return each(lambda number: self.run(statement, fail_at=number, error=ERRORS[number % len(ERRORS)]), every=every, begin=begin)

    def unread(self, statement: Statement, *, every: int = 1, begin: int = 1) -> tuple[int, int]:
        """Let the disk fail at reading after reading; returns how many came and how many failed."""
        struck = each(lambda number: self.run(statement, fail_at=number, error=errno.EIO, reads=True), every=every, begin=begin)
        print(f"{statement.name}: {dict(self.readers)}")
        return struck

    def _note_reader(self) -> None:
        """Which process could not read."""
        for line in lines_of(self.shim.journal):
            if line.startswith("X\t"):
                with contextlib.suppress(psutil.NoSuchProcess):  # one that could not go on
                    self.readers[psutil.Process(int(line.split("\t")[3])).name()] += 1

    def batch(self, job_id: str, *, fail_at: int, error: int = 0, reads: bool = False) -> tuple[bool, bool]:
        """Let one call fail while a job brings a row from ``src`` to ``dst``; returns whether the call came, and whether it failed."""
        with self._failing(fail_at, error, reads=reads):
            self._maker.must(f"INSERT INTO src VALUES ({self._rows}, 'x')")
            self._rows += 1
            until(lambda: self._arrived(job_id), seconds=_JOB_SECONDS, what=lambda: (job(self.server, job_id), self.server.words()))
            self._maker.settle(STRUCK_SECONDS)
        return self._struck(fail_at)

    def _arrived(self, job_id: str) -> bool:
        if job(self.server, job_id)["state"] == "FAILED":
            self.server.sql(f"ALTER JOB '{job_id}' RESTART")
        found = sorted(row[0] for row in self._maker.rows("SELECT id FROM dst"))  # the job commits meanwhile: one look
        assert found == list(range(len(found))), f"lost or doubled: {found[-20:]}"
        return len(found) == self._rows

    def close(self) -> None:
        """Stop looking."""
        self._maker.close()


@pytest.fixture(scope="module")
def spark_below(tmp_path_factory: pytest.TempPathFactory, shim_library: Path) -> Iterator[SparkCampaign]:
    """A server whose processes are all under the shim."""
    with server_below(shim_library, tmp_path_factory.mktemp("spark")) as (server, shim):
        campaign = SparkCampaign(server, shim)
        yield campaign
        campaign.close()


def test_what_spark_wrote_is_on_disk_before_postgres_is_told(spark_below: SparkCampaign) -> None:
    server, shim = spark_below.server, spark_below.shim
    server.sql("CREATE TABLE parts (day INT, id BIGINT) PARTITIONED BY (day) WITH ('bucket' = '2', 'bucket-key' = 'id')")
    server.sql("INSERT INTO parts SELECT CAST(id % 2 AS INT), id FROM range(10)")
    table = server.table_path("default.parts")
    assert eventually(lambda: (table / "snapshot" / "snapshot-1").exists())
    before, disk = set(table.rglob("*")), Disk(shim.root)
    shim.load()
    shim.arm()
    server.sql("INSERT INTO parts SELECT CAST(2 + id % 2 AS INT), id FROM range(100000)")
    assert eventually(lambda: _noted(shim, table))
    shim.disarm()
    new = {path for path in set(table.rglob("*")) - before if path.is_file()}
    assert {path.parts[-3] for path in new if path.suffix == ".parquet"} == {"day=2", "day=3"}
    checked(disk, shim.journal, new, table / "snapshot" / "snapshot-2")


def _noted(shim: Shim, table: Path) -> bool:
    key = json.loads((table / "snapshot" / "snapshot-2").read_text())["uuid"]
    return sum(line.startswith("Q") and key in line for line in shim.journal.read_text().splitlines()) >= 2


def _reported(name: str, calls: int, faults: int, *, least: int) -> None:
    print(f"{name}: {calls} calls, {faults} faults")
    assert calls == faults >= least


def test_some_calls_of_a_bulk_insert_fail(spark_below: SparkCampaign) -> None:
    _reported(BULK.name, *spark_below.counted(BULK, every=40, begin=17), least=2)


@pytest.mark.parametrize("statement", [SELECT, SORT], ids=lambda statement: statement.name)
def test_the_disk_fails_at_some_readings_of_spark(spark_below: SparkCampaign, statement: Statement) -> None:
    _reported(f"readings of {statement.name}", *spark_below.unread(statement, every=11, begin=5), least=2)


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("statement", [SELECT, COPY, SORT, DELETE, UPDATE, MERGE, ERASE], ids=lambda statement: statement.name)
def test_the_disk_fails_at_every_reading_of_spark(spark_below: SparkCampaign, statement: Statement) -> None:
    spark_below.readers.clear()
    _reported(f"readings of {statement.name}", *spark_below.unread(statement, every=EVERY, begin=FIRST), least=2)
    assert spark_below.readers["java"], "Spark reads, too"


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "statement", [BULK, OVERWRITE, SORT, SET, ANALYZE, DELETE, UPDATE, MERGE, ERASE], ids=lambda statement: statement.name
)
def test_every_call_of_spark_fails(spark_below: SparkCampaign, statement: Statement) -> None:
    _reported(statement.name, *spark_below.counted(statement), least=20)


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_every_call_of_a_jobs_batch_fails(spark_below: SparkCampaign) -> None:
    for name in ("src", "dst"):
        spark_below.server.sql(f"CREATE TABLE {name} (id INT, s STRING) WITH ('write-only' = 'true')")
    job_id = start_job(spark_below.server, "INSERT INTO dst SELECT id, s FROM src")
    until(lambda: job(spark_below.server, job_id)["startedAt"] is not None)
    struck = each(lambda number: spark_below.batch(job_id, fail_at=number, error=ERRORS[number % len(ERRORS)]))
    _reported("a batch of a job", *struck, least=20)
    struck = each(lambda number: spark_below.batch(job_id, fail_at=number, error=errno.EIO, reads=True))
    _reported("readings of a batch of a job", *struck, least=10)
    assert spark_below.server.sql("SELECT * FROM dst EXCEPT SELECT * FROM src") == []
    spark_below.server.sql(f"STOP JOB '{job_id}'")
