"""Every command of the README is run, in order, as a newcomer would; links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.running import RunningServer, runs
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
URL = "http://127.0.0.1:8083"


def blocks(language: str) -> list[str]:
    return [text for found, text in BLOCKS if found == language]


def test_no_block_is_of_a_kind_nobody_runs() -> None:
    assert {language for language, _ in BLOCKS} == {"", "sh", "json", "python"}
    assert blocks("") == ["make run\n"]


def test_links_lead_somewhere() -> None:
    for page in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")):
        for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
            assert link.startswith("https://") or (page.parent / link).exists(), f"{page.name} points at {link}"


@pytest.mark.spark
def test_the_readme_from_top_to_bottom(server: RunningServer, tmp_path: Path) -> None:
    server.sql("DROP TABLE IF EXISTS trips PURGE")
    binaries = Path(sys.executable).parent
    environment = os.environ | {"SLUICE_URL": server.url}

    def shell(text: str) -> str:
        script = text.replace(URL, server.url).replace(".venv/bin/sluice", str(binaries / "sluice"))
        done = subprocess.run(
            ["sh", "-euc", script], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "urn:sluice:error" not in done.stdout, done.stdout
        return done.stdout + done.stderr

    create, load, follow = blocks("sh")
    (shown,) = blocks("json")
    output = shell(create)
    assert output.endswith(shown), output
    assert json.loads(shown)["rows"] == [["Bergen", 12.5], ["Oslo", 3.25]]
    loaded = shell(load)
    assert "trips.csv: 1 rows" in loaded
    assert "3 |    12.5" in loaded
    assert "\nid,city,km,at\n" in loaded
    assert "3,Bergen,7.5,2024-05-02T10:00:00.000" in loaded

    python = ROOT / ".venv-pypaimon" / "bin" / "python"
    if python.exists():
        _read_from_pypaimon(python, tmp_path, server.url)
    assert eventually(lambda: streams(server) == 0)  # other tests' are over
    waits = f"until curl -s {URL}/metrics | grep -q '^sluice_streams 1'; do sleep 0.05; done"  # a busy machine takes longer than its 2 s
    follow = follow.replace("sleep 2", waits)
    assert waits in follow
    assert [json.loads(line)["id"] for line in shell(follow).splitlines() if line.startswith("{")] in ([1, 3, 4], [3, 1, 4])
    server.sql("DROP TABLE trips PURGE")
    if not python.exists():
        pytest.skip("pypaimon cannot be had here: run `make pypaimon`.")


def streams(server: RunningServer) -> int:
    """How many streaming queries the server serves."""
    (value,) = re.findall(r"^sluice_streams (\S+)$", httpx.get(f"{server.url}/metrics").text, re.MULTILINE)
    return int(float(value))


def _read_from_pypaimon(python: Path, directory: Path, url: str) -> None:
    (reading,) = blocks("python")
    script = reading.replace(URL, url)
    done = subprocess.run([str(python), "-c", script], cwd=directory, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split()[1:4] for line in done.stdout.splitlines()[1:]] == [
        ["1", "Bergen", "12.50"],
        ["2", "Oslo", "3.25"],
        ["3", "Bergen", "7.50"],
    ]


@pytest.mark.spark
def test_make_run_starts_a_server_whose_own_advice_works(tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    environment |= {
        "SLUICE_LISTEN": "127.0.0.1:0",
        "SLUICE_FLIGHT_LISTEN": "127.0.0.1:0",
        "SLUICE_DATA": str(tmp_path / "data"),
        "SLUICE_SPARK_DRIVER_MEMORY": "1g",
    }
    log = tmp_path / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(["make", "run"], cwd=ROOT, env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        until = time.monotonic() + 300
        while log.read_text().count("curl") < 3:
            assert process.poll() is None, log.read_text()
            assert time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        answers = [
            subprocess.run(["sh", "-euc", line], capture_output=True, text=True, timeout=120, check=True).stdout
            for line in log.read_text().splitlines()
            if line.startswith("  curl ")
        ]
        assert [row[0] for row in json.loads(answers[2])["rows"]] == [1, 2]
        postgres = int((tmp_path / "data" / "postgres" / "postmaster.pid").read_text().split()[0])
    finally:
        os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C does: to make, the server and all they started
        process.wait(60)
    assert eventually(lambda: not runs(postgres))
    assert "Traceback" not in log.read_text()
