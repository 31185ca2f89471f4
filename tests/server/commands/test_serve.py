"""The command ``sluice serve`` before the server has its own handlers."""

from __future__ import annotations

import subprocess
import sys

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
