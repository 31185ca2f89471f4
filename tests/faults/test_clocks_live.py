"""A machine whose clocks jump, Postgres's with them, under a running server: nothing that goes by age goes, then or afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.faults.shim import Shim
from tests.running import Refused, RunningServer
from tests.waiting import eventually

DAY = 86_400
OPTIONS = {
    "partition.expiration-time": "7 d",
    "partition.expiration-strategy": "update-time",
    "partition.expiration-check-interval": "1 s",
    "snapshot.time-retained": "1 h",
    "snapshot.num-retained.min": "1",
    "consumer.expiration-time": "1 d",
}
BY_AGE = (
    "CALL sys.expire_partitions('t')",
    "CALL sys.expire_snapshots(`table` => 't', older_than => '2020-01-01 00:00:00')",
    "CALL sys.expire_tags('t')",
)


def kept(server: RunningServer) -> list[Any]:
    """All that goes by age."""
    asked = ("SELECT tag_name FROM t$tags", "SHOW PARTITIONS t", "SELECT * FROM t$consumers", "SELECT id FROM t WHERE id < 100")
    snapshots = [row for row in server.sql("SELECT snapshot_id FROM t$snapshots") if row[0] <= 4]
    return [*(sorted(server.sql(text)) for text in asked), snapshots, [row[2] for row in server.sql("SHOW DROPPED TABLES")]]


@pytest.mark.torture
@pytest.mark.parametrize("ahead", [365 * DAY, -2 * DAY], ids=["a year ahead", "two days back"])
def test_nothing_goes_by_age_while_clocks_are_wrong(tmp_path: Path, shim_library: Path, ahead: int) -> None:
    for place in (shim_library, *shim_library.parents[:3]):
        place.chmod(0o755)  # Postgres runs as another user where tests run as root
    shim = Shim(shim_library, tmp_path, tmp_path / "none")
    right = RunningServer(tmp_path / "server")
    wrong = RunningServer(tmp_path / "server", TEST_FAULT_CLOCK=str(ahead), **shim.environment)
    try:
        right.start()
        with_options = ", ".join(f"'{key}' = '{value}'" for key, value in OPTIONS.items())
        right.sql(f"CREATE TABLE t (id INT, p STRING) PARTITIONED BY (p) WITH ({with_options})")
        for id_ in range(4):
            right.sql(f"INSERT INTO t VALUES ({id_}, 'p{id_ % 2}')")
        right.sql("CALL sys.create_tag(`table` => 't', tag => 'kept', time_retained => '1 d'); CALL sys.reset_consumer('t', 'c', 2)")
        right.sql("CREATE TABLE gone (id INT); INSERT INTO gone VALUES (1); DROP TABLE gone; CALL sys.expire_tags('t')")
        before = kept(right)
        right.stop()  # and its Postgres, which keeps the time it was started with
        wrong.start()
        for statement in BY_AGE:
            with pytest.raises(Refused, match=r"ClockInDoubt.*sys\.confirm_clock"):
                wrong.sql(statement)
        assert httpx.get(f"{wrong.url}/readyz").json()["clock"]["ok"] is False
        for id_ in range(100, 120):  # each may be followed by the table's maintenance
            wrong.sql(f"INSERT INTO t VALUES ({id_}, 'p0')")
        assert eventually(lambda: "ClockInDoubt" in wrong.words() or "Nothing expires by age" in wrong.words(), seconds=60)
        assert kept(wrong) == before
        wrong.stop()
        right.start()
        right.sql("INSERT INTO t VALUES (200, 'p1')")
        assert httpx.get(f"{right.url}/readyz").json()["clock"]["ok"] is True
        if ahead > 0:  # snapshots of that year are the newest still
            with pytest.raises(Refused, match="ahead of the time"):
                right.sql("CALL sys.expire_partitions('t')")
            right.sql("CALL sys.confirm_clock(); CALL sys.expire_partitions('t')")
            assert right.value("SELECT count(*) FROM t") == 25, "what is new and what lies ahead stays"
            right.sql("CALL sys.rollback_to('t', 4)")
        right.sql("CALL sys.expire_partitions('t'); CALL sys.expire_tags('t')")
        assert kept(right) == before
        right.sql("UNDROP TABLE gone")
        assert right.sql("SELECT * FROM gone") == [[1]]
    finally:
        for server in (wrong, right):
            server.stop()
        shim.close()
