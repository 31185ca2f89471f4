"""Paimon's own Java RESTCatalog, from the bundle engines use, with this server as its catalog."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.interop.conftest import HERE, _bundle, _spark_jars
from tests.running import RunningServer

pytestmark = pytest.mark.interop


def test_all_a_java_program_does(server: RunningServer, tmp_path: Path) -> None:
    if shutil.which("javac") is None:
        pytest.skip("javac cannot be had here: the Java reader is not run.")
    class_path = f"{tmp_path}:{_bundle()}:{_spark_jars()}/*"
    source = HERE / "java" / "RestCatalogUser.java"
    subprocess.run(["javac", "-nowarn", "-d", str(tmp_path), "-cp", class_path, str(source)], check=True, capture_output=True)
    command = ["java", "-Xmx512m", "-cp", class_path, "RestCatalogUser", server.url]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.strip()[-4:]) == (0, "done"), done.stderr[-4000:]
