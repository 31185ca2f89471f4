"""A streamed JSON result as a table for a person: drawn in blocks, so that any number of rows fits in memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from rich.cells import cell_len

from sluice.client import ServerError, describe
from sluice.terminal import printable

BLOCK_ROWS = 1000
"""Columns are as wide as the values of the first so many rows; later blocks are measured anew."""
_NUMBERS = ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL")


def draw(lines: Iterable[str]) -> Iterator[str]:
    """Lines of text for the lines of a JSON answer; raises `ServerError` where the answer ends in an error."""
    source = iter(lines)
    head = json.loads(next(source) + "]}")
    columns = head["columns"]
    names = [printable(column["name"]) for column in columns]
    right = [str(column["type"]).startswith(_NUMBERS) for column in columns]
    block: list[list[str]] = []
    count = 0
    for line in source:
        if line.startswith("]"):
            _check_end(line)
            break
        if line:
            block.append([_shown(value) for value in json.loads(line.removeprefix(",").removesuffix(","))])
        if len(block) == BLOCK_ROWS:
            yield from _block(names, right, block, first=count == 0)
            count, block = count + len(block), []
    else:
        raise ServerError("The answer ended before all of it had come.")
    yield from _block(names, right, block, first=count == 0)
    count += len(block)
    yield f"({count} row{'' if count == 1 else 's'})"


def _check_end(line: str) -> None:
    end = json.loads('{"rows":[' + line)
    if "error" in end:
        raise ServerError(describe(end["error"]), status=end["error"].get("status"), document=end["error"])


def _block(names: Sequence[str], right: Sequence[bool], rows: Sequence[Sequence[str]], *, first: bool) -> Iterator[str]:
    widths = [max([cell_len(name), *(cell_len(row[i]) for row in rows)]) for i, name in enumerate(names)]
    if first:
        yield " | ".join(_padded(name, width, False) for name, width in zip(names, widths, strict=True)).rstrip()
        yield "-+-".join("-" * width for width in widths)
    for row in rows:
        yield " | ".join(_padded(*cell) for cell in zip(row, widths, right, strict=True)).rstrip()


def _padded(text: str, width: int, right: bool) -> str:
    space = " " * (width - cell_len(text))
    return space + text if right else text + space


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
