"""The commands of docs/catalog.md that this machine can run are run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests import brief_jvm
from tests.interop.spark_paimon import JAR, given
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
    done = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert said in done.stdout
    server.sql("DROP TABLE words")


@pytest.mark.slow
@pytest.mark.torture
@pytest.mark.parametrize("extensions", [True, False])
def test_spark_is_pointed_here_as_the_page_says(server: RunningServer, database: str, tmp_path: Path, extensions: bool) -> None:
    """The page's command with the jar it names; without the setting of extensions what they bring is a syntax error.

    The same Spark with the same options asks more in `tests/interop/test_spark.py`.
    """
    python, jar = given()
    (command,) = [text for language, text in BLOCKS if language == "" and text.startswith("spark-sql")]
    program, *words = shlex.split(command.replace("\\\n", " ").replace("http://127.0.0.1:8083", server.url))
    assert words[words.index("--jars") + 1] == JAR
    words[words.index("--jars") + 1] = str(jar)
    if not extensions:
        at = next(at for at, word in enumerate(words) if word.startswith("spark.sql.extensions="))
        del words[at - 1 : at + 1]
    (home,) = (python.parents[1] / "lib").glob("python3*/site-packages/pyspark")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    environment |= {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_SUBMIT_OPTS": brief_jvm.OPTIONS}
    name = f"sluice.{database}.words"
    server.sql(f"CREATE TABLE {database}.words (id BIGINT, word STRING); INSERT INTO {database}.words VALUES (1, 'hello'), (3, 'gone')")

    def run(*statements: str) -> subprocess.CompletedProcess[str]:
        script = [str(home / "bin" / program), *words, "-e", "; ".join(statements)]
        return subprocess.run(script, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600)

    brought = f"CALL sluice.sys.create_tag(table => '{database}.words', tag => 'one')", f"ALTER TABLE {name} CREATE TAG `two`"
    deletion = f"DELETE FROM {name} WHERE id = 3"
    if extensions:
        done = run(f"INSERT INTO {name} VALUES (2, 'world')", *brought, deletion, f"SELECT word FROM {name} ORDER BY id")
        assert done.stdout.split()[-2:] == ["hello", "world"], done.stderr[-4000:]
        assert server.sql(f"SELECT word FROM {database}.words ORDER BY id") == [["hello"], ["world"]]
        assert server.sql(f"SELECT tag_name FROM {database}.words$tags ORDER BY tag_name") == [["one"], ["two"]]
        return
    for statement in (*brought, deletion):
        done = run(statement)
        assert done.returncode != 0, statement
        assert "syntax" in done.stderr.lower() or "unsupported" in done.stderr.lower(), done.stderr[-4000:]


def test_the_page_names_the_artefact_that_the_tests_run() -> None:
    assert f"`{JAR.removesuffix('-2.1-SNAPSHOT.jar')}`, 2.1-SNAPSHOT" in PAGE


def test_every_client_is_given_the_same_options() -> None:
    for language, text in BLOCKS:
        if language in ("python", "sql", ""):
            assert all(word in text for word in ("rest", "http://127.0.0.1:8083", "sluice", "bear")), text
