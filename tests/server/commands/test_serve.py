"""The command ``sluice serve`` before the server has its own handlers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import signal
import server.__main__
server.__main__.main = lambda: print(signal.getsignal(signal.SIGINT).name)
from server.commands.command_line import serve
serve.callback()
"""


def test_a_background_child_of_a_script_hears_sigint_while_it_starts() -> None:
    """A shell without job control lets its background children ignore it."""
    shell = f'"{sys.executable}" -c "$1" & wait $!'
    done = subprocess.run(["sh", "-c", shell, "sh", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "SIG_DFL"


@pytest.mark.parametrize(("arguments", "status"), [(["--help"], 0), (["-h"], 0), (["--version"], 2), (["serve"], 2)])
def test_the_module_takes_no_arguments_and_starts_nothing_with_some(tmp_path: Path, arguments: list[str], status: int) -> None:
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[3])}
    done = subprocess.run(
        [sys.executable, "-m", "server", *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == status
    assert "sluice serve" in (done.stderr if status else done.stdout)
    assert len((done.stderr + done.stdout).splitlines()) == 1
    assert not list(tmp_path.iterdir()), "nothing was made"
