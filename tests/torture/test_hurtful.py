"""Statements made to hurt do not keep others from being served."""

from __future__ import annotations

import os
import time
from collections import Counter

import pytest

from tests.fix_server import StartServer
from tests.running import RunningServer, runs
from tests.torture.hurtful import ALL, AT_ONCE, SHORT, Probes, hurt, hurt_at_once

pytestmark = pytest.mark.spark
_WITHOUT_SPARK, _WITH_SPARK = 2.0, 30.0
"""The longest time, in seconds, for which a probe that runs each second may not succeed."""


def _campaign(server: RunningServer, texts: list[str], seconds: float) -> Probes:
    server.wait_for_spark()
    postgres = server.postgres_pid()
    with Probes(server) as probes:
        for text in texts:
            probes.sent = text
            began = time.monotonic()
            status = hurt(server, text, seconds)
            print(f"{time.strftime('%H:%M:%S')} {status} after {time.monotonic() - began:.1f} s: {text[:60]}")
            assert status != 500, f"{text[:200]}\n{server.words()}"
            if status == 503:  # what the server promises: one failure, and then Spark is there again
                server.wait_for_spark()
            assert runs(server.process.pid)
        for text in AT_ONCE:
            probes.sent = text
            statuses = Counter(hurt_at_once(server, text, seconds))
            print(f"{time.strftime('%H:%M:%S')} {dict(statuses)} of many at once: {text[:60]}")
            assert 500 not in statuses, f"{text[:200]}\n{server.words()}"
            assert runs(server.process.pid)
    print(probes.told())
    renewals = [line for line in server.log.read_text(errors="replace").splitlines() if "Spark is started anew" in line]
    print(f"Spark was started anew {len(renewals)} times", *renewals, sep="\n")  # the last resort; what needs no Spark must not notice
    assert server.postgres_pid() == postgres
    server.wait_for_spark()
    assert server.value("SELECT sum(id * 2) FROM range(10)") == 90
    assert server.value("SELECT count(*) FROM probe") >= probes.all["insert"].successes + probes.all["rows"].successes
    for name, probe in probes.all.items():
        assert probe.successes or name == "spark", f"{name}: {probe.refusals[-1:]}"
    return probes


@pytest.mark.torture
@pytest.mark.slow
def test_one_of_each_kind_leaves_the_server_to_others(start_server: StartServer) -> None:
    """What holds them back is tried by itself: `tests/sql/spark/test_outliving.py`, `tests/gateway/test_core_turns.py`."""
    assert len(SHORT) == 8
    assert len(ALL) >= 60
    _campaign(start_server(), SHORT, 0.7)


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_statements_made_to_hurt(start_server: StartServer) -> None:
    texts = [text for text in ALL if text.startswith(os.environ.get("SLUICE_TEST_HURT_ONLY", ""))]
    probes = _campaign(start_server(), texts, float(os.environ.get("SLUICE_TEST_HURT_SECONDS", "20")))
    for name, probe in probes.all.items():
        assert probe.longest <= (_WITH_SPARK if name == "spark" else _WITHOUT_SPARK), (
            f"{name} waited {probe.longest:.1f} s\n{probes.told()}"
        )
