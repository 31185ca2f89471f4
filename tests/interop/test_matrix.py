"""The client matrix: what one client does, all others read; `docs/interoperability.md` is what came of it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.interop.asked import Asked
from tests.interop.conftest import HERE, ROOT, flink_catalog, with_paimon
from tests.interop.matrix import OPERATIONS, Operation
from tests.interop.spark_paimon import SparkClient
from tests.interop.test_rest_java import java_options
from tests.running import Refused, RunningServer

pytestmark = pytest.mark.interop
PAGE = ROOT / "docs" / "interoperability.md"
OLD_PYPAIMON = ("pypaimon==1.4.2", "backports.zstd")
"""With what today's fastavro needs to read manifests, which that release does not ask for."""
TITLES = {
    "sql": "SQL here",
    "pypaimon": "pypaimon 2.1",
    "pypaimon 1.4": "pypaimon 1.4",
    "java": "Java 1.4.2",
    "flink": "Flink 2.1, Paimon 1.3",
    "spark": "Spark 4.1, Paimon 2.1",
}
_INTRODUCTION = """# Who does what, and who reads it

Each line is one operation, done by the client of the column on a table of this server, and read afterwards by all clients of the page:
*yes* means that every one of them read the same, right rows. A dash stands for an operation the client has no call or statement for, or
that the matrix does not try with it. The table is written from what `make torture` finds (`tests/interop/test_matrix.py`), where Spark's
jar is given. *Java* is its `RESTCatalog` from `paimon-bundle`. pypaimon 1.4 does things and is not among the readers: of files older than a
change of the schema it shows renamed columns as NULL and cast ones under their old type, and it reads the latest snapshot where
`scan.snapshot-id` names another.

"""


class Client(Protocol):
    """Somebody who uses the server."""

    def do(self, operation: Operation, names: dict[str, str]) -> str | None:
        """Do it; None where it went well, a dash where this client cannot, else what went wrong."""

    def read(self, operation: Operation, names: dict[str, str]) -> list[list[Any]]:
        """The rows the operation is read by."""


def statements(text: str, names: dict[str, str], branch: str) -> Iterator[str]:
    """The statements of a text, for this table."""
    for one in text.split("; "):
        if one:
            yield one.format(**names, b=branch)


def select(operation: Operation, names: dict[str, str]) -> str:
    """The rows an operation is read by, in the words of Flink and of SQL here."""
    database, name = operation.read.format(**names).split(".")
    hints = ", ".join(f"'{key}' = '{value}'" for key, value in operation.options.items())
    return f"SELECT * FROM `{database}`.`{name}`" + (f" /*+ OPTIONS({hints}) */" if hints else "")


class Sql:
    """SQL over HTTP."""

    def __init__(self, server: RunningServer) -> None:
        self._server = server

    def do(self, operation: Operation, names: dict[str, str]) -> str | None:
        return "–" if operation.sql is None else self.run(operation.sql, names)

    def run(self, text: str, names: dict[str, str]) -> str | None:
        try:
            for one in statements(text, names, f"`{names['d']}`.`{names['n']}$branch_b`"):
                self._server.sql(one)
        except Refused as refusal:
            return str(refusal)
        return None

    def read(self, operation: Operation, names: dict[str, str]) -> list[list[Any]]:
        return self._server.sql(select(operation, names))


def done(answer: dict[str, Any]) -> str | None:
    """What `Client.do` says of an answer."""
    return "–" if "none" in answer else answer.get("error")


def rows_of(answer: dict[str, Any]) -> list[list[Any]]:
    """What `Client.read` says of an answer."""
    assert "error" not in answer, answer
    found: list[list[Any]] = answer["rows"]
    return found


class Pypaimon(Asked):
    """pypaimon in a process of its own."""

    def __init__(self, url: str, log: Path, python: Path = ROOT / ".venv-pypaimon" / "bin" / "python") -> None:
        if not python.exists():
            pytest.skip("pypaimon cannot be had here: run `make pypaimon`.")
        super().__init__([str(python), str(HERE / "pypaimon_matrix.py"), url], log)

    def do(self, operation: Operation, names: dict[str, str]) -> str | None:
        return done(self.ask(json.dumps({"do": operation.name, "table": names["t"]})))

    def read(self, operation: Operation, names: dict[str, str]) -> list[list[Any]]:
        asked = {"do": "read", "table": operation.read.format(**names), "options": operation.options}
        return rows_of(self.ask(json.dumps(asked)))


class Java(Asked):
    """Java's own `RESTCatalog` in a process of its own."""

    def __init__(self, url: str, directory: Path) -> None:
        class_path = with_paimon("RestMatrix")
        command = ["java", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-cp", class_path, "RestMatrix", java_options(url)]
        super().__init__(command, directory / "log")

    def do(self, operation: Operation, names: dict[str, str]) -> str | None:
        return done(self.ask(f"{operation.name}\t{names['t']}"))

    def read(self, operation: Operation, names: dict[str, str]) -> list[list[Any]]:
        options = [f"{key}={value}" for key, value in operation.options.items()]
        return rows_of(self.ask("\t".join(["read", operation.read.format(**names), *options])))


class Flink(Asked):
    """Flink in a process of its own, which says nearly all as SQL here does."""

    def __init__(self, url: str, log: Path, python: str) -> None:
        catalog = flink_catalog(url).replace("'type'", "'cache-enabled' = 'false', 'type'")
        super().__init__([python, str(HERE / "flink_matrix.py"), catalog], log)

    def do(self, operation: Operation, names: dict[str, str]) -> str | None:
        said = operation.sql if operation.flink is None else operation.flink
        if not said:
            return "–"
        for one in statements(said, names, f"`{names['d']}`.`{names['n']}$branch_b`"):
            if error := self.ask(json.dumps(one)).get("error"):
                return str(error)
        return None

    def read(self, operation: Operation, names: dict[str, str]) -> list[list[Any]]:
        return rows_of(self.ask(json.dumps(select(operation, names))))


class Spark:
    """Spark with Paimon's module."""

    def __init__(self, spark: SparkClient) -> None:
        self._spark = spark

    def do(self, operation: Operation, names: dict[str, str]) -> str | None:
        if operation.spark is None:
            return "–"
        for one in statements(operation.spark, {**names, "t": f"sluice.{names['t']}"}, f"sluice.{names['d']}.`{names['n']}$branch_b`"):
            if error := self._spark.answer(one).get("error"):
                return str(error)
        return None

    def read(self, operation: Operation, names: dict[str, str]) -> list[list[Any]]:
        _, name = operation.read.format(**names).split(".")
        at = next((f"'{value}'" if key == "scan.tag-name" else value for key, value in operation.options.items()), None)
        table = f"sluice.{names['d']}.`{name}`"
        self._spark.answer(f"REFRESH TABLE {table}")
        return [list(row) for row in self._spark.sql(f"SELECT * FROM {table}" + (f" VERSION AS OF {at}" if at else ""))]


@pytest.fixture
def pypaimon_client(server: RunningServer, tmp_path: Path) -> Iterator[Pypaimon]:
    made = Pypaimon(server.url, tmp_path / "log")
    yield made
    made.close()


@pytest.fixture
def java_client(server: RunningServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Java]:
    made = Java(server.url, tmp_path_factory.mktemp("java-matrix"))
    yield made
    made.close()


@pytest.fixture
def old_pypaimon_client(server: RunningServer, tmp_path: Path, old_pypaimon_python: Path) -> Iterator[Pypaimon]:
    """The release before."""
    made = Pypaimon(server.url, tmp_path / "log-1.4", old_pypaimon_python)
    yield made
    made.close()


@pytest.fixture
def flink_client(server: RunningServer, tmp_path: Path, flink_python: str) -> Iterator[Flink]:
    made = Flink(server.url, tmp_path / "log-flink", flink_python)
    yield made
    made.close()


def outcome(server: RunningServer, operation: Operation, doer: str, clients: dict[str, Client], names: dict[str, str]) -> str:
    """*yes*, a dash, or what went wrong where."""
    assert Sql(server).run(operation.before, names) is None
    if (said := clients[doer].do(operation, names)) is not None:
        return said if said == "–" else f"no: {said}"
    wanted = sorted(operation.rows, key=str)
    for reader, client in ((reader, client) for reader, client in clients.items() if reader != "pypaimon 1.4"):
        try:
            found = sorted(client.read(operation, names), key=str)
        except (AssertionError, Refused) as problem:  # one cell of the page, and the others are still wanted
            return f"no: {TITLES[reader]} cannot read it: {problem}"
        if found != [list(row) for row in wanted]:
            return f"no: {TITLES[reader]} reads {found}"
    return "yes"


def run(
    server: RunningServer,
    database: str,
    clients: dict[str, Client],
    operations: Sequence[Operation] = OPERATIONS,
    doers: Callable[[int], Iterable[str]] | None = None,
) -> dict[tuple[str, str], str]:
    """What came of operations by every client, or by those that do one of a number."""
    found = {}
    for at, operation in enumerate(operations):
        for doer in doers(at) if doers else clients:
            name = f"{re.sub('[ .]', '', doer)}_{at}"
            found[operation.name, doer] = outcome(server, operation, doer, clients, {"d": database, "n": name, "t": f"{database}.{name}"})
            print(f"{operation.name}, {doer}: {found[operation.name, doer]}", flush=True)
    return found


def shortened(said: str) -> str:
    """What came of an operation, in a cell of the page."""
    return re.sub(r"\s+", " ", said)[:160].replace("|", "/").strip()


def cells(found: dict[tuple[str, str], str], doers: Sequence[str]) -> list[str]:
    """The table's lines."""
    lines = ["| operation | " + " | ".join(TITLES[doer] for doer in doers) + " |", "|---|" + "---|" * len(doers)]
    for operation in OPERATIONS:
        shown = [shortened(found[operation.name, doer]) for doer in doers]
        lines.append(f"| {operation.name} | " + " | ".join(shown) + " |")
    return lines


@pytest.mark.parametrize("every", [pytest.param(2, id="short"), pytest.param(1, id="whole", marks=pytest.mark.torture)])
def test_what_sql_pypaimon_and_java_do_is_read_by_all(
    server: RunningServer, database: str, pypaimon_client: Pypaimon, java_client: Java, every: int
) -> None:
    light = [operation for operation in OPERATIONS if not operation.heavy][::every]
    clients: dict[str, Client] = {"sql": Sql(server), "pypaimon": pypaimon_client, "java": java_client}
    found = run(server, database, clients, light, doers=lambda at: ("sql", ("pypaimon", "java")[at % 2]))
    assert {key: said for key, said in found.items() if said not in ("yes", "–")} == {}


@pytest.mark.torture
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("with_spark", [False, True], ids=["without Spark", "with Spark"])
def test_the_page_says_what_clients_do(
    server: RunningServer,
    database: str,
    pypaimon_client: Pypaimon,
    old_pypaimon_client: Pypaimon,
    java_client: Java,
    flink_client: Flink,
    tmp_path_factory: pytest.TempPathFactory,
    with_spark: bool,
) -> None:
    clients: dict[str, Client] = {
        "sql": Sql(server),
        "pypaimon": pypaimon_client,
        "pypaimon 1.4": old_pypaimon_client,
        "java": java_client,
        "flink": flink_client,
    }
    spark = SparkClient(server.url, tmp_path_factory.mktemp("matrix-spark") / "log") if with_spark else None
    try:
        found = run(server, database, clients | ({"spark": Spark(spark)} if spark else {}))
    finally:
        if spark is not None:
            spark.close()
    doers = [*clients, "spark"] if with_spark else list(clients)
    if os.environ.get("UPDATE_GOLDEN") == "1":
        PAGE.write_text(_INTRODUCTION + "\n".join(cells(found, doers)) + "\n")
    shown = told()
    differ = {key: said for key, said in found.items() if key[1] in {doer for _, doer in shown} and shown.get(key) != shortened(said)}
    assert differ == {}, "run it with UPDATE_GOLDEN=1 and commit the diff"


def told() -> dict[tuple[str, str], str]:
    """What the page says, by operation and client."""
    head, _, *lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.read_text().splitlines() if line.startswith("|")
    ]
    doers = [next(doer for doer, title in TITLES.items() if title == cell) for cell in head[1:]]
    return {(line[0], doer): cell for line in lines for doer, cell in zip(doers, line[1:], strict=True)}
