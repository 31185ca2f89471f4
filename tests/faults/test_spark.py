"""What Spark's part does to the warehouse, in the server's process and in the JVM: its order, and each of its calls failing once."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.agreement import embedded_dsn
from tests.faults.below import each
from tests.faults.disk import Disk
from tests.faults.operation import BEFORE, Operation, made, verified
from tests.faults.shim import SHORT_WRITE, Shim, server_below
from tests.faults.test_order import checked
from tests.faults.world import Answer, World, world
from tests.running import RunningServer
from tests.torture.job_campaign import job, start_job, until
from tests.waiting import eventually

pytestmark = pytest.mark.spark
ERRORS = (errno.ENOSPC, errno.EIO, errno.EMFILE, errno.EROFS, SHORT_WRITE)
_ADDED = "SELECT CAST(id AS INT), CAST(id % 2 AS STRING) FROM range(7, 9)"
_JOB_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """What Spark does to a table ``{t}`` that holds `BEFORE`."""

    name: str
    text: str
    after: Sequence[int] = BEFORE
    before: Sequence[str] = ()
    """What is done to the table first."""


BULK = Statement(name="bulk INSERT", text=f"INSERT INTO {{t}} {_ADDED}", after=(*BEFORE, 7, 8))
OVERWRITE = Statement(name="INSERT OVERWRITE by Spark", text=f"INSERT OVERWRITE {{t}} {_ADDED}", after=(7, 8))
SORT = Statement(name="sort compaction", text="CALL sys.compact(`table` => '{t}', order_strategy => 'order', order_by => 'id')")

_ERASABLE = ("ALTER TABLE {t} SET ('rows.erasable' = 'true')",)
_SOURCE = "SELECT CAST(id AS INT) AS id FROM range(6, 8)"
DELETE = Statement(name="DELETE by Spark", text="DELETE FROM {t} WHERE id % 3 = 2", after=(1, 3, 4, 6), before=_ERASABLE)
UPDATE = Statement(name="UPDATE", text="UPDATE {t} SET id = 20 + id % 2 WHERE id = 2", after=(1, 3, 4, 5, 6, 20), before=_ERASABLE)
MERGE = Statement(
    name="MERGE",
    text=f"MERGE INTO {{t}} t USING ({_SOURCE}) s ON t.id = s.id "
    "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, s) VALUES (s.id, 'c')",
    after=(1, 2, 3, 4, 5, 7),
    before=_ERASABLE,
)
ERASE = Statement(name="sys.erase", text="CALL sys.erase('{t}', 'id % 3 = 2')", after=(1, 3, 4, 6), before=_ERASABLE)


class SparkCampaign:
    """Tables made by a server without faults, changed by one whose calls fail in all of its processes, and looked at by a fresh one."""

    def __init__(self, server: RunningServer, shim: Shim) -> None:
        self.server, self.shim = server, shim
        self._dsn = embedded_dsn(server)
        self._tables = self._rows = 0
        self._maker = self._world()
        server.sql("CREATE TABLE t0 (id INT, s STRING)")
        server.sql(f"INSERT INTO t0 {_ADDED}")  # Spark is warm

    def _world(self) -> World:
        return World(self._dsn, self.server.directory, warehouse=str(self.server.warehouse))

    def run(self, statement: Statement, *, fail_at: int, error: int = 0) -> tuple[bool, bool]:
        """Let one call of a statement fail, and look; returns whether the call came, and whether it failed."""
        self._tables += 1
        table = f"t{self._tables}"
        made(self._maker, table)
        self._maker.must(*(text.replace("{t}", table) for text in statement.before))
        self._maker.settle()
        with self._failing(fail_at, error):
            answer = self._asked(statement.text.replace("{t}", table))
            self._maker.settle()
        there = self.server.value(f"SELECT count(*) FROM {table}")
        with world(self._dsn, self.server.directory, warehouse=str(self.server.warehouse)) as fresh:
            assert there == len(fresh.ids(table)), "the server that met the fault sees the same"
            verified(fresh, Operation(name=statement.name, run=lambda world, table: [], after=statement.after), table, [answer])
            fresh.must(f"DROP TABLE {table}")
        return self._struck(fail_at)

    def _asked(self, text: str) -> Answer:
        answer = self.server.post(text)
        body = answer.json()
        return Answer(status=500 if answer.status_code == 200 and "error" in body else answer.status_code, body=body)

    @contextmanager
    def _failing(self, fail_at: int, error: int) -> Iterator[None]:
        self.shim.load(fail_at=fail_at, error=error)
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

    def batch(self, job_id: str, *, fail_at: int, error: int = 0) -> tuple[bool, bool]:
        """Let one call fail while a job brings a row from ``src`` to ``dst``; returns whether the call came, and whether it failed."""
        with self._failing(fail_at, error):
            self._maker.must(f"INSERT INTO src VALUES ({self._rows}, 'x')")
            self._rows += 1
            until(lambda: self._arrived(job_id), seconds=_JOB_SECONDS, what=lambda: (job(self.server, job_id), self.server.words()))
            self._maker.settle()
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


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("statement", [BULK, OVERWRITE, SORT, DELETE, UPDATE, MERGE, ERASE], ids=lambda statement: statement.name)
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
    assert spark_below.server.sql("SELECT * FROM dst EXCEPT SELECT * FROM src") == []
    spark_below.server.sql(f"STOP JOB '{job_id}'")
