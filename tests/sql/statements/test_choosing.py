"""Names chosen by a caller's expressions, which end in time."""

from __future__ import annotations

import subprocess
import sys

import pytest

from model.errors import AnalysisError
from sql.statements.procedures.calls import Arguments
from sql.statements.procedures.choosing import Choice


def test_tables_are_chosen_by_their_own_name_or_the_full_one() -> None:
    def chosen(**arguments: str) -> list[str]:
        return Choice(Arguments(arguments), "tables").among_tables("d", ["a1", "a2", "b"])

    assert chosen() == ["a1", "a2", "b"]
    assert chosen(including_tables="a.*", excluding_tables=r"d\.a2") == ["a1"]
    assert chosen(including_tables=r"a1|d\.b") == ["a1", "b"]
    assert chosen(including_tables="a") == [], "all of a name is meant"


@pytest.mark.parametrize("expression", ["(a", "a)|(b", r"(a)\1", "(?=a)b", "a" * 1_001])
def test_what_is_no_expression_is_told_of(expression: str) -> None:
    with pytest.raises(AnalysisError, match="including_tables"):
        Choice(Arguments(including_tables=expression), "tables")


def test_no_expression_takes_long() -> None:
    """In a process of its own: one that tries every way holds all threads, those of a test's limit too."""
    code = """
from sql.statements.procedures.calls import Arguments
from sql.statements.procedures.choosing import Choice
choice = Choice(Arguments(including_tables="(a*)*(a|aa)+b", excluding_tables="(a+)+b"), "tables")
assert choice.among_tables("d", ["a" * 200] * 1000) == []
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize("negated", [False, True])
def test_no_pattern_of_show_takes_long(negated: bool) -> None:
    code = f"""
from sql.dialect import parse_one
from sql.statements.show import Show
shown = Show(parse_one("SHOW TABLES {"NOT " * negated}LIKE '" + "%a" * 200 + "b'"))
assert len(shown._matching(["a" * 250] * 1000)) == {1000 * negated}
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
