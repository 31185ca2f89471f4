"""pypaimon-rust 0.4, in an environment of its own, with this server as its catalog."""

from __future__ import annotations

import subprocess

import pytest

from tests.interop.conftest import HERE, rust_environment
from tests.running import RunningServer

pytestmark = pytest.mark.interop


@pytest.fixture(scope="session")
def rust_python() -> str:
    """The interpreter of the client's own environment."""
    return rust_environment()


def test_all_a_user_of_the_rust_client_does(server: RunningServer, rust_python: str) -> None:
    done = subprocess.run([rust_python, str(HERE / "rust_rest.py"), server.url], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.strip()[-4:]) == (0, "done"), done.stderr[-4000:]
