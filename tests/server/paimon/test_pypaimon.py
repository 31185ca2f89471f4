"""pypaimon 2.1, unmodified, with this server as its catalog."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import httpx
import pytest

from gateway.gateway import Gateway
from tests.following import Follower

pytestmark = pytest.mark.interop
ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "tests" / "interop" / "pypaimon_rest.py"


@pytest.fixture
def python() -> str:
    """pypaimon's interpreter."""
    found = ROOT / ".venv-pypaimon" / "bin" / "python"
    if not found.exists():
        pytest.skip("pypaimon cannot be had here: run `make pypaimon`.")
    return str(found)


def test_all_a_user_of_pypaimon_does(url: str, python: str, gateway: Gateway) -> None:
    done = subprocess.run([python, str(SCRIPT), url], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-4000:]
    assert gateway.run("SHOW TABLES FROM shop").collect() == []


def test_every_call_of_its_catalog(url: str, python: str) -> None:
    done = subprocess.run([python, str(SCRIPT.with_name("pypaimon_catalog.py")), url], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.strip()[-4:]) == (0, "done"), done.stderr[-4000:]


@pytest.mark.parametrize("processes", [pytest.param(3, id="short"), pytest.param(8, id="whole", marks=pytest.mark.torture)])
def test_several_processes_write_one_table(url: str, python: str, gateway: Gateway, processes: int) -> None:
    gateway.run("CREATE TABLE q (id BIGINT, name STRING, day STRING) WITH ('bucket'='2','bucket-key'='id')").collect()
    writers = [
        subprocess.Popen([python, str(SCRIPT), url, "default.q", str(first * 100), "4"], stderr=subprocess.PIPE, text=True)
        for first in range(processes)
    ]
    for writer in writers:
        _, said = writer.communicate(timeout=300)
        assert writer.returncode == 0, said[-4000:]
    rows = [row[0] for row in gateway.run("SELECT id FROM q").collect()]
    assert sorted(rows) == sorted(first * 100 + at for first in range(processes) for at in range(4))
    snapshots = httpx.get(f"{url}/v1/sluice/databases/default/tables/q/snapshots").json()["snapshots"]
    assert [one["id"] for one in snapshots] == list(range(processes * 4, 0, -1))


def test_each_follows_what_the_other_writes(url: str, python: str, gateway: Gateway) -> None:
    gateway.run("CREATE TABLE q (id BIGINT, word STRING) WITH ('bucket'='1')").collect()
    gateway.run("INSERT INTO q VALUES (100, 'first')").collect()
    script = str(SCRIPT.with_name("pypaimon_stream.py"))
    with subprocess.Popen([python, script, "follow", url, "default.q", "21"], stdout=subprocess.PIPE, text=True) as follower:
        assert follower.stdout is not None
        assert json.loads(follower.stdout.readline())["id"] == 100
        for number in range(20):
            gateway.run(f"INSERT INTO q VALUES ({number}, 'w')").collect()
        assert [json.loads(line)["id"] for line in follower.stdout] == list(range(20))
    gateway.run("CREATE TABLE r (id BIGINT, word STRING) WITH ('bucket'='1')").collect()
    with Follower(url, "SELECT id FROM r") as stream:
        done = subprocess.run([python, script, "write", url, "default.r", "20"], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr[-4000:]
        assert [row["id"] for row in stream.rows(20)] == list(range(20))
