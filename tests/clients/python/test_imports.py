"""The client is light: importing it brings no server, no Spark, no data frames."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import sluice

HEAVY = (
    "flask",
    "pyspark",
    "psycopg",
    "sqlalchemy",
    "pandas",
    "pyarrow",
    "sqlglot",
    "httpx",
    "server",
    "sql",
    "lake",
    "table",
    "catalog",
    "model",
)


def test_importing_it_imports_nothing_heavy() -> None:
    text = f"import sys, sluice; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_it_is_what_pep_249_asks_for() -> None:
    assert (sluice.apilevel, sluice.threadsafety, sluice.paramstyle) == ("2.0", 2, "qmark")
    assert issubclass(sluice.Error, Exception)
    assert issubclass(sluice.Warning, Exception)
    for name in ("DataError", "OperationalError", "IntegrityError", "InternalError", "ProgrammingError", "NotSupportedError"):
        assert issubclass(getattr(sluice, name), sluice.DatabaseError)
        assert getattr(sluice.Connection, name) is getattr(sluice, name)
    assert issubclass(sluice.InterfaceError, sluice.Error)


def test_the_dialect_is_found_by_its_name() -> None:
    project = tomllib.loads((Path(sluice.__file__).parents[1] / "pyproject.toml").read_text())
    assert project["project"]["entry-points"]["sqlalchemy.dialects"]["sluice"] == "sluice.sqlalchemy:SluiceDialect"
