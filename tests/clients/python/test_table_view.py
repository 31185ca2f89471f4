"""A JSON answer, line by line, as a table for a person."""

from __future__ import annotations

import json

import pytest

from model.schema.types import ArrayType, BigIntType, IntType, VarCharType
from server.formats.writers import JSON
from sluice.client import ServerError, describe
from sluice.command import _check_tail
from sluice.table_view import BLOCK_ROWS, draw
from sluice.terminal import printable_lines
from sql.execution.results import ResultColumn, batch_of_rows
from tests.server.test_formats import failing, tell


def answer(rows: list[tuple[object, ...]]) -> list[str]:
    """The lines a server would send."""
    columns = [ResultColumn("id", BigIntType()), ResultColumn("näme", VarCharType())]
    return b"".join(JSON.write(columns, iter([batch_of_rows(columns, rows)]), tell)).decode().split("\n")


def test_columns_line_up() -> None:
    assert list(draw(answer([(1, "a"), (10, None), (2**60, "日本\n")]))) == [
        "id" + " " * 17 + " | näme",
        "-" * 19 + "-+-" + "-" * 6,
        " " * 18 + "1 | a",
        " " * 17 + "10 | NULL",
        "1152921504606846976 | 日本\\n",
        "(3 rows)",
    ]


def test_no_row_is_a_table_too() -> None:
    assert list(draw(answer([]))) == ["id | näme", "---+-----", "(0 rows)"]


def test_a_terminal_obeys_nothing_that_is_stored() -> None:
    stored = "a\x1b]0;title\x07\r\x9b2J\u202eb\ufeff\U000e0041\x7f\xad|é日本 می\u200cخواهم 👩\u200d💻"
    columns = [ResultColumn("n\x1b[2J", VarCharType()), ResultColumn("l", ArrayType(element=VarCharType()))]
    rows = [batch_of_rows(columns, [(stored, ["\x9b\x1b\u2066"])])]
    lines = list(draw(b"".join(JSON.write(columns, iter(rows), tell)).decode().split("\n")))
    assert lines[0].startswith("n\\x1b[2J ")
    assert lines[2].startswith(r"a\x1b]0;title\x07\r\x9b2J\u202eb\ufeff\U000e0041\x7f\xad|é日本 می" + "\u200cخواهم 👩\u200d💻 | ")
    assert lines[2].endswith(r'["\x9b\u001b\u2066"]')
    assert printable_lines("two\nlines\x1b") == "two\nlines\\x1b"


def test_many_rows_are_drawn_in_blocks_under_one_header() -> None:
    lines = list(draw(answer([(number, "x") for number in range(BLOCK_ROWS * 2 + 1)])))
    assert len(lines) == BLOCK_ROWS * 2 + 1 + 3
    assert lines[-1] == "(2001 rows)"


def test_a_failure_on_the_way_is_an_error_after_the_rows() -> None:
    columns = [ResultColumn("id", IntType())]
    lines = b"".join(JSON.write(columns, failing(columns), tell)).decode().split("\n")
    with pytest.raises(ServerError, match="InvalidData: the file is corrupt"):
        list(draw(lines))


def test_an_answer_cut_off_is_an_error() -> None:
    with pytest.raises(ServerError, match="ended before"):
        list(draw(answer([(1, "a")])[:2]))


@pytest.mark.parametrize("start", [b'{"columns":[],"rows":[\n[1]\n],"error":', b'{"a":1}\n{"$error":', b'{"$error":'])
def test_late_errors_are_found_at_the_end_of_a_body(start: bytes) -> None:
    document = {"errorClass": "InvalidData", "detail": "x} \\n {", "status": 400}
    with pytest.raises(ServerError, match="InvalidData"):
        _check_tail(start + json.dumps(document).encode() + b"}\n")


def test_values_that_look_like_errors_are_none() -> None:
    _check_tail(b'{"a":"{\\"$error\\":{}}"}\n')
    _check_tail(b'{"columns":[],"rows":[\n["],\\"error\\":{}}"]\n]}\n')


def test_a_problem_is_described_with_its_place_and_what_took_effect() -> None:
    assert describe({"errorClass": "SqlSyntaxError", "detail": "bad", "line": 2}) == "SqlSyntaxError: bad (line 2)"
    text = describe({"errorClass": "SqlSyntaxError", "detail": "bad", "line": 2, "column": 3, "completed": ["SET 'a' = 'b'"]})
    assert text == "SqlSyntaxError: bad (line 2, column 3)\nTook effect before it: SET 'a' = 'b'"
