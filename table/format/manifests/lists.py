"""Manifest lists: how they are called, and what helps where one is lost."""

from __future__ import annotations

import re

from model.text.file_name import file_name
from model.text.sql_text import literal
from table.format.statistics_file import STATISTICS_PREFIX

_FROM_CATALOG = re.compile(r"(?:snapshot|schema)-\d+")
LIST_PREFIX = "manifest-list-"
"""How their names begin."""


def goes_back(table: str) -> str:
    """What helps where a list of a table's or branch's newest snapshot is lost: nothing tells then what that held."""
    return f"CALL sys.repair_table({literal(table)}, true) shows to which snapshot it can go back"


def way_out_of(path: str, table: str) -> str | None:
    """What helps where this file of a table is damaged, if it is a list, a snapshot, a schema or has statistics.

    None for other files, and where ``table`` is but a directory.
    """
    if "/" in table:
        return None
    if file_name(path).startswith(STATISTICS_PREFIX):
        return f"CALL sys.analyze_table({literal(table)}) makes the statistics anew"
    if _FROM_CATALOG.fullmatch(file_name(path)):
        return f"CALL sys.repair_table({literal(table)}) writes it again from the catalog, or sets it aside where that has none of it"
    return goes_back(table) if file_name(path).startswith(LIST_PREFIX) else None
