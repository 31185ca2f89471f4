"""The words of damage: what is told of a file that is not as it was written, and what of that a look finds which does not read all."""

from __future__ import annotations

import re

MISSING = "is missing"
UNREADABLE = "cannot be read"
"""Of a file or directory that its store does not give; one whose bytes make no rows "cannot be decoded"."""
CONTRADICTORY = "its manifests contradict each other"
"""Of a data file that manifests tell of: what is wrong with it ends so."""

_SIZE = re.compile(r"has [\d,]+ bytes where ")
_METADATA = re.compile(r"(?:index-)?manifest-[^.]*|stat-[^.]*|(?:snapshot|schema|changelog)-\d+|tag-.*")
"""Names of files that each look reads whole."""


def is_refusal(problem: str) -> bool:
    """Whether a store does not give a file, of whose bytes that tells nothing."""
    return problem.startswith(f"{UNREADABLE}: ")


def is_absent(problem: str) -> bool:
    """Whether a file is missing or not given: it is as it was once it is there again."""
    return problem.startswith(MISSING) or is_refusal(problem)


def needs_deep_look(name: str, problem: str) -> bool:
    """Whether a file's problem is found only by a look that reads data files whole; ``name`` is the file's, without directories."""
    by_metadata = problem.endswith(CONTRADICTORY) or _METADATA.fullmatch(name)
    return not (by_metadata or is_absent(problem) or _SIZE.match(problem))


def ways_out(table: str, name: str, problem: str, *, rest: str | None) -> tuple[str, str]:
    """The statement that finds what is wrong with a file of a table, and what makes the rest readable, unless that is given; in words.

    ``table`` is its name as a literal, ``name`` the file's without directories.
    """
    arguments = f"{table}, deep => true" if needs_deep_look(name, problem) else table
    usual = f"CALL sys.remove_unexisting_files({arguments}) makes the rest readable again"
    return f"CALL sys.check_table({arguments})", usual if rest is None else rest
