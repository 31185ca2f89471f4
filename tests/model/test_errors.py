"""What errors say of themselves."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import model.catalog_errors
from model.errors import LakeError, Unavailable
from server.errors import failure_of

assert model.catalog_errors  # its classes are among those below


def kinds(of: type[LakeError] = LakeError) -> Iterator[type[LakeError]]:
    yield of
    for kind in of.__subclasses__():
        yield from kinds(kind)


KINDS = {kind.__name__: kind for kind in kinds()}


@pytest.mark.parametrize("kind", [KINDS[name] for name in sorted(KINDS)], ids=sorted(KINDS))
def test_a_title_is_one_sentence_for_who_asked(kind: type[LakeError]) -> None:
    error = kind.__new__(kind)
    LakeError.__init__(error, "It did not work.")
    title = failure_of(error, "1").title
    assert title.endswith(".")
    assert title.count(". ") == 0, title
    assert "\n" not in title
    assert "whoever raises it" not in title


def test_the_whole_path_replaces_the_files_name_and_no_part_of_a_word() -> None:
    error = Unavailable("The warehouse cannot be used at he: Input/output error.", place="/data/he")
    assert error.whole == "The warehouse cannot be used at /data/he: Input/output error."
    assert Unavailable("No such word.", place="/data/he").whole == "No such word."
    assert Unavailable("(named 'a-1.parquet')", place=r"/\1/a-1.parquet").whole == r"(named '/\1/a-1.parquet')"
