"""Imports run downhill, files stay readable, and only one package knows Spark."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAY_IMPORT: dict[str, set[str]] = {
    "model": set(),
    "table": {"model"},
    "catalog": {"model"},
    "workers": {"model", "table"},
    "lake": {"model", "table", "catalog"},
    "pyspark_sluice": {"model", "table"},
    "sql": {"model", "table", "catalog", "lake", "pyspark_sluice", "workers"},
    "jobs": {"model", "table", "catalog", "lake", "workers", "sql"},
    "maintenance": {"model", "table", "catalog", "lake", "workers", "sql"},
    "gateway": {"model", "table", "catalog", "lake", "workers", "sql", "jobs", "maintenance"},
    "server": {"model", "catalog", "lake", "sql", "workers", "jobs", "maintenance", "gateway", "migrations"},
    "migrations": set(),
    "sluice": set(),
}
"""`server` starts the migrations; the client knows nothing of the server, whose commands it finds as entry points."""
LIES_IN = {"sluice": "clients/python/sluice"}
"""Where the packages of other distributions lie; the server's lie at the top."""
CLIENT_LIBRARIES = {"click", "httpx", "pandas", "pyarrow", "rich", "sqlalchemy"}
LONGEST_FILE = 420
MOST_MODULES = 18
"""In a folder, which has one idea; migrations are a history."""
SPARK = ("sql/spark", "pyspark_sluice")
TRANSACTIONS = {"transaction", "reading", "consistent", "deciding", "own", "beside_store"}
"""What `catalog.CatalogStore` opens."""


@cache
def imports(file: Path) -> Sequence[tuple[str, bool]]:
    """Top-level names a file imports, and whether only when a function runs."""
    return tuple(_imports(file))


def _imports(file: Path) -> Iterator[tuple[str, bool]]:
    tree = ast.parse(file.read_text())
    inner = {id(node) for outer in ast.walk(tree) if isinstance(outer, ast.FunctionDef | ast.AsyncFunctionDef) for node in ast.walk(outer)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name.partition(".")[0], id(node) in inner) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            yield (node.module or "").partition(".")[0], id(node) in inner


def files(package: str) -> list[Path]:
    """The Python files of a package."""
    return sorted((ROOT / LIES_IN.get(package, package)).rglob("*.py"))


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_a_package_imports_only_downhill(package: str) -> None:
    for file in files(package):
        uphill = {name for name, _ in imports(file) if name in MAY_IMPORT} - MAY_IMPORT[package] - {package}
        assert not uphill, f"{file.relative_to(ROOT)} imports {uphill}"


def test_the_client_imports_its_own_libraries_only() -> None:
    import sys

    for file in files("sluice"):
        assert {name for name, _ in imports(file)} <= set(sys.stdlib_module_names) | CLIENT_LIBRARIES | {"sluice"}, file


def test_model_needs_nothing_but_the_standard_library() -> None:
    import sys

    for file in files("model"):
        assert {name for name, _ in imports(file)} <= set(sys.stdlib_module_names) | {"model"}, file


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_only_the_spark_package_imports_pyspark(package: str) -> None:
    for file in files(package):
        if not file.relative_to(ROOT).as_posix().startswith(SPARK):
            assert "pyspark" not in {name for name, _ in imports(file)}, file


def test_pyspark_and_pandas_are_not_imported_at_the_start() -> None:
    """They take seconds; a server must answer before (`server/process/process.py`)."""
    import subprocess
    import sys

    code = (
        "import server.app, server.process.build, server.http.wsgi, sql.statements.all, sys;"
        "print(sorted({'pyspark', 'pandas', 'alembic', 'httpx', 'rich'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_files_can_be_read_in_one_sitting(package: str) -> None:
    long = {str(file.relative_to(ROOT)): lines for file in files(package) if (lines := len(file.read_text().splitlines())) > LONGEST_FILE}
    assert not long


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_private_ways_into_the_jvm_are_not_taken(package: str) -> None:
    """The same code must run on every kind of Spark master (`architecture.md`); the pool forgets a dead JVM, which has no public way."""
    for file in files(package):
        text = file.read_text()
        assert "._jvm." not in text, file
        assert "._jdf" not in text, file
        assert "._jsparkSession" not in text, file
        assert "utils.py" not in file.name


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_what_int_cannot_read_is_no_number(package: str) -> None:
    """`str.isdigit` and `isnumeric` take ``²``, which `int` does not: a client's text would become a 500."""
    for file in files(package):
        for word in ("isdigit", "isnumeric"):
            assert f".{word}(" not in file.read_text(), file


@pytest.mark.parametrize("package", ["sql", "server"])
def test_the_language_and_the_endpoints_open_no_transaction(package: str) -> None:
    """What belongs together in Postgres is decided in `lake/`; an operator's commands have none where the catalog is hurt."""
    for file in files(package):
        if not file.relative_to(ROOT).as_posix().startswith("server/commands/"):
            calls = [node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
            opened = [ast.unparse(call) for call in calls if isinstance(call, ast.Attribute) and call.attr in TRANSACTIONS]
            assert [call for call in opened if "catalog" in call] == [], file


@pytest.mark.parametrize("package", sorted(MAY_IMPORT.keys() - {"migrations"}))
def test_no_folder_is_crowded(package: str) -> None:
    folders = Counter(file.parent for file in files(package) if file.name != "__init__.py")
    assert {str(folder.relative_to(ROOT)): count for folder, count in folders.items() if count > MOST_MODULES} == {}
