"""What Spark's Python processes import is compiled while others run from the same environment."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from tests.brief_jvm import compile_pyspark

NAMES = [f"pyspark/m{number}.py" for number in range(20)]
RUNS = """
import sys
sys.path.insert(0, sys.argv[1])
import pyspark.m1
print("ready", flush=True)
sys.stdin.readline()
import pyspark.m18
print(pyspark.m18.VALUE, pyspark.m18.__file__, flush=True)
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """That of a Spark in ``tmp_path``."""
    path = tmp_path / "python" / "lib" / "pyspark.zip"
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("pyspark/__init__.py", "")
        for name in NAMES:
            made.writestr(name, f"VALUE = {name!r}\n")
    return path


def started(archive: Path) -> subprocess.Popen[str]:
    """A process that has imported one module, and imports another once it is told to."""
    command = [sys.executable, "-S", "-c", RUNS, str(archive)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_a_process_that_runs_finds_its_modules_where_they_were_and_the_next_finds_them_compiled(archive: Path, tmp_path: Path) -> None:
    before = started(archive)
    compile_pyspark(tmp_path)
    assert before.communicate("\n")[0] == f"pyspark/m18.py {archive}/pyspark/m18.py\n"
    assert started(archive).communicate("\n")[0] == f"pyspark/m18.py {archive}/pyspark/m18.pyc\n"


def test_one_run_of_those_that_begin_together_compiles(archive: Path, tmp_path: Path) -> None:
    other = archive.with_name("other.zip")
    other.write_bytes(archive.read_bytes())
    with zipfile.ZipFile(other, "a") as compiled:
        compiled.writestr("pyspark/m1.pyc", b"of the other run")
    wanted = other.read_bytes()
    second = threading.Thread(target=compile_pyspark, args=(tmp_path,))
    with archive.open("rb") as first:
        fcntl.flock(first, fcntl.LOCK_EX)
        second.start()
        second.join(0.5)
        assert second.is_alive(), "it waits for the one that compiles"
        other.replace(archive)
    second.join(60)
    assert archive.read_bytes() == wanted
    assert list(archive.parent.iterdir()) == [archive]


def test_a_run_that_was_killed_leaves_nothing_that_stays(archive: Path, tmp_path: Path) -> None:
    archive.with_name("pyspark.zip.made").write_bytes(b"half of it")
    compile_pyspark(tmp_path)
    assert list(archive.parent.iterdir()) == [archive]
    with zipfile.ZipFile(archive) as made:
        assert made.testzip() is None
        assert sorted(made.namelist()) == sorted([*NAMES, *(f"{name}c" for name in NAMES), "pyspark/__init__.py", "pyspark/__init__.pyc"])
