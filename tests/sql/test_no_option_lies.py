"""Of every option of a table one holds: it works, it is kept for others, or it is refused; generated from the declarations."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from model.errors import InvalidOption
from model.file_index import COLUMNS
from model.maintenance_options import PRECOMMIT_COMPACT
from model.option import Option
from model.table_options import TABLE_OPTIONS
from sql.gateway import Gateway

ROOT = Path(__file__).parents[2]
ROOMS = ("catalog", "lake", "model", "pyspark_sluice", "server", "sql", "table", "workers")
_DECLARED = ("model/write_options.py", "model/maintenance_options.py", "model/scan_options.py")
_SINGLE = frozenset({"type", "manifest.compression"})
"""Options of one value, which is what is done anyway."""
_BY_NAME = (PRECOMMIT_COMPACT, *COLUMNS)
"""Options that the code reads by their declaration."""


def by_kind(kind: str) -> list[Any]:
    """The options of which one of `works`, `kept` and `off` holds."""
    return [pytest.param(option, id=option.key) for option in TABLE_OPTIONS if _kind(option) == kind]


def _kind(option: Option[Any]) -> str:
    if option.parser.kind == "false":
        return "off"
    return "kept" if option.kept else "works"


@cache
def sources() -> dict[str, str]:
    found = {str(path.relative_to(ROOT)): path.read_text() for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    return {path: text for path, text in found.items() if not path.startswith("sql/connectors/")}


def readers(key: str) -> list[str]:
    """Where the code names an option, beside its declaration."""
    return [path for path, text in sources().items() if f'"{key}"' in text and path not in _DECLARED]


@pytest.mark.parametrize("option", by_kind("works"))
def test_what_works_is_read(option: Option[Any]) -> None:
    assert option.key in _SINGLE or option in _BY_NAME or readers(option.key)


@pytest.mark.parametrize("option", by_kind("kept"))
def test_what_is_kept_for_others_is_read_nowhere_and_said_so(option: Option[Any]) -> None:
    hints = {"model/table_options.py"}  # says only which of them a hint may hold
    assert set(readers(option.key)) <= hints
    assert option.kept in option.meaning()
    (told,) = TABLE_OPTIONS.idle({option.key: option.default_text()})
    assert told.startswith(f"WARNING: option '{option.key}' is kept for other clients and has no effect here: ")


@pytest.mark.parametrize("option", by_kind("off"))
def test_what_is_not_there_cannot_be_switched_on(option: Option[Any]) -> None:
    assert option.parse("false") is False
    with pytest.raises(InvalidOption, match=option.key):
        option.parse("true")


def test_create_and_alter_warn_of_options_without_effect(gateway: Gateway) -> None:
    def told(text: str) -> list[str]:
        with gateway.run(text) as result:
            return [notice.split("'")[1] for notice in result.notices]

    assert told("CREATE TABLE t (a INT) WITH ('page-size' = '32 kb', 'target-file-size' = '1 mb')") == ["page-size"]
    assert told("ALTER TABLE t SET ('read.batch-size' = '7', 'write-only' = 'true', 'sort-spill-threshold' = '9')") == [
        "read.batch-size",
        "sort-spill-threshold",
    ]
    assert told("ALTER TABLE t RESET ('read.batch-size')") == []
    assert gateway.run("SELECT * FROM t").collect() == []
