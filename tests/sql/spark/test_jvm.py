"""Spark's scratch directory and log: what was left goes, what is written is bounded; no Spark is started."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from sql.spark.driver import jvm
from sql.spark.driver.jvm import Jvm, Scratch
from tests.running import children_of

LEAVE = """
import os, sys
from pathlib import Path
from sql.spark.driver.jvm import Scratch
made = Scratch(Path(sys.argv[1]))
(made.path / "shuffle").write_text("rows")
print(made.path, flush=True)
os._exit(9)
"""


def left_by_a_dead_process(base: Path) -> Path:
    done = subprocess.run([sys.executable, "-c", LEAVE, str(base)], capture_output=True, text=True, check=False)
    return Path(done.stdout.strip())


def test_what_a_killed_server_left_is_removed_and_what_a_living_one_has_is_not(tmp_path: Path) -> None:
    left = left_by_a_dead_process(tmp_path)
    assert (left / "shuffle").exists()
    living, mine = Scratch(tmp_path), Scratch(tmp_path)
    mine.sweep()
    assert not left.exists()
    assert sorted(path for path in tmp_path.iterdir() if path.is_dir()) == sorted([living.path, mine.path])
    for scratch in (living, mine, mine):
        scratch.remove()
    assert list(tmp_path.iterdir()) == []


def test_without_a_base_it_lies_among_the_temporary_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    scratch = Scratch(None)
    scratch.sweep()
    assert scratch.path.parent == tmp_path
    scratch.remove()
    assert list(tmp_path.iterdir()) == []


def test_the_log_keeps_the_last_words_within_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "_LOG_BYTES", 10_000)
    words, out = os.pipe()
    keeping = threading.Thread(target=jvm._keep, args=(words, tmp_path / "spark.log"))
    keeping.start()
    with open(out, "wb") as file:
        for number in range(5_000):
            file.write(b"line %d \xff\n" % number)
    keeping.join(120)
    kept = sorted(tmp_path.iterdir())
    assert [path.name for path in kept] == ["spark.log", "spark.log.1"]
    assert all(path.stat().st_size <= 10_000 for path in kept)
    assert kept[0].read_text().splitlines()[-1] == "line 4999 \ufffd"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # pyspark lets go of the process it gave up, pipe and all
@pytest.mark.parametrize("script", ["exit 0", f"exec {sys.executable} -c 'import time; time.sleep(600)' \"$@\"", "exit 7"])
def test_a_jvm_that_does_not_come_up_is_given_up(script: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submit = tmp_path / "home" / "bin" / "spark-submit"
    submit.parent.mkdir(parents=True)
    submit.write_text(f"#!/bin/sh\n{script}\n")
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(jvm, "LAUNCH_SECONDS", 1.0)
    monkeypatch.setattr(jvm, "_LOOK_SECONDS", 0.1)
    scratch = Scratch(tmp_path / "scratch")
    with pytest.raises(Exception, match=r"did not come up within 1 s|JAVA_GATEWAY_EXITED"):
        Jvm({"spark.local.dir": str(scratch.path), "spark.driver.extraJavaOptions": str(scratch.path)}, tmp_path / "log")
    gc.collect()
    assert not children_of(psutil.Process(), lambda process: str(scratch.path) in process.cmdline())
    scratch.remove()


def test_a_log_that_cannot_be_written_holds_up_nobody(tmp_path: Path) -> None:
    words, out = os.pipe()
    keeping = threading.Thread(target=jvm._keep, args=(words, tmp_path / "missing" / "spark.log"))
    keeping.start()
    with open(out, "wb") as file:
        file.write(b"a line\n" * 100_000)
    keeping.join(120)
    assert not keeping.is_alive()


def test_a_full_disk_does_not_end_who_keeps_the_log() -> None:
    words, out = os.pipe()
    os.write(out, b"a line\n")
    os.close(out)
    jvm._keep(words, Path("/dev/full"))
