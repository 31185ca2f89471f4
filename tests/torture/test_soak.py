"""Steady work leaves nothing behind: what a server holds after more of it is what it held before."""

from __future__ import annotations

import os
import statistics
import time
from dataclasses import fields

import pytest

from tests.fix_server import StartServer
from tests.torture.soak import Footprint, Load, footprint, settled

pytestmark = [pytest.mark.spark, pytest.mark.slow]
COUNTS = ("threads", "files", "jvm_files", "connections", "workers", "temporary_files")


def test_more_of_the_same_work_leaves_no_thread_file_or_connection(start_server: StartServer) -> None:
    server = start_server()
    server.wait_for_spark()
    load = Load(server)
    load.rounds(1)
    before = footprint(server)
    load.rounds(3)
    assert load.failures == []
    assert settled(server, before, share=0.1, names=COUNTS) == {}


@pytest.mark.torture
@pytest.mark.timeout(9000)
def test_an_hour_of_steady_work(start_server: StartServer) -> None:
    """Medians of the first and the last ten minutes after the first ten, each sampled every ten seconds."""
    minutes = int(os.environ.get("SLUICE_TEST_MINUTES", "60"))
    server = start_server()
    server.wait_for_spark()
    load = Load(server)
    samples: list[Footprint] = []
    with load.running(pause=float(os.environ.get("SLUICE_TEST_PAUSE", "0.1"))):
        time.sleep(600)
        until = time.monotonic() + minutes * 60
        while time.monotonic() < until:
            samples.append(footprint(server))
            time.sleep(10)
    for sample in samples[:: max(1, len(samples) // 12)]:
        print({field.name: getattr(sample, field.name) for field in fields(Footprint)})
    few = min(60, len(samples) // 3)
    for field in fields(Footprint):
        first, last = (statistics.median(getattr(one, field.name) for one in part) for part in (samples[:few], samples[-few:]))
        print(f"{field.name}: {first:,.0f} → {last:,.0f} ({last / max(first, 1) - 1:+.1%} in {minutes} minutes)")
    assert load.failures == []
    print(f"{len(samples)} samples")
    first, last = samples[0], samples[-1]
    assert last.beyond(first, share=0.05, names=COUNTS) == {}
