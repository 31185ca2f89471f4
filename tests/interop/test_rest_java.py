"""Paimon's own Java RESTCatalog, from the bundle engines use, with this server as its catalog."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.interop.conftest import ROOT, with_paimon
from tests.running import RunningServer

pytestmark = pytest.mark.interop


def java_options(url: str) -> str:
    """What docs/catalog.md tells Spark's users to set, which Spark hands on to the catalog as it is."""
    page = (ROOT / "docs" / "catalog.md").read_text()
    given = re.findall(r"--conf spark\.sql\.catalog\.sluice\.(\S+)=(\S+)", page)
    return " ".join(f"{key}={value}" for key, value in given).replace("http://127.0.0.1:8083", url)


@pytest.fixture(scope="session")
def java_user() -> list[str]:
    """The command that runs the program; its first argument are the catalog's options."""
    class_path = with_paimon("RestCatalogUser")
    return ["java", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-cp", class_path, "RestCatalogUser"]


def test_all_a_java_program_does(server: RunningServer, java_user: list[str]) -> None:
    done = subprocess.run([*java_user, java_options(server.url)], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.strip()[-4:]) == (0, "done"), done.stderr[-4000:]
