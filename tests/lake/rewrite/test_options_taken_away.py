"""A test that is named for an option fails where the option has no effect, whatever it says of it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.lake.rewrite.test_option_effects import ROOT, SHOWN
from tests.short import short

_AWAY = Path(__file__).parent / "taken_away"
_SECONDS = 1500
_READ_AS_TEXT = {"partition", *(f"scan.watermark.{name}" for name in ("idle-timeout", "alignment.group", "alignment.max-drift"))}
"""CREATE TABLE takes the first out of the options before anything reads them; the others are read of Kafka's options, too, and their test
compares what is read with and without."""


@pytest.mark.timeout(2 * _SECONDS)
@pytest.mark.parametrize("key", short(sorted(SHOWN.keys() - _READ_AS_TEXT), ["drop.retention"]))
def test_the_named_test_fails_without_the_option(key: str, tmp_path: Path) -> None:
    assert "failed" in _outcome(key, tmp_path)


def _outcome(key: str, directory: Path) -> str:
    """How the tests of a file that name an option end without it; those that fail to begin count as nothing."""
    file = ROOT / SHOWN[key]
    env = os.environ | {"SLUICE_TEST_WITHOUT": key, "PYTHONPATH": os.pathsep.join([str(_AWAY), str(ROOT)])}
    chosen = [f"{file}::{name}" for name in _naming(file, key)]
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "torture or not torture", "-p", "no:cacheprovider"]
    command += ["--basetemp", str(directory / "tests"), *chosen]
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=_SECONDS, check=False)
    return (done.stdout.strip().splitlines() or [done.stderr])[-1]


def _naming(file: Path, key: str) -> list[str]:
    """The tests of a file in which the option stands; all of them where it stands in what they share."""
    parts = re.split(r"^(?=(?:@|def |class |async def ))", file.read_text(), flags=re.MULTILINE)
    named = [part for part in parts if re.search(rf"""["']{re.escape(key)}["']""", part)]
    found = [match[1] for part in named if (match := re.match(r"def (test_\w+)", part))]
    return found if len(found) == len(named) else re.findall(r"^def (test_\w+)", file.read_text(), flags=re.MULTILINE)
