"""Steady work leaves nothing behind: what a server holds after more of it is what it held before."""

from __future__ import annotations

import os
import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import fields
from types import SimpleNamespace

import pytest

from tests.fix_server import StartServer
from tests.torture.soak import Footprint, JvmMemory, Load, files_of, footprint, growth, jvm_memory, settled

pytestmark = [pytest.mark.spark, pytest.mark.slow]
COUNTS = ("threads", "files", "jvm_threads", "jvm_files", "connections", "workers", "temporary_files")
JUDGED = (*COUNTS, "own_memory", "postgres_memory", "log")
WARM_UP_SECONDS = float(os.environ.get("SLUICE_TEST_WARM_UP", "600"))
MB = 1 << 20
HEAP_SECONDS = 300
"""So often the JVM collects all of its heap and tells what is left."""


@pytest.mark.torture
def test_more_of_the_same_work_leaves_no_thread_file_or_connection(start_server: StartServer) -> None:
    server = start_server()
    server.wait_for_spark()
    load = Load(server)
    load.rounds(1, each=3)
    before = footprint(server)
    load.rounds(2, each=4)
    assert load.failures == []
    assert settled(server, before, share=0.1, names=COUNTS) == {}


@pytest.mark.torture
@pytest.mark.timeout(9000)
def test_an_hour_of_steady_work(start_server: StartServer) -> None:
    """Floors of the first and the last ten minutes after the first ten, sampled every ten seconds, differ by less than 1 % an hour.

    What a floor is and how much it may differ in any case says `growth`; medians are printed beside it. ``SLUICE_TEST_MINUTES`` and
    ``SLUICE_TEST_WARM_UP`` (seconds) make it shorter.
    """
    minutes = int(os.environ.get("SLUICE_TEST_MINUTES", "60"))
    server = start_server()
    server.wait_for_spark()
    load = Load(server)
    samples: list[Footprint] = []
    heaps: list[JvmMemory] = []
    with load.running(pause=float(os.environ.get("SLUICE_TEST_PAUSE", "0.1"))):
        time.sleep(WARM_UP_SECONDS)
        begin = time.monotonic()
        while (passed := time.monotonic() - begin) < minutes * 60:
            if shutil.which("jcmd") and passed >= len(heaps) * HEAP_SECONDS:
                heaps.append(jvm_memory(server))
                print(f"after {passed:.0f} s: {heaps[-1]}, {files_of(server)}", flush=True)
            samples.append(footprint(server))
            print(f"after {passed:.0f} s: {samples[-1]}", flush=True)
            time.sleep(10)
    for kind, found in ((Footprint, samples), (JvmMemory, heaps)):
        if not found:
            continue
        few = min(60, max(1, len(found) // 3))
        for field in fields(kind):
            first, last = (statistics.median(getattr(one, field.name) for one in part) for part in (found[:few], found[-few:]))
            print(f"{kind.__name__}.{field.name}: {first:,.0f} → {last:,.0f} ({last / max(first, 1) - 1:+.1%} in {minutes} minutes)")
    assert load.failures == []
    print(f"{len(samples)} samples")
    grown = growth(samples, hours=minutes / 60, names=JUDGED)
    assert grown | growth(heaps, hours=minutes / 60, names=("live", "outside") if heaps else ()) == {}


def test_all_that_a_server_holds_is_judged_but_pages_and_a_heap_that_is_to_be_filled() -> None:
    assert {field.name for field in fields(Footprint)} - set(JUDGED) == {"memory", "jvm_memory"}
    samples = [SimpleNamespace(**dict.fromkeys(JUDGED, 0) | {"jvm_threads": 75 + n * 2}) for n in range(360)]
    assert set(growth(samples, hours=1, names=JUDGED)) == {"jvm_threads"}


@pytest.mark.parametrize(
    ("own_memory", "files", "grown"),
    [
        (lambda n: 200 * MB + n * MB // 30, lambda n: 60, {"own_memory"}),
        (lambda n: 200 * MB + (60 * MB if n % 3 else 0), lambda n: 60 + n % 5, set()),
        (lambda n: 200 * MB - n * MB // 30, lambda n: 60 + n // 30, {"files"}),
    ],
    ids=["a megabyte in five minutes", "up and down", "a file in five minutes"],
)
def test_what_stays_is_told_from_what_comes_and_goes(
    own_memory: Callable[[int], int], files: Callable[[int], int], grown: set[str]
) -> None:
    samples = [SimpleNamespace(own_memory=own_memory(n), files=files(n)) for n in range(360 * 2)]
    assert set(growth(samples, hours=2, names=("own_memory", "files"))) == grown
