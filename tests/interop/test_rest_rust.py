"""pypaimon-rust 0.4, in an environment of its own, with this server as its catalog."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fix_data import CACHE
from tests.interop.conftest import HERE
from tests.running import RunningServer

pytestmark = pytest.mark.interop
WANTED = ("pypaimon-rust==0.4.0", "pyarrow")


@pytest.fixture(scope="session")
def rust_python() -> str:
    """The interpreter of the client's own environment, made once in the cache."""
    environment = CACHE / "paimon-rust"
    python = environment / "bin" / "python"
    stamp = environment / ".installed"
    if not stamp.exists():
        uv = str(Path(sys.executable).parent / "uv")
        CACHE.mkdir(parents=True, exist_ok=True)
        made = subprocess.run([uv, "--quiet", "venv", "--allow-existing", "--python", sys.executable, str(environment)])
        if made.returncode or subprocess.run([uv, "--quiet", "pip", "install", "--python", str(python), *WANTED]).returncode:
            pytest.skip("pypaimon-rust cannot be had here: it is not run.")
        stamp.touch()
    return str(python)


def test_all_a_user_of_the_rust_client_does(server: RunningServer, rust_python: str) -> None:
    done = subprocess.run([rust_python, str(HERE / "rust_rest.py"), server.url], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout.strip()[-4:]) == (0, "done"), done.stderr[-4000:]
