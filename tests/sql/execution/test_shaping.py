"""What leaves something behind in its session is known by its first words, however they are spelled."""

from __future__ import annotations

from itertools import product

import pytest

import sql.statements.all  # noqa: F401 - registers every statement
from sql.dialect import parse_one
from sql.execution.describe import shapes_session
from sql.parsing.trees import CreateTable, ResetOption, SetOption, UseCatalog, UseDatabase

STATEMENTS = (
    "USE d", "USE CATALOG sluice", "SET 'a' = 'b'", "RESET", "RESET 'a'", "CREATE TEMPORARY TABLE t (a INT)", "CREATE TEMP TABLE t (a INT)",
    "CREATE TABLE temp (a INT)", "CREATE TABLE t (temp INT)", "SELECT 'use'", "DROP TEMPORARY TABLE t", "CREATE DATABASE temporary",
    "INSERT INTO t SELECT 1 AS temp", "ALTER TABLE t SET ('a' = 'b')", "ALTER TABLE t RESET ('a')", "SHOW TABLES",
)  # fmt: skip
BETWEEN = (" ", "\n\t", " /* CREATE TABLE */ ", " -- USE d\n")


@pytest.mark.parametrize("text", STATEMENTS)
def test_a_session_is_shaped_by_what_is_meant_and_not_by_its_spelling(text: str) -> None:
    tree = parse_one(text)
    meant = isinstance(tree, UseDatabase | UseCatalog | SetOption | ResetOption) or (
        isinstance(tree, CreateTable) and bool(tree.args.get("temporary"))
    )
    words = text.split(" ")
    for before, first, second in product(("", *BETWEEN), BETWEEN, BETWEEN):
        fillers = (first, second, *" " * len(words))
        spelled = before + "".join(word + filler for word, filler in zip(words, fillers, strict=False)).rstrip(" ")
        for one in (spelled, spelled.lower(), f"SELECT 1; {spelled}"):
            assert shapes_session(one) is meant, one
