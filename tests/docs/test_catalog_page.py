"""The commands of docs/catalog.md that this machine can run are run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests import java
from tests.interop.test_rest_rust import rust_python as rust_python
from tests.running import RunningServer

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "catalog.md").read_text()
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
pytestmark = pytest.mark.interop


def block(mark: str) -> str:
    """The only Python block that names something."""
    (found,) = [text for language, text in BLOCKS if language == "python" and mark in text]
    return str(found)


@pytest.mark.parametrize(("mark", "said"), [("pypaimon_rust", "hello"), ("CatalogFactory", "hello")])
def test_clients_are_pointed_here_as_the_page_says(server: RunningServer, request: pytest.FixtureRequest, mark: str, said: str) -> None:
    python = str(ROOT / ".venv-pypaimon" / "bin" / "python")
    if mark == "pypaimon_rust":
        python = request.getfixturevalue("rust_python")
    elif not Path(python).exists():
        pytest.skip("pypaimon cannot be had here: run `make pypaimon`.")
    server.sql("CREATE TABLE IF NOT EXISTS words (id BIGINT, word STRING)")
    server.sql("INSERT INTO words VALUES (1, 'hello'), (2, 'world')")
    script = block(mark).replace("http://127.0.0.1:8083", server.url)
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    assert said in done.stdout
    server.sql("DROP TABLE words")


@pytest.mark.torture
def test_spark_is_pointed_here_as_the_page_says(server: RunningServer, tmp_path: Path) -> None:
    """The page's command, with Spark 3.5 of its own; skipped where no build of paimon-spark with REST catalogs can be had."""
    (command,) = [text for language, text in BLOCKS if language == "" and text.startswith("spark-sql")]
    words = shlex.split(command.replace("\\\n", " ").replace("http://127.0.0.1:8083", server.url))
    java.copy_jar(words[words.index("--packages") + 1], tmp_path)  # or there is nothing to try
    server.sql("CREATE TABLE IF NOT EXISTS words (id BIGINT, word STRING); INSERT INTO words VALUES (1, 'hello')")
    uv = str(Path(sys.executable).parent / "uv")
    statements = "INSERT INTO sluice.default.words VALUES (2, 'world'); SELECT word FROM sluice.default.words ORDER BY id"
    run = [uv, "tool", "run", "--python", sys.executable, "--from", "pyspark==3.5.9", *words, "-e", statements]
    done = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, timeout=1200)
    assert done.stdout.split()[-2:] == ["hello", "world"], done.stderr[-4000:]
    assert server.sql("SELECT word FROM words ORDER BY id") == [["hello"], ["world"]]
    server.sql("DROP TABLE words")


def test_every_client_is_given_the_same_options() -> None:
    for language, text in BLOCKS:
        if language in ("python", "sql", ""):
            assert all(word in text for word in ("rest", "http://127.0.0.1:8083", "sluice", "bear")), text
